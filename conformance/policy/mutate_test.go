package policy

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured/unstructuredscheme"
	"k8s.io/apimachinery/pkg/runtime"
	kschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	admissioncel "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/policy/mutating"
	"k8s.io/apiserver/pkg/admission/plugin/policy/mutating/patch"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"sigs.k8s.io/yaml"

	"github.com/keelson-io/keelson/crd"
	"github.com/keelson-io/keelson/internal/apply"
	"github.com/keelson-io/keelson/internal/openapi"
	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/kind"
)

// This file compares mutating policies.

const mutatedCRD = `
metadata: {name: widgets.demo.io}
spec:
  group: demo.io
  scope: Namespaced
  names: {plural: widgets, singular: widget, kind: Widget, listKind: WidgetList}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema: &schema {openAPIV3Schema: {type: object, properties: {
      spec: {type: object, x-kubernetes-preserve-unknown-fields: true, properties: {
        replicas: {type: integer}, flag: {x-kubernetes-preserve-unknown-fields: true}, image: {type: string}, memory: {type: string}, when: {type: string},
        items: {type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [name], items: {type: object, required: [name], properties: {name: {type: string}, size: {type: integer}}}},
        tags: {type: array, x-kubernetes-list-type: set, items: {type: string}}, words: {type: array, items: {type: string}},
        options: {type: object, additionalProperties: {type: string}}, fixed: {type: object, x-kubernetes-map-type: atomic, properties: {a: {type: string}}}}}}}}
  - {name: v1beta1, served: true, storage: false, subresources: {status: {}}, schema: *schema}
status: {conditions: [{type: Established, status: "True"}], acceptedNames: {plural: widgets, singular: widget, kind: Widget, listKind: WidgetList}}
`

func mutatedDefinition(t *testing.T) *apiextv1.CustomResourceDefinition {
	definition := &apiextv1.CustomResourceDefinition{}
	if err := yaml.Unmarshal([]byte(mutatedCRD), definition); err != nil {
		t.Fatal(err)
	}
	crd.Default(definition)
	return definition
}

// Overlay implements admission.Host.
func (o *ours) Overlay(v *kind.Version, live *jsondoc.Doc, config []byte) ([]byte, error) {
	c := apply.Config{Group: v.Kind.Group, Kind: v.Kind.Name, Version: v.Name}
	for _, each := range v.Kind.All {
		c.Versions = append(c.Versions, apply.Version{Name: each.Name, Schema: each.Structural(), Status: each.Status})
	}
	m, err := apply.New(c)
	if err != nil {
		return nil, err
	}
	return m.Overlay(live, config)
}

// converters are upstream's type converters of what we publish.
type converters map[string]managedfields.TypeConverter

func newConverters(t *testing.T, o *ours) converters {
	out := converters{}
	for name, v := range o.v {
		_, all, err := openapi.Schemas(v)
		if err != nil {
			t.Fatal(err)
		}
		schemas := map[string]*spec.Schema{}
		for name, text := range all {
			schemas[name] = new(spec.Schema)
			if err := json.Unmarshal(text, schemas[name]); err != nil {
				t.Fatal(err)
			}
		}
		if out[name], err = managedfields.NewTypeConverter(schemas, false); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

func (c converters) GetTypeConverter(gvk kschema.GroupVersionKind) managedfields.TypeConverter {
	return c[gvk.Version]
}
func (c converters) Run(context.Context) {}

// useMutating puts mutating policies in force.
func (u *upstream) useMutating(t *testing.T, types converters, policies []*admissionv1.MutatingAdmissionPolicy, bindings []*admissionv1.MutatingAdmissionPolicyBinding) {
	u.mutating, u.mutations = mutating.NewDispatcher(mayRead{}, u.matcher, types), nil
	for _, p := range policies {
		h := mutating.PolicyHook{Policy: p, Evaluator: u.compileMutating(t, p)}
		if p.Spec.ParamKind != nil {
			h.ParamInformer, h.ParamScope = u.params, meta.RESTScopeNamespace
		}
		for _, b := range bindings {
			if b.Spec.PolicyName == p.Name {
				h.Bindings = append(h.Bindings, b)
			}
		}
		u.mutations = append(u.mutations, h)
	}
}

func (u *upstream) compileMutating(t *testing.T, p *admissionv1.MutatingAdmissionPolicy) mutating.PolicyEvaluator {
	c, err := admissioncel.NewCompositedCompiler(environments())
	if err != nil {
		t.Fatal(err)
	}
	options := admissioncel.OptionalVariableDeclarations{HasParams: p.Spec.ParamKind != nil, HasAuthorizer: true}
	const stored = environment.StoredExpressions
	var variables []admissioncel.NamedExpressionAccessor
	for _, v := range p.Spec.Variables {
		variables = append(variables, &validating.Variable{Name: v.Name, Expression: v.Expression})
	}
	c.CompileAndStoreVariables(variables, options, stored)
	out := mutating.PolicyEvaluator{CompositedCompiler: c}
	if len(p.Spec.MatchConditions) > 0 {
		var list []admissioncel.ExpressionAccessor
		for _, m := range p.Spec.MatchConditions {
			list = append(list, (*matchconditions.MatchCondition)(&m))
		}
		out.Matcher = matchconditions.NewMatcher(metered{c.CompileCondition(list, options, stored), u.meter, p.Name, onConditions},
			p.Spec.FailurePolicy, "policy", "validate", p.Name)
	}
	options.HasPatchTypes = true
	for _, m := range p.Spec.Mutations {
		if m.JSONPatch != nil {
			x := c.CompileMutatingEvaluator(&patch.JSONPatchCondition{Expression: m.JSONPatch.Expression}, options, stored)
			out.Mutators = append(out.Mutators, patch.NewJSONPatcher(meteredMutation{x, u.meter, p.Name}))
		} else {
			x := c.CompileMutatingEvaluator(&patch.ApplyConfigurationCondition{Expression: m.ApplyConfiguration.Expression}, options, stored)
			out.Mutators = append(out.Mutators, patch.NewApplyConfigurationPatcher(meteredMutation{x, u.meter, p.Name}))
		}
	}
	return out
}

// change lets upstream change the object of a request.
func (u *upstream) change(r *request) (map[string]any, error) {
	*u.meter = *newMeter()
	a := r.attributes()
	err := u.mutating.Dispatch(context.Background(), a, interfaces{}, u.mutations)
	if object, ok := a.GetObject().(*unstructured.Unstructured); ok && object != nil {
		return object.Object, err
	}
	return nil, err
}

// GetObjectDefaulter, GetObjectTyper: the kind has no defaults.
func (interfaces) GetObjectDefaulter() runtime.ObjectDefaulter { return nothing{} }
func (interfaces) GetObjectTyper() runtime.ObjectTyper {
	return unstructuredscheme.NewUnstructuredObjectTyper()
}

type nothing struct{}

func (nothing) Default(runtime.Object) {}

// change lets us change the object of a request.
func (o *ours) change(t *testing.T, q *request) (map[string]any, error) {
	r := o.request(t, q)
	o.bill = bill{}
	err := o.mutating.Mutate(context.Background(), r)
	if r.New == nil {
		return nil, err
	}
	return asGo(t, r.New), err
}

// pruned is an object without what its schema does not know.
func (o *ours) pruned(t *testing.T, q *request, object map[string]any) map[string]any {
	r := o.request(t, q)
	if r.New == nil || object == nil {
		return object
	}
	if _, err := r.Version.Decode(r.New, []byte(one(t, object))); err != nil {
		t.Fatal(err)
	}
	return asGo(t, r.New)
}

// asGo is a document in upstream's form.
func asGo(t *testing.T, d *jsondoc.Doc) map[string]any {
	var out map[string]any
	if err := json.Unmarshal(d.AppendJSON(nil, d.Root().Node), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// patches and configurations are expressions of mutations, or meant to be.
var patches = []string{
	`[JSONPatch{op: 'add', path: '/spec/replicas', value: %d}]`, `[JSONPatch{op: 'replace', path: '/spec/replicas', value: object.spec.replicas + 1}]`,
	`[JSONPatch{op: 'remove', path: '/spec/image'}]`, `[JSONPatch{op: 'test', path: '/spec/replicas', value: %d}, JSONPatch{op: 'remove', path: '/spec/replicas'}]`,
	`[JSONPatch{op: 'add', path: '/metadata/labels', value: {'a': 'b', 'n': string(%d)}}]`, `[JSONPatch{op: 'add', path: '/metadata/labels/' + jsonpatch.escapeKey('x.io/y'), value: request.operation}]`,
	`has(object.spec.image) ? [JSONPatch{op: 'copy', from: '/spec/image', path: '/spec/memory'}] : []`, `has(object.spec.image) ? [JSONPatch{op: 'move', from: '/spec/image', path: '/spec/when'}] : []`,
	`[JSONPatch{op: 'add', path: '/spec/items/-', value: Object.spec.items{name: 'new', size: %d}}]`, `[JSONPatch{op: 'add', path: '/spec/items/0', value: {'name': 'z'}}]`,
	`[JSONPatch{op: 'add', path: '/spec/tags', value: ['x', 'y', string(%d)]}]`, `object.spec.items.map(i, JSONPatch{op: 'add', path: '/spec/options', value: {i.name: 'v'}})`,
	`[]`, `has(object.spec.image) ? [JSONPatch{op: 'replace', path: '/spec/image', value: object.spec.image + 'x'}] : []`, `[JSONPatch{op: 'bogus', path: '/spec'}]`, `[JSONPatch{op: 'add', path: 'spec'}]`, `[JSONPatch{op: 'add', path: '/no/where', value: 1}]`,
	`[JSONPatch{op: 'add', path: '/spec/words', value: variables.b}]`, `[JSONPatch{op: 'add', path: '/spec/replicas', value: variables.a}]`, `[JSONPatch{op: 'add', path: '/spec/image', value: params.data.limit}]`, `[JSONPatch{op: 'add', path: '/spec/image', value: namespaceObject.metadata.name}]`,
	`[JSONPatch{op: string(object.spec.none), path: '/spec'}]`, `1`, `[JSONPatch{op: 'add', path: '/spec', value: Object.spec{replicas: Object.wrong{}}}]`, `[JSONPatch{op: 'test', path: '/spec/color', value: 'red'}]`, `[JSONPatch{op: 'add', path: '/spec/ratio', value: 1.5}, JSONPatch{op: 'add', path: '/spec/on', value: true}]`,
}

var configurations = []string{
	`Object{spec: Object.spec{replicas: %d}}`, `Object{metadata: Object.metadata{labels: {'a': string(%d)}}}`, `Object{metadata: Object.metadata{annotations: object.metadata.?labels.orValue({'x': 'y'})}}`,
	`Object{spec: Object.spec{items: [Object.spec.items{name: 'x', size: %d}]}}`, `Object{spec: Object.spec{items: [Object.spec.items{size: 1}]}}`, `Object{spec: Object.spec{tags: ['a', string(%d)]}}`, `Object{spec: Object.spec{words: ['a']}}`, `Object{spec: Object.spec{fixed: Object.spec.fixed{a: 'x'}}}`,
	`Object{spec: Object.spec{options: {'k': variables.a == 1 ? 'one' : 'other'}}}`, `Object{spec: Object.spec{replicas: 'x'}}`, `Object{bogus: 1}`, `Object{spec: Object.metadata{}}`, `Object{}`, `Object{spec: Object.spec{?replicas: object.spec.?replicas}}`, `object`,
	`has(object.spec.color) ? Object{spec: Object.spec{image: string(object.spec.color)}} : Object{}`, `Object{spec: Object.spec{image: params.data.limit}}`, `Object{spec: Object.spec{replicas: object.spec.items.size()}}`, `Object{status: Object.status{a: 1}}`, `Object{spec: Object.spec{when: request.userInfo.username}}`, `Object{kind: 'Other'}`,
	`Object{spec: Object.spec{items: object.spec.items.map(i, Object.spec.items{name: i.name, size: i.size + 1})}}`, `Object{spec: Object.spec{more: {'any': 1}}}`, `Object{metadata: Object.metadata{name: 'other'}}`,
}

func (r random) mutatingPolicy(name string) *admissionv1.MutatingAdmissionPolicy {
	v := r.policy(name)
	p := &admissionv1.MutatingAdmissionPolicy{}
	p.APIVersion, p.Kind, p.Name = v.APIVersion, "MutatingAdmissionPolicy", name
	p.Spec = admissionv1.MutatingAdmissionPolicySpec{ParamKind: v.Spec.ParamKind, MatchConstraints: v.Spec.MatchConstraints, FailurePolicy: v.Spec.FailurePolicy,
		MatchConditions: v.Spec.MatchConditions, Variables: v.Spec.Variables, ReinvocationPolicy: pick(r, admissionv1.NeverReinvocationPolicy, admissionv1.IfNeededReinvocationPolicy)}
	if r.IntN(3) == 0 {
		p.Spec.MatchConditions = nil
	}
	for range 1 + r.IntN(3) {
		if r.IntN(2) == 0 {
			p.Spec.Mutations = append(p.Spec.Mutations, admissionv1.Mutation{PatchType: admissionv1.PatchTypeJSONPatch,
				JSONPatch: &admissionv1.JSONPatch{Expression: r.fill(pick(r, patches...))}})
		} else {
			p.Spec.Mutations = append(p.Spec.Mutations, admissionv1.Mutation{PatchType: admissionv1.PatchTypeApplyConfiguration,
				ApplyConfiguration: &admissionv1.ApplyConfiguration{Expression: r.fill(pick(r, configurations...))}})
		}
	}
	return p
}

// oneVersion makes sure that all policies of a request see the object in the same
// version, its own or v1. Upstream loses the mutations of policies in several versions
// but for the last of them.
func oneVersion(p *admissionv1.MutatingAdmissionPolicy, own bool) *admissionv1.MutatingAdmissionPolicy {
	policy := admissionv1.Exact
	if !own {
		policy = admissionv1.Equivalent
		for i := range p.Spec.MatchConstraints.ResourceRules {
			p.Spec.MatchConstraints.ResourceRules[i].APIVersions = []string{"v1"}
		}
	}
	p.Spec.MatchConstraints.MatchPolicy = &policy
	return p
}

func (r random) mutatingBinding(name, policy string) *admissionv1.MutatingAdmissionPolicyBinding {
	v := r.binding(name, policy)
	b := &admissionv1.MutatingAdmissionPolicyBinding{}
	b.APIVersion, b.Kind, b.Name = v.APIVersion, "MutatingAdmissionPolicyBinding", name
	b.Spec = admissionv1.MutatingAdmissionPolicyBindingSpec{PolicyName: policy, ParamRef: v.Spec.ParamRef, MatchResources: v.Spec.MatchResources}
	return b
}

// one is a request's object in one text.
func one(t *testing.T, object map[string]any) string {
	b, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// mutatingInRound is small: what one policy changes the next one sees, so that
// one difference makes others.
const mutatingInRound = 6

func TestMutatingPoliciesEqualUpstream(t *testing.T) {
	up := newUpstream(t, surroundings())
	changed, decided := 0, 0
	for round := range *rounds * 6 {
		r := random{rand.New(rand.NewPCG(*seed, 1<<32|uint64(round)))}
		var policies []*admissionv1.MutatingAdmissionPolicy
		var bindings []*admissionv1.MutatingAdmissionPolicyBinding
		for i := range mutatingInRound {
			name := fmt.Sprintf("p%02d", i)
			policies = append(policies, oneVersion(r.mutatingPolicy(name), round%2 == 0))
			bindings = append(bindings, r.mutatingBinding("b"+name, name))
		}
		objects := stored(t, surroundings(), nil, nil)
		for _, p := range policies {
			objects["mutatingadmissionpolicies/"+p.Name] = []byte(one(t, asMap(t, p)))
		}
		for _, b := range bindings {
			objects["mutatingadmissionpolicybindings/"+b.Name] = []byte(one(t, asMap(t, b)))
		}
		our := newOurs(t, mutatedDefinition(t), objects)
		up.useMutating(t, newConverters(t, our), policies, bindings)
		for range *requests {
			q := r.request()
			if s, ok := q.object["spec"].(map[string]any); ok {
				delete(s, "color") // which may be of any type
			}
			want, wantErr := up.change(q)
			got, gotErr := our.change(t, q)
			decided += mutatingInRound
			if one(t, want) != one(t, got) {
				want = our.pruned(t, q, want) // upstream does that when the object is read
			}
			if one(t, want) != one(t, got) || mutatedWords(wantErr) != mutatedWords(gotErr) {
				t.Fatalf("round %d: %s\nupstream %s\n%s\nkeelson  %s\n%s\n%s\n%s", round, q, mutatedWords(wantErr), one(t, want), mutatedWords(gotErr), one(t, got), show(policies), show(bindings))
			}
			if a, b := up.meter.without(up.meter.beyond), our.bill.without(up.meter.beyond); a != b {
				t.Fatalf("round %d: %s\nupstream's costs\n%s\nours\n%s\n%s", round, q, a, b, show(policies))
			}
			if q.object != nil && one(t, q.object) != one(t, got) {
				changed++
			}
		}
	}
	if changed == 0 {
		t.Error("nothing was changed: the comparison says nothing")
	}
	t.Logf("policy: %d decisions of mutating policies about requests, %d requests changed", decided, changed)
}

func asMap(t *testing.T, v any) map[string]any {
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var out map[string]any
	if err := json.Unmarshal(b, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func show(v any) string {
	b, _ := json.Marshal(v)
	return string(b)
}

// mutatedWords is an error of mutations.
func mutatedWords(err error) string { return strings.TrimSpace(words(err)) }

// TestMutationsInSeveralVersions: each policy sees the object in the version that
// its rules name, and what all of them change stays.
// Ledger: policies-of-versions.
func TestMutationsInSeveralVersions(t *testing.T) {
	objects := stored(t, surroundings(), nil, nil)
	for i, version := range versions {
		name := fmt.Sprintf("p%d", i)
		p := random{rand.New(rand.NewPCG(1, 1))}.mutatingPolicy(name)
		p.Spec = admissionv1.MutatingAdmissionPolicySpec{MatchConstraints: spending("", 0, 0, nil).Spec.MatchConstraints, ReinvocationPolicy: admissionv1.NeverReinvocationPolicy,
			Mutations: []admissionv1.Mutation{{PatchType: admissionv1.PatchTypeJSONPatch, JSONPatch: &admissionv1.JSONPatch{
				Expression: fmt.Sprintf("[JSONPatch{op: 'add', path: '/spec/%s', value: object.apiVersion}]", []string{"image", "memory"}[i])}}}}
		equivalent := admissionv1.Equivalent
		p.Spec.MatchConstraints.MatchPolicy, p.Spec.MatchConstraints.ResourceRules[0].APIVersions = &equivalent, []string{version}
		b := &admissionv1.MutatingAdmissionPolicyBinding{}
		b.APIVersion, b.Kind, b.Name, b.Spec.PolicyName = p.APIVersion, "MutatingAdmissionPolicyBinding", name, name
		objects["mutatingadmissionpolicies/"+name], objects["mutatingadmissionpolicybindings/"+name] = []byte(one(t, asMap(t, p))), []byte(one(t, asMap(t, b)))
	}
	our := newOurs(t, mutatedDefinition(t), objects)
	got, err := our.change(t, &request{operation: "CREATE", version: "v1", namespace: "default", name: "a", user: "ann", object: map[string]any{
		"apiVersion": "demo.io/v1", "kind": "Widget", "metadata": map[string]any{"name": "a", "namespace": "default"}, "spec": map[string]any{}}})
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"apiVersion":"demo.io/v1","kind":"Widget","metadata":{"name":"a","namespace":"default"},"spec":{"image":"demo.io/v1","memory":"demo.io/v1beta1"}}`
	if text := one(t, got); text != want {
		t.Errorf("got %s\nwant %s", text, want)
	}
}
