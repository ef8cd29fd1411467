package partial_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-io/keelson/authz"
	"github.com/keelson-io/keelson/internal/authn"
	"github.com/keelson-io/keelson/internal/authz/abac"
	"github.com/keelson-io/keelson/internal/authz/match"
	"github.com/keelson-io/keelson/internal/authz/partial"
	"github.com/keelson-io/keelson/internal/authz/rbac"
	"github.com/keelson-io/keelson/internal/authz/webhook"
	"github.com/keelson-io/keelson/internal/kubehook"
)

// This file forgets parts of requests, asks, and then remembers them.

type dice struct{ *rand.Rand }

func (d dice) pick(words string) string {
	list := strings.Fields(words)
	return strings.ReplaceAll(list[d.IntN(len(list))], "_", "")
}

func (d dice) some(words string, n int) (out []string) {
	for range d.IntN(n + 1) {
		out = append(out, d.pick(words))
	}
	return out
}

const (
	users, groups       = "ann bob system:serviceaccount:ns1:a", "dev ops system:masters system:authenticated"
	verbs, apiGroups    = "get list delete *", "_ demo.io *"
	resources, subs     = "pods widgets *", "_ status *"
	namespaces, objects = "_ ns1 ns2", "_ x y"
	paths               = "/ /healthz /healthz/x /apis"
)

func (d dice) request() *authz.Attributes {
	a := &authz.Attributes{User: &authn.User{Name: d.pick(users), Groups: d.some(groups, 2)}, Verb: d.pick(verbs)}
	if d.IntN(4) == 0 {
		a.Path = d.pick(paths)
		return a
	}
	a.ResourceRequest, a.Version, a.Group, a.Resource, a.Subresource = true, "v1", d.pick(apiGroups), d.pick(resources), d.pick(subs)
	a.Namespace, a.Name = d.pick(namespaces), d.pick(objects)
	return a
}

// forget makes another request of one, in which some parts say nothing.
func (d dice) forget(a *authz.Attributes) *partial.Request {
	b := *a
	u := *a.User
	b.User = &u
	r := &partial.Request{Attributes: &b, Unknown: map[string]bool{}}
	for part, to := range map[string]*string{"user": &u.Name, "verb": &b.Verb, "group": &b.Group, "resource": &b.Resource, "subresource": &b.Subresource, "namespace": &b.Namespace, "name": &b.Name, "path": &b.Path} {
		ofResource := part != "user" && part != "verb" && part != "path"
		if d.IntN(3) > 0 || ofResource != a.ResourceRequest && part != "user" && part != "verb" {
			continue
		}
		r.Unknown[part], *to = true, "forgotten"
	}
	if d.IntN(3) == 0 {
		r.Unknown["groups"], u.Groups = true, []string{"forgotten"}
	}
	return r
}

func (d dice) index() *rbac.Index {
	var changes []rbac.Change
	meta := func(i int) metav1.ObjectMeta { return metav1.ObjectMeta{Name: fmt.Sprint(i)} }
	for i := range 3 {
		var rules []rbacv1.PolicyRule
		for range d.IntN(3) {
			r := rbacv1.PolicyRule{Verbs: d.some(verbs, 2)}
			if d.IntN(3) == 0 {
				r.NonResourceURLs = d.some(paths+" * /healthz/* /a**", 2)
			} else {
				r.APIGroups, r.Resources, r.ResourceNames = d.some(apiGroups, 2), d.some(resources+" pods/status */status pods/* widgets/*", 2), d.some("x y", d.IntN(2))
			}
			rules = append(rules, r)
		}
		changes = append(changes, rbac.Change{ClusterRole: &rbacv1.ClusterRole{ObjectMeta: meta(i), Rules: rules}})
	}
	for i := range d.IntN(4) {
		ref := rbacv1.RoleRef{Kind: "ClusterRole", Name: d.pick("0 1 2 3")}
		var subjects []rbacv1.Subject
		for range d.IntN(3) {
			subjects = append(subjects, rbacv1.Subject{Kind: d.pick("User Group ServiceAccount"), Name: d.pick("ann bob dev ops a"), Namespace: d.pick("_ ns1")})
		}
		if d.IntN(2) == 0 {
			changes = append(changes, rbac.Change{ClusterRoleBinding: &rbacv1.ClusterRoleBinding{ObjectMeta: meta(i), RoleRef: ref, Subjects: subjects}})
			continue
		}
		m := meta(i)
		m.Namespace = d.pick("ns1 ns2")
		changes = append(changes, rbac.Change{RoleBinding: &rbacv1.RoleBinding{ObjectMeta: m, RoleRef: ref, Subjects: subjects}})
	}
	ix := rbac.NewIndex()
	ix.Apply(changes...)
	return ix
}

func (d dice) policies(t *testing.T) abac.List {
	var text strings.Builder
	for range d.IntN(3) {
		fmt.Fprintf(&text, `{"apiVersion":"abac.authorization.kubernetes.io/v1beta1","kind":"Policy","spec":{"user":%q,"group":%q,"readonly":%v,"apiGroup":%q,"resource":%q,"namespace":%q,"nonResourcePath":%q}}`+"\n",
			d.pick("_ ann *"), d.pick("_ dev"), d.IntN(2) == 0, d.pick(apiGroups), d.pick("_ "+resources), d.pick("* "+namespaces), d.pick("_ * /healthz* /apis"))
	}
	path := filepath.Join(t.TempDir(), "policies")
	if err := os.WriteFile(path, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	list, err := abac.Load(path, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// says answers for a webhook.
type says authorizationv1.SubjectAccessReviewStatus

func (s says) Ask(context.Context, *authorizationv1.SubjectAccessReview, kubehook.Call) (authorizationv1.SubjectAccessReviewStatus, error) {
	return authorizationv1.SubjectAccessReviewStatus(s), nil
}

func (d dice) hook(t *testing.T) *webhook.Webhook {
	all := []string{`request.user == 'ann'`, `'dev' in request.groups || request.user == 'bob'`, `request.?resourceAttributes.?namespace.orValue('') == 'ns1'`,
		`has(request.resourceAttributes) ? request.resourceAttributes.verb in ['get', 'list'] : true`, `request.groups.size() > 0`, `!has(request.resourceAttributes) || request.resourceAttributes.name.startsWith('x')`}
	var list []string
	for _, i := range d.Perm(len(all))[:d.IntN(3)] {
		list = append(list, all[i])
	}
	return webhook.New(webhook.Config{Name: "hook", Asker: says{Allowed: d.IntN(2) == 0, Denied: d.IntN(3) == 0}, Conditions: compiled(t, list...), OnError: authz.Deny})
}

func compiled(t *testing.T, list ...string) *match.Conditions {
	t.Helper()
	c, errs := match.Compile(list, field.NewPath("x"))
	if len(errs) > 0 {
		t.Fatal(errs.ToAggregate())
	}
	return c
}

// holds evaluates a case's condition over the whole request.
func holds(t *testing.T, c *partial.Case, a *authz.Attributes) bool {
	t.Helper()
	o := compiled(t, c.When.String()).Eval(t.Context(), a)
	a.Memo.Release()
	a.Memo = nil
	if o.Err != nil {
		t.Fatalf("%s: %v", c.When, o.Err)
	}
	return o.Match
}

// The first case that holds is what the chain would have decided.
func TestFirstCaseThatHolds(t *testing.T) {
	d := dice{rand.New(rand.NewPCG(1, 1))}
	depends, certain := 0, 0
	for range 150 {
		links := []authz.Named{{Name: "rbac", Type: "RBAC", Authorizer: d.index()}, {Name: "abac", Type: "ABAC", Authorizer: d.policies(t)}, {Name: "hook", Type: "Webhook", Authorizer: d.hook(t)}}
		d.Shuffle(len(links), func(i, j int) { links[i], links[j] = links[j], links[i] })
		chain := authz.NewChain(nil, append(links, authz.Named{Name: "alwaysdeny", Authorizer: authz.AlwaysDeny{}})...)
		for range 20 {
			a := d.request()
			r := d.forget(a)
			cases := partial.Decide(t.Context(), r, chain.Links())
			want := chain.Authorize(t.Context(), a)
			var got partial.Case
			for _, c := range cases {
				if c.Decision != authz.NoOpinion && holds(t, &c, a) {
					got = c
					break
				}
			}
			if got.Decision != want.Decision || got.By != want.By {
				t.Fatalf("%+v without %v:\n got %+v of %+v\nwant %+v", a, r.Unknown, got, cases, want)
			}
			if cases[0].When.True() {
				certain++
			} else {
				depends++
			}
		}
	}
	if depends < 300 || certain < 300 {
		t.Errorf("%d requests depend, %d are certain", depends, certain)
	}
}

func TestConditions(t *testing.T) {
	yes, no := partial.Known(true), partial.Known(false)
	x, y, either := partial.Expression("x"), partial.Expression("y"), partial.Expression("a ? b : c")
	for want, got := range map[string]partial.Condition{
		"true": partial.All(), "false": partial.Any(), "x": partial.All(yes, x), "x && y": partial.All(x, yes, y), "x || y": partial.Any(x, no, y, x),
		"(x || y) && (a ? b : c)": partial.All(partial.Any(x, y), either), "x || (a ? b : c)": partial.Any(x, either),
	} {
		if got.String() != want || got.True() != (want == "true") || got.False() != (want == "false") {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	if !partial.All(x, no).False() || !partial.Any(x, yes).True() {
		t.Error("what is known does not decide")
	}
}
