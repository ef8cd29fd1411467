package rbac

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-io/keelson/authz"
	"github.com/keelson-io/keelson/internal/authn"
)

// This file tries rules and bindings, and ways around them.

func words(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(s, " ")
}

// rule is verbs, groups, resources, names; the core group is "core".
func rule(verbs, groups, resources, names string) rbacv1.PolicyRule {
	r := rbacv1.PolicyRule{Verbs: words(verbs), APIGroups: words(groups), Resources: words(resources), ResourceNames: words(names)}
	for i, g := range r.APIGroups {
		if g == "core" {
			r.APIGroups[i] = ""
		}
	}
	return r
}

func urls(verbs, urls string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{Verbs: words(verbs), NonResourceURLs: words(urls)}
}

func clusterRole(name string, rules ...rbacv1.PolicyRule) Change {
	return Change{ClusterRole: &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules}}
}

func roleIn(ns, name string, rules ...rbacv1.PolicyRule) Change {
	return Change{Role: &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}, Rules: rules}}
}

func bindCluster(name, role string, subjects ...rbacv1.Subject) Change {
	return Change{ClusterRoleBinding: &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: role}, Subjects: subjects}}
}

func bindIn(ns, name, kind, role string, subjects ...rbacv1.Subject) Change {
	return Change{RoleBinding: &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name},
		RoleRef: rbacv1.RoleRef{Kind: kind, Name: role}, Subjects: subjects}}
}

func user(name string) rbacv1.Subject  { return rbacv1.Subject{Kind: "User", Name: name} }
func group(name string) rbacv1.Subject { return rbacv1.Subject{Kind: "Group", Name: name} }
func account(ns, name string) rbacv1.Subject {
	return rbacv1.Subject{Kind: "ServiceAccount", Namespace: ns, Name: name}
}

// ask is verb group/resource[/subresource] [name] [@namespace], or verb /path.
func ask(who *authn.User, text string) *authz.Attributes {
	f := strings.Fields(text)
	a := &authz.Attributes{User: who, Verb: f[0]}
	if strings.HasPrefix(f[1], "/") {
		a.Path = f[1]
		return a
	}
	a.ResourceRequest, a.Version = true, "v1"
	a.Group, a.Resource, _ = strings.Cut(f[1], "/")
	a.Resource, a.Subresource, _ = strings.Cut(a.Resource, "/")
	if a.Group == "core" {
		a.Group = ""
	}
	for _, s := range f[2:] {
		if ns, ok := strings.CutPrefix(s, "@"); ok {
			a.Namespace = ns
		} else {
			a.Name = s
		}
	}
	return a
}

func TestRules(t *testing.T) {
	for _, row := range []struct {
		rule     rbacv1.PolicyRule
		yes, not string // separated by semicolons
	}{
		{rule("get list", "g", "foos", ""), "get g/foos; list g/foos x @ns", "get g/foos/status; watch g/foos; get h/foos; get core/foos; get /foos; Get g/foos"},
		{rule("*", "*", "*", ""), "x y/z/w; get core/pods; patch a/b", "get /foos; get /"},
		{rule("get", "core", "pods", ""), "get core/pods", "get apps/pods"},
		{rule("get", "g", "foos/status", ""), "get g/foos/status", "get g/foos; get g/bars/status"},
		{rule("get", "g", "*/status", ""), "get g/foos/status; get g/bars/status", "get g/foos; get g/foos/scale"},
		{rule("get", "g", "foos/*", ""), "get g/foos/*", "get g/foos; get g/foos/status"},
		{rule("get", "g", "*/*", ""), "get g/foos/*", "get g/foos; get g/foos/status"},
		{rule("get", "g", "foos", "a b"), "get g/foos a; get g/foos b @ns", "get g/foos; list g/foos; get g/foos c"},
		{rule("list", "g", "foos", "a"), "list g/foos a", "list g/foos"},
		{urls("get", "/healthz /metrics/*"), "get /healthz; get /metrics/x; get /metrics/", "get /metrics; get /healthz/; post /healthz; get //healthz; get /healthz/../x"},
		{urls("*", "*"), "get /; post /x", "get g/foos"},
		{urls("get", "/a**"), "get /a; get /abc; get /a/b", "get /"},
		{rbacv1.PolicyRule{Verbs: []string{"get"}, APIGroups: []string{"g"}, Resources: []string{"foos"}, NonResourceURLs: []string{"/x"}}, "get /x; get g/foos", "get /y"},
	} {
		// Once as one rule of few, once from the table of many.
		for _, more := range []int{0, fewRules} {
			rules := []rbacv1.PolicyRule{row.rule}
			for i := range more {
				rules = append(rules, rule("get", "other", fmt.Sprint("r", i), ""))
			}
			ix := NewIndex()
			ix.Apply(clusterRole("r", rules...), bindCluster("b", "r", user("ann")))
			for text, want := range map[string]authz.Decision{row.yes: authz.Allow, row.not: authz.NoOpinion} {
				for _, q := range strings.Split(text, ";") {
					r := ix.Authorize(context.Background(), ask(&authn.User{Name: "ann"}, q))
					if r.Decision != want || r.Err != nil {
						t.Errorf("rule %s, %d more: %s: got %+v", describe(&row.rule), more, q, r)
					}
				}
			}
		}
	}
}

// Ledger: binding-order.
func TestReasons(t *testing.T) {
	ix := NewIndex()
	all := rule("get", "g", "foos", "")
	ix.Apply(
		clusterRole("c", all), roleIn("ns1", "r", all),
		bindCluster("b1", "c", user("ann"), group("dev"), account("sys", "bot")),
		bindIn("ns1", "b2", "Role", "r", user("bob"), account("", "local"), group("ops")),
		bindIn("ns2", "b3", "ClusterRole", "c", user("bob")),
		bindIn("ns2", "b4", "Role", "r", user("eve")),
		bindCluster("b5", "gone", user("eve")),
		bindCluster("b6", "c", account("", "nobody"), rbacv1.Subject{Kind: "Thing", Name: "ann2"}),
		bindIn("ns3", "b7", "Thing", "c", user("eve")),
		bindIn("ns1", "b8", "Role", "r", group("ops"), user("max")),
	)
	for _, row := range []struct {
		who    authn.User
		ns     string
		want   authz.Decision
		reason string
	}{
		{authn.User{Name: "ann"}, "", authz.Allow, `RBAC: allowed by ClusterRoleBinding "b1" of ClusterRole "c" to User "ann"`},
		{authn.User{Name: "ann"}, "ns9", authz.Allow, `RBAC: allowed by ClusterRoleBinding "b1" of ClusterRole "c" to User "ann"`},
		{authn.User{Name: "x", Groups: []string{"a", "dev"}}, "", authz.Allow, `RBAC: allowed by ClusterRoleBinding "b1" of ClusterRole "c" to Group "dev"`},
		{authn.User{Name: "ann", Groups: []string{"dev"}}, "", authz.Allow, `RBAC: allowed by ClusterRoleBinding "b1" of ClusterRole "c" to User "ann"`},
		{authn.User{Name: "max", Groups: []string{"ops"}}, "ns1", authz.Allow, `RBAC: allowed by RoleBinding "b8/ns1" of Role "r" to Group "ops"`},
		{authn.User{Name: "system:serviceaccount:sys:bot"}, "", authz.Allow, `RBAC: allowed by ClusterRoleBinding "b1" of ClusterRole "c" to ServiceAccount "bot/sys"`},
		{authn.User{Name: "system:serviceaccount:ns1:local"}, "ns1", authz.Allow, `RBAC: allowed by RoleBinding "b2/ns1" of Role "r" to ServiceAccount "local/ns1"`},
		{authn.User{Name: "system:serviceaccount:ns2:local"}, "ns1", authz.NoOpinion, ""},
		{authn.User{Name: "system:serviceaccount::nobody"}, "", authz.NoOpinion, ""},
		{authn.User{Name: "bob"}, "ns1", authz.Allow, `RBAC: allowed by RoleBinding "b2/ns1" of Role "r" to User "bob"`},
		{authn.User{Name: "bob"}, "ns2", authz.Allow, `RBAC: allowed by RoleBinding "b3/ns2" of ClusterRole "c" to User "bob"`},
		{authn.User{Name: "bob"}, "", authz.NoOpinion, ""},
		{authn.User{Name: "bob"}, "ns", authz.NoOpinion, ""},
		{authn.User{Name: "Bob"}, "ns1", authz.NoOpinion, ""},
		{authn.User{Name: "dev"}, "", authz.NoOpinion, ""},
		{authn.User{Name: "x", Groups: []string{"ann"}}, "", authz.NoOpinion, ""},
		{authn.User{Name: "*", Groups: []string{"*"}}, "ns1", authz.NoOpinion, ""},
		{authn.User{Name: "eve"}, "", authz.NoOpinion, `RBAC: clusterrole.rbac.authorization.k8s.io "gone" not found`},
		{authn.User{Name: "eve"}, "ns2", authz.NoOpinion, `RBAC: [clusterrole.rbac.authorization.k8s.io "gone" not found, role.rbac.authorization.k8s.io "r" not found]`},
		{authn.User{Name: "eve"}, "ns3", authz.NoOpinion, `RBAC: [clusterrole.rbac.authorization.k8s.io "gone" not found, unsupported role reference kind: "Thing"]`},
	} {
		a := ask(&row.who, "get g/foos")
		a.Namespace = row.ns
		if r := ix.Authorize(context.Background(), a); r.Decision != row.want || r.Reason != row.reason {
			t.Errorf("%v in %q: got %v %s", row.who, row.ns, r.Decision, r.Reason)
		}
	}
}

// A role that is created after its binding, changed, or deleted, and a binding
// that is changed or deleted: the index follows.
func TestIndexFollowsChanges(t *testing.T) {
	ix := NewIndex()
	ann := &authn.User{Name: "ann", Groups: []string{"dev"}}
	may := func(q string, want bool) {
		t.Helper()
		if r := ix.Authorize(context.Background(), ask(ann, q)); (r.Decision == authz.Allow) != want {
			t.Errorf("%s: got %+v", q, r)
		}
	}
	ix.Apply(bindCluster("b", "r", group("dev")))
	may("get g/foos", false)
	ix.Apply(clusterRole("r", rule("get", "g", "foos", "")))
	may("get g/foos", true)
	ix.Apply(clusterRole("r", rule("get", "g", "bars", "")))
	may("get g/foos", false)
	may("get g/bars", true)
	ix.Apply(bindCluster("b", "r", group("ops")))
	may("get g/bars", false)
	ix.Apply(bindCluster("b", "r", group("ops"), user("ann")))
	may("get g/bars", true)
	gone := clusterRole("r")
	gone.Gone = true
	ix.Apply(gone)
	may("get g/bars", false)
	ix.Apply(clusterRole("r", rule("get", "g", "bars", "")))
	may("get g/bars", true)
	ix.Keep("ClusterRoleBinding", map[string]bool{})
	may("get g/bars", false)
	if len(ix.users) > 0 || len(ix.bindings) > 0 {
		t.Errorf("left behind: %v %v", ix.users, ix.bindings)
	}
}

// The index after random changes answers as one made at once of what is left,
// and as reading every binding does.
func TestRandomChanges(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	pick := func(list ...string) string { return list[r.IntN(len(list))] }
	subjects := func() []rbacv1.Subject {
		var out []rbacv1.Subject
		for range r.IntN(4) {
			out = append(out, rbacv1.Subject{Kind: pick("User", "Group", "ServiceAccount"), Name: pick("a", "b", "c"), Namespace: pick("", "n1", "n2")})
		}
		return out
	}
	rules := func() []rbacv1.PolicyRule {
		var out []rbacv1.PolicyRule
		for range r.IntN(10) {
			out = append(out, rule(pick("get", "*", "list get"), pick("g", "*", "h g"), pick("x", "*", "x/s", "*/s", "y"), pick("", "", "o", "p o")))
			out = append(out, urls(pick("get", "*"), pick("/x", "/x/*", "*", "/y")))
		}
		return out
	}
	ix, left := NewIndex(), map[string]Change{}
	for i := range 3000 {
		var c Change
		ns, name := pick("n1", "n2"), pick("1", "2", "3", "4", "5")
		switch r.IntN(4) {
		case 0:
			c = roleIn(ns, name, rules()...)
		case 1:
			c = clusterRole(name, rules()...)
		case 2:
			c = bindIn(ns, name, pick("Role", "ClusterRole"), pick("1", "2", "3", "4", "5"), subjects()...)
		case 3:
			c = bindCluster(name, pick("1", "2", "3", "4", "5"), subjects()...)
		}
		c.Gone = r.IntN(4) == 0
		id := fmt.Sprint(c.Role != nil, c.ClusterRole != nil, c.RoleBinding != nil, ns, name)
		if c.ClusterRole != nil || c.ClusterRoleBinding != nil {
			id = fmt.Sprint(c.ClusterRole != nil, name)
		}
		ix.Apply(c)
		if left[id] = c; c.Gone {
			delete(left, id)
		}
		if i%10 != 0 {
			continue
		}
		fresh := NewIndex()
		var all []Change
		for _, c := range left {
			all = append(all, c)
		}
		fresh.Apply(all...)
		for range 20 {
			who := &authn.User{Name: pick("a", "b", "system:serviceaccount:n1:a", "system:serviceaccount:n2:c"), Groups: words(pick("", "a", "b c"))}
			a := ask(who, pick("get g/x", "list h/y/s", "get g/x/s", "get /x", "get /x/y", "watch g/x o", "get h/x o"))
			a.Namespace = pick("", "n1", "n2")
			got, again, want := ix.Authorize(context.Background(), a), fresh.Authorize(context.Background(), a), plain(all, a)
			if got.Decision != again.Decision || (got.Decision == authz.Allow) != (len(want) > 0) ||
				got.Decision == authz.Allow && !slices.Contains(want, got.Reason) {
				t.Fatalf("%+v: got %+v, made at once %+v, plainly %q", a, got, again, want)
			}
		}
	}
}

// plain decides by reading every binding. It returns every reason there is to
// allow: of each binding, that of its first subject that is the user.
func plain(all []Change, a *authz.Attributes) []string {
	rulesOf := func(kind, ns, name string) []rbacv1.PolicyRule {
		for _, c := range all {
			switch {
			case kind == "Role" && c.Role != nil && c.Role.Namespace == ns && c.Role.Name == name:
				return c.Role.Rules
			case kind == "ClusterRole" && c.ClusterRole != nil && c.ClusterRole.Name == name:
				return c.ClusterRole.Rules
			}
		}
		return nil
	}
	var reasons []string
	try := func(ns, name string, ref rbacv1.RoleRef, subjects []rbacv1.Subject) {
		b := newBinding(key{ns, name}, ref, subjects)
		q := newQuestion(a, nil)
		if ns != "" && ns != a.Namespace || !slices.ContainsFunc(rulesOf(ref.Kind, ns, ref.Name), func(r rbacv1.PolicyRule) bool { return allows(&r, &q) }) {
			return
		}
		for i := range subjects {
			s, ok := b.subject(&subjects[i])
			if ok && (!s.group && s.name == a.User.Name || s.group && slices.Contains(a.User.Groups, s.name)) {
				reasons = append(reasons, b.reason(&subjects[i]))
				return
			}
		}
	}
	for _, c := range all {
		if b := c.ClusterRoleBinding; b != nil {
			try("", b.Name, b.RoleRef, b.Subjects)
		}
		if b := c.RoleBinding; b != nil {
			try(b.Namespace, b.Name, b.RoleRef, b.Subjects)
		}
	}
	return reasons
}

func TestNobodyGivesWhatHeHasNot(t *testing.T) {
	ix := NewIndex()
	ix.Apply(
		clusterRole("some", rule("get list", "g", "foos */scale", ""), rule("update", "g", "foos", "a"), urls("get", "/x/* /y")),
		bindCluster("b", "some", group("dev")), bindCluster("b2", "gone", user("eve")),
		roleIn("ns", "r", rule("*", "h", "*", "")), bindIn("ns", "b", "Role", "r", group("dev")),
	)
	bob := &authn.User{Name: "bob", Groups: []string{"dev", "ops"}}
	for _, row := range []struct {
		who   *authn.User
		ns    string
		rules []rbacv1.PolicyRule
		want  string // what is missing, "" if nothing
	}{
		{bob, "", []rbacv1.PolicyRule{rule("get", "g", "foos", ""), rule("list", "g", "foos/scale bars/scale", "x"), rule("update", "g", "foos", "a")}, ""},
		{bob, "", []rbacv1.PolicyRule{urls("get", "/x/* /x/y /y /x/y/*")}, ""},
		{bob, "", []rbacv1.PolicyRule{urls("get", "/x /z /yy *")}, "{NonResourceURLs:[\"*\"], Verbs:[\"get\"]}\n{NonResourceURLs:[\"/x\"], Verbs:[\"get\"]}\n{NonResourceURLs:[\"/yy\"], Verbs:[\"get\"]}\n{NonResourceURLs:[\"/z\"], Verbs:[\"get\"]}"},
		{bob, "", []rbacv1.PolicyRule{rule("get watch delete", "g", "foos", "")}, `{APIGroups:["g"], Resources:["foos"], Verbs:["watch" "delete"]}`},
		{bob, "", []rbacv1.PolicyRule{rule("update", "g", "foos", "")}, `{APIGroups:["g"], Resources:["foos"], Verbs:["update"]}`},
		{bob, "", []rbacv1.PolicyRule{rule("update", "g", "foos", "b a")}, `{APIGroups:["g"], Resources:["foos"], ResourceNames:["b"], Verbs:["update"]}`},
		{bob, "", []rbacv1.PolicyRule{rule("*", "g", "foos", "")}, `{APIGroups:["g"], Resources:["foos"], Verbs:["*"]}`},
		{bob, "", []rbacv1.PolicyRule{rule("get", "*", "foos", "")}, `{APIGroups:["*"], Resources:["foos"], Verbs:["get"]}`},
		{bob, "", []rbacv1.PolicyRule{rule("get", "g", "*", "")}, `{APIGroups:["g"], Resources:["*"], Verbs:["get"]}`},
		{bob, "", []rbacv1.PolicyRule{rule("get", "h", "x", "")}, `{APIGroups:["h"], Resources:["x"], Verbs:["get"]}`},
		{bob, "ns", []rbacv1.PolicyRule{rule("get", "h", "x x/status", "")}, ""},
		{bob, "ns2", []rbacv1.PolicyRule{rule("get", "h", "x", "")}, `{APIGroups:["h"], Resources:["x"], Verbs:["get"]}`},
		{&authn.User{Name: "eve"}, "", []rbacv1.PolicyRule{rule("get", "h", "x", "")},
			"{APIGroups:[\"h\"], Resources:[\"x\"], Verbs:[\"get\"]}; resolution errors: [clusterrole.rbac.authorization.k8s.io \"gone\" not found]"},
	} {
		err := ix.ConfirmHeld(row.who, row.ns, row.rules)
		want := fmt.Sprintf("user %q (groups=%q) is attempting to grant RBAC permissions not currently held:\n%s", row.who.Name, row.who.Groups, row.want)
		if (err == nil) != (row.want == "") || err != nil && err.Error() != want {
			t.Errorf("%v in %q: got %v", row.rules, row.ns, err)
		}
	}
}

// Rules whose combinations would take hours are refused in no time.
// Ledger: role-comparison.
func TestHostileRules(t *testing.T) {
	var many []string
	for i := range 20000 {
		many = append(many, fmt.Sprint("x", i))
	}
	rules := []rbacv1.PolicyRule{{Verbs: many, APIGroups: many, Resources: many, ResourceNames: many}}
	if _, err := Uncovered([]rbacv1.PolicyRule{rule("get", "g", "foos", "")}, rules); err != errTooMany {
		t.Errorf("got %v", err)
	}
	if _, err := Uncovered([]rbacv1.PolicyRule{rule("*", "*", "*", "")}, rules); err != errTooMany {
		t.Errorf("got %v", err)
	}
	none := []rbacv1.PolicyRule{{APIGroups: many, Resources: many}} // validation comes later
	none[0].APIGroups = slices.Repeat(many, 10)
	none[0].Resources = slices.Repeat(many, 10)
	if _, err := Uncovered(nil, none); err != errTooMany {
		t.Errorf("without verbs: got %v", err)
	}
	held := make([]rbacv1.PolicyRule, 30_000)
	for i := range held {
		held[i] = rule("get", "g", "foos", fmt.Sprint("n", i))
	}
	names := []rbacv1.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{"g"}, Resources: []string{"foos"}, ResourceNames: slices.Repeat(many, 10)}}
	u := uncovered{held: held}
	if u.rule(&names[0]); u.steps > maxSteps+1000 {
		t.Errorf("many names compared with many rules: %d steps, want at most %d", u.steps, maxSteps)
	}
}

// The error does not repeat long words for each of many parts.
func TestHostileWordsOfRules(t *testing.T) {
	var resources []string
	for i := range 1000 {
		resources = append(resources, fmt.Sprint("r", i))
	}
	ix := NewIndex()
	for _, group := range []string{strings.Repeat("g", 10_000), strings.Repeat("g", 1_000_000)} {
		err := ix.ConfirmHeld(&authn.User{Name: "bob"}, "ns", []rbacv1.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{group}, Resources: resources}})
		if err == nil || len(err.Error()) > 2*maxListed {
			t.Errorf("got an error of %d bytes, want one of at most %d", len(fmt.Sprint(err)), 2*maxListed)
		}
	}
}

func TestRulesFor(t *testing.T) {
	ix := NewIndex()
	ix.Apply(clusterRole("c", rule("get", "g", "foos", "n"), urls("get", "/x")), roleIn("ns", "r", rule("list", "g", "bars", "")),
		bindCluster("b", "c", user("ann"), group("dev")), bindIn("ns", "b", "Role", "r", group("dev")), bindIn("ns", "b2", "Role", "gone", user("ann")))
	ann := &authn.User{Name: "ann", Groups: []string{"dev"}}
	got := ix.RulesFor(context.Background(), ann, "ns")
	if len(got.Resource) != 2 || got.Resource[0].ResourceNames[0] != "n" || got.Resource[1].Verbs[0] != "list" || len(got.NonResource) != 1 ||
		got.Incomplete || got.Err == nil || got.Err.Error() != `role.rbac.authorization.k8s.io "gone" not found` {
		t.Errorf("got %+v", got)
	}
	if got := ix.RulesFor(context.Background(), ann, ""); len(got.Resource) != 1 || got.Err != nil {
		t.Errorf("cluster: got %+v", got)
	}
}

// many returns an index with as many bindings, all kinds of them: to users of their
// own, and to one group.
func many(n int) *Index {
	var changes []Change
	for i := range n {
		name := fmt.Sprintf("%05d", i)
		changes = append(changes,
			clusterRole(name, rule("get list", "g"+name, "foos", ""), rule("create", "g", "r"+name, "")),
			bindIn("ns"+fmt.Sprint(i%100), name, "ClusterRole", name, user("u"+name), group("dev")),
			bindCluster(name, name, user("u"+name), group("all")))
	}
	ix := NewIndex()
	ix.Apply(changes...)
	return ix
}

func TestDecisionsAllocateNothing(t *testing.T) {
	ix := many(200)
	who := &authn.User{Name: "u00150", Groups: []string{"dev", "all", "system:authenticated"}}
	for _, q := range []string{"get g00150/foos @ns50", "get g00199/foos @ns99", "get g/nothing/status x @ns1", "get /x"} {
		a := ask(who, q)
		if n := testing.AllocsPerRun(100, func() { ix.Authorize(context.Background(), a) }); n > 0 {
			t.Errorf("%s: %v allocations", q, n)
		}
	}
}

func BenchmarkAuthorize(b *testing.B) {
	for _, n := range []int{100, 10_000} {
		ix := many(n)
		for name, a := range map[string]*authz.Attributes{
			"own":      ask(&authn.User{Name: "u00050", Groups: []string{"system:authenticated"}}, "get g00050/foos x @ns50"),
			"group":    ask(&authn.User{Name: "u00050", Groups: []string{"dev", "all", "system:authenticated"}}, "get g00077/foos x @ns77"),
			"nothing":  ask(&authn.User{Name: "u00050", Groups: []string{"dev", "all", "system:authenticated"}}, "delete g00077/foos/status x @ns77"),
			"stranger": ask(&authn.User{Name: "x", Groups: []string{"system:authenticated"}}, "get g/foos x @ns7"),
		} {
			b.Run(fmt.Sprintf("%s/%d", name, 2*n), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					ix.Authorize(context.Background(), a)
				}
			})
		}
	}
}

// BenchmarkChange adds a binding to a group that has n.
func BenchmarkChange(b *testing.B) {
	ix := many(10_000)
	i := 0
	for b.Loop() {
		ix.Apply(bindCluster(fmt.Sprintf("x%d", i%10), "00001", user("u00002"), group("all")))
		i++
	}
}

// TestLargeRoles holds that a large role has one table for all subjects, and that a decision about
// a user with many groups searches it once.
func TestLargeRoles(t *testing.T) {
	var rules []rbacv1.PolicyRule
	for i := range 3000 {
		rules = append(rules, rule("get", "g", "foos", fmt.Sprint("n", i)))
	}
	rules = append(rules, urls("get", "/big/*"))
	var subjects []rbacv1.Subject
	who := &authn.User{Name: "bob"}
	for i := range 2000 {
		who.Groups = append(who.Groups, fmt.Sprint("team", i))
		subjects = append(subjects, group(who.Groups[i]))
	}
	ix := NewIndex()
	ix.Apply(clusterRole("big", rules...), clusterRole("small", rule("list", "g", "foos", "")), bindCluster("a", "big", subjects...),
		bindCluster("b", "small", subjects[1000]))
	for q, want := range map[string]bool{"get g/foos n2999": true, "get g/foos n3000": false, "get /big/x": true, "get /small": false, "list g/foos x": true} {
		if got := ix.Authorize(context.Background(), ask(who, q)); (got.Decision == authz.Allow) != want {
			t.Errorf("%s: got %v %s", q, got.Decision, got.Reason)
		}
	}
	st := ix.state.Load()
	for _, g := range who.Groups {
		if made := st.subjects.get(subject{"", true, g}).table.Load(); len(made.large) != 1 || len(made.places) > 1 {
			t.Fatalf("%s: %d large roles, a table of %d rules: want the role's own table", g, len(made.large), len(made.places))
		}
	}
	q := newQuestion(ask(who, "get g/foos n3000"), nil)
	var refused []*role
	st.find("", &q, &refused)
	if len(refused) != 1 {
		t.Errorf("the role was looked through %d times, want once", len(refused))
	}
}
