package cel_test

import (
	"context"
	"encoding/json"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	kcel "github.com/keelson-io/keelson/cel"
	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/schema"
	ownstructural "github.com/keelson-io/keelson/schema/structural"
)

// This file says which data are valid by their schema, so that an evaluation may be told so.

// judge decides whether data are valid by a schema.
type judge struct{ program *schema.Program }

func newJudge(t testing.TB, s *apiextensionsv1.JSONSchemaProps) *judge {
	t.Helper()
	s = s.DeepCopy()
	s.XValidations = apiextensionsv1.ValidationRules{{Rule: "true"}} // without a rule nobody asks what rules can read
	parsed, errs := ownstructural.Parse(s, nil)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	env, err := kcel.NewEnv(kcel.EnvOptions{Stored: true})
	if err != nil {
		t.Fatal(err)
	}
	program, err := schema.Compile(parsed, schema.Options{Env: env})
	if err != nil {
		t.Fatal(err)
	}
	return &judge{program}
}

// valid reports whether a value is valid as it is: nothing of it is pruned or defaulted first; and whether it would count as kept if it
// were there before. A judge that is nil knows of none.
func (j *judge) valid(t testing.TB, v any) (valid, kept bool) {
	t.Helper()
	if j == nil {
		return false, false
	}
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	plain, d := jsondoc.Get(), jsondoc.Get()
	defer plain.Release()
	defer d.Release()
	if err := jsondoc.Parse(plain, text); err != nil {
		t.Fatal(err)
	}
	if _, err := j.program.Decode(d, text); err != nil || !jsondoc.Equal(plain.Root(), d.Root()) {
		return false, false
	}
	r := j.program.Validate(context.Background(), d, nil, schema.Whole)
	return len(r.Errors) == 0, r.KnownValid && !d.MayHaveFloats()
}
