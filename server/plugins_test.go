package server

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/keelson-io/keelson/internal/store"
	"github.com/keelson-io/keelson/internal/store/mem"
)

// This file tries the admission plugins for pods and other built-in kinds through the API.

const (
	podsPath   = "/api/v1/namespaces/default/pods"
	claimsPath = "/api/v1/namespaces/default/persistentvolumeclaims"
)

// podNamed returns a pod with some members of its specification.
func podNamed(name, spec string) string {
	if !strings.Contains(spec, `"containers"`) {
		spec = `"containers":[{"name":"c","image":"i"}],` + spec
	}
	return `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"` + name + `"},"spec":{` + strings.TrimSuffix(spec, ",") + `}}`
}

// quoted escapes a text as answers have it.
func quoted(s string) string { return strings.ReplaceAll(s, `"`, `\"`) }

// step is a request and what its answer contains.
type step struct {
	method, path, body string
	code               int
	want               []string
}

// run sends requests one after another.
func (r *running) run(t *testing.T, steps []step) {
	t.Helper()
	for _, s := range steps {
		var headers []string
		if s.method == "PATCH" {
			headers = []string{"Content-Type", "application/merge-patch+json"}
		}
		code, text := r.call(r.client, s.method, s.path, s.body, headers...)
		for _, want := range s.want {
			if !strings.Contains(text, want) {
				t.Errorf("%s %s %s:\ngot  %d %s\nwant %s", s.method, s.path, s.body, code, text, want)
			}
		}
		if code != s.code {
			t.Errorf("%s %s %s:\ngot  %d %s\nwant %d", s.method, s.path, s.body, code, text, s.code)
		}
	}
}

// gone waits until an object is removed.
func (r *running) gone(path string) {
	r.t.Helper()
	r.until("no "+path, func() bool {
		code, _ := r.call(r.client, "GET", path, "")
		return code == 404
	})
}

// TestDefaultPodPlugins holds that the plugins that run by default complete pods and refuse them as
// kube-apiserver does.
func TestDefaultPodPlugins(t *testing.T) {
	r := start(t, Config{Store: mem.New(mem.Options{})})
	const account = `{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":"%s"%s}`
	r.run(t, []step{
		// ServiceAccount, Priority, DefaultTolerationSeconds
		{"POST", podsPath, podNamed("plain", ""), 201, []string{`"serviceAccountName":"default"`, `"serviceAccount":"default"`, `"name":"kube-api-access-`,
			`"mountPath":"/var/run/secrets/kubernetes.io/serviceaccount"`, `"expirationSeconds":3607`, `"priority":0`, `"preemptionPolicy":"PreemptLowerPriority"`,
			`{"key":"node.kubernetes.io/not-ready","operator":"Exists","effect":"NoExecute","tolerationSeconds":300}`,
			`{"key":"node.kubernetes.io/unreachable","operator":"Exists","effect":"NoExecute","tolerationSeconds":300}`}},
		{"POST", podsPath, podNamed("nobody", `"serviceAccountName":"nobody"`), 403,
			[]string{quoted(`pods "nobody" is forbidden: error looking up service account default/nobody: serviceaccount "nobody" not found`)}},
		{"POST", "/api/v1/namespaces/default/serviceaccounts", fmt.Sprintf(account, "strict", `,"annotations":{"kubernetes.io/enforce-mountable-secrets":"true"}`) +
			`,"imagePullSecrets":[{"name":"pull"}],"automountServiceAccountToken":false}`, 201, nil},
		{"POST", podsPath, podNamed("strict", `"serviceAccountName":"strict"`), 201, []string{`"imagePullSecrets":[{"name":"pull"}]`, `"volumes"`}[:1]},
		{"POST", podsPath, podNamed("secret", `"serviceAccountName":"strict","volumes":[{"name":"v","secret":{"secretName":"x"}}]`), 403,
			[]string{quoted(`volume with secret.secretName="x" is not allowed because service account strict does not reference that secret`)}},
		// Priority
		{"POST", podsPath, podNamed("high", `"priorityClassName":"high"`), 403, []string{`no PriorityClass with name high was found`}},
		{"POST", "/apis/scheduling.k8s.io/v1/priorityclasses", `{"apiVersion":"scheduling.k8s.io/v1","kind":"PriorityClass","metadata":{"name":"high"},"value":7,"preemptionPolicy":"Never","globalDefault":true}`, 201, nil},
		{"POST", "/apis/scheduling.k8s.io/v1/priorityclasses", `{"apiVersion":"scheduling.k8s.io/v1","kind":"PriorityClass","metadata":{"name":"other"},"value":8,"globalDefault":true}`, 403,
			[]string{`PriorityClass high is already marked as default. Only one default can exist`}},
		{"POST", podsPath, podNamed("high", ""), 201, []string{`"priorityClassName":"high"`, `"priority":7`, `"preemptionPolicy":"Never"`}},
		{"POST", podsPath, podNamed("number", `"priority":3`), 403, []string{`the integer value of priority (3) must not be provided in pod spec; priority admission controller computed 7`}},
		{"POST", podsPath, podNamed("system", `"priorityClassName":"system-node-critical"`), 201, []string{`"priority":2000001000`}},
		// RuntimeClass
		{"POST", podsPath, podNamed("rc", `"runtimeClassName":"rc"`), 403, []string{quoted(`pod rejected: RuntimeClass "rc" not found`)}},
		{"POST", "/apis/node.k8s.io/v1/runtimeclasses", `{"apiVersion":"node.k8s.io/v1","kind":"RuntimeClass","metadata":{"name":"rc"},"handler":"h","overhead":{"podFixed":{"cpu":"10m"}},
			"scheduling":{"nodeSelector":{"a":"b"},"tolerations":[{"key":"k","operator":"Exists"}]}}`, 201, nil},
		{"POST", podsPath, podNamed("rc", `"runtimeClassName":"rc"`), 201, []string{`"overhead":{"cpu":"10m"}`, `"nodeSelector":{"a":"b"}`, `{"key":"k","operator":"Exists"}`}},
		{"POST", podsPath, podNamed("overhead", `"overhead":{"cpu":"1"}`), 403, []string{`pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead`}},
		// TaintNodesByCondition, PodTopologyLabels
		{"POST", "/api/v1/nodes", `{"apiVersion":"v1","kind":"Node","metadata":{"name":"n","labels":{"topology.kubernetes.io/zone":"z","topology.kubernetes.io/region":"r","x":"y"}}}`, 201,
			[]string{`"taints":[{"key":"node.kubernetes.io/not-ready","effect":"NoSchedule"}]`}},
		{"POST", podsPath, podNamed("placed", `"nodeName":"n"`), 201, []string{`"labels":{"topology.kubernetes.io/region":"r","topology.kubernetes.io/zone":"z"}`}},
		{"POST", podsPath + "/plain/binding", `{"apiVersion":"v1","kind":"Binding","metadata":{"name":"plain"},"target":{"kind":"Node","name":"n"}}`, 201, nil},
		{"GET", podsPath + "/plain", "", 200, []string{`"topology.kubernetes.io/zone":"z"`}},
		// LimitRanger
		{"POST", "/api/v1/namespaces/default/limitranges", `{"apiVersion":"v1","kind":"LimitRange","metadata":{"name":"l"},"spec":{"limits":[
			{"type":"Container","default":{"cpu":"2"},"defaultRequest":{"cpu":"1"},"max":{"cpu":"3"}},{"type":"PersistentVolumeClaim","max":{"storage":"1Gi"}}]}}`, 201, nil},
		{"POST", podsPath, podNamed("limited", ""), 201, []string{`"limits":{"cpu":"2"}`, `"requests":{"cpu":"1"}`,
			`"kubernetes.io/limit-ranger":"LimitRanger plugin set: cpu request for container c; cpu limit for container c"`}},
		{"POST", podsPath, podNamed("large", `"containers":[{"name":"c","image":"i","resources":{"limits":{"cpu":"4"}}}]`), 403,
			[]string{`[maximum cpu usage per Container is 3, but limit is 4, maximum cpu`, `maximum cpu usage per Container is 3, but limit is 4`}[1:]},
		{"POST", claimsPath, `{"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{"name":"big"},"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"2Gi"}}}}`, 403,
			[]string{`maximum storage usage per PersistentVolumeClaim is 1Gi, but request is 2Gi`}},
	})
}

// TestMountableSecrets: no sort of container gets around the list of secrets of a service account: neither ephemeral containers
// (CVE-2023-2728) nor envFrom (CVE-2024-3177).
// An update that leaves out what a plugin sets again changes nothing, not even the times of its manager.
func TestUpdateThatAPluginCompletes(t *testing.T) {
	st := mem.New(mem.Options{})
	r := start(t, Config{Store: st})
	r.must("POST", "/api/v1/namespaces/default/serviceaccounts", `{"metadata":{"name":"own"}}`)
	body := podNamed("p", `"serviceAccountName":"own","serviceAccount":"own","automountServiceAccountToken":false,"tolerations":[{"key":"a","operator":"Exists"}]`)
	r.must("POST", podsPath, body)
	all, err := st.List(t.Context(), "", store.ListOptions{})
	at := slices.IndexFunc(all.Items, func(i store.Item) bool { return strings.HasSuffix(i.Key, "pods/default/p") })
	if err != nil || at < 0 {
		t.Fatalf("the stored pod is missing: %v", err)
	}
	p := all.Items[at]
	if _, err := st.Update(t.Context(), p.Key, regexp.MustCompile(`"time":"[^"]*"`).ReplaceAll(p.Value, []byte(`"time":"2020-01-01T00:00:00Z"`)), p.Rev); err != nil {
		t.Fatal(err)
	}
	before := ""
	r.until("the manager has the old time", func() bool {
		before = r.must("GET", podsPath+"/p", "")
		return strings.Contains(before, `"time":"2020-01-01T00:00:00Z"`)
	})
	if after := r.must("PUT", podsPath+"/p", body); after != before {
		t.Errorf("got  %s\nwant %s", after, before)
	}
}

func TestMountableSecrets(t *testing.T) {
	r := start(t, Config{Store: mem.New(mem.Options{})})
	const spec = `"serviceAccountName":"strict","containers":[{"name":"c","image":"i"%s}],"initContainers":[{"name":"n","image":"i"%s}]`
	const value, from = `,"env":[{"name":"A","valueFrom":{"secretKeyRef":{"name":"x","key":"k"}}}]`, `,"envFrom":[{"secretRef":{"name":"x"}}]`
	const listed = `,"envFrom":[{"secretRef":{"name":"mine"}}]`
	late := func(more string) string {
		return `{"spec":{"ephemeralContainers":[{"name":"e","image":"i"` + more + `}]}}`
	}
	const envVar, envFrom = `%s %s with envVar A referencing secret.secretName="x" is not allowed`, `%s %s with envFrom referencing secret.secretName="x" is not allowed`
	said := func(text string, args ...any) []string { return []string{quoted(fmt.Sprintf(text, args...))} }
	r.run(t, []step{
		{"POST", "/api/v1/namespaces/default/serviceaccounts", `{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":"strict","annotations":{"kubernetes.io/enforce-mountable-secrets":"true"}},` +
			`"secrets":[{"name":"mine"}],"automountServiceAccountToken":false}`, 201, nil},
		{"POST", podsPath, podNamed("a", fmt.Sprintf(spec, value, "")), 403, said(envVar, "container", "c")},
		{"POST", podsPath, podNamed("a", fmt.Sprintf(spec, from, "")), 403, said(envFrom, "container", "c")},
		{"POST", podsPath, podNamed("a", fmt.Sprintf(spec, "", value)), 403, said(envVar, "init container", "n")},
		{"POST", podsPath, podNamed("a", fmt.Sprintf(spec, "", from)), 403, said(envFrom, "init container", "n")},
		{"POST", podsPath, podNamed("a", fmt.Sprintf(spec, listed, listed)), 201, nil},
		{"PATCH", podsPath + "/a/ephemeralcontainers", late(value), 403, said(envVar, "ephemeral container", "e")},
		{"PATCH", podsPath + "/a/ephemeralcontainers", late(from), 403, said(envFrom, "ephemeral container", "e")},
		{"PATCH", podsPath + "/a/ephemeralcontainers", late(listed), 200, nil},
	})
}

// TestDefaultObjectPlugins holds the default plugins for other kinds: classes, finalizers,
// certificates.
func TestDefaultObjectPlugins(t *testing.T) {
	r := start(t, Config{Store: mem.New(mem.Options{})})
	const class = `{"apiVersion":"%s","kind":"%s","metadata":{"name":"%s","annotations":{"%s":"true"}},%s}`
	claim := func(name, size string) string {
		return `{"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{"name":"` + name + `"},"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"` + size + `"}}}}`
	}
	ingress := `{"apiVersion":"networking.k8s.io/v1","kind":"Ingress","metadata":{"name":"%s"},"spec":{"defaultBackend":{"service":{"name":"s","port":{"number":80}}}}}`
	r.run(t, []step{
		{"POST", "/apis/storage.k8s.io/v1/storageclasses", fmt.Sprintf(class, "storage.k8s.io/v1", "StorageClass", "gold", "storageclass.kubernetes.io/is-default-class", `"provisioner":"p"`), 201, nil},
		{"POST", claimsPath, claim("a", "1Gi"), 201, []string{`"storageClassName":"gold"`, `"finalizers":["kubernetes.io/pvc-protection"]`}},
		{"PATCH", claimsPath + "/a/status", `{"status":{"phase":"Bound"}}`, 200, nil},
		{"PATCH", claimsPath + "/a", `{"spec":{"volumeName":"v","resources":{"requests":{"storage":"2Gi"}}}}`, 403,
			[]string{`only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize`}},
		{"POST", "/apis/networking.k8s.io/v1/namespaces/default/ingresses", fmt.Sprintf(ingress, "before"), 201, nil},
		{"POST", "/apis/networking.k8s.io/v1/ingressclasses", fmt.Sprintf(class, "networking.k8s.io/v1", "IngressClass", "web", "ingressclass.kubernetes.io/is-default-class", `"spec":{"controller":"a.io/b"}`), 201, nil},
		{"POST", "/apis/networking.k8s.io/v1/namespaces/default/ingresses", fmt.Sprintf(ingress, "after"), 201, []string{`"ingressClassName":"web"`}},
		{"GET", "/apis/networking.k8s.io/v1/namespaces/default/ingresses/before", "", 200, []string{`"spec":{"defaultBackend"`}},
		{"POST", "/api/v1/persistentvolumes", `{"apiVersion":"v1","kind":"PersistentVolume","metadata":{"name":"v"},"spec":{"capacity":{"storage":"1Gi"},"accessModes":["ReadWriteOnce"],"hostPath":{"path":"/x"}}}`, 201,
			[]string{`"finalizers":["kubernetes.io/pv-protection"]`}},
	})
	// A pod that runs keeps its claim; when it has ended, the claim goes.
	r.run(t, []step{
		{"POST", "/api/v1/nodes", `{"apiVersion":"v1","kind":"Node","metadata":{"name":"n"}}`, 201, nil},
		{"POST", podsPath, podNamed("user", `"nodeName":"n","volumes":[{"name":"v","persistentVolumeClaim":{"claimName":"a"}}]`), 201, nil},
		{"DELETE", claimsPath + "/a", "", 200, []string{`"deletionTimestamp"`}},
		{"DELETE", "/api/v1/persistentvolumes/v", "", 200, nil},
	})
	r.gone("/api/v1/persistentvolumes/v") // the controller is past the claim, too
	r.run(t, []step{
		{"GET", claimsPath + "/a", "", 200, []string{`kubernetes.io/pvc-protection`}},
		{"PATCH", podsPath + "/user/status", `{"status":{"phase":"Succeeded"}}`, 200, nil},
	})
	r.gone(claimsPath + "/a")
}

// TestResourceQuota holds that namespaces stay within their quotas, that a controller keeps the
// status, and that custom resources count.
func TestResourceQuota(t *testing.T) {
	r := start(t, Config{Store: mem.New(mem.Options{})})
	r.define()
	const quotas = "/api/v1/namespaces/default/resourcequotas"
	r.must("POST", quotas, `{"apiVersion":"v1","kind":"ResourceQuota","metadata":{"name":"q"},"spec":{"hard":{"pods":"1","requests.cpu":"2","count/widgets.demo.io":"2","configmaps":"2"}}}`)
	used := func(want string) {
		t.Helper()
		r.until("used: "+want, func() bool {
			_, text := r.call(r.client, "GET", quotas+"/q", "")
			return strings.Contains(text, `"used":`+want)
		})
	}
	used(`{"configmaps":"1","count/widgets.demo.io":"0","pods":"0","requests.cpu":"0"}`) // kube-root-ca.crt
	widget := func(name string) string { return strings.Replace(widgetA, `"a"`, `"`+name+`"`, 1) }
	one := podNamed("one", `"containers":[{"name":"c","image":"i","resources":{"requests":{"cpu":"1500m"}}}]`)
	r.run(t, []step{
		{"POST", podsPath, podNamed("silent", ""), 403, []string{quoted(`pods "silent" is forbidden: failed quota: q: must specify requests.cpu for: c`)}},
		{"POST", podsPath + "?dryRun=All", one, 201, nil},
		{"POST", podsPath, one, 201, nil},
		{"GET", quotas + "/q", "", 200, []string{`"used":{"configmaps":"1","count/widgets.demo.io":"0","pods":"1","requests.cpu":"1500m"}`}},
		{"POST", podsPath, strings.Replace(one, `"one"`, `"two"`, 1), 403,
			[]string{quoted(`pods "two" is forbidden: exceeded quota: q, requested: pods=1,requests.cpu=1500m, used: pods=1,requests.cpu=1500m, limited: pods=1,requests.cpu=2`)}},
		{"POST", widgetsPath, widget("a"), 201, nil},
		{"POST", widgetsPath, widget("b"), 201, nil},
		{"POST", widgetsPath, widget("c"), 403,
			[]string{quoted(`widgets.demo.io "c" is forbidden: exceeded quota: q, requested: count/widgets.demo.io=1, used: count/widgets.demo.io=2, limited: count/widgets.demo.io=2`)}},
		{"DELETE", widgetsPath + "/a", "", 200, nil},
		{"DELETE", podsPath + "/one?gracePeriodSeconds=0", "", 200, nil},
	})
	used(`{"configmaps":"1","count/widgets.demo.io":"1","pods":"0","requests.cpu":"0"}`)
	r.must("POST", widgetsPath, widget("c"))
	// An object that is charged and not stored does not stay charged.
	r.run(t, []step{{"POST", "/api/v1/namespaces/default/configmaps", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"kube-root-ca.crt"}}`, 409, nil}})
	used(`{"configmaps":"1","count/widgets.demo.io":"2","pods":"0","requests.cpu":"0"}`)
}

// TestPodSecurity holds that namespaces hold pods to their levels: refused, warned of, exempt.
func TestPodSecurity(t *testing.T) {
	file := filepath.Join(t.TempDir(), "admission.yaml")
	if err := os.WriteFile(file, []byte(`
apiVersion: apiserver.config.k8s.io/v1
kind: AdmissionConfiguration
plugins:
- name: PodSecurity
  configuration:
    apiVersion: pod-security.admission.config.k8s.io/v1
    kind: PodSecurityConfiguration
    defaults: {enforce: baseline}
    exemptions: {namespaces: [free]}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	r := start(t, Config{Store: mem.New(mem.Options{}), AdmissionConfigFile: file})
	namespace := func(name, labels string) string {
		return `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"` + name + `","labels":{` + labels + `}}}`
	}
	r.run(t, []step{
		{"POST", podsPath, podNamed("host", `"hostNetwork":true`), 403, []string{quoted(`pods "host" is forbidden: violates PodSecurity "baseline:latest": host namespaces (hostNetwork=true)`)}},
		{"POST", podsPath, podNamed("fine", ""), 201, nil},
		{"POST", "/api/v1/namespaces", namespace("free", ""), 201, nil},
		{"POST", "/api/v1/namespaces/free/pods", podNamed("host", `"hostNetwork":true`), 201, nil},
		{"POST", "/api/v1/namespaces", namespace("wrong", `"pod-security.kubernetes.io/enforce":"tight"`), 422,
			[]string{quoted(`metadata.labels[pod-security.kubernetes.io/enforce]: Invalid value: "tight": must be one of privileged, baseline, restricted`)}},
		{"POST", "/api/v1/namespaces", namespace("tight", `"pod-security.kubernetes.io/enforce":"restricted"`), 201, nil},
		{"POST", "/api/v1/namespaces/tight/pods", podNamed("p", ""), 403, []string{quoted(`violates PodSecurity "restricted:latest": allowPrivilegeEscalation != false (container "c" must set securityContext.allowPrivilegeEscalation=false)`)}},
	})
}

// TestEnabledPlugins tries plugins that run only if they are enabled.
func TestEnabledPlugins(t *testing.T) {
	file := filepath.Join(t.TempDir(), "admission.yaml")
	if err := os.WriteFile(file, []byte(`
apiVersion: apiserver.config.k8s.io/v1
kind: AdmissionConfiguration
plugins:
- name: EventRateLimit
  configuration: {apiVersion: eventratelimit.admission.k8s.io/v1alpha1, kind: Configuration, limits: [{type: Namespace, qps: 1, burst: 1}]}
- name: PodNodeSelector
  configuration: {podNodeSelectorPluginConfig: {clusterDefaultNodeSelector: "disk=ssd", default: "disk=ssd,gpu=no"}}
- name: PodTolerationRestriction
  configuration: {apiVersion: podtolerationrestriction.admission.k8s.io/v1alpha1, kind: Configuration, default: [{key: k, operator: Exists}]}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	r := start(t, Config{Store: mem.New(mem.Options{}), AdmissionConfigFile: file, DisableAdmission: []string{"DefaultTolerationSeconds"}, EnableAdmission: []string{"AlwaysPullImages",
		"NamespaceAutoProvision", "PodNodeSelector", "PodTolerationRestriction", "EventRateLimit", "ExtendedResourceToleration", "LimitPodHardAntiAffinityTopology", "DenyServiceExternalIPs"}})
	const event = `{"apiVersion":"v1","kind":"Event","metadata":{"name":"%s"},"involvedObject":{"namespace":"default"}}`
	r.run(t, []step{
		{"POST", "/api/v1/namespaces/made/configmaps", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"m"}}`, 201, nil},
		{"GET", "/api/v1/namespaces/made", "", 200, nil},
		{"POST", podsPath, podNamed("p", `"containers":[{"name":"c","image":"i:1","resources":{"limits":{"a.io/gpu":"1"}}}]`), 201, []string{`"imagePullPolicy":"Always"`, `"nodeSelector":{"disk":"ssd"}`,
			`{"key":"k","operator":"Exists"}`, `{"key":"a.io/gpu","operator":"Exists","effect":"NoSchedule"}`}},
		{"POST", podsPath, podNamed("hdd", `"nodeSelector":{"disk":"hdd"}`), 403, []string{`pod node label selector conflicts with its namespace node label selector`}},
		{"POST", podsPath, podNamed("cpu", `"nodeSelector":{"cpu":"old"}`), 403, []string{`pod node label selector labels conflict with its namespace whitelist`}},
		{"POST", podsPath, podNamed("zone", `"affinity":{"podAntiAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":[{"topologyKey":"topology.kubernetes.io/zone","labelSelector":{}}]}}`), 403,
			[]string{`affinity.PodAntiAffinity.RequiredDuringScheduling has TopologyKey topology.kubernetes.io/zone but only key kubernetes.io/hostname is allowed`}},
		{"POST", "/api/v1/namespaces/default/services", `{"apiVersion":"v1","kind":"Service","metadata":{"name":"s"},"spec":{"ports":[{"port":80}],"externalIPs":["1.2.3.4"]}}`, 403,
			[]string{`Use of external IPs is denied by admission control`}},
		{"POST", "/api/v1/namespaces/default/events", fmt.Sprintf(event, "e1"), 201, nil},
		{"POST", "/api/v1/namespaces/default/events", fmt.Sprintf(event, "e2"), 429, []string{`Too many requests: limit reached on type Namespace for key default`}},
	})
}

// TestAlwaysDeny holds that the plugin refuses clients and not the server itself.
// Ledger: always-deny.
func TestAlwaysDeny(t *testing.T) {
	r := start(t, Config{Store: mem.New(mem.Options{}), EnableAdmission: []string{"AlwaysDeny"}})
	r.run(t, []step{{"POST", "/api/v1/namespaces/default/configmaps", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"m"}}`, 403,
		[]string{quoted(`configmaps "m" is forbidden: admission control is denying all modifications`)}}})
}
