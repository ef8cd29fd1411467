package api

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/keelson-io/keelson/internal/api/encoding"
	"github.com/keelson-io/keelson/kind"
)

// This file tests every verb on every built-in kind, through client-go and in
// both of its encodings.

const template = `{metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}`
const jobTemplate = `{metadata: {labels: {a: b}}, spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}`

// minimal are objects that are valid, by group and plural, without their names.
// csr is a certificate signing request.
const csr = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0KTUlIRk1HNENBUUF3RERFS01BZ0dBMVVFQXd3QllUQlpNQk1HQnlxR1NNNDlBZ0VHQ0NxR1NNNDlBd0VIQTBJQQpCQlVoQWdwdSt5aUcwL25HNXdaZmJkMWljWEd3V2l6MURHZ3M5dFZoTWROL2RLS1hPZUdlZXdSMldobk15RDVoCkMzWGgvZU5ER1RoOFBQTVRkWGJ3ZHlTZ0FEQUtCZ2dxaGtqT1BRUURBZ05IQURCRUFpQWJBbWlEanZNTXZpRHYKSTh2VkNwaUxqTm01Zndnb05FcmNnVXl4VW9LVzFBSWdVanpMSjVDZzVIbSt4WTZWdi94NHFlTGs2ZElkYllkRgpJWlZzSTlVRHNYWT0KLS0tLS1FTkQgQ0VSVElGSUNBVEUgUkVRVUVTVC0tLS0tCg=="

var minimal = map[string]string{
	"/configmaps":             `data: {k: v}`,
	"/secrets":                `stringData: {k: v}`,
	"/serviceaccounts":        ``,
	"/events":                 `{involvedObject: {kind: Pod, namespace: default, name: p}, reason: R, type: Normal}`,
	"/pods":                   `spec: {containers: [{name: c, image: i}]}`,
	"/podtemplates":           `template: ` + template,
	"/replicationcontrollers": `spec: {template: ` + template + `}`,
	"/services":               `spec: {ports: [{port: 80}]}`,
	"/endpoints":              `subsets: [{addresses: [{ip: 10.0.0.1}], ports: [{port: 80}]}]`,
	"/persistentvolumes":      `spec: {capacity: {storage: 1Gi}, accessModes: [ReadWriteOnce], hostPath: {path: /x}}`,
	"/persistentvolumeclaims": `spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}`,
	"/nodes":                  ``,
	"/resourcequotas":         `spec: {hard: {pods: 1}}`,
	"/limitranges":            `spec: {limits: [{type: Container, max: {cpu: 1}}]}`,
	"/namespaces":             ``,

	"events.k8s.io/events": `{eventTime: "2026-01-01T00:00:00.000000Z", reportingController: x.io/y, reportingInstance: i, action: A, ` +
		`reason: R, type: Normal, regarding: {namespace: default, kind: Pod, name: p}}`,
	"apps/deployments":         `spec: {selector: {matchLabels: {a: b}}, template: ` + template + `}`,
	"apps/replicasets":         `spec: {selector: {matchLabels: {a: b}}, template: ` + template + `}`,
	"apps/statefulsets":        `spec: {serviceName: s, selector: {matchLabels: {a: b}}, template: ` + template + `}`,
	"apps/daemonsets":          `spec: {selector: {matchLabels: {a: b}}, template: ` + template + `}`,
	"apps/controllerrevisions": `{data: {x: 1}, revision: 1}`,
	"batch/jobs":               `spec: {template: ` + jobTemplate + `}`,
	"batch/cronjobs":           `spec: {schedule: "* * * * *", jobTemplate: {spec: {template: ` + jobTemplate + `}}}`,

	"autoscaling/horizontalpodautoscalers":             `spec: {maxReplicas: 3, scaleTargetRef: {kind: Deployment, name: d, apiVersion: apps/v1}}`,
	"policy/poddisruptionbudgets":                      `spec: {minAvailable: 1, selector: {matchLabels: {a: b}}}`,
	"networking.k8s.io/ingresses":                      `spec: {defaultBackend: {service: {name: s, port: {number: 80}}}}`,
	"networking.k8s.io/ingressclasses":                 `spec: {controller: x.io/y}`,
	"networking.k8s.io/networkpolicies":                `spec: {podSelector: {}}`,
	"networking.k8s.io/ipaddresses":                    `spec: {parentRef: {resource: services, name: s, namespace: default}}`,
	"networking.k8s.io/servicecidrs":                   `spec: {cidrs: [10.0.0.0/24]}`,
	"discovery.k8s.io/endpointslices":                  `{addressType: IPv4, endpoints: [{addresses: [10.0.0.1]}], ports: [{port: 80}]}`,
	"storage.k8s.io/storageclasses":                    `provisioner: x.io/y`,
	"storage.k8s.io/volumeattachments":                 `spec: {attacher: a, nodeName: node, source: {persistentVolumeName: v}}`,
	"storage.k8s.io/csidrivers":                        `spec: {}`,
	"storage.k8s.io/csinodes":                          `spec: {drivers: []}`,
	"storage.k8s.io/csistoragecapacities":              `storageClassName: s`,
	"storage.k8s.io/volumeattributesclasses":           `{driverName: d, parameters: {a: b}}`,
	"scheduling.k8s.io/priorityclasses":                `value: 10`,
	"storagemigration.k8s.io/storageversionmigrations": `spec: {resource: {group: demo.io, resource: widgets}}`,
	"node.k8s.io/runtimeclasses":                       `handler: h`,
	"coordination.k8s.io/leases":                       `spec: {holderIdentity: me}`,

	"certificates.k8s.io/clustertrustbundles": `spec: {trustBundle: "-----BEGIN A-----\n-----END A-----\n"}`,
	"certificates.k8s.io/podcertificaterequests": `spec: {signerName: x.io/y, podName: p, podUID: u, serviceAccountName: s, serviceAccountUID: u, nodeName: node, nodeUID: u, ` +
		`maxExpirationSeconds: 86400, stubPKCS10Request: AAAA}`,
	"flowcontrol.apiserver.k8s.io/flowschemas":                 `spec: {priorityLevelConfiguration: {name: p}}`,
	"flowcontrol.apiserver.k8s.io/prioritylevelconfigurations": `spec: {type: Limited, limited: {limitResponse: {type: Queue, queuing: {queues: 16}}}}`,
	"resource.k8s.io/deviceclasses":                            `spec: {selectors: [{cel: {expression: "true"}}]}`,
	"resource.k8s.io/devicetaintrules":                         `spec: {deviceSelector: {pool: p}, taint: {key: a.b/c, effect: NoSchedule}}`,
	"resource.k8s.io/resourceclaims":                           `spec: {devices: {requests: [{name: r, exactly: {deviceClassName: c}}]}}`,
	"resource.k8s.io/resourceclaimtemplates":                   `spec: {spec: {devices: {requests: [{name: r, exactly: {deviceClassName: c}}]}}}`,
	"resource.k8s.io/resourceslices":                           `spec: {driver: x.io, nodeName: node, pool: {name: p, resourceSliceCount: 1}}`,
	"certificates.k8s.io/certificatesigningrequests":           `spec: {request: ` + csr + `, signerName: x.io/y, usages: [digital signature]}`,
	"rbac.authorization.k8s.io/roles":                          `rules: [{apiGroups: [""], resources: [pods], verbs: [get]}]`,
	"rbac.authorization.k8s.io/clusterroles":                   `rules: [{apiGroups: [""], resources: [pods], verbs: [get]}]`,
	"rbac.authorization.k8s.io/rolebindings":                   `{roleRef: {kind: Role, name: r}, subjects: [{kind: User, name: u}]}`,
	"rbac.authorization.k8s.io/clusterrolebindings":            `{roleRef: {kind: ClusterRole, name: r}, subjects: [{kind: User, name: u}]}`,

	"admissionregistration.k8s.io/mutatingwebhookconfigurations":     `webhooks: [{name: a.b.c, sideEffects: None, admissionReviewVersions: [v1], clientConfig: {url: "https://x"}}]`,
	"admissionregistration.k8s.io/validatingwebhookconfigurations":   `webhooks: [{name: a.b.c, sideEffects: None, admissionReviewVersions: [v1], clientConfig: {url: "https://x"}}]`,
	"admissionregistration.k8s.io/validatingadmissionpolicies":       `spec: {matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}, validations: [{expression: "true"}]}`,
	"admissionregistration.k8s.io/validatingadmissionpolicybindings": `spec: {policyName: p, validationActions: [Deny]}`,
	"admissionregistration.k8s.io/mutatingadmissionpolicies": `spec: {matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}, ` +
		`reinvocationPolicy: Never, mutations: [{patchType: ApplyConfiguration, applyConfiguration: {expression: "Object{}"}}]}`,
	"admissionregistration.k8s.io/mutatingadmissionpolicybindings": `spec: {policyName: p}`,
}

// client is a client of one version, in an encoding.
func (s *testServer) client(v *kind.Version, media string) *rest.RESTClient {
	s.t.Helper()
	gv := v.GVK().GroupVersion()
	c := &rest.Config{Host: s.url, QPS: -1, APIPath: "/apis"}
	if gv.Group == "" {
		c.APIPath = "/api"
	}
	c.GroupVersion, c.NegotiatedSerializer = &gv, scheme.Codecs.WithoutConversion()
	c.ContentType, c.AcceptContentTypes, c.WarningHandler = media, media, rest.NoWarnings{}
	client, err := rest.RESTClientFor(c)
	if err != nil {
		s.t.Fatal(err)
	}
	return client
}

func TestEveryVerbOnEveryBuiltinKind(t *testing.T) {
	s := newTestServer(t)
	for k := range s.kinds.Load().All() {
		if !k.Behavior.IsBuiltin || k.Behavior.Virtual || k.Behavior.Listed != nil || k.Name == "CustomResourceDefinition" {
			continue
		}
		text, ok := minimal[k.Group+"/"+k.Plural]
		if !ok {
			t.Errorf("%s.%s: no example", k.Plural, k.Group)
			continue
		}
		for _, media := range []string{encoding.JSON, encoding.Protobuf} {
			for _, v := range k.Versions {
				verbs(t, s, v, media, text)
			}
		}
	}
}

// verbs runs all verbs on one kind.
func verbs(t *testing.T, s *testServer, v *kind.Version, media, text string) {
	k := v.Kind
	name := "x1"
	if k.Plural == "ipaddresses" {
		name = "10.0.0.9"
	}
	label := fmt.Sprintf("%s %s", v.GVR(), media)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c := s.client(v, media)
	on := func(r *rest.Request) *rest.Request {
		r = r.Resource(k.Plural)
		if k.Namespaced {
			r = r.Namespace("default")
		}
		return r
	}
	do := func(what string, r *rest.Request) runtime.Object {
		obj, err := r.Do(ctx).Get()
		if err != nil {
			t.Fatalf("%s: %s: %v", label, what, err)
		}
		return obj
	}
	var object map[string]any
	if err := yaml.Unmarshal([]byte(text), &object); err != nil {
		t.Fatal(err)
	}
	if object == nil {
		object = map[string]any{}
	}
	object["apiVersion"], object["kind"], object["metadata"] = v.APIVersion(), k.Name, map[string]any{"name": name}
	body, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	obj := v.NewTyped()
	if err := json.Unmarshal(body, obj); err != nil {
		t.Fatal(err)
	}
	made := do("create", on(c.Post()).Body(obj))
	m, err := metaOf(made)
	if err != nil || m.GetUID() == "" || m.GetResourceVersion() == "" {
		t.Fatalf("%s: created %+v: %v", label, made, err)
	}
	do("get", on(c.Get()).Name(name))
	if n := listLen(do("list", on(c.Get()).Param("fieldSelector", "metadata.name="+name))); n != 1 {
		t.Errorf("%s: list has %d items", label, n)
	}
	w, err := on(c.Get()).Param("watch", "1").Param("fieldSelector", "metadata.name="+name).Param("resourceVersion", m.GetResourceVersion()).Watch(ctx)
	if err != nil {
		t.Fatalf("%s: watch: %v", label, err)
	}
	defer w.Stop()

	m.SetLabels(map[string]string{"verb": "update"})
	made.GetObjectKind().SetGroupVersionKind(v.GVK())
	do("update", on(c.Put()).Name(name).Body(made))
	for _, p := range []struct {
		media types.PatchType
		body  string
	}{
		{types.MergePatchType, `{"metadata":{"labels":{"verb":"merge"}}}`},
		{types.StrategicMergePatchType, `{"metadata":{"labels":{"verb":"strategic"}}}`},
		{types.JSONPatchType, `[{"op":"replace","path":"/metadata/labels/verb","value":"json"}]`},
		{types.ApplyPatchType, `{"apiVersion":"` + v.APIVersion() + `","kind":"` + k.Name + `","metadata":{"name":"` + name + `","labels":{"verb":"apply"}}}`},
	} {
		r := on(c.Patch(p.media)).Name(name).Body([]byte(p.body))
		if p.media == types.ApplyPatchType {
			r = r.Param("fieldManager", "m").Param("force", "true")
		}
		do(string(p.media), r)
	}
	if v.Status {
		do("status", on(c.Patch(types.MergePatchType)).Name(name).SubResource("status").Body([]byte(`{"metadata":{"labels":{"verb":"status"}}}`)))
	}
	do("delete", on(c.Delete()).Name(name).Body(&metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationBackground)}))
	if k.Name == "Namespace" { // goes on until its finalizer is taken away
		finalize(t, s)
	}
	seen(t, label, w)
}

// finalize lets the namespace end.
func finalize(t *testing.T, s *testServer) {
	t.Helper()
	s.must(200, "PUT", "/api/v1/namespaces/x1/finalize", `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"x1"},"spec":{}}`)
}

// seen wants a watch to tell of the changes and of the deletion.
func seen(t *testing.T, label string, w watch.Interface) {
	t.Helper()
	modified := 0
	for {
		select {
		case e, ok := <-w.ResultChan():
			if !ok {
				t.Fatalf("%s: watch ended after %d changes", label, modified)
			}
			switch e.Type {
			case watch.Modified:
				modified++
			case watch.Deleted:
				if modified < 5 {
					t.Errorf("%s: watch told of %d changes", label, modified)
				}
				return
			default:
				t.Fatalf("%s: watch says %s %+v", label, e.Type, e.Object)
			}
		case <-time.After(time.Minute):
			t.Fatalf("%s: watch told of %d changes and no deletion", label, modified)
		}
	}
}

func metaOf(obj runtime.Object) (metav1.Object, error) {
	m, ok := obj.(metav1.Object)
	if !ok {
		return nil, fmt.Errorf("%T has no metadata", obj)
	}
	return m, nil
}

func listLen(obj runtime.Object) int {
	text, err := json.Marshal(obj)
	if err != nil {
		return -1
	}
	var l struct{ Items []json.RawMessage }
	if json.Unmarshal(text, &l) != nil || !strings.Contains(fmt.Sprintf("%T", obj), "List") {
		return -1
	}
	return len(l.Items)
}

// TestOrderOfBuiltinKinds: members are in the order of the fields of upstream's Go types, in every
// answer.
func TestOrderOfBuiltinKinds(t *testing.T) {
	s := newTestServer(t)
	const roles, roleType = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles", `{"kind":"Role","apiVersion":"rbac.authorization.k8s.io/v1",`
	const rules = `"rules":[{"verbs":["get"],"apiGroups":[""],"resources":["pods"]}]}`
	created := s.must(201, "POST", roles, `{"rules":[{"resources":["pods"],"apiGroups":[""],"verbs":["get"]}],"metadata":{"labels":{"b":"","a":""},"name":"r"}}`)
	item := regexp.QuoteMeta(`"metadata":{"name":"r","namespace":"default","uid":"`) + `.*","resourceVersion":"\d+","creationTimestamp":".*","labels":\{"a":"","b":""\},` +
		`"managedFields":\[.*\]\},` + regexp.QuoteMeta(rules)
	object := regexp.QuoteMeta(roleType) + item
	list := regexp.QuoteMeta(`{"kind":"RoleList","apiVersion":"rbac.authorization.k8s.io/v1","metadata":{"resourceVersion":"`) + `\d+"\},"items":\[\{` + item + `\]\}`
	crd := s.must(201, "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", `{"metadata":{"name":"xs.a.io"},"spec":{"group":"a.io","scope":"Cluster",
		"names":{"plural":"xs","kind":"X"},"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","properties":{"b":{
		"items":{"type":"string","maxLength":3,"description":"d"},"type":"array","description":"c"}}}}}]}}`)
	for _, c := range []struct {
		line       int
		body, want string
	}{
		{where(), created.body, object},
		{where(), s.must(200, "GET", roles+"/r", "").body, object},
		{where(), s.must(200, "GET", roles, "").body, list},
		{where(), s.must(200, "GET", roles+"?limit=5&labelSelector=a", "").body, list},
		{where(), s.must(200, "GET", "/apis/rbac.authorization.k8s.io/v1/roles?fieldSelector=metadata.name%3Dnone", "").body,
			`{"kind":"RoleList","apiVersion":"rbac.authorization.k8s.io/v1","metadata":\{"resourceVersion":"\d+"\},"items":\[\]\}`},
		{where(), crd.body, `{"kind":"CustomResourceDefinition","apiVersion":"apiextensions.k8s.io/v1","metadata":\{"name":"xs.a.io",.*` + regexp.QuoteMeta(
			`"spec":{"group":"a.io","names":{"plural":"xs","singular":"x","kind":"X","listKind":"XList"},"scope":"Cluster","versions":[{"name":"v1","served":true,"storage":true,`+
				`"schema":{"openAPIV3Schema":{"type":"object","properties":{"b":{"description":"c","type":"array","items":{"description":"d","type":"string","maxLength":3}}}}}}],`) + `.*`},
		{where(), s.must(200, "GET", "/apis/apiregistration.k8s.io/v1/apiservices/v1.", "").body, `{"kind":"APIService","apiVersion":"apiregistration.k8s.io/v1","metadata":\{"name":"v1.",.*`},
	} {
		if re := regexp.MustCompile("^(?s:" + c.want + ")\n$"); !re.MatchString(c.body) {
			t.Errorf("line %d: got\n%s\nwant\n%s", c.line, c.body, c.want)
		}
	}
	yaml := s.must(200, "GET", roles, "", "Accept", "application/yaml").body
	if !strings.HasPrefix(yaml, "apiVersion: rbac.authorization.k8s.io/v1\nitems:\n- metadata:\n") || !strings.Contains(yaml, "\nkind: RoleList\n") {
		t.Errorf("a list in YAML: %s", yaml)
	}
	pretty := s.must(200, "GET", roles+"?pretty=1", "").body
	if !strings.Contains(pretty, "  \"items\": [\n    {\n      \"metadata\": {\n") {
		t.Errorf("an indented list: %s", pretty)
	}
}

func TestListsOfBuiltinKinds(t *testing.T) {
	s := newTestServer(t)
	const roles = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles"
	// Upstream stores protobuf, in which an empty list is none, and prints none as null.
	role := s.must(201, "POST", roles, `{"metadata":{"name":"r"},"rules":[]}`)
	if !strings.HasSuffix(role.body, `,"rules":null}`+"\n") {
		t.Errorf("a role without rules: %s", role.body)
	}
	version := role.text("metadata", "resourceVersion")
	for _, body := range []string{`{"rules":[]}`, `{"rules":null}`} {
		if again := s.must(200, "PATCH", roles+"/r", body, "Content-Type", merge); again.text("metadata", "resourceVersion") != version {
			t.Errorf("%s: the role was written again: %s", body, again.body)
		}
	}
	reviewed := s.must(201, "POST", "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", `{"spec":{"namespace":"default"}}`)
	if strings.Contains(reviewed.body, "null") {
		t.Errorf("a review is not stored, so that its lists are as they were made: %s", reviewed.body)
	}
	node := s.must(201, "POST", "/apis/storage.k8s.io/v1/csinodes", `{"metadata":{"name":"n"},"spec":{"drivers":[]}}`)
	if node = s.must(200, "PATCH", "/apis/storage.k8s.io/v1/csinodes/n/status", `{"metadata":{"labels":{"a":"b"}},"status":{"storageHealth":[{"name":"a.io"}]}}`, "Content-Type", merge); strings.Contains(node.body, "a.io") || strings.Contains(node.body, "labels") {
		t.Errorf("the status of a node without its gate: %s", node.body)
	}
}

func TestGenerationOfBuiltinKinds(t *testing.T) {
	s := newTestServer(t)
	const path = "/apis/apps/v1/namespaces/default/deployments"
	generation := func(a answer) any { return a.get("metadata", "generation") }
	a := s.must(201, "POST", path, `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"d","generation":7},"spec":{"selector":{"matchLabels":{"a":"b"}},`+
		`"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}`)
	if generation(a) != 1.0 {
		t.Errorf("created with generation %v", generation(a))
	}
	for _, c := range []struct {
		line int
		path string
		body string
		want float64
	}{
		{where(), path + "/d", `{"metadata":{"labels":{"a":"b"}}}`, 1},
		{where(), path + "/d", `{"metadata":{"annotations":{"a":"b"}}}`, 2},
		{where(), path + "/d/status", `{"status":{"replicas":3}}`, 2},
		{where(), path + "/d", `{"spec":{"replicas":3},"status":{"replicas":4}}`, 3},
		{where(), path + "/d/scale", `{"spec":{"replicas":5}}`, 4},
		{where(), path + "/d", `{"spec":{"replicas":5}}`, 4},
	} {
		s.must(200, "PATCH", c.path, c.body, "Content-Type", merge)
		if got := generation(s.must(200, "GET", path+"/d", "")); got != c.want {
			t.Errorf("line %d: generation %v, want %v", c.line, got, c.want)
		}
	}
	scale := s.must(200, "GET", path+"/d/scale", "")
	if got := scale.get("status", "replicas"); got != 3.0 {
		t.Errorf("the status was changed by an update of the object: %s", scale.body)
	}
	if got := scale.text("status", "selector"); got != "a=b" {
		t.Errorf("selector %q", got)
	}
}

func TestPodsAreGivenTimeToEnd(t *testing.T) {
	s := newTestServer(t)
	const path = "/api/v1/namespaces/default/pods"
	pod := func(name, node string) {
		s.must(201, "POST", path, `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"`+name+`"},"spec":{`+node+`"containers":[{"name":"c","image":"i"}]}}`)
	}
	pod("free", "")
	s.must(200, "DELETE", path+"/free", "")
	s.must(404, "GET", path+"/free", "")

	pod("bound", `"nodeName":"n",`)
	a := s.must(200, "DELETE", path+"/bound", "")
	if got := a.get("metadata", "deletionGracePeriodSeconds"); got != 30.0 {
		t.Errorf("grace %v, want 30: %s", got, a.body)
	}
	a = s.must(200, "DELETE", path+"/bound?gracePeriodSeconds=5", "")
	if got := a.get("metadata", "deletionGracePeriodSeconds"); got != 5.0 {
		t.Errorf("grace %v, want 5: %s", got, a.body)
	}
	s.must(200, "DELETE", path+"/bound?gracePeriodSeconds=0", "")
	s.must(404, "GET", path+"/bound", "")
}
