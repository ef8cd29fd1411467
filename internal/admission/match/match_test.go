package match

import (
	"context"
	"fmt"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-io/keelson/internal/admission"
	"github.com/keelson-io/keelson/internal/meta"
	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/kind"
)

// This file holds which requests rules and selectors are for.

// widgets returns a kind of two versions, v1 and v2.
func widgets(namespaced bool) (v1, v2 *kind.Version) {
	k := &kind.Kind{Group: "demo.io", Plural: "widgets", Name: "Widget", Namespaced: namespaced}
	v1 = &kind.Version{Kind: k, Name: "v1", Served: true, Status: true, Scale: &kind.Scale{}}
	v2 = &kind.Version{Kind: k, Name: "v2", Served: true, Status: true}
	k.All = []*kind.Version{v1, v2, {Kind: k, Name: "v3"}}
	return v1, v2
}

var all = Related(nil)

func rule(op, group, version, resource string) admissionv1.NamedRuleWithOperations {
	var r admissionv1.NamedRuleWithOperations
	r.Operations = []admissionv1.OperationType{admissionv1.OperationType(op)}
	r.APIGroups, r.APIVersions, r.Resources = []string{group}, []string{version}, []string{resource}
	return r
}

func scoped(r admissionv1.NamedRuleWithOperations, s admissionv1.ScopeType) admissionv1.NamedRuleWithOperations {
	r.Scope = &s
	return r
}

func onlyNamed(r admissionv1.NamedRuleWithOperations, names ...string) admissionv1.NamedRuleWithOperations {
	r.ResourceNames = names
	return r
}

func TestRules(t *testing.T) {
	v1, v2 := widgets(true)
	for _, row := range []struct {
		what       string
		rule       admissionv1.NamedRuleWithOperations
		sub        string
		equivalent bool
		want       *kind.Version // by which it matches
	}{
		{"exact", rule("CREATE", "demo.io", "v1", "widgets"), "", false, v1},
		{"wildcards", rule("*", "*", "*", "*"), "", false, v1},
		{"other operation", rule("UPDATE", "*", "*", "*"), "", false, nil},
		{"other group", rule("*", "other.io", "*", "*"), "", false, nil},
		{"core group", rule("*", "", "*", "*"), "", false, nil},
		{"other version", rule("*", "*", "v2", "*"), "", false, nil},
		{"other version, equivalent", rule("*", "*", "v2", "*"), "", true, v2},
		{"own version first", rule("*", "*", "*", "*"), "", true, v1},
		{"other resource", rule("*", "*", "*", "gadgets"), "", false, nil},
		{"no subresources in *", rule("*", "*", "*", "*"), "status", false, nil},
		{"all of all", rule("*", "*", "*", "*/*"), "status", false, v1},
		{"all of all, the resource itself", rule("*", "*", "*", "*/*"), "", false, v1},
		{"a subresource", rule("*", "*", "*", "widgets/status"), "status", false, v1},
		{"a subresource is not the resource", rule("*", "*", "*", "widgets/status"), "", false, nil},
		{"a subresource of all", rule("*", "*", "*", "*/scale"), "status", false, nil},
		{"subresources of one", rule("*", "*", "*", "widgets/*"), "scale", false, v1},
		{"namespaced", scoped(rule("*", "*", "*", "*"), admissionv1.NamespacedScope), "", false, v1},
		{"cluster", scoped(rule("*", "*", "*", "*"), admissionv1.ClusterScope), "", false, nil},
		{"name", onlyNamed(rule("*", "*", "*", "*"), "b", "a"), "", false, v1},
		{"a subresource, equivalent", rule("*", "*", "v2", "*/status"), "status", true, v2},
		{"a subresource that the other version lacks", rule("*", "*", "v2", "*/scale"), "scale", true, nil},
		{"a version that is not served, equivalent", rule("*", "*", "v3", "*"), "", true, v1.Kind.All[2]},
		{"other name", onlyNamed(rule("*", "*", "*", "*"), "b"), "", false, nil},
	} {
		x := NewIndex([]Criteria{{Rules: []admissionv1.NamedRuleWithOperations{row.rule}, Equivalent: row.equivalent}}, all)
		r := &admission.Request{Operation: admission.Create, Version: v1, Subresource: row.sub, Namespace: "default", Name: "a"}
		var got *kind.Version
		for _, c := range x.For(r) {
			target, ok, err := c.Selects(context.Background(), r, nil)
			if err != nil {
				t.Errorf("%s: %v", row.what, err)
			}
			if ok {
				got = target.Version
			}
		}
		if got != row.want {
			t.Errorf("%s: got %v, want %v", row.what, got, row.want)
		}
	}
}

// spaces are namespaces by name; one that is not there is an error.
type spaces struct {
	admission.Namespaces
	labels meta.Labels
	asked  int
}

func (s *spaces) Namespace(context.Context, string) (*meta.View, error) {
	s.asked++
	return &meta.View{Labels: s.labels}, nil
}

func TestSelectors(t *testing.T) {
	v1, _ := widgets(true)
	object := func(text string) *jsondoc.Doc {
		d := new(jsondoc.Doc)
		if err := jsondoc.Parse(d, []byte(text)); err != nil {
			t.Fatal(err)
		}
		return d
	}
	red, plain := object(`{"metadata":{"labels":{"color":"red"}}}`), object(`{"metadata":{}}`)
	want := &metav1.LabelSelector{MatchLabels: map[string]string{"color": "red"}}
	for _, row := range []struct {
		what             string
		namespace, label *metav1.LabelSelector
		new, old         *jsondoc.Doc
		want             bool
		asked            int
	}{
		{"nothing asked", nil, nil, plain, nil, true, 0},
		{"empty selectors", &metav1.LabelSelector{}, &metav1.LabelSelector{}, plain, nil, true, 0},
		{"object", nil, want, red, nil, true, 0},
		{"object before", nil, want, plain, red, true, 0},
		{"object not", nil, want, plain, plain, false, 0},
		{"deleted", nil, want, nil, red, true, 0},
		{"namespace", want, nil, plain, nil, true, 1},
		{"namespace not", &metav1.LabelSelector{MatchLabels: map[string]string{"color": "blue"}}, nil, plain, nil, false, 1},
	} {
		c := Criteria{Rules: []admissionv1.NamedRuleWithOperations{rule("*", "*", "*", "*")}}
		c.Select(row.namespace, row.label)
		r := &admission.Request{Operation: admission.Update, Version: v1, Namespace: "default", Name: "a", New: row.new, Old: row.old}
		n := &spaces{labels: meta.Labels{{Key: "color", Value: "red"}}}
		found := NewIndex([]Criteria{c}, all).For(r)
		if len(found) != 1 {
			t.Fatalf("%s: no candidate", row.what)
		}
		if _, ok, err := found[0].Selects(context.Background(), r, n); ok != row.want || err != nil || n.asked != row.asked {
			t.Errorf("%s: got %v, %v after %d questions", row.what, ok, err, n.asked)
		}
	}
	// Cluster-scoped objects are in no namespace and are never left out by it.
	cluster, _ := widgets(false)
	c := Criteria{Rules: []admissionv1.NamedRuleWithOperations{rule("*", "*", "*", "*")}}
	c.Select(want, nil)
	r := &admission.Request{Operation: admission.Create, Version: cluster, Name: "a", New: plain}
	if _, ok, err := NewIndex([]Criteria{c}, all).For(r)[0].Selects(context.Background(), r, nil); !ok || err != nil {
		t.Errorf("cluster-scoped: got %v, %v", ok, err)
	}
	// A selector that does not parse is an error for what the rules are for.
	c.Select(&metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Near"}}}, nil)
	r = &admission.Request{Operation: admission.Create, Version: v1, Namespace: "default", Name: "a", New: plain}
	if _, _, err := NewIndex([]Criteria{c}, all).For(r)[0].Selects(context.Background(), r, nil); err == nil {
		t.Error("a broken selector is no error")
	}
}

// TestManyNames holds that a rule with many names matches like one with few, and costs one look-up.
func TestManyNames(t *testing.T) {
	v1, _ := widgets(true)
	names := make([]string, 1000)
	for i := range names {
		names[i] = fmt.Sprint("n", i)
	}
	only := onlyNamed(rule("*", "*", "*", "*"), names...)
	x := NewIndex([]Criteria{
		{Rules: []admissionv1.NamedRuleWithOperations{only}},
		{Rules: []admissionv1.NamedRuleWithOperations{rule("*", "*", "*", "*")}, Exclude: []admissionv1.NamedRuleWithOperations{only}},
	}, all)
	for name, want := range map[string]bool{"n0": true, "n999": true, "n1000": false, "": false} {
		r := &admission.Request{Operation: admission.Create, Version: v1, Namespace: "default", Name: name}
		for i, c := range x.For(r) {
			if c.routes[0].set == nil && (i == 0 || c.excludes[0].set == nil) {
				t.Errorf("item %d: the names are compared one by one", i)
			}
			if _, ok, err := c.Selects(context.Background(), r, nil); err != nil || ok != (want == (i == 0)) {
				t.Errorf("%q, item %d: got %v, %v, want %v", name, i, ok, err, want == (i == 0))
			}
		}
	}
}

// TestManyCriteria holds that criteria for other requests cost one look-up together.
func TestManyCriteria(t *testing.T) {
	v1, _ := widgets(true)
	many := make([]Criteria, 1000)
	for i := range many {
		many[i].Rules = []admissionv1.NamedRuleWithOperations{rule("*", "other.io", "*", "*")}
	}
	x := NewIndex(many, all)
	r := &admission.Request{Operation: admission.Create, Version: v1, Namespace: "default", Name: "a"}
	x.For(r)
	if n := testing.AllocsPerRun(100, func() {
		if len(x.For(r)) > 0 {
			t.Fatal("found some")
		}
	}); n > 0 {
		t.Errorf("%v allocations, want none", n)
	}
	// What is remembered is bounded, however many kinds come and go.
	full := map[key][]Candidate{}
	for range maxMemo {
		v, _ := widgets(true)
		full[key{version: v}] = nil
	}
	x.memo.Store(&full)
	x.For(r)
	if n := len(*x.memo.Load()); n > maxMemo {
		t.Errorf("%d kinds of requests are remembered, want at most %d", n, maxMemo)
	}
}
