package e2e

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/keelson-io/keelson/internal/testkit"
)

// This file has what TestOfflineVerdicts asks about besides published examples: objects made of schemas, built-in kinds, policies.

// sample makes a value of a schema: most of it valid, and half of what may be left out left out.
func sample(random *rand.Rand, s *apiextv1.JSONSchemaProps, depth int) any {
	if s == nil || depth > 8 {
		return map[string]any{}
	}
	if len(s.Enum) > 0 {
		return apiJSON(s.Enum[random.IntN(len(s.Enum))])
	}
	switch {
	case s.XIntOrString:
		return random.IntN(100)
	case s.Type == "integer":
		return random.IntN(20)
	case s.Type == "number":
		return float64(random.IntN(100)) / 4
	case s.Type == "boolean":
		return random.IntN(2) == 0
	case s.Type == "string":
		return sampleText(random, s.Format)
	case s.Type == "array":
		var out []any
		for range random.IntN(3) {
			if s.Items != nil {
				out = append(out, sample(random, s.Items.Schema, depth+1))
			}
		}
		return out
	}
	out := map[string]any{}
	for _, name := range sortedNames(s.Properties) {
		if depth == 0 && slices.Contains([]string{"apiVersion", "kind", "metadata", "status"}, name) {
			continue
		}
		p := s.Properties[name]
		if depth == 0 || slices.Contains(s.Required, name) || random.IntN(2) == 0 {
			out[name] = sample(random, &p, depth+1)
		}
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil && random.IntN(2) == 0 {
		out["key"] = sample(random, s.AdditionalProperties.Schema, depth+1)
	}
	return out
}

func sampleText(random *rand.Rand, format string) string {
	switch format {
	case "date-time":
		return time.Unix(int64(random.IntN(1e9)), 0).UTC().Format(time.RFC3339)
	case "byte":
		return "YWJj"
	}
	return []string{"a", "example.com", "10s", "name-1"}[random.IntN(4)]
}

func apiJSON(j apiextv1.JSON) any { return j }

func sortedNames(m map[string]apiextv1.JSONSchemaProps) []string {
	var names []string
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// builtinPaths are the collections of built-in kinds that are tried.
var builtinPaths = map[string]string{
	"v1 ConfigMap":                      "/api/v1/namespaces/default/configmaps",
	"v1 Secret":                         "/api/v1/namespaces/default/secrets",
	"v1 Service":                        "/api/v1/namespaces/default/services",
	"v1 ServiceAccount":                 "/api/v1/namespaces/default/serviceaccounts",
	"v1 Namespace":                      "/api/v1/namespaces",
	"v1 Pod":                            "/api/v1/namespaces/default/pods",
	"apps/v1 Deployment":                "/apis/apps/v1/namespaces/default/deployments",
	"batch/v1 Job":                      "/apis/batch/v1/namespaces/default/jobs",
	"policy/v1 PodDisruptionBudget":     "/apis/policy/v1/namespaces/default/poddisruptionbudgets",
	"networking.k8s.io/v1 Ingress":      "/apis/networking.k8s.io/v1/namespaces/default/ingresses",
	"rbac.authorization.k8s.io/v1 Role": "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles",
	"rbac.authorization.k8s.io/v1 ClusterRoleBinding":                "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
	"coordination.k8s.io/v1 Lease":                                   "/apis/coordination.k8s.io/v1/namespaces/default/leases",
	"apiextensions.k8s.io/v1 CustomResourceDefinition":               "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
	"admissionregistration.k8s.io/v1 ValidatingAdmissionPolicy":      "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
	"admissionregistration.k8s.io/v1 ValidatingWebhookConfiguration": "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
}

const builtinObjects = `
{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {a: b, password: x}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: b}, data: {c: d}, binaryData: {e: YWJj}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: Not A Name}, data: {a: b}}
---
{apiVersion: v1, kind: Secret, metadata: {name: a}, type: Opaque, data: {a: YWJj}, stringData: {b: c}}
---
{apiVersion: v1, kind: Secret, metadata: {name: c}, type: kubernetes.io/tls, data: {tls.crt: YWJj, tls.key: YWJj}}
---
{apiVersion: v1, kind: Service, metadata: {name: a}, spec: {selector: {a: b}, ports: [{port: 80, targetPort: http}, {name: b, port: 81}]}}
---
{apiVersion: v1, kind: Service, metadata: {name: b}, spec: {clusterIP: None, selector: {a: b}, ports: [{port: 80}]}}
---
{apiVersion: v1, kind: ServiceAccount, metadata: {name: a}, imagePullSecrets: [{name: x}]}
---
{apiVersion: v1, kind: Namespace, metadata: {name: some, labels: {a: b}}}
---
{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {containers: [{name: c, image: i, env: [{name: A, value: b}], ports: [{containerPort: 80}]}]}}
---
{apiVersion: apps/v1, kind: Deployment, metadata: {name: a}, spec: {replicas: 3, selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}}}
---
{apiVersion: batch/v1, kind: Job, metadata: {name: a}, spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}}
---
{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: a}, spec: {minAvailable: 50%, selector: {matchLabels: {a: b}}}}
---
{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {name: a}, spec: {rules: [{host: a.example.com, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: a, port: {number: 80}}}}]}}]}}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: a}, rules: [{apiGroups: [""], resources: [pods], verbs: [get, list]}]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: a}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view}, subjects: [{kind: User, apiGroup: rbac.authorization.k8s.io, name: jane}]}
---
{apiVersion: coordination.k8s.io/v1, kind: Lease, metadata: {name: a}, spec: {holderIdentity: x, leaseDurationSeconds: 15, renewTime: "2026-01-02T03:04:05.000000Z"}}
---
{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: things.example.com}, spec: {group: example.com, scope: Namespaced, names: {plural: things, kind: Thing}, versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {size: {type: integer}}, x-kubernetes-validations: [{rule: self.size > 0}]}}}}}]}}
---
{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicy, metadata: {name: other}, spec: {matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}, validations: [{expression: object.spec.containers.size() > 0}]}}
---
{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration, metadata: {name: other}, webhooks: [{name: a.example.com, clientConfig: {url: "https://127.0.0.1:1/"}, rules: [{apiGroups: [example.com], apiVersions: [v1], operations: [CREATE], resources: [nothing]}], sideEffects: None, admissionReviewVersions: [v1]}]}`

// offlinePolicies deny, warn and change.
const offlinePolicies = `
{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicy, metadata: {name: passwords}, spec: {
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [configmaps]}]},
  validations: [{expression: "!has(object.data) || !('password' in object.data)", message: no passwords}]}}
---
{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicyBinding, metadata: {name: passwords}, spec: {policyName: passwords, validationActions: [Deny]}}
---
{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicy, metadata: {name: replicas}, spec: {
  matchConstraints: {resourceRules: [{apiGroups: [apps], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [deployments, deployments/status]}]},
  matchConditions: [{name: whole, expression: "!has(request.subResource)"}],
  variables: [{name: most, expression: "oldObject == null ? 3 : 2"}],
  validations: [{expression: object.spec.replicas <= variables.most, messageExpression: "'at most ' + string(variables.most) + ' for ' + request.userInfo.username", reason: Forbidden},
    {expression: "object.spec.template.spec.containers.all(c, c.image != '')", message: no image}]}}
---
{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicyBinding, metadata: {name: replicas}, spec: {policyName: replicas, validationActions: [Deny]}}
---
{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicyBinding, metadata: {name: replicas-warn}, spec: {policyName: replicas, validationActions: [Warn, Audit]}}
---
{apiVersion: admissionregistration.k8s.io/v1, kind: MutatingAdmissionPolicy, metadata: {name: team}, spec: {
  matchConstraints: {resourceRules: [{apiGroups: ["*"], apiVersions: ["*"], operations: [CREATE], resources: [services, jobs, roles]}]},
  failurePolicy: Fail, reinvocationPolicy: IfNeeded,
  mutations: [{patchType: ApplyConfiguration, applyConfiguration: {expression: "Object{metadata: Object.metadata{labels: {'team': namespaceObject.metadata.name}}}"}}]}}
---
{apiVersion: admissionregistration.k8s.io/v1, kind: MutatingAdmissionPolicyBinding, metadata: {name: team}, spec: {policyName: team}}`

// definePolicies installs them and waits until they decide.
func (o *offline) definePolicies() {
	collections := map[string]string{
		"ValidatingAdmissionPolicy": "validatingadmissionpolicies", "ValidatingAdmissionPolicyBinding": "validatingadmissionpolicybindings",
		"MutatingAdmissionPolicy": "mutatingadmissionpolicies", "MutatingAdmissionPolicyBinding": "mutatingadmissionpolicybindings",
	}
	for _, text := range strings.Split(offlinePolicies, "\n---\n") {
		p := objectOf(o.T, []byte(text))
		o.s.do(o.T, 201, "POST", "/apis/admissionregistration.k8s.io/v1/"+collections[p["kind"].(string)], o.text(p))
	}
	o.write("policies/all.yaml", []byte(offlinePolicies))
	const probe = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"probe"},"data":{"password":"x"}}`
	testkit.EventuallySay(o, func() (string, bool) {
		code, answer, err := o.s.try("POST", "/api/v1/namespaces/default/configmaps?dryRun=All", []byte(probe))
		return fmt.Sprintf("policies decide: %d %s %v", code, answer, err), err == nil && code == 422
	})
}
