// This file is upstream's engine: its packages as its handler puts them together.

package main

import (
	"context"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	upstreamcel "k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	kjson "sigs.k8s.io/json"
)

// upstreamEngine is what upstream's handler holds for one version of a kind.
type upstreamEngine struct {
	structural *structuralschema.Structural
	values     validation.SchemaValidator
	rules      *upstreamcel.Validator
}

func newUpstreamEngine(props *apiextv1.JSONSchemaProps) (*upstreamEngine, error) {
	internal := new(apiextensions.JSONSchemaProps)
	if err := apiextv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(props, internal, nil); err != nil {
		return nil, err
	}
	e := new(upstreamEngine)
	var err error
	if e.structural, err = structuralschema.NewStructural(internal); err != nil {
		return nil, err
	}
	if err := defaulting.PruneDefaults(e.structural); err != nil {
		return nil, err
	}
	if e.values, _, err = validation.NewSchemaValidator(internal); err != nil {
		return nil, err
	}
	e.rules = upstreamcel.NewValidator(e.structural, true, celconfig.PerCallLimit)
	return e, nil
}

// check lists what is wrong with an object, and says what its rules cost.
func (e *upstreamEngine) check(b []byte) (field.ErrorList, int64) {
	var o map[string]any
	if err := kjson.UnmarshalCaseSensitivePreserveInts(b, &o); err != nil {
		return field.ErrorList{field.InternalError(nil, err)}, 0
	}
	pruning.PruneWithOptions(o, e.structural, true, structuralschema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true})
	defaulting.PruneNonNullableNullsWithoutDefaults(o, e.structural)
	defaulting.Default(o, e.structural)
	errs := validation.ValidateCustomResource(nil, o, e.values)
	errs = append(errs, listtype.ValidateListSetsAndMaps(nil, e.structural, o)...)
	more, left := e.rules.Validate(context.Background(), nil, e.structural, o, nil, celconfig.RuntimeCELCostBudget)
	return append(errs, more...), celconfig.RuntimeCELCostBudget - left
}
