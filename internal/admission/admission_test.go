package admission

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/keelson-io/keelson/internal/authn"
	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/kind"
)

// This file runs chains of steps that do nothing but count.

type counting struct {
	calls  *[]string
	name   string
	change int // in how many rounds it changes the object
	err    error
}

func (c *counting) Mutate(_ context.Context, r *Request) error {
	*c.calls = append(*c.calls, c.name)
	if c.change > 0 {
		c.change--
		n := r.Rounds(c)
		n.Asked(c.name, true, false)
		n.Done()
	}
	return c.err
}

func (c *counting) Validate(context.Context, *Request) error {
	*c.calls = append(*c.calls, c.name)
	return c.err
}

func object(t *testing.T) *jsondoc.Doc {
	d := new(jsondoc.Doc)
	if err := jsondoc.Parse(d, []byte(`{"metadata":{"name":"a"}}`)); err != nil {
		t.Fatal(err)
	}
	return d
}

// TestChain holds that mutators run in order, and once more if one of them changed the object, but
// never a third time; the last mutator runs once.
func TestChain(t *testing.T) {
	no := errors.New("no")
	for _, row := range []struct {
		what                       string
		change                     int
		first, second, last        error
		mutates, validates, wantOf string
	}{
		{"plain", 0, nil, nil, nil, "a b z", "v w", ""},
		{"changed", 1, nil, nil, nil, "a b a b z", "v w", ""},
		{"changed twice", 2, nil, nil, nil, "a b a b z", "v w", ""},
		{"refused", 0, no, nil, nil, "a", "v", "no"},
		{"refused later", 0, nil, no, nil, "a b", "v w", "no"},
		{"refused at last", 0, nil, nil, no, "a b z", "v w", "no"},
	} {
		var calls []string
		c := NewChain(NewMetrics(prometheus.NewRegistry()))
		c.Finally(&counting{&calls, "z", 0, row.last})
		c.Mutates("A", &counting{&calls, "a", 0, row.first})
		c.Mutates("B", &counting{&calls, "b", row.change, row.second})
		c.Validates("V", &counting{&calls, "v", 0, row.first})
		c.Validates("W", &counting{&calls, "w", 0, row.second})
		r := &Request{Operation: Create, New: object(t)}
		if err := c.Mutate(t.Context(), r); (err != nil) != (row.wantOf != "") {
			t.Errorf("%s: mutating: %v", row.what, err)
		}
		if got := strings.Join(calls, " "); got != row.mutates {
			t.Errorf("%s: mutating: got %s, want %s", row.what, got, row.mutates)
		}
		calls = nil
		if err := c.Validate(t.Context(), r); (err != nil) != (row.first != nil || row.second != nil) {
			t.Errorf("%s: validating: %v", row.what, err)
		}
		if got := strings.Join(calls, " "); got != row.validates {
			t.Errorf("%s: validating: got %s, want %s", row.what, got, row.validates)
		}
	}
	var none *Chain
	if none.Mutate(t.Context(), &Request{}) != nil || none.Validate(t.Context(), &Request{}) != nil {
		t.Error("no chain refuses")
	}
}

// connecting is a step that handles requests to connect.
type connecting struct{ counting }

func (*connecting) HandlesConnect() {}

// TestConnectionsPassTheirSteps holds that only some steps see requests to connect.
func TestConnectionsPassTheirSteps(t *testing.T) {
	registry := prometheus.NewRegistry()
	c := NewChain(NewMetrics(registry))
	var calls []string
	c.Finally(&counting{&calls, "last", 0, nil})
	c.First(&counting{&calls, "first", 0, nil})
	c.Mutates("A", &counting{&calls, "a", 0, nil})
	c.Mutates("B", &connecting{counting{&calls, "b", 0, nil}})
	c.Validates("V", &counting{&calls, "v", 0, nil})
	c.Validates("W", &connecting{counting{&calls, "w", 0, nil}})
	c.Validates("AlwaysDeny", AlwaysDeny{})
	r := &Request{Operation: Connect, New: object(t), Version: &kind.Version{Kind: &kind.Kind{Plural: "pods"}}, Name: "p", User: &authn.User{Name: "ann"}}
	if err := c.Mutate(t.Context(), r); err != nil {
		t.Error(err)
	}
	if err := c.Validate(t.Context(), r); err == nil || err.Error() != `pods "p" is forbidden: admission control is denying all modifications` {
		t.Errorf("got %v", err)
	}
	if got := strings.Join(calls, " "); got != "b w" {
		t.Errorf("got the steps %s, want b w", got)
	}
	// Plugins B, W and AlwaysDeny.
	if n, err := testutil.GatherAndCount(registry, "apiserver_admission_controller_admission_duration_seconds"); n != 3 || err != nil {
		t.Errorf("got %d histograms, %v", n, err)
	}
}

// TestTimes holds that plugins and phases are measured under the right labels, steps that are not
// plugins are not, and measuring allocates nothing.
func TestTimes(t *testing.T) {
	reg := prometheus.NewRegistry()
	var calls []string
	step := &counting{&calls, "a", 0, nil}
	c := NewChain(NewMetrics(reg))
	c.Mutates("NamespaceLifecycle", step)
	c.Validates("ValidatingAdmissionWebhook", step)
	r := &Request{Operation: Update, New: object(t)}
	run := func() {
		_ = c.Mutate(t.Context(), r)
		_ = c.Validate(t.Context(), r)
	}
	run()
	step.err = errors.New("no")
	run()
	counts := map[string]int{
		"apiserver_admission_controller_admission_duration_seconds":   4,
		"apiserver_admission_step_admission_duration_seconds":         4,
		"apiserver_admission_step_admission_duration_seconds_summary": 4,
	}
	for name, want := range counts {
		if got, err := testutil.GatherAndCount(reg, name); got != want || err != nil {
			t.Errorf("%s: got %d series, want %d (%v)", name, got, want, err)
		}
	}
	step.err, calls = nil, make([]string, 0, 1000)
	if n := testing.AllocsPerRun(100, run); n > 0 {
		t.Errorf("%v allocations, want none", n)
	}
}

// asked is namespaces of which it is counted how often their current state was wanted.
type asked struct {
	Namespaces
	there   bool
	current int
}

func (a *asked) State(context.Context, string) (NamespaceState, error) {
	a.current++
	return NamespaceActive, nil
}

func (a *asked) Exists(context.Context, string) (bool, error) { return a.there, nil }

// TestLifecycleOfUpdates holds that only creates wait for the current state of their namespace, and that updates
// and deletes of what is left of a namespace are allowed, as are questions about access to it.
func TestLifecycleOfUpdates(t *testing.T) {
	version := &kind.Version{Kind: &kind.Kind{Group: "demo.io", Plural: "widgets"}}
	for op, want := range map[Operation]int{Create: 1, Update: 0, Delete: 0} {
		n := &asked{there: true}
		step := NamespaceLifecycle(n)
		if err := step.Mutate(t.Context(), &Request{Operation: op, Version: version, Namespace: "n"}); err != nil || n.current != want {
			t.Errorf("%s: asked %d times for the current state, %v, want %d", op, n.current, err, want)
		}
		n.there = false
		if err := step.Mutate(t.Context(), &Request{Operation: op, Version: version, Namespace: "n"}); err != nil {
			t.Errorf("%s into a namespace that does not exist: %v", op, err)
		}
	}
	review := &kind.Version{Kind: &kind.Kind{Group: "authorization.k8s.io", Plural: "localsubjectaccessreviews"}}
	n := &asked{}
	if err := NamespaceLifecycle(n).Mutate(t.Context(), &Request{Operation: Create, Version: review, Namespace: "n"}); err != nil || n.current > 0 {
		t.Errorf("a review of access to a namespace that does not exist: %v, asked %d times", err, n.current)
	}
}
