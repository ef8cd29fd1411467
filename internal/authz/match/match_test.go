package match

import (
	"context"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-io/keelson/authz"
	"github.com/keelson-io/keelson/internal/authn"
)

// This file is what conditions see, and what they come to together.

func must(t testing.TB, expressions ...string) *Conditions {
	t.Helper()
	c, errs := Compile(expressions, field.NewPath("matchConditions"))
	if len(errs) > 0 {
		t.Fatal(errs.ToAggregate())
	}
	return c
}

// times makes an authorizer that evaluates so often and keeps the outcome.
func times(n int, c *Conditions, o *Outcome) *authz.Chain {
	return authz.NewChain(nil, authz.Named{Name: "x", Authorizer: authz.Func(func(ctx context.Context, a *authz.Attributes) authz.Result {
		for range n {
			*o = c.Eval(ctx, a)
		}
		return authz.Result{}
	})})
}

func decide(c *Conditions, a *authz.Attributes) (o Outcome) {
	times(1, c, &o).Authorize(context.Background(), a)
	return o
}

var ann = &authn.User{Name: "ann", Groups: []string{"dev", "ops"}, Extra: map[string][]string{"scopes": {"a", "b"}}}

func list() *authz.Attributes {
	return &authz.Attributes{User: ann, Verb: "list", ResourceRequest: true, Version: "v1", Resource: "pods", Namespace: "default",
		LabelSelector: "a in (x,y),n>5", FieldSelector: "spec.nodeName=n,metadata.name!=b"}
}

func TestWhatConditionsSee(t *testing.T) {
	path := &authz.Attributes{User: &authn.User{Name: "bob"}, Verb: "get", Path: "/healthz"}
	bad := list()
	bad.LabelSelector, bad.FieldSelector = "a in (", "x"
	review := &authz.Attributes{User: ann, ResourceRequest: true, Version: "*", Verb: "*", Resource: "pods"}
	review.SetLabelRequirements([]metav1.LabelSelectorRequirement{{Key: "k", Operator: "Exists"}, {Key: "k", Operator: "Near"}})
	for _, row := range []struct {
		a    *authz.Attributes
		expr string
		want string // true, false or the error
	}{
		{list(), `request.user == 'ann' && request.groups == ['dev', 'ops'] && request.uid == '' && request.extra == {'scopes': ['a', 'b']}`, "true"},
		{list(), `has(request.uid) && has(request.extra) && has(request.groups) && has(request.resourceAttributes) && !has(request.nonResourceAttributes)`, "true"},
		{list(), `has(request.resourceAttributes.subresource) && has(request.resourceAttributes.name) && request.resourceAttributes.group == ''`, "true"},
		{list(), `request.resourceAttributes.labelSelector.requirements == request.resourceAttributes.labelSelector.requirements`, "true"},
		{list(), `request.resourceAttributes.labelSelector.requirements.map(r, r.key + r.operator + r.values[1]) == ['aIny']`, "true"},
		{list(), `request.resourceAttributes.fieldSelector.requirements.map(r, r.key + r.operator + r.values[0]) == ['metadata.nameNotInb', 'spec.nodeNameInn']`, "true"},
		{list(), `has(request.resourceAttributes.fieldSelector.rawSelector)`, "false"},
		{list(), `request.nonResourceAttributes.path == '/'`, "no such key: nonResourceAttributes"},
		{path, `request.nonResourceAttributes.path == '/healthz' && request.nonResourceAttributes.verb == 'get' && request.groups.size() == 0 && size(request.extra) == 0`, "true"},
		{path, `request.resourceAttributes.namespace == 'x'`, "no such key: resourceAttributes"},
		{path, `request.?resourceAttributes.?labelSelector.hasValue()`, "false"},
		{bad, `has(request.resourceAttributes.fieldSelector) || has(request.resourceAttributes.labelSelector)`, "false"},
		{review, `request.resourceAttributes.version == '*' && request.resourceAttributes.labelSelector.requirements.size() == 1 &&
			request.resourceAttributes.labelSelector.requirements[0].values == [] && has(request.resourceAttributes.labelSelector.requirements[0].values)`, "true"},
		{list(), `[0,1,2,3,4,5,6,7,8,9].all(a, [0,1,2,3,4,5,6,7,8,9].all(b, [0,1,2,3,4,5,6,7,8,9].all(c, [0,1,2,3,4,5,6,7,8,9].all(d,
			[0,1,2,3,4,5,6,7,8,9].all(e, [0,1,2,3,4,5,6,7,8,9].all(f, request.user != 'x'))))))`, "operation cancelled: actual cost limit exceeded"},
	} {
		o := decide(must(t, row.expr), row.a)
		got := fmt.Sprint(o.Match)
		if o.Err != nil {
			got = o.Err.Error()
			row.want = fmt.Sprintf("cel evaluation error: expression '%s' resulted in error: %s", row.expr, row.want)
		}
		if got != row.want {
			t.Errorf("%s: got %s, want %s", row.expr, got, row.want)
		}
	}
}

func TestConditionsTogether(t *testing.T) {
	const yes, no, bad = `request.user == 'ann'`, `request.user == 'bob'`, `request.nonResourceAttributes.path == 'x'`
	const bad2 = `request.extra['y'].size() == 1`
	failed := func(expr, why string) string {
		return fmt.Sprintf("cel evaluation error: expression '%s' resulted in error: %s", expr, why)
	}
	badText, bad2Text := failed(bad, "no such key: nonResourceAttributes"), failed(bad2, "no such key: y")
	for _, row := range []struct {
		list  []string
		match bool
		fail  bool
		err   string
	}{
		{nil, true, false, ""},
		{[]string{yes}, true, false, ""},
		{[]string{yes, no}, false, false, ""},
		{[]string{no, bad}, false, false, ""},
		{[]string{bad, no}, false, true, ""},
		{[]string{bad, yes}, false, true, badText},
		{[]string{bad, yes, bad2}, false, true, "[" + badText + ", " + bad2Text + "]"},
	} {
		o := decide(must(t, row.list...), list())
		text := ""
		if o.Err != nil {
			text = o.Err.Error()
		}
		if o.Match != row.match || o.Failed != row.fail || text != row.err {
			t.Errorf("%q: got %+v", row.list, o)
		}
	}
}

func TestCompileErrors(t *testing.T) {
	for _, row := range []struct{ expr, want string }{
		{" ", `c[0].expression: Required value`},
		{"request.foo == 1", "c[0].expression: Invalid value: \"request.foo == 1\": compilation failed: ERROR: <input>:1:8: undefined field 'foo'\n | request.foo == 1\n | .......^"},
		{"request.user", `c[0].expression: Invalid value: "request.user": must evaluate to bool but got string`},
		{"dyn(true)", `c[0].expression: Invalid value: "dyn(true)": must evaluate to bool but got dyn`},
	} {
		_, errs := Compile([]string{row.expr}, field.NewPath("c"))
		if len(errs) != 1 || errs[0].Error() != row.want {
			t.Errorf("%s: got %v", row.expr, errs)
		}
	}
	_, errs := Compile([]string{"true", "true"}, field.NewPath("c"))
	if len(errs) != 1 || errs[0].Error() != `c[1].expression: Duplicate value: "true"` {
		t.Errorf("got %v", errs)
	}
	_, errs = Compile(strings.Split(strings.Repeat("true;", 65), ";")[:65], field.NewPath("c"))
	if len(errs) != 1 || errs[0].Error() != `c: Too many: 65: must have at most 64 items` {
		t.Errorf("got %v", errs)
	}
}

// One request after the other, each with members that the one before had not:
// nothing is left of the one before.
func TestNothingIsLeftBehind(t *testing.T) {
	c := must(t, `has(request.nonResourceAttributes) || has(request.resourceAttributes.labelSelector) || request.groups.size() > 0 || size(request.extra) > 0`)
	for range 100 {
		for _, a := range []*authz.Attributes{list(), {User: &authn.User{Name: "x"}, Verb: "get", Path: "/"}} {
			if o := decide(c, a); !o.Match {
				t.Fatalf("got %+v", o)
			}
		}
		plain := &authz.Attributes{User: &authn.User{Name: "x"}, ResourceRequest: true}
		if o := decide(c, plain); o.Match || o.Err != nil {
			t.Fatalf("got %+v", o)
		}
	}
}

// usual are the conditions of KEP-3221's first story.
var usual = []string{
	`has(request.resourceAttributes)`,
	`request.resourceAttributes.namespace == 'default'`,
	`!('system:serviceaccounts:kube-system' in request.groups)`,
	`request.resourceAttributes.verb in ['update', 'delete', 'deletecollection']`,
}

func TestMatchingAllocatesNothing(t *testing.T) {
	a, o := list(), Outcome{}
	chain := times(1, must(t, usual...), &o)
	if n := testing.AllocsPerRun(1000, func() { chain.Authorize(context.Background(), a) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkMatch(b *testing.B) {
	for name, expressions := range map[string][]string{"usual": usual, "one": {`request.user == 'bob'`}} {
		c := must(b, expressions...)
		for _, n := range []int{1, 100} {
			b.Run(fmt.Sprintf("%s/%d", name, n), func(b *testing.B) {
				a, o := list(), Outcome{}
				chain := times(n, c, &o)
				b.ReportAllocs()
				for b.Loop() {
					chain.Authorize(context.Background(), a)
				}
			})
		}
	}
}
