// Package schema_test compares package schema with the code of Kubernetes: the
// same definitions and the same bytes must give the same normalised object, the
// same verdict and the same errors.
package schema_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sort"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	schemacel "k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/common"
	"k8s.io/apiserver/pkg/warning"
	kjson "sigs.k8s.io/json"
)

// This file calls upstream in the order in which its API server does.

type upstream struct {
	schema    *structuralschema.Structural
	validator validation.SchemaValidator
	status    validation.SchemaValidator
	rules     *schemacel.Validator
	preserve  bool // the definition preserves unknown fields
}

func newUpstream(v1 *apiextv1.JSONSchemaProps) (*upstream, error) {
	var internal apiextensions.JSONSchemaProps
	if err := apiextv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(v1, &internal, nil); err != nil {
		return nil, err
	}
	u := new(upstream)
	var err error
	if u.schema, err = structuralschema.NewStructural(&internal); err != nil {
		return nil, err
	}
	if err := defaulting.PruneDefaults(u.schema); err != nil {
		return nil, err
	}
	if u.validator, _, err = validation.NewSchemaValidator(&internal); err != nil {
		return nil, err
	}
	if status, ok := internal.Properties["status"]; ok {
		if u.status, _, err = validation.NewSchemaValidator(&status); err != nil {
			return nil, err
		}
	}
	u.rules = schemacel.NewValidator(u.schema, true, celconfig.PerCallLimit)
	return u, nil
}

// decode normalises src and lists what strict decoding says. If stored, src is
// read as from storage: malformed metadata is dropped.
func (u *upstream) decode(src []byte, stored bool) (obj map[string]any, strict []string, err error) {
	dups, err := kjson.UnmarshalStrict(src, &obj)
	if err != nil {
		return nil, nil, err
	}
	for _, e := range dups {
		strict = append(strict, e.Error())
	}
	kind, foundKind, err := unstructured.NestedString(obj, "kind")
	if err != nil {
		return nil, nil, err
	}
	version, foundVersion, err := unstructured.NestedString(obj, "apiVersion")
	if err != nil {
		return nil, nil, err
	}
	meta, foundMeta, unknown, err := objectmeta.GetObjectMetaWithOptions(obj, objectmeta.ObjectMetaOptions{ReturnUnknownFieldPaths: !stored, DropMalformedFields: stored})
	if err != nil {
		return nil, nil, err
	}
	if !u.preserve {
		unknown = append(unknown, pruning.PruneWithOptions(obj, u.schema, true, structuralschema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true})...)
		defaulting.PruneNonNullableNullsWithoutDefaults(obj, u.schema)
	}
	fieldErr, embedded := objectmeta.CoerceWithOptions(nil, obj, u.schema, false, objectmeta.CoerceOptions{ReturnUnknownFieldPaths: !stored, DropInvalidFields: stored})
	if fieldErr != nil {
		return nil, nil, fieldErr
	}
	for _, path := range append(unknown, embedded...) {
		strict = append(strict, `unknown field "`+path+`"`)
	}
	if foundKind {
		obj["kind"] = kind
	}
	if foundVersion {
		obj["apiVersion"] = version
	}
	if foundMeta {
		if err := objectmeta.SetObjectMeta(obj, meta); err != nil {
			return nil, nil, err
		}
	}
	defaulting.Default(obj, u.schema)
	return obj, strict, nil
}

// validate lists errors and warnings, sorted: upstream's order is random.
func (u *upstream) validate(obj, old map[string]any, status bool) (errs, warnings []string) {
	recorder := &recorder{}
	ctx := warning.WithWarningRecorder(context.Background(), recorder)
	var options []validation.ValidationOption
	var celOptions []schemacel.Option
	var all field.ErrorList
	if old != nil {
		c := common.NewCorrelatedObject(obj, old, &model.Structural{Structural: u.schema})
		options = append(options, validation.WithRatcheting(c))
		celOptions = append(celOptions, schemacel.WithRatcheting(c))
		if status {
			if u.status != nil {
				if value, ok := obj["status"]; ok {
					all = append(all, validation.ValidateCustomResourceUpdate(field.NewPath("status"), value, old["status"], u.status,
						validation.WithRatcheting(c.Key("status")))...)
				}
			}
		} else {
			all = append(all, validation.ValidateCustomResourceUpdate(nil, obj, old, u.validator, options...)...)
		}
	} else {
		all = append(all, validation.ValidateCustomResource(nil, obj, u.validator)...)
	}
	if !status {
		all = append(all, objectmeta.Validate(ctx, nil, obj, u.schema, false)...)
	}
	if old == nil || len(listtype.ValidateListSetsAndMaps(nil, u.schema, old)) == 0 {
		all = append(all, listtype.ValidateListSetsAndMaps(nil, u.schema, obj)...)
	}
	if u.rules != nil {
		if blocked(all) {
			all = append(all, field.Invalid(nil, nil, "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation"))
		} else {
			var was any
			if old != nil {
				was = old
			}
			more, _ := u.rules.Validate(ctx, nil, u.schema, obj, was, celconfig.RuntimeCELCostBudget, celOptions...)
			all = append(all, more...)
		}
	}
	return texts(all), recorder.list
}

func blocked(errs field.ErrorList) bool {
	for _, e := range errs {
		switch e.Type {
		case field.ErrorTypeNotSupported, field.ErrorTypeRequired, field.ErrorTypeTooLong, field.ErrorTypeTooMany, field.ErrorTypeTypeInvalid:
			return true
		}
	}
	return false
}

// texts is every error with its type, sorted.
func texts(errs field.ErrorList) []string {
	var list []string
	for _, e := range errs {
		list = append(list, fmt.Sprintf("%s [%s]", e, e.Type))
	}
	sort.Strings(list)
	return list
}

type recorder struct{ list []string }

func (r *recorder) AddWarning(_, text string) { r.list = append(r.list, text) }

func mustJSON(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}
