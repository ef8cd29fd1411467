// Package authz holds Keelson's authorizers against Kubernetes': the same roles, bindings, policies, conditions and requests, a
// million decisions of them (a part of that with -short).
package authz

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/apis/apiserver/validation"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	authorizationcel "k8s.io/apiserver/pkg/authorization/cel"
	rbacvalidation "k8s.io/component-helpers/auth/rbac/validation"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/auth/authorizer/abac"
	kubeauthorizer "k8s.io/kubernetes/pkg/kubeapiserver/authorizer"
	rbacregistry "k8s.io/kubernetes/pkg/registry/rbac/validation"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac/bootstrappolicy"

	"github.com/keelson-io/keelson/authz"
	"github.com/keelson-io/keelson/internal/authn"
	ourabac "github.com/keelson-io/keelson/internal/authz/abac"
	"github.com/keelson-io/keelson/internal/authz/config"
	"github.com/keelson-io/keelson/internal/authz/match"
	ourrbac "github.com/keelson-io/keelson/internal/authz/rbac"
	"github.com/keelson-io/keelson/internal/authz/webhook"
	"github.com/keelson-io/keelson/internal/controller/roles"
)

func TestMain(m *testing.M) {
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	os.Exit(m.Run())
}

// dice makes the same random choices every time.
type dice struct{ *rand.Rand }

func roll(seed uint64) dice { return dice{rand.New(rand.NewPCG(seed, seed))} }

// pick is one of the words.
func (d dice) pick(words string) string {
	list := strings.Split(words, " ")
	return strings.ReplaceAll(list[d.IntN(len(list))], "_", "")
}

// some are up to n of the words.
func (d dice) some(words string, n int) []string {
	var out []string
	for range d.IntN(n + 1) {
		out = append(out, d.pick(words))
	}
	return out
}

// times is how often something is tried: a part of it with -short.
func times(n int) int {
	if testing.Short() {
		return n / 20
	}
	return n
}

const (
	verbs     = "get list watch create update patch delete deletecollection *"
	groups    = "_ apps demo.io * storage.k8s.io resource.k8s.io coordination.k8s.io certificates.k8s.io events.k8s.io"
	resources = "pods nodes secrets configmaps leases widgets csinodes resourceslices services events serviceaccounts persistentvolumeclaims persistentvolumes resourceclaims podcertificaterequests volumeattachments *"
	subs      = "_ _ status scale token eviction *"
	paths     = "/ /healthz /healthz/x /metrics /apis /apis/x /a*"
)

// user makes a user: sometimes a node, a service account, a member of groups.
func (d dice) user() *authn.User {
	u := &authn.User{Name: d.pick("ann bob system:node:n1 system:node: system:serviceaccount:ns1:a system:serviceaccount:ns2:b system:anonymous")}
	u.Groups = d.some("dev ops system:nodes system:authenticated system:masters system:unauthenticated ann", 3)
	if strings.HasPrefix(u.Name, "system:node:") {
		u.Groups = append(u.Groups, "system:nodes")
	}
	return u
}

// request makes a request, for both sides.
func (d dice) request() (*authz.Attributes, authorizer.AttributesRecord) {
	u := d.user()
	a := &authz.Attributes{User: u, Verb: d.pick(verbs)}
	theirs := authorizer.AttributesRecord{User: &user.DefaultInfo{Name: u.Name, UID: u.UID, Groups: u.Groups}, Verb: a.Verb}
	if d.IntN(5) == 0 {
		a.Path = d.pick(paths)
		theirs.Path = a.Path
		return a, theirs
	}
	a.ResourceRequest, a.Version = true, "v1"
	a.Group, a.Resource, a.Subresource = d.pick(groups), d.pick(resources), d.pick(subs)
	a.Namespace, a.Name = d.pick("_ ns1 ns2 kube-node-lease"), d.pick("_ n1 x y y-y")
	a.FieldSelector = d.pick("_ _ spec.nodeName=n1 spec.nodeName==n1,a=b spec.nodeName!=n1 metadata.name=x")
	a.LabelSelector = d.pick("_ _ a=b a!=b,c a,!b x>5")
	theirs.ResourceRequest, theirs.APIVersion, theirs.APIGroup, theirs.Resource, theirs.Subresource = true, "v1", a.Group, a.Resource, a.Subresource
	theirs.Namespace, theirs.Name = a.Namespace, a.Name
	if s, err := fields.ParseSelector(a.FieldSelector); err == nil {
		theirs.FieldSelectorRequirements = s.Requirements()
	}
	if s, err := labels.Parse(a.LabelSelector); err == nil {
		theirs.LabelSelectorRequirements, _ = s.Requirements()
	}
	return a, theirs
}

func (d dice) rules() []rbacv1.PolicyRule {
	var out []rbacv1.PolicyRule
	for range d.IntN(4) {
		r := rbacv1.PolicyRule{Verbs: d.some(verbs, 3)}
		if d.IntN(4) == 0 {
			r.NonResourceURLs = d.some(paths+" * /healthz/* /apis*", 2)
		} else {
			r.APIGroups, r.ResourceNames = d.some(groups, 2), d.some("n1 x", d.IntN(2))
			r.Resources = d.some(resources+" pods/status */status */* pods/* */token widgets/scale", 3)
		}
		out = append(out, r)
	}
	return out
}

func (d dice) subjects() []rbacv1.Subject {
	var out []rbacv1.Subject
	for range d.IntN(4) {
		out = append(out, rbacv1.Subject{Kind: d.pick("User Group ServiceAccount"), Namespace: d.pick("_ ns1 ns2"), Name: d.pick("ann bob dev ops a b system:node:n1 system:authenticated")})
	}
	return out
}

// same compares a decision; the reason may be any that upstream could give.
func same(t *testing.T, what any, got authz.Result, decision authorizer.Decision, reason string, err error, reasonToo bool) bool {
	want := map[authorizer.Decision]authz.Decision{authorizer.DecisionAllow: authz.Allow, authorizer.DecisionDeny: authz.Deny, authorizer.DecisionNoOpinion: authz.NoOpinion}[decision]
	if got.Decision != want || fmt.Sprint(got.Err) != fmt.Sprint(err) || reasonToo && got.Reason != reason {
		t.Errorf("%+v\n\tupstream %v %q %v\n\tkeelson  %+v", what, decision, reason, err, got)
		return false
	}
	return true
}

func TestRBAC(t *testing.T) {
	d := roll(1)
	decisions := 0
	for decisions < times(700_000) && !t.Failed() {
		var changes []ourrbac.Change
		var rs []*rbacv1.Role
		var crs []*rbacv1.ClusterRole
		var bs []*rbacv1.RoleBinding
		var cbs []*rbacv1.ClusterRoleBinding
		seen := map[string]bool{}
		for range d.IntN(40) {
			meta := metav1.ObjectMeta{Name: d.pick("1 2 3 4"), Namespace: d.pick("ns1 ns2")}
			ref := rbacv1.RoleRef{Kind: d.pick("Role ClusterRole"), Name: d.pick("1 2 3 4 5")}
			kind := d.IntN(4)
			if kind%2 == 1 {
				meta.Namespace = ""
			}
			if id := fmt.Sprint(kind, meta.Namespace, meta.Name); seen[id] {
				continue
			} else {
				seen[id] = true
			}
			switch kind {
			case 0:
				r := &rbacv1.Role{ObjectMeta: meta, Rules: d.rules()}
				rs, changes = append(rs, r), append(changes, ourrbac.Change{Role: r})
			case 1:
				r := &rbacv1.ClusterRole{ObjectMeta: meta, Rules: d.rules()}
				crs, changes = append(crs, r), append(changes, ourrbac.Change{ClusterRole: r})
			case 2:
				b := &rbacv1.RoleBinding{ObjectMeta: meta, RoleRef: ref, Subjects: d.subjects()}
				bs, changes = append(bs, b), append(changes, ourrbac.Change{RoleBinding: b})
			case 3:
				ref.Kind = "ClusterRole"
				b := &rbacv1.ClusterRoleBinding{ObjectMeta: meta, RoleRef: ref, Subjects: d.subjects()}
				cbs, changes = append(cbs, b), append(changes, ourrbac.Change{ClusterRoleBinding: b})
			}
		}
		ix := ourrbac.NewIndex()
		ix.Apply(changes...)
		// Upstream takes bindings in any order; in that of their names the first one is the same.
		slices.SortFunc(bs, func(a, b *rbacv1.RoleBinding) int {
			return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name)
		})
		slices.SortFunc(cbs, func(a, b *rbacv1.ClusterRoleBinding) int { return strings.Compare(a.Name, b.Name) })
		resolver, static := rbacregistry.NewTestRuleResolver(rs, bs, crs, cbs)
		up := rbac.New(static, static, static, static)
		for range 200 {
			a, theirs := d.request()
			decision, _, err := up.Authorize(context.Background(), theirs)
			if !same(t, a, ix.Authorize(context.Background(), a), decision, "", err, false) {
				return
			}
			decisions++
		}
		u := d.user()
		want, _ := resolver.RulesFor(context.Background(), &user.DefaultInfo{Name: u.Name, Groups: u.Groups}, "ns1")
		got, _ := ix.PolicyRules(u, "ns1")
		resources, others, incomplete, listErr := up.RulesFor(context.Background(), &user.DefaultInfo{Name: u.Name, Groups: u.Groups}, "ns1")
		listed := ix.RulesFor(context.Background(), u, "ns1")
		if a, b := fmt.Sprintf("%+v %+v %v %v", deref(resources), deref(others), incomplete, listErr != nil), fmt.Sprintf("%+v %+v %v %v", plain(listed.Resource), plain(listed.NonResource), listed.Incomplete, listed.Err != nil); a != b {
			t.Errorf("review of the rules of %v:\n\tupstream %s\n\tkeelson  %s", u, a, b)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("rules of %v:\n\tupstream %v\n\tkeelson  %v", u, want, got)
		}
	}
	t.Logf("%d decisions", decisions)
}

// deref are rules as text, upstream's, and plain ours.
func deref[R any](list []R) (out []string) {
	for _, r := range list {
		out = append(out, fmt.Sprintf("%+v", reflect.ValueOf(r).Elem().Interface()))
	}
	return out
}

func plain[R any](list []R) (out []string) {
	for _, r := range list {
		out = append(out, fmt.Sprintf("%+v", r))
	}
	return out
}

func TestCovers(t *testing.T) {
	d := roll(2)
	for range times(200_000) {
		held, rules := d.rules(), d.rules()
		_, want := rbacvalidation.Covers(held, rules)
		got, err := ourrbac.Uncovered(held, rules)
		if err != nil || len(got) != len(want) || len(got) > 0 && !reflect.DeepEqual(got, want) {
			t.Fatalf("%v by %v:\n\tupstream %v\n\tkeelson  %v (%v)", rules, held, want, got, err)
		}
	}
}

func TestABAC(t *testing.T) {
	d := roll(4)
	path := filepath.Join(t.TempDir(), "policies")
	for range times(1000) {
		var b strings.Builder
		for range d.IntN(5) {
			spec := fmt.Sprintf(`"user":%q,"group":%q,"readonly":%v,"resource":%q,"namespace":%q`, d.pick("_ ann bob *"), d.pick("_ dev *"), d.IntN(2) == 0, d.pick("_ pods widgets *"), d.pick("_ ns1 *"))
			if d.IntN(3) > 0 {
				spec = fmt.Sprintf(`"apiVersion":"abac.authorization.kubernetes.io/v1beta1","kind":"Policy","spec":{%s,"apiGroup":%q,"nonResourcePath":%q}`, spec, d.pick(groups), d.pick(paths+" * _ /healthz*"))
			}
			fmt.Fprintf(&b, "{%s}\n", spec)
		}
		if err := os.WriteFile(path, []byte(b.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		up, err := abac.NewFromFile(path)
		if err != nil {
			t.Fatal(err)
		}
		ours, err := ourabac.Load(path, slog.New(slog.NewTextHandler(io.Discard, nil)))
		if err != nil {
			t.Fatal(err)
		}
		for range 100 {
			a, theirs := d.request()
			decision, reason, err := up.Authorize(context.Background(), theirs)
			if !same(t, b.String(), ours.Authorize(context.Background(), a), decision, reason, err, true) {
				return
			}
		}
	}
}

func TestConditions(t *testing.T) {
	d := roll(5)
	expressions := []string{
		`has(request.resourceAttributes)`, `request.resourceAttributes.namespace == 'ns1'`, `request.user == 'ann'`, `'dev' in request.groups`,
		`request.resourceAttributes.verb in ['get', 'list']`, `!('ops' in request.groups)`, `request.nonResourceAttributes.path.startsWith('/healthz')`,
		`has(request.resourceAttributes.fieldSelector)`, `request.resourceAttributes.labelSelector.requirements.exists(r, r.key == 'a' && r.operator == 'In' && 'b' in r.values)`,
		`request.resourceAttributes.fieldSelector.requirements[0].values == ['n1']`, `request.?resourceAttributes.?name.orValue('x') == 'x'`,
		`request.extra.size() == 0`, `request.uid == ''`, `request.groups.size() > 1 || request.resourceAttributes.group == ''`, `int(request.user) == 1`,
	}
	for range times(4000) {
		var list []string
		var theirs []apiserver.WebhookMatchCondition
		for _, i := range d.Perm(len(expressions))[:1+d.IntN(4)] {
			list = append(list, expressions[i])
			theirs = append(theirs, apiserver.WebhookMatchCondition{Expression: expressions[i]})
		}
		up, errs := validation.ValidateAndCompileMatchConditions(compiler, theirs)
		var counted matches
		up.Metrics = &counted
		ours, ourErrs := match.Compile(list, field.NewPath("x"))
		if len(errs) > 0 || len(ourErrs) > 0 {
			t.Fatal(errs, ourErrs)
		}
		for range 50 {
			a, _ := d.request()
			counted = matches{}
			want, err := up.Eval(context.Background(), &authorizationv1.SubjectAccessReview{Spec: webhook.Spec(a)})
			got := ours.Eval(context.Background(), a)
			if a.Memo != nil {
				a.Memo.Release()
			}
			if got.Match != want || fmt.Sprint(got.Err) != fmt.Sprint(err) || counted != (matches{evaluations: 1, failures: b2i(got.Failed), exclusions: b2i(!got.Match && got.Err == nil)}) {
				t.Fatalf("%q %+v:\n\tupstream %v %v, counted %+v\n\tkeelson  %+v", list, a, want, err, counted, got)
			}
		}
	}
}

// matches are what upstream's metrics count.
type matches struct{ evaluations, failures, exclusions int }

func (m *matches) RecordAuthorizationMatchConditionEvaluation(context.Context, string, string, time.Duration) {
	m.evaluations++
}
func (m *matches) RecordAuthorizationMatchConditionEvaluationFailure(context.Context, string, string) {
	m.failures++
}
func (m *matches) RecordAuthorizationMatchConditionExclusion(context.Context, string, string) {
	m.exclusions++
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

var compiler = authorizationcel.NewDefaultCompiler()

func TestConfigurations(t *testing.T) {
	d := roll(6)
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	valid := 0
	for range times(20_000) {
		text := d.configuration(file)
		_, err := kubeauthorizer.LoadAndValidateData([]byte(text), compiler, nil)
		_, ours := config.Load([]byte(text))
		got := "<nil>"
		if e, ok := ours.(*config.Error); ok {
			got = e.Err.Error()
		}
		if err == nil {
			valid++
		}
		want := fmt.Sprint(err)
		if strings.Contains(text, "InClusterConfig") && strings.Contains(got, "this server is in no cluster") {
			continue // in the ledger
		}
		if i, j := strings.Index(want, " in scheme "), strings.Index(got, " in scheme "); i > 0 && j > 0 {
			want, got = want[:i], got[:j]
		}
		if got != want {
			t.Fatalf("%s\n\tupstream %s\n\tkeelson  %s", text, want, got)
		}
	}
	if valid == 0 {
		t.Error("no configuration was valid")
	}
}

// configuration is a configuration that may have a few mistakes.
func (d dice) configuration(file string) string {
	or := func(good string, bad ...string) string {
		if d.IntN(20) > 0 {
			return good
		}
		return bad[d.IntN(len(bad))]
	}
	var b strings.Builder
	fmt.Fprintf(&b, "apiVersion: %s\nkind: %s\nauthorizers:\n", or("apiserver.config.k8s.io/v1", "apiserver.config.k8s.io/v1beta1", "apiserver.config.k8s.io/v1alpha1", "v1", "apiserver.config.k8s.io/v3"),
		or("AuthorizationConfiguration", "AuthorizationConfiguration", "Foo", "''"))
	for i := range d.IntN(4) {
		kind := d.pick("Webhook Webhook RBAC Node ABAC AlwaysAllow AlwaysDeny")
		name := strings.ToLower(kind)
		if kind == "Webhook" {
			name = fmt.Sprint("w", i)
		}
		fmt.Fprintf(&b, "- type: %s\n  name: %s\n", or(kind, "Foo", "''", "rbac"), or(name, "W_1", "''", "w0", "x"))
		if or("y", "n") == "n" {
			b.WriteString(d.pick("__foo:_1 __name:_x __webhook:_{}"))
			b.WriteString("\n")
		}
		if kind != "Webhook" {
			continue
		}
		fmt.Fprintf(&b, "  webhook:\n    timeout: %s\n    authorizedTTL: %s\n    unauthorizedTTL: %s\n    subjectAccessReviewVersion: %s\n    failurePolicy: %s\n", or("3s", "0s", "31s", "-1s", "3"), or("1m", "0s", "-1s"), or("30s", "-1s"),
			or("v1", "v1beta1", "v2", "''"), or("Deny", "NoOpinion", "Ignore", "''"))
		fmt.Fprintf(&b, "    connectionInfo: {type: %s, kubeConfigFile: %s}\n", or("KubeConfigFile", "KubeConfig", "''", "InClusterConfig"), or(file, "rel", "''", "/no/such", "/tmp"))
		fmt.Fprintf(&b, "    matchConditionSubjectAccessReviewVersion: %s\n    matchConditions:\n", or("v1", "v1beta1", "''"))
		for range d.IntN(3) {
			fmt.Fprintf(&b, "    - expression: %q\n", or("request.user == 'ann'", "", "request.foo", "request.user", "request.user.groups == []", "1 +", "dyn(true)", "true"))
		}
	}
	return b.String()
}

// TestDefaultRoles holds the default roles and bindings against upstream's: the same ones, with the same rules and subjects.
func TestDefaultRoles(t *testing.T) {
	want := map[string]any{}
	for _, list := range [][]rbacv1.ClusterRole{bootstrappolicy.ClusterRoles(), bootstrappolicy.ControllerRoles()} {
		for _, r := range list {
			want["clusterrole "+r.Name] = r
		}
	}
	for _, list := range [][]rbacv1.ClusterRoleBinding{bootstrappolicy.ClusterRoleBindings(), bootstrappolicy.ControllerRoleBindings()} {
		for _, b := range list {
			want["clusterrolebinding "+b.Name] = b
		}
	}
	for namespace, list := range bootstrappolicy.NamespaceRoles() {
		for _, r := range list {
			want["role "+namespace+"/"+r.Name] = r
		}
	}
	for namespace, list := range bootstrappolicy.NamespaceRoleBindings() {
		for _, b := range list {
			want["rolebinding "+namespace+"/"+b.Name] = b
		}
	}
	check := func(name string, o any) {
		t.Helper()
		if !equality.Semantic.DeepEqual(o, want[name]) {
			t.Errorf("%s:\ngot  %+v\nwant %+v", name, o, want[name])
		}
		delete(want, name)
	}
	for _, c := range roles.Changes() {
		switch {
		case c.ClusterRole != nil:
			c.ClusterRole.TypeMeta = metav1.TypeMeta{}
			if c.ClusterRole.AggregationRule != nil {
				c.ClusterRole.Rules = nil // gathered from the others
			}
			check("clusterrole "+c.ClusterRole.Name, *c.ClusterRole)
		case c.ClusterRoleBinding != nil:
			c.ClusterRoleBinding.TypeMeta = metav1.TypeMeta{}
			check("clusterrolebinding "+c.ClusterRoleBinding.Name, *c.ClusterRoleBinding)
		case c.Role != nil:
			c.Role.TypeMeta = metav1.TypeMeta{}
			check("role "+c.Role.Namespace+"/"+c.Role.Name, *c.Role)
		case c.RoleBinding != nil:
			c.RoleBinding.TypeMeta = metav1.TypeMeta{}
			check("rolebinding "+c.RoleBinding.Namespace+"/"+c.RoleBinding.Name, *c.RoleBinding)
		}
	}
	for name := range want {
		t.Errorf("%s: missing", name)
	}
}
