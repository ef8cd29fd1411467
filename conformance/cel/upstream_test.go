// Package cel_test compares package cel with upstream: for an expression, a
// schema and data, the result or error, the runtime cost and the estimate.
package cel_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/checker"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	schemacel "k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	"k8s.io/apimachinery/pkg/util/version"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/environment"
	"sigs.k8s.io/yaml"
)

// This file runs expressions the way kube-apiserver does.

// outcome is all that is compared.
type outcome struct {
	compile  string // error of compilation
	estimate uint64
	value    string
	err      string
	cost     uint64
}

func (o outcome) String() string {
	if o.compile != "" {
		return "compile: " + o.compile
	}
	return fmt.Sprintf("est=%d cost=%d value=%s err=%q", o.estimate, o.cost, o.value, o.err)
}

func structural(t testing.TB, text string) *schema.Structural {
	t.Helper()
	var v1 apiextensionsv1.JSONSchemaProps
	if err := yaml.Unmarshal([]byte(text), &v1); err != nil {
		t.Fatal(err)
	}
	return structuralOf(t, &v1)
}

func structuralOf(t testing.TB, v1 *apiextensionsv1.JSONSchemaProps) *schema.Structural {
	t.Helper()
	var props apiextensions.JSONSchemaProps
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(v1, &props, nil); err != nil {
		t.Fatal(err)
	}
	s, err := schema.NewStructural(&props)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// upstream compiles expressions over one schema node.
type upstream struct {
	s    *schema.Structural
	root bool
	decl *apiservercel.DeclType
	env  *cel.Env
}

func newUpstream(t testing.TB, s *schema.Structural, root bool) *upstream {
	decl := model.SchemaDeclType(s, root)
	if decl == nil {
		return nil
	}
	decl = decl.MaybeAssignTypeName("selfType")
	set, err := environment.MustBaseEnvSet(version.MajorMinor(1, 37)).Extend(environment.VersionedOptions{
		IntroducedVersion: version.MajorMinor(1, 0),
		EnvOptions: []cel.EnvOption{
			cel.Variable("self", decl.CelType()), cel.Variable("oldSelf", decl.CelType()),
		},
		DeclTypes: []*apiservercel.DeclType{decl},
	})
	if err != nil {
		t.Fatal(err)
	}
	return &upstream{s, root, decl, set.StoredExpressionsEnv()}
}

const perCallLimit = 1_000_000

func (u *upstream) compile(expr string) (cel.Program, outcome) {
	_, prog, o := compileUpstream(u.env, expr, &sizes{u.decl}, perCallLimit)
	return prog, o
}

func (u *upstream) run(expr string, self, old any) outcome {
	prog, o := u.compile(expr)
	if o.compile != "" {
		return o
	}
	return u.eval(prog, o, self, old)
}

func (u *upstream) eval(prog cel.Program, o outcome, self, old any) outcome {
	vars := map[string]any{"self": schemacel.UnstructuredToVal(self, u.s)}
	if old != nil {
		vars["oldSelf"] = schemacel.UnstructuredToVal(old, u.s)
	}
	v, details, err := prog.ContextEval(context.Background(), vars)
	if details != nil {
		o.cost = *details.ActualCost()
	}
	if err != nil {
		o.err = err.Error()
		return o
	}
	o.value = show(v)
	return o
}

// show prints a value so that different kinds differ.
func show(v ref.Val) string {
	switch v := v.(type) {
	case *types.Unknown:
		return "unknown"
	case *types.Optional:
		if !v.HasValue() {
			return "none"
		}
		return "some " + show(v.GetValue())
	}
	// What begins with a brace is the Go struct of a value that has no text.
	if s := types.Format(v); !strings.Contains(s, "%!") && !strings.HasPrefix(strings.TrimPrefix(s, "&"), "{") {
		return v.Type().TypeName() + " " + s
	}
	return v.Type().TypeName()
}

// sizes answers the estimator's questions as the definition's validation does.
type sizes struct{ root *apiservercel.DeclType }

func (s *sizes) EstimateSize(node checker.AstNode) *checker.SizeEstimate {
	if len(node.Path()) == 0 {
		return nil
	}
	at := s.root
	for _, name := range node.Path()[1:] {
		switch name {
		case "@items", "@values":
			at = at.ElemType
		case "@keys":
			at = at.KeyType
		default:
			f, ok := at.Fields[name]
			if !ok {
				return nil
			}
			at = f.Type
		}
		if at == nil {
			return nil
		}
	}
	return &checker.SizeEstimate{Max: uint64(at.MaxElements)}
}

func (s *sizes) EstimateCallCost(string, string, *checker.AstNode, []checker.AstNode) *checker.CallEstimate {
	return nil
}
