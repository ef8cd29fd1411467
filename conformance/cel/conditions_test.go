package cel_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"testing"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/version"
	admissioncel "k8s.io/apiserver/pkg/admission/plugin/cel"
	authenticationcel "k8s.io/apiserver/pkg/authentication/cel"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	authorizationcel "k8s.io/apiserver/pkg/authorization/cel"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/apiserver/pkg/cel/library"
	"k8s.io/apiserver/pkg/cel/mutation/dynamic"

	kcel "github.com/keelson-io/keelson/cel"
)

// This file compares the languages of conditions: those of authorization
// webhooks and those of admission.

// condition is an expression on both sides.
type condition struct {
	upstream cel.Program
	ours     *kcel.Expression
	compiled outcome // ours must equal upstream's
}

// ourOutcome compiles with our language as a host does.
func ourOutcome(l *kcel.Language, expr string) (*kcel.Expression, outcome) {
	x, err := l.CompileExpression(expr)
	var instantiation *kcel.InstantiationError
	switch {
	case errors.As(err, &instantiation):
		return nil, outcome{compile: "program instantiation failed: " + err.Error()}
	case err != nil:
		return nil, outcome{compile: "compilation failed: " + err.Error()}
	}
	return x, outcome{}
}

func (c condition) compare(t *testing.T, expr string, theirs map[string]any, ours kcel.Vars) {
	t.Helper()
	var want, got outcome
	v, details, err := c.upstream.ContextEval(context.Background(), theirs)
	if details != nil {
		want.cost = *details.ActualCost()
	}
	if err != nil {
		want.err = err.Error()
	} else {
		want.value = show(v)
	}
	w, cost, err := c.ours.Eval(context.Background(), ours, perCallLimit)
	got.cost = cost
	if err != nil {
		got.err = err.Error()
	} else {
		got.value = show(kcel.ToRef(w))
	}
	if want.err == costError {
		got.cost = want.cost // how far beyond the limit does not matter
	}
	if want != got {
		t.Errorf("%s\n\tupstream %v\n\tkeelson  %v", expr, want, got)
	}
}

const costError = "operation cancelled: actual cost limit exceeded"

func vars(t *testing.T, data map[string]any) kcel.Vars {
	t.Helper()
	out := kcel.Vars{}
	for name, v := range data {
		value, err := kcel.FromGo(v)
		if err != nil {
			t.Fatal(err)
		}
		out[name] = value
	}
	return out
}

func TestAuthorizationConditions(t *testing.T) {
	l, err := kcel.NewLanguage(kcel.AuthorizationConditions())
	if err != nil {
		t.Fatal(err)
	}
	up := authorizationcel.NewDefaultCompiler()
	anyone := map[string]any{"user": "ann", "uid": "", "groups": []string(nil), "extra": map[string][]string{}}
	with := func(more map[string]any) map[string]any {
		out := maps.Clone(anyone)
		maps.Copy(out, more)
		return out
	}
	requests := []map[string]any{
		anyone,
		with(map[string]any{"groups": []string{"dev", "ops"}, "extra": map[string][]string{"scopes": {"a", "b"}}, "resourceAttributes": map[string]any{
			"namespace": "default", "verb": "list", "group": "", "version": "v1", "resource": "pods", "subresource": "", "name": "",
			"labelSelector": map[string]any{"requirements": []map[string]any{{"key": "a", "operator": "In", "values": []string{"x", "y"}}}},
		}}),
		with(map[string]any{"nonResourceAttributes": map[string]string{"path": "/healthz", "verb": "get"}}),
	}
	for _, expr := range []string{
		`request.user == 'ann'`, `request.groups.exists(g, g == 'ops')`, `has(request.uid)`, `has(request.extra.scopes)`,
		`request.resourceAttributes.namespace == 'default'`, `has(request.resourceAttributes) && request.resourceAttributes.verb in ['list', 'watch']`,
		`has(request.resourceAttributes.labelSelector)`, `has(request.resourceAttributes.fieldSelector)`,
		`request.resourceAttributes.labelSelector.requirements.all(r, r.operator == 'In' && 'x' in r.values)`,
		`request.resourceAttributes.labelSelector.requirements[0].key == 'a'`, `has(request.resourceAttributes.labelSelector.rawSelector)`,
		`request.?resourceAttributes.?fieldSelector.?rawSelector.orValue('none') == 'none'`,
		`request.nonResourceAttributes.path.startsWith('/health')`, `request.extra['scopes'].size() == 2`,
		`!has(request.resourceAttributes) || request.resourceAttributes.group == ''`,
		`request.foo == 1`, `request.user.groups == []`, `request.user`, `dyn(true)`, `request`, `authorizer.path('/x').check('get').allowed()`,
		`int('x') == 1`, `request.user.matches('(')`, `request.user.find('(') == ''`, `request == request`, `size(dyn(request)) > 3`,
		`request.groups == ['dev', 'ops']`, `dyn(request.extra) == {'scopes': ['a', 'b']}`, `request.user.group('x').resource('y').check('z').allowed()`,
		`dyn(request.user).group('x').resource('y').check('z').allowed()`, `dyn(request.groups).check('get').errored()`,
	} {
		r, err := up.CompileCELExpression(&authorizationcel.SubjectAccessReviewMatchCondition{Expression: expr})
		want := outcome{}
		if err != nil {
			want.compile = err.Error()
		}
		ours, got := ourOutcome(l, expr)
		if ours != nil && ours.Type() != "bool" {
			got.compile = fmt.Sprintf("must evaluate to bool but got %s", ours.Type())
		}
		if normal(want) != normal(got) {
			t.Errorf("%s\n\tupstream %v\n\tkeelson  %v", expr, want, got)
			continue
		}
		for _, request := range requests {
			if want.compile == "" {
				data := map[string]any{"request": request}
				condition{r.Program, ours, want}.compare(t, expr, data, vars(t, data))
			}
		}
	}
}

// policy is who may do what in the tests of checks.
func policy(verb, path, resource, name, who string) (bool, string, error) {
	if verb == "fail" {
		return false, "broken", errors.New("no connection")
	}
	return verb == "get", fmt.Sprint(path, " ", resource, " ", name, " ", who), nil
}

type theirPolicy struct{}

func (theirPolicy) Authorize(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	what := a.GetAPIGroup() + "/" + a.GetResource() + "/" + a.GetSubresource()
	fields, fieldsErr := a.GetFieldSelector()
	labels, labelsErr := a.GetLabelSelector()
	what += fmt.Sprint(len(fields), fieldsErr != nil, len(labels), labelsErr != nil)
	ok, reason, err := policy(a.GetVerb(), a.GetPath(), what, a.GetNamespace()+"/"+a.GetName(), a.GetUser().GetName())
	if ok {
		return authorizer.DecisionAllow, reason, err
	}
	return authorizer.DecisionNoOpinion, reason, err
}

type ourPolicy struct{}

func (ourPolicy) Authorize(c kcel.AccessCheck) (bool, string, error) {
	who := "ann"
	if c.ServiceAccountName != "" {
		who = "system:serviceaccount:" + c.ServiceAccountNamespace + ":" + c.ServiceAccountName
	}
	count := func(selector string) string {
		switch selector {
		case "":
			return "0 false"
		case "=bad=":
			return "0 true"
		}
		return "1 false"
	}
	what := c.Group + "/" + c.Resource + "/" + c.Subresource + count(c.FieldSelector) + " " + count(c.LabelSelector)
	return policy(c.Verb, c.Path, what, c.Namespace+"/"+c.Name, who)
}

type podExec struct{}

func (podExec) GetName() string      { return "web" }
func (podExec) GetNamespace() string { return "default" }
func (podExec) GetSubresource() string {
	return "exec"
}
func (podExec) GetResource() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "", Version: "v1", Resource: "pods"}
}

// returning is an expression of any type.
type returning struct{ expr string }

func (r returning) GetExpression() string    { return r.expr }
func (r returning) ReturnTypes() []*cel.Type { return []*cel.Type{cel.AnyType} }

var admissionExpressions = []string{
	`object.metadata.name == 'web'`, `object.spec.replicas > 1 && oldObject == null`, `oldObject.x`, `params.limit`, `request.operation == 'CREATE'`,
	`request.name`, `request.namespace`, `request.kind.group`, `has(request.options)`, `request.userInfo.groups`, `request.dryRun`, `request.uid`,
	`namespaceObject.metadata.labels['env']`, `namespaceObject.metadata.creationTimestamp < timestamp('2030-01-01T00:00:00Z')`, `namespaceObject.foo`,
	`object.spec == {'replicas': 3, 'ratio': 0.5}`, `object.spec.ratio + 1.0`, `object.spec.?paused.orValue(true)`, `object.spec.replicas + 1.0`,
	`authorizer.path('/healthz').check('get').allowed()`, `authorizer.path(' ').check('get').allowed()`, `authorizer.path('/healthz').check('get').reason()`,
	`authorizer.group('apps').resource('deployments').subresource('status').namespace('ns').name('n').check('get').reason()`,
	`authorizer.group('').resource('').check('get').allowed()`, `authorizer.requestResource.check('get').reason()`,
	`authorizer.requestResource.check('fail').errored()`, `authorizer.requestResource.check('fail').error()`, `authorizer.requestResource.check('get').error()`,
	`authorizer.requestResource.check('list').allowed()`, `authorizer.serviceAccount('ns', 'robot').path('/a').check('get').reason()`,
	`authorizer.serviceAccount('ns', 'no robot').path('/a').check('get').reason()`, `authorizer.serviceAccount('N S', 'robot').path('/a').check('get').reason()`,
	`authorizer.group('').resource('pods').fieldSelector('spec.nodeName=x').labelSelector('a=b').check('get').reason()`,
	`authorizer.group('').resource('pods').fieldSelector('=bad=').labelSelector('=bad=').check('get').reason()`,
	`authorizer == authorizer`, `authorizer != authorizer`, `authorizer.requestResource == authorizer.requestResource`, `type(authorizer)`,
	`authorizer.requestResource.check('get') == authorizer.requestResource.check('get')`,
	`[1, 2, 3].all(x, authorizer.requestResource.check('get').allowed())`, `string(authorizer)`, `authorizer.check('x')`,
	`dyn(authorizer).check('x')`, `dyn(object).group('x')`, `dyn(authorizer).group(1)`, `variables.big`, `variables.big && variables.big`,
	`variables.names.exists(n, n == 'web')`, `variables.bad || true`, `variables.missing`, `has(variables.big)`, `variables.typed.name`, `variables.sum + 'x'`,
	`variables.broken == 1`, `variables.mixed == []`, `variables.exists(v, true)`,
}

// composedExpressions are the variables of a policy, in order.
var composedExpressions = []struct{ name, expr string }{
	{"big", `object.spec.replicas > 2`},
	{"names", `[dyn(object.metadata.name), dyn(request.name)]`},
	{"mixed", `[object.metadata.name, request.name]`},
	{"bad", `int(object.metadata.name) > 0`},
	{"typed", `{'name': object.metadata.name}`},
	{"sum", `variables.big ? 1 : 2`},
	{"broken", `variables.nothing`},
}

func TestAdmissionConditions(t *testing.T) {
	data := map[string]any{
		"object":    map[string]any{"metadata": map[string]any{"name": "web"}, "spec": map[string]any{"replicas": int64(3), "ratio": 0.5}},
		"oldObject": nil,
		"params":    map[string]any{"limit": int64(5)},
		"request": map[string]any{"operation": "CREATE", "name": "web", "namespace": "default", "kind": map[string]any{"group": "apps", "version": "v1", "kind": "Deployment"},
			"userInfo": map[string]any{"username": "ann", "groups": []any{"dev"}}, "dryRun": false},
		"namespaceObject": map[string]any{"metadata": map[string]any{"name": "default", "labels": map[string]any{"env": "prod"}, "creationTimestamp": "2024-05-06T07:08:09Z"}},
	}
	l, err := kcel.NewLanguage(kcel.AdmissionConditions(kcel.AdmissionVariables{Params: true, Authorizer: true, Composed: true}))
	if err != nil {
		t.Fatal(err)
	}
	up, err := admissioncel.NewCompositedCompiler(environment.MustBaseEnvSet(version.MajorMinor(1, 37)))
	if err != nil {
		t.Fatal(err)
	}
	options := admissioncel.OptionalVariableDeclarations{HasParams: true, HasAuthorizer: true}
	ann := &user.DefaultInfo{Name: "ann"}
	theirs, ours := maps.Clone(data), vars(t, data)
	theirs["authorizer"] = library.NewAuthorizerVal(ann, theirPolicy{})
	theirs["authorizer.requestResource"] = library.NewResourceAuthorizerVal(ann, theirPolicy{}, podExec{})
	ours["authorizer"] = kcel.AuthorizerValue(ourPolicy{})
	ours["authorizer.requestResource"] = kcel.ResourceAuthorizerValue(ourPolicy{}, kcel.AccessCheck{Resource: "pods", Subresource: "exec", Namespace: "default", Name: "web"})

	composition, composed := kcel.NewComposition(), map[string]*kcel.Expression{}
	if l, err = l.Compose(composition); err != nil {
		t.Fatal(err)
	}
	var names []string
	var programs []admissioncel.CompilationResult
	for _, v := range composedExpressions {
		r := up.CompileAndStoreVariable(named{returning{v.expr}, v.name}, options, environment.StoredExpressions)
		x, got := ourOutcome(l, v.expr)
		if (r.Error != nil) != (got.compile != "") || r.Error != nil && r.Error.Detail != got.compile {
			t.Errorf("variable %s: upstream %v, keelson %v", v.name, r.Error, got)
		}
		composition.Add(v.name, x)
		composed[v.name], names, programs = x, append(names, v.name), append(programs, r)
	}
	for _, expr := range admissionExpressions {
		r := up.CompileCELExpression(returning{expr}, options, environment.StoredExpressions)
		want := outcome{}
		if r.Error != nil {
			want.compile = r.Error.Detail
		}
		x, got := ourOutcome(l, expr)
		if normal(want) != normal(got) {
			t.Errorf("%s\n\tupstream %v\n\tkeelson  %v", expr, want, got)
			continue
		}
		if x == nil {
			continue
		}
		theirs["variables"] = theirVariables(names, programs, theirs)
		ours["variables"] = kcel.LazyObject(names, func(name string) (kcel.Value, error) {
			if composed[name] == nil {
				return kcel.Value{}, fmt.Errorf("composited variable %q fails to compile", name)
			}
			v, _, err := composed[name].Eval(context.Background(), ours, perCallLimit)
			if err != nil {
				return v, fmt.Errorf("composited variable %q fails to evaluate: %w", name, err)
			}
			return v, nil
		})
		condition{r.Program, x, want}.compare(t, expr, theirs, ours)
	}
}

type named struct {
	returning
	name string
}

func (n named) GetName() string { return n.name }

// theirVariables computes all variables at once: what reads them cannot tell.
func theirVariables(names []string, programs []admissioncel.CompilationResult, data map[string]any) map[string]any {
	out := map[string]any{}
	in := maps.Clone(data)
	in["variables"] = out
	for i, name := range names {
		if programs[i].Program == nil {
			out[name] = types.NewErr("composited variable %q fails to compile", name)
			continue
		}
		v, _, err := programs[i].Program.Eval(in)
		if err != nil {
			var failed ref.Val = types.NewErr("composited variable %q fails to evaluate: %v", name, err)
			v = failed
		}
		out[name] = v
	}
	return out
}

// patchExpressions make objects and operations.
var patchExpressions = []string{
	`Object{}`, `Object{spec: Object.spec{replicas: 3, names: ['a'], labels: {'k': 'v'}}}`, `Object{spec: Object.spec{a: Object.spec.a{b: 1.5}}}`,
	`Object{spec: Object.other{a: 1}}`, `Object{items: [Object.items{a: 1}, Object.x{}]}`, `Object{spec: 1 / 0}`, `Object{?spec: optional.none()}`,
	`Object{?spec: optional.of(2)}`, `Object{?spec: dyn(2)}`, `Object{a: 1} == Object{a: 1}`, `Object{a: 1} == Object{a: 2}`, `Object{a: 1} != Object{}`,
	`Object{a: 1}.a`, `Object{a: 1}.b`, `Object{a: 1}.?b`, `Object{a: 1}['a']`, `has(Object{a: 1}.b)`, `JSONPatch{op: 'a'}.value`, `has(JSONPatch{value: null}.value)`, `has(Object{a: 1}.a)`, `type(Object.spec{})`, `optional.ofNonZeroValue(Object{})`, `optional.ofNonZeroValue(Object{a: 1}).hasValue()`,
	`[JSONPatch{op: 'add', path: '/a', value: 1}, JSONPatch{op: 'copy', path: '/a/' + jsonpatch.escapeKey('x/y~z'), from: '/b'}]`,
	`JSONPatch{op: 'add'}.op`, `JSONPatch{op: 'add'}.path`, `has(JSONPatch{op: 'add'}.path)`, `has(JSONPatch{op: 'add'}.op)`, `JSONPatch{op: dyn(1)}`, `JSONPatch{op: 1}`,
	`JSONPatch{op: 'add', value: Object{a: [1]}}`, `JSONPatch{op: 'a'} == JSONPatch{op: 'a'}`, `jsonpatch.escapeKey('a/b~c') == 'a~1b~0c'`,
	`type(JSONPatch{})`, `dyn(Object{}).all(x, true)`, `Other{a: 1}`, `Objects{a: 1}`, `jsonpatch.escapeKey(1)`,
}

func TestPatches(t *testing.T) {
	l, err := kcel.NewLanguage(kcel.AdmissionConditions(kcel.AdmissionVariables{Patches: true}))
	if err != nil {
		t.Fatal(err)
	}
	up := admissioncel.NewCompiler(environment.MustBaseEnvSet(version.MajorMinor(1, 37)))
	for _, expr := range patchExpressions {
		r := up.CompileCELExpression(returning{expr}, admissioncel.OptionalVariableDeclarations{HasPatchTypes: true}, environment.StoredExpressions)
		want := outcome{}
		if r.Error != nil {
			want.compile = r.Error.Detail
		}
		x, got := ourOutcome(l, expr)
		if normal(want) != normal(got) {
			t.Errorf("%s\n\tupstream %v\n\tkeelson  %v", expr, want, got)
			continue
		}
		if x == nil {
			continue
		}
		condition{r.Program, x, want}.compare(t, expr, map[string]any{}, kcel.Vars{})
		theirs, _, _ := r.Program.Eval(map[string]any{})
		ours, _, err := x.Eval(context.Background(), nil, 0)
		object, ok := theirs.(*dynamic.ObjectVal)
		if !ok || err != nil {
			continue
		}
		native, nativeErr := object.ConvertToNative(reflect.TypeFor[map[string]any]())
		if nativeErr != nil || fmt.Sprint(native) != fmt.Sprint(ours.Go()) {
			t.Errorf("%s: as Go data: upstream %v %v, keelson %v", expr, native, nativeErr, ours.Go())
		}
		if a, b := fmt.Sprint(object.CheckTypeNamesMatchFieldPathNames()), fmt.Sprint(kcel.CheckObject(ours)); a != b {
			t.Errorf("%s: places: upstream %s, keelson %s", expr, a, b)
		}
	}
}

// TestAuthenticationLanguages compares what is checked; the data is the host's.
func TestAuthenticationLanguages(t *testing.T) {
	claims, err := kcel.NewLanguage(kcel.AuthenticationClaims())
	if err != nil {
		t.Fatal(err)
	}
	user, err := kcel.NewLanguage(kcel.AuthenticationUser())
	if err != nil {
		t.Fatal(err)
	}
	up := authenticationcel.NewDefaultCompiler()
	data := map[string]any{"sub": "ann", "email": "a@b", "nested": map[string]any{"a.b": []any{map[string]any{"x/y": 1.5}}}, "n": nil}
	bound := kcel.Vars{"claims": kcel.LazyObject([]string{"sub", "email", "nested", "n"}, func(name string) (kcel.Value, error) {
		v, err := kcel.FromGo(data[name])
		return kcel.UnescapedNames(v), err
	})}
	for expr, want := range map[string]string{
		`claims.sub`: "ann", `claims.nested.a__dot__b[0].x__slash__y`: "1.5", `claims['nested']['a.b'][0]['x/y']`: "1.5",
		`has(claims.email)`: "true", `claims.?missing.orValue('none')`: "none", `claims.missing`: "no such key: missing", `claims.n == null`: "true",
		`claims.sub + claims.email`: "anna@b", `claims.sub == 1`: "false", `claims.foo.bar`: "no such key: foo", `user.uid`: "", `claims + 1`: "",
	} {
		_, upErr := up.CompileClaimsExpression(anyExpression{expr})
		x, got := ourOutcome(claims, expr)
		if (upErr == nil) != (x != nil) || upErr != nil && upErr.Error() != got.compile {
			t.Errorf("%s: upstream %v, keelson %v", expr, upErr, got)
		}
		if x == nil {
			continue
		}
		v, _, err := x.Eval(context.Background(), bound, 0)
		text := fmt.Sprint(v.Go())
		if err != nil {
			text = err.Error()
		}
		if text != want {
			t.Errorf("%s: got %s, want %s", expr, text, want)
		}
	}
	for _, expr := range []string{`user.username == 'a'`, `user.extra['k'][0]`, `user.name`, `user.groups.exists(g, g == 'x')`, `claims.x`} {
		_, upErr := up.CompileUserExpression(anyExpression{expr})
		if x, got := ourOutcome(user, expr); (upErr == nil) != (x != nil) || upErr != nil && upErr.Error() != got.compile {
			t.Errorf("%s: upstream %v, keelson %v", expr, upErr, got)
		}
	}
	for expr, want := range map[string]bool{
		`claims.email`: true, `has(claims.email)`: true, `claims.?email.orValue('x')`: true, `claims.email_verified`: false, `claims['email']`: false,
		`[1].exists(x, claims.email == 'a')`: true, `claims.nested.email == 'x'`: false, `{'a': claims.email}`: true,
	} {
		if x, _ := ourOutcome(claims, expr); x == nil || x.Selects("claims", "email") != want {
			t.Errorf("%s: want that it selects claims.email: %t", expr, want)
		}
	}
}

// TestAuthenticationLimit: expressions over claims end at the limit of one call.
func TestAuthenticationLimit(t *testing.T) {
	const expr = `lists.range(600).all(x, lists.range(600).all(y, x + y >= 0 && claims.sub == 'ann'))`
	r, err := authenticationcel.NewDefaultCompiler().CompileClaimsExpression(anyExpression{expr})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := r.Program.Eval(map[string]any{"claims": map[string]any{"sub": "ann"}}); err == nil || err.Error() != costError {
		t.Errorf("upstream: got %v, want %s", err, costError)
	}
}

type anyExpression struct{ expr string }

func (e anyExpression) GetExpression() string    { return e.expr }
func (e anyExpression) ReturnTypes() []*cel.Type { return []*cel.Type{cel.AnyType} }
