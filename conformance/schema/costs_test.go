package schema_test

import (
	"slices"
	"testing"

	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	schemacel "k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	apicel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/environment"
)

// This file compares estimated costs.

type estimate struct {
	expr string
	cost uint64
}

// TestCosts compares the estimates of all rules of the definitions.
func TestCosts(t *testing.T) {
	definitions(t, true, func(t *testing.T, p *pair, _, _ string, _ [][]byte) {
		var want []estimate
		estimates(t, p.up.schema, model.SchemaDeclType(p.up.schema, true), &want)
		got := p.own.Costs(nil)
		if len(got) != len(want) {
			t.Fatalf("got %d expressions, want %d", len(got), len(want))
		}
		for i, e := range got {
			if e.Expr != want[i].expr || e.Each != want[i].cost {
				t.Errorf("%v: got cost %d of %q, want %d of %q", e.Path, e.Each, e.Expr, want[i].cost, want[i].expr)
			}
		}
		t.Logf("%d expressions", len(got))
	})
}

// estimates appends the estimates of s, children first.
func estimates(t *testing.T, s *structuralschema.Structural, decl *apicel.DeclType, out *[]estimate) {
	if a := s.AdditionalProperties; a != nil && a.Structural != nil && decl != nil {
		estimates(t, a.Structural, decl.ElemType, out)
	}
	var names []string
	for name := range s.Properties {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		child := s.Properties[name]
		var below *apicel.DeclType
		if escaped, ok := apicel.Escape(name); ok && decl != nil && decl.Fields[escaped] != nil {
			below = decl.Fields[escaped].Type
		}
		estimates(t, &child, below, out)
	}
	if s.Items != nil && decl != nil {
		estimates(t, s.Items, decl.ElemType, out)
	}
	if len(s.XValidations) == 0 {
		return
	}
	base := environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion())
	results, err := schemacel.Compile(s, decl, celconfig.PerCallLimit, base, schemacel.StoredExpressionsEnvLoader())
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range results {
		*out = append(*out, estimate{s.XValidations[i].Rule, r.MaxCost})
		if s.XValidations[i].MessageExpression != "" {
			*out = append(*out, estimate{s.XValidations[i].MessageExpression, r.MessageExpressionMaxCost})
		}
	}
}
