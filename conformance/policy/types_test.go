package policy

import (
	"encoding/json"
	"math/rand/v2"
	"regexp"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	kschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/cel/openapi/resolver"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/keelson-io/keelson/internal/admission/typecheck"
	"github.com/keelson-io/keelson/internal/openapi"
	"github.com/keelson-io/keelson/internal/testkinds"
	"github.com/keelson-io/keelson/kind"
)

// This file compares the checks of policies' types.

const typedCRD = `
metadata: {name: widgets.demo.io}
spec:
  group: demo.io
  scope: Namespaced
  names: {plural: widgets, singular: widget, kind: Widget, listKind: WidgetList}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, properties: {
      spec: {type: object, required: [size], properties: {
        size: {type: integer}, ratio: {type: number}, color: {type: string, maxLength: 10}, on: {type: boolean},
        raw: {type: string, format: byte}, when: {type: string, format: date-time}, day: {type: string, format: date}, wait: {type: string, format: duration},
        port: {x-kubernetes-int-or-string: true}, any: {x-kubernetes-preserve-unknown-fields: true},
        open: {type: object, x-kubernetes-preserve-unknown-fields: true, properties: {a: {type: string}}},
        labels: {type: object, additionalProperties: {type: string}}, parts: {type: object, additionalProperties: {type: object, properties: {n: {type: integer}}}},
        items: {type: array, items: {type: object, properties: {name: {type: string}, deep: {type: object, properties: {x: {type: integer}}}}}},
        names: {type: array, items: {type: string}}, opaque: {type: array, items: {x-kubernetes-preserve-unknown-fields: true}},
        namespace: {type: string}, a-b: {type: integer}, template: {type: object, x-kubernetes-embedded-resource: true, properties: {spec: {type: object, properties: {y: {type: string}}}}}}},
      status: {type: object, properties: {ready: {type: boolean}}}}}}
  - {name: v2, served: true, storage: false, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {size: {type: string}}}}}}}
status: {conditions: [{type: Established, status: "True"}], acceptedNames: {plural: widgets, singular: widget, kind: Widget, listKind: WidgetList}}
`

// published resolves schemas out of what we publish.
type published struct{ kinds *kind.Snapshot }

func (p published) ResolveSchema(gvk kschema.GroupVersionKind) (*spec.Schema, error) {
	for k := range p.kinds.InGroup(gvk.Group) {
		v := k.Version(gvk.Version)
		if k.Name != gvk.Kind || v == nil {
			continue
		}
		name, all, err := openapi.Schemas(v)
		if err != nil {
			return nil, err
		}
		return resolver.PopulateRefs(func(ref string) (*spec.Schema, bool) {
			text, ok := all[openapi.RefName(ref)]
			s := new(spec.Schema)
			return s, ok && json.Unmarshal(text, s) == nil
		}, name)
	}
	return nil, resolver.ErrSchemaNotFound
}

// mapper knows the same resources as we do.
func mapper(kinds *kind.Snapshot) meta.RESTMapper {
	m := meta.NewDefaultRESTMapper(nil)
	for k := range kinds.All() {
		for _, v := range k.All {
			singular := v.GVR()
			singular.Resource = k.Singular
			m.AddSpecific(v.GVK(), v.GVR(), singular, meta.RESTScopeNamespace)
		}
	}
	return m
}

// typedExpressions fit some kinds and others not.
var typedExpressions = []string{
	`object.spec.size > 1`, `object.spec.size == 'a'`, `object.spec.sise > 1`, `object.spec.color.startsWith('a')`, `object.spec.color > 1`,
	`object.spec.raw == b'x'`, `object.spec.when > timestamp('2024-01-01T00:00:00Z')`, `object.spec.when == 'x'`, `object.spec.day.getFullYear() > 1`, `object.spec.wait > duration('1s')`, `object.spec.wait == 1`,
	`object.spec.port == 1 || object.spec.port == 'a'`, `object.spec.any.x`, `object.spec.open.a == 'x'`, `object.spec.open.b`, `object.spec.open == 1`,
	`object.spec.labels['a'] == 1`, `object.spec.labels.all(k, k == 1)`, `object.spec.parts['a'].n == 1`, `object.spec.parts['a'].m`, `object.spec.parts == 1`,
	`object.spec.items[0].name == 1`, `object.spec.items.all(i, i.deep.x == 'a')`, `object.spec.items[0].deep == 1`, `object.spec.items == 1`, `object.spec.names[0] + 1`, `object.spec.opaque[0]`,
	`object.spec.namespace == 1`, `object.spec.__namespace__ == 'a'`, `object.spec.a__dash__b == 'a'`, `object.spec.template.metadata.name == 1`, `object.spec.template.spec.y == 1`, `object.spec.template.metadata.labels`,
	`object.metadata.labels['a'] == 'b'`, `object.metadata.labels == 1`, `object.metadata.nam`, `object.metadata.name == 1`, `object.metadata.creationTimestamp > timestamp('2024-01-01T00:00:00Z')`, `object.metadata.ownerReferences[0].uid == 1`, `object.kind == 1`, `object.apiVersion + 1`, `object == 1`,
	`oldObject.spec.size == object.spec.size`, `oldObject == null`, `has(object.spec.nothing)`, `object.?spec.?size.orValue(1) == 1`, `object.?spec.?nothing.orValue(1) == 1`,
	`request.operation == 1`, `request.userInfo.nothing`, `namespaceObject.metadata.labels.a == 1`, `authorizer.path('a').check('b').allowed()`, `authorizer.requestResource.check('get').allowed()`,
	`params.data.a == 1`, `params.data == 'x'`, `params.dta`, `params.spec.size == 'a'`, `params == 1`, `variables.a == 'x'`, `variables.b + 1`, `variables.nothing`, `variables.a.x`,
	`object.data['a'] == 1`, `object.spec.replicas == 'a'`, `object.spec.template.spec.containers.all(c, c.image == 1)`, `object.spec.template.spec.containers[0].ports[0] == 1`, `object.spec.containers[0].resources.limits['cpu'] == 1`,
	`object.spec.`, `1 +`, `true`, `nothing`, `[1].includes(1)`, `object.spec == object.status`, `object.webhooks[0].name == 1`, `object.spec.versions[0].schema.openAPIV3Schema.properties.a.properties == 1`, `[object, 1] == object.spec`,
}

// typedVariables are the expressions of variables.
var typedVariables = []string{`object.spec.size`, `object.spec`, `object.spec.nothing`, `object.spec.items`, `1`, `variables.a`, `{'a': object}`, `[1, 2]`, `params.data`, `object.spec.labels`}

func (r random) typed() *admissionv1.ValidatingAdmissionPolicy {
	p := &admissionv1.ValidatingAdmissionPolicy{Spec: admissionv1.ValidatingAdmissionPolicySpec{MatchConstraints: &admissionv1.MatchResources{}}}
	for range 1 + r.IntN(2) {
		var rule admissionv1.NamedRuleWithOperations
		rule.APIGroups, rule.APIVersions = r.some("demo.io", "apps", "", "admissionregistration.k8s.io"), r.some("v1", "v2")
		rule.Resources = r.some("widgets", "deployments", "pods", "configmaps", "widget", "validatingwebhookconfigurations", "widgets/status", "customresourcedefinitions", "secrets")
		if r.IntN(20) == 0 {
			rule.APIGroups = append(rule.APIGroups, "*")
		}
		p.Spec.MatchConstraints.ResourceRules = append(p.Spec.MatchConstraints.ResourceRules, rule)
	}
	switch r.IntN(4) {
	case 0:
		p.Spec.ParamKind = &admissionv1.ParamKind{APIVersion: "v1", Kind: "ConfigMap"}
	case 1:
		p.Spec.ParamKind = &admissionv1.ParamKind{APIVersion: pick(r, "demo.io/v1", "demo.io/v3", "demo.io/v2"), Kind: pick(r, "Widget", "Nothing")}
	}
	for _, name := range []string{"a", "b"} {
		if r.IntN(2) == 0 {
			p.Spec.Variables = append(p.Spec.Variables, admissionv1.Variable{Name: name, Expression: pick(r, typedVariables...)})
		}
	}
	for range 3 {
		v := admissionv1.Validation{Expression: pick(r, typedExpressions...)}
		if r.IntN(3) == 0 {
			v.MessageExpression = pick(r, typedExpressions...)
		}
		p.Spec.Validations = append(p.Spec.Validations, v)
	}
	return p
}

// number is what upstream's names of types have in them, which is the time.
var number = regexp.MustCompile(`([A-Z][A-Za-z]+)[0-9]+`)

func TestTypesEqualUpstream(t *testing.T) {
	kinds := testkinds.Registry(t, typedCRD).Load()
	up := validating.TypeChecker{SchemaResolver: published{kinds}, RestMapper: mapper(kinds)}
	warned := 0
	for i := range *rounds * 3 {
		p := random{rand.New(rand.NewPCG(*seed, uint64(i)))}.typed()
		show := func(warnings []admissionv1.ExpressionWarning) string {
			text := ""
			for _, w := range warnings {
				text += w.FieldRef + ": " + number.ReplaceAllString(w.Warning, "$1#") + "\n"
			}
			return text
		}
		want, got := show(up.Check(p)), show(typecheck.Check(p, kinds))
		if want != got {
			b, _ := json.Marshal(p)
			t.Fatalf("round %d: %s\nupstream:\n%s\nkeelson:\n%s", i, b, want, got)
		}
		warned += len(want)
	}
	if warned == 0 {
		t.Error("no warnings: the comparison says nothing")
	}
	t.Logf("%d bytes of warnings", warned)
}
