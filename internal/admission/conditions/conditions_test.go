package conditions

import (
	"errors"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	admissionv1 "k8s.io/api/admissionregistration/v1"

	"github.com/keelson-io/keelson/cel"
	"github.com/keelson-io/keelson/internal/admission"
	"github.com/keelson-io/keelson/internal/admission/match"
	"github.com/keelson-io/keelson/internal/authn"
	"github.com/keelson-io/keelson/internal/builtin"
	"github.com/keelson-io/keelson/internal/requests"
	"github.com/keelson-io/keelson/internal/testkit"
	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/kind"
)

// configMaps returns the storage version of ConfigMaps.
func configMaps(t *testing.T) *kind.Version {
	t.Helper()
	for _, k := range builtin.All(nil) {
		if k.Group == "" && k.Plural == "configmaps" {
			return k.Storage
		}
	}
	t.Fatal("no ConfigMaps")
	return nil
}

func document(t *testing.T, text string) *jsondoc.Doc {
	t.Helper()
	d := jsondoc.Get()
	t.Cleanup(d.Release)
	if err := jsondoc.Parse(d, []byte(text)); err != nil {
		t.Fatal(err)
	}
	return d
}

// input returns the update of a ConfigMap as expressions see it.
func input(t *testing.T) *Input {
	v := configMaps(t)
	return &Input{Target: match.Target{Version: v}, Namespace: []byte(`{"metadata":{"name":"ns"}}`), Params: []byte(`{"limit":2}`),
		Request: &admission.Request{Operation: admission.Update, Version: v, Namespace: "ns", Name: "c",
			New:  document(t, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"},"data":{"a":"new"}}`),
			Old:  document(t, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"},"data":{"a":"old"}}`),
			User: &authn.User{Name: "ann", Groups: []string{"dev"}}}}
}

var language = requests.For(cel.AdmissionVariables{Params: true, Authorizer: true})

func TestVariablesOfARequest(t *testing.T) {
	for _, row := range []struct {
		at   testkit.Position
		text string
	}{
		{testkit.Here(), "object.data.a == 'new' && oldObject.data.a == 'old'"},
		{testkit.Here(), "request.name == 'c' && request.namespace == 'ns' && request.operation == 'UPDATE' && !request.dryRun"},
		{testkit.Here(), "request.userInfo.username == 'ann' && request.userInfo.groups == ['dev']"},
		{testkit.Here(), "request.kind.kind == 'ConfigMap' && request.resource.resource == 'configmaps' && request.kind.version == 'v1'"},
		{testkit.Here(), "namespaceObject.metadata.name == 'ns'"},
		{testkit.Here(), "params.limit == 2"},
	} {
		x := Compile(language, row.text, "bool")
		if x.Err != nil {
			t.Errorf("%s: %v", row.at, x.Err)
			continue
		}
		v, cost, err := x.Run(t.Context(), input(t))
		if err != nil || v.Kind() != cel.KindBool || !v.Bool() || cost == 0 {
			t.Errorf("%s: %s: got %v at a cost of %d, %v", row.at, row.text, v, cost, err)
		}
	}
}

// TestObjectsThatAreNotThereAreNull checks the variables of a request that creates, without parameters and a
// namespace.
func TestObjectsThatAreNotThereAreNull(t *testing.T) {
	in := input(t)
	in.Request.Operation, in.Request.Old, in.Params, in.Namespace = admission.Create, nil, nil, nil
	x := Compile(language, "oldObject == null && params == null && namespaceObject == null && object != null", "bool")
	if v, _, err := x.Run(t.Context(), in); err != nil || !v.Bool() {
		t.Errorf("got %v, %v", v, err)
	}
	matching := input(t).Matching()
	if v, _, err := Compile(language, "namespaceObject == null", "bool").Run(t.Context(), matching); err != nil || !v.Bool() {
		t.Errorf("match conditions have a namespace: %v, %v", v, err)
	}
}

func TestBudget(t *testing.T) {
	b := NewBudget(10)
	for _, row := range []struct {
		at    testkit.Position
		units uint64
		want  error
	}{
		{testkit.Here(), 4, nil},
		{testkit.Here(), 6, nil},
		{testkit.Here(), 0, nil},
		{testkit.Here(), 1, ErrOutOfBudget},
	} {
		if err := b.Spend(row.units); err != row.want {
			t.Errorf("%s: got %v, want %v", row.at, err, row.want)
		}
	}
	b = NewBudget(10)
	if b.Spend(11) != ErrOutOfBudget || b.Spend(1) != ErrOutOfBudget {
		t.Error("what is overdrawn can be spent from")
	}
}

func TestEvalTellsErrorsApart(t *testing.T) {
	for _, row := range []struct {
		at     testkit.Position
		text   string
		budget uint64
		failed string // of the expression; "": none
		ended  bool   // the budget
	}{
		{testkit.Here(), "object.data.a == 'new'", 100, "", false},
		{testkit.Here(), "object.data.missing == 'new'", 100, "expression 'object.data.missing == 'new'' resulted in error: no such key: missing", false},
		{testkit.Here(), "nothing", 100, "compilation error: compilation failed: ", false},
		{testkit.Here(), "object.data.a == 'new'", 1, "", true},
		{testkit.Here(), "[1, 2, 3].all(x, x > 0)", 3, "", true},
	} {
		in := input(t)
		_, failed, err := Compile(language, row.text, "bool").Eval(t.Context(), in, NewBudget(row.budget))
		if (err != nil) != row.ended || row.ended && err != ErrOutOfBudget {
			t.Errorf("%s: %s: got error %v", row.at, row.text, err)
		}
		if text := ""; failed != nil {
			if text = failed.Error(); row.failed == "" || !strings.HasPrefix(text, row.failed) {
				t.Errorf("%s: %s: got %q, want %q", row.at, row.text, text, row.failed)
			}
		} else if row.failed != "" {
			t.Errorf("%s: %s: got no error, want %q", row.at, row.text, row.failed)
		}
		if spent := in.Spent(); row.failed == "" && spent == 0 || in.Spent() != 0 {
			t.Errorf("%s: %s: spent %d", row.at, row.text, spent)
		}
	}
}

func TestMatchConditions(t *testing.T) {
	ignore, fail := admissionv1.Ignore, admissionv1.Fail
	for _, row := range []struct {
		at         testkit.Position
		conditions []string
		policy     *admissionv1.FailurePolicyType
		match      bool
		err        string
		counted    float64 // conditions that failed
	}{
		{testkit.Here(), nil, nil, true, "", 0},
		{testkit.Here(), []string{"true", "request.name == 'c'"}, nil, true, "", 0},
		{testkit.Here(), []string{"true", "false"}, nil, false, "", 0},
		{testkit.Here(), []string{"object.x.y == 1", "false"}, &fail, false, "", 1}, // one that is false decides
		{testkit.Here(), []string{"false", "object.x.y == 1"}, &fail, false, "", 0},
		{testkit.Here(), []string{"object.x.y == 1", "true"}, &fail, false, "no such key: x", 1},
		{testkit.Here(), []string{"object.x.y == 1", "true"}, nil, false, "no such key: x", 1},
		{testkit.Here(), []string{"object.x.y == 1", "true"}, &ignore, false, "", 1},
		{testkit.Here(), []string{"object.x.y == 1", "object.z.y == 1"}, &fail, false, "[expression 'object.x.y == 1' resulted in error: no such key: x, expression 'object.z.y == 1' resulted in error: no such key: z]", 2},
		{testkit.Here(), []string{"nothing"}, &fail, false, "undeclared reference to 'nothing'", 1},
	} {
		var list []admissionv1.MatchCondition
		for _, text := range row.conditions {
			list = append(list, admissionv1.MatchCondition{Name: "c", Expression: text})
		}
		registry := prometheus.NewRegistry()
		m := NewMatcher(language, list, row.policy, admission.NewMetrics(registry), admission.Conditions{Name: "w", Kind: "webhook", Type: "admit"})
		got, err := m.Match(t.Context(), input(t))
		if got != row.match || (err != nil) != (row.err != "") || err != nil && !strings.Contains(err.Error(), row.err) {
			t.Errorf("%s: got %v, %v, want %v, %q", row.at, got, err, row.match, row.err)
		}
		if n, err := testutil.GatherAndCount(registry, "apiserver_admission_match_condition_evaluation_errors_total"); err != nil || (n > 0) != (row.counted > 0) {
			t.Errorf("%s: errors are counted in %d series (%v), want %v errors", row.at, n, err, row.counted)
		}
	}
}

// TestMatchConditionsShareABudget checks that a condition that costs too much ends the evaluation of
// all, whatever the others say.
func TestMatchConditionsShareABudget(t *testing.T) {
	costly := "[" + strings.Repeat("1,", 900) + "1].all(x, [" + strings.Repeat("1,", 900) + "1].all(y, x == y))"
	list := []admissionv1.MatchCondition{{Name: "a", Expression: "false"}}
	for range 4 {
		list = append(list, admissionv1.MatchCondition{Name: "b", Expression: costly})
	}
	m := NewMatcher(language, list, nil, admission.NewMetrics(prometheus.NewRegistry()), admission.Conditions{})
	matches, err := m.Match(t.Context(), input(t))
	if matches || !errors.Is(err, ErrOutOfBudget) {
		t.Errorf("got %v, %v, want %v", matches, err, ErrOutOfBudget)
	}
}
