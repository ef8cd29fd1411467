package builtin

import (
	"context"
	"encoding/asn1"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/keelson-io/keelson/internal/testkit"
	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/schema"
)

// This file tests what becomes of objects before they are checked, and what is checked of a status.

func TestGatedMembersAreDropped(t *testing.T) {
	for _, test := range []struct {
		group, plural, text string
		path                []string
	}{
		{"", "pods", `spec: {containers: [{name: c, image: i}], schedulingGroup: {podGroupName: g}}`, []string{"spec", "schedulingGroup"}},
		{"coordination.k8s.io", "leases", `spec: {strategy: OldestEmulationVersion}`, []string{"spec", "strategy"}},
		{"", "nodes", `{spec: {podPreemptionPolicy: {}}}`, []string{"spec", "podPreemptionPolicy"}},
	} {
		v := versionFor(t, test.group, test.plural)
		d := read(t, v, test.text)
		if !d.Root().At(test.path...).Exists() {
			t.Errorf("%s: %v is not read", test.plural, test.path)
		}
		v.PrepareCreate(d)
		if d.Root().At(test.path...).Exists() {
			t.Errorf("%s: %v stays", test.plural, test.path)
		}
		// An object that was stored where the gate was on keeps it.
		old, next := read(t, v, test.text), read(t, v, test.text)
		v.PrepareUpdate(next, old, schema.Whole)
		if !next.Root().At(test.path...).Exists() {
			t.Errorf("%s: an update takes %v away", test.plural, test.path)
		}
	}
}

func TestGatedMembersOfItemsAreDropped(t *testing.T) {
	v := versionFor(t, "", "pods")
	d := read(t, v, `spec: {containers: [{name: c, image: i, lifecycle: {stopSignal: SIGTERM}, volumeMounts: [{name: v, mountPath: /v, bindMountOptions: [noexec]}]}], volumes: [{name: v, emptyDir: {mode: 5}}]}`)
	v.PrepareCreate(d)
	text := string(d.Root().Get("spec").AppendJSON(nil))
	for _, gone := range []string{"stopSignal", "lifecycle", "bindMountOptions", `"mode"`} {
		if strings.Contains(text, gone) {
			t.Errorf("%s stays: %s", gone, text)
		}
	}
	if !strings.Contains(text, `"mountPath":"/v"`) || !strings.Contains(text, "emptyDir") {
		t.Errorf("too much is gone: %s", text)
	}
}

func TestSecretsOfServiceAccountsAreNames(t *testing.T) {
	v := versionFor(t, "", "serviceaccounts")
	d := read(t, v, `secrets: [{name: s, namespace: other, kind: Secret}]`)
	v.PrepareCreate(d)
	if got := string(d.Root().Get("secrets").AppendJSON(nil)); got != `[{"name":"s"}]` {
		t.Errorf("got %s", got)
	}
}

func TestSourcesOfClaimsAreNamedTwice(t *testing.T) {
	v := versionFor(t, "", "persistentvolumeclaims")
	for _, one := range []string{"dataSource", "dataSourceRef"} {
		d := read(t, v, `spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}, `+one+`: {kind: PersistentVolumeClaim, name: c}}`)
		v.PrepareCreate(d)
		for _, name := range []string{"dataSource", "dataSourceRef"} {
			if d.Root().At("spec", name, "name").Text() != "c" {
				t.Errorf("%s: no %s", one, name)
			}
		}
		if r := v.Validate(context.Background(), d, nil, schema.Whole); len(r.Errors) > 0 {
			t.Errorf("%s: %v", one, r.Errors)
		}
	}
}

const requestText = `spec: {signerName: a.b/c, podName: p, podUID: u, serviceAccountName: s, serviceAccountUID: u, nodeName: node, nodeUID: u, maxExpirationSeconds: 3600, stubPKCS10Request: eA==}`

// csrText is a request for a certificate.
const csrText = `spec: {request: LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0KTUlIRk1HNENBUUF3RERFS01BZ0dBMVVFQXd3QllUQlpNQk1HQnlxR1NNNDlBZ0VHQ0NxR1NNNDlBd0VIQTBJQQpCQlVoQWdwdSt5aUcwL25HNXdaZmJkMWljWEd3V2l6MURHZ3M5dFZoTWROL2RLS1hPZUdlZXdSMldobk15RDVoCkMzWGgvZU5ER1RoOFBQTVRkWGJ3ZHlTZ0FEQUtCZ2dxaGtqT1BRUURBZ05IQURCRUFpQWJBbWlEanZNTXZpRHYKSTh2VkNwaUxqTm01Zndnb05FcmNnVXl4VW9LVzFBSWdVanpMSjVDZzVIbSt4WTZWdi94NHFlTGs2ZElkYllkRgpJWlZzSTlVRHNYWT0KLS0tLS1FTkQgQ0VSVElGSUNBVEUgUkVRVUVTVC0tLS0tCg==, signerName: x.io/y, usages: [digital signature]}`

// Ledger: device-validation.
func TestStatusChecks(t *testing.T) {
	for _, test := range []struct {
		group, plural, spec, was, now, want string
	}{
		{"apps", "deployments", deployText, ``, `{replicas: 1, readyReplicas: 2}`, "status.readyReplicas: Invalid value: 2: cannot be greater than status.replicas"},
		{"apps", "deployments", deployText, `{collisionCount: 2}`, `{collisionCount: 1}`, "status.collisionCount: Invalid value: 1: cannot be decremented"},
		{"apps", "deployments", deployText, ``, `{replicas: 2, readyReplicas: 2, availableReplicas: 1}`, ""},
		{"batch", "jobs", jobText, ``, `{conditions: [{type: Complete, status: "True"}]}`, "cannot set Complete=True condition without the SuccessCriteriaMet=true condition"},
		{"batch", "jobs", jobText, ``, `{startTime: "2026-01-01T00:00:00Z", completionTime: "2026-01-01T00:00:01Z", conditions: [{type: SuccessCriteriaMet, status: "True"}, {type: Complete, status: "True"}]}`, ""},
		{"batch", "jobs", jobText, ``, `{startTime: "2026-01-01T00:00:00Z", conditions: [{type: Failed, status: "True"}]}`, "cannot set Failed=True condition without the FailureTarget=true condition"},
		{"batch", "jobs", jobText, `{failed: 2}`, `{failed: 1}`, "status.failed: Invalid value: 1: cannot decrease the failed counter"},
		{"batch", "jobs", jobText, ``, `{ready: 1}`, "status.ready: Invalid value: 1: cannot set more ready pods than active"},
		{"batch", "jobs", jobText, ``, `{completionTime: "2026-01-01T00:00:01Z"}`, "cannot set completionTime when there is no Complete=True condition"},
		{"networking.k8s.io", "ingresses", `spec: {defaultBackend: {service: {name: s, port: {number: 80}}}}`, ``, `{loadBalancer: {ingress: [{ip: x}]}}`, "status.loadBalancer.ingress[0].ip"},
		{"", "pods", podText, ``, `{podIP: 10.0.0.1, podIPs: [{ip: 10.0.0.1}, {ip: 10.0.0.2}]}`, "status.podIPs: Invalid value: [{\"IP\":\"10.0.0.1\"},{\"IP\":\"10.0.0.2\"}]: may specify no more than one IP for each IP family"},
		{"", "pods", podText, ``, `{podIP: 10.0.0.1, podIPs: [{ip: 10.0.0.1}, {ip: "fd00::1"}]}`, ""},
		{"", "pods", podText, ``, `{hostIPs: [{ip: 10.0.0.1}]}`, "status.hostIPs[0].ip: Invalid value: \"10.0.0.1\": must be equal to `hostIP`"},
		{"", "pods", podText, `{qosClass: Burstable}`, `{qosClass: BestEffort}`, "status.qosClass: Invalid value: \"BestEffort\": field is immutable"},
		{"", "pods", `spec: {restartPolicy: Never, containers: [{name: c, image: i}]}`, `{containerStatuses: [{name: c, state: {terminated: {exitCode: 1}}}]}`, `{containerStatuses: [{name: c, state: {running: {}}}]}`,
			"status.containerStatuses[0].state: Forbidden: may not be transitioned to non-terminated state"},
		{"", "pods", `spec: {restartPolicy: OnFailure, containers: [{name: c, image: i}]}`, `{containerStatuses: [{name: c, state: {terminated: {exitCode: 1}}}]}`, `{containerStatuses: [{name: c, state: {running: {}}}]}`, ""},
		{"", "pods", `spec: {restartPolicy: Never, containers: [{name: c, image: i, restartPolicy: Never, restartPolicyRules: [{action: Restart, exitCodes: {operator: In, values: [3]}}]}]}`,
			`{containerStatuses: [{name: c, state: {terminated: {exitCode: 3}}}]}`, `{containerStatuses: [{name: c, state: {running: {}}}]}`, ""},
		{"", "pods", podText, ``, `{resourceClaimStatuses: [{name: x}]}`, "must match the name of an entry in `spec.resourceClaims`"},
		{"", "pods", podText, ``, `{containerStatuses: [{name: c, allocatedResourcesStatus: [{name: a.b/c, resources: [{resourceID: x, health: Good}]}]}]}`, "must match one of the container's resource requests"},
		{"certificates.k8s.io", "podcertificaterequests", requestText, ``, `{certificateChain: x}`, "status is immutable unless transitioning"},
		{"certificates.k8s.io", "podcertificaterequests", requestText, ``, `{conditions: [{type: Denied, status: "True", reason: R, lastTransitionTime: "2026-01-01T00:00:00Z"}]}`, ""},
		{"certificates.k8s.io", "certificatesigningrequests", csrText, ``, `{conditions: [{type: Approved, status: "True"}]}`, "status.conditions: Forbidden: updates may not add a condition of type \"Approved\""},
		{"certificates.k8s.io", "certificatesigningrequests", csrText, `{conditions: [{type: Denied, status: "True"}]}`, `{conditions: []}`, "status.conditions: Forbidden: updates may not remove a condition of type \"Denied\""},
		{"certificates.k8s.io", "certificatesigningrequests", csrText, `{conditions: [{type: Denied, status: "True"}]}`, `{conditions: [{type: Denied, status: "True"}, {type: Failed, status: "True"}]}`, ""},
		{"resource.k8s.io", "resourceclaims", `spec: {devices: {requests: [{name: r, exactly: {deviceClassName: c}}]}}`, ``, `{reservedFor: [{resource: pods, name: p, uid: u}]}`, "may not be specified when `allocated` is not set"},
		{"", "resourcequotas", `spec: {hard: {pods: 1}}`, ``, `{hard: {x: 1}}`, "status.hard[x]: Invalid value"},
		{"", "nodes", `spec: {}`, ``, `{declaredFeatures: [a]}`, `invalid feature name "a"`},
	} {
		v := versionFor(t, test.group, test.plural)
		text := func(status string) string {
			if status == "" {
				return test.spec
			}
			return test.spec + "\nstatus: " + status
		}
		next, old := read(t, v, text(test.now)), read(t, v, text(test.was))
		r := v.Validate(context.Background(), next, old, schema.Status)
		if test.want == "" && len(r.Errors) > 0 {
			t.Errorf("%s %s: %v", test.plural, test.now, r.Errors)
		}
		if test.want != "" && !strings.Contains(r.Errors.ToAggregate().Error(), test.want) {
			t.Errorf("%s %s: got %v, want %q", test.plural, test.now, r.Errors, test.want)
		}
	}
}

// dnsWarning is what is said of names that pods and hosts get other names of.
const dnsWarning = "metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; a DNS label is recommended: " +
	"[must not contain dots]"

// longKey is a private key that takes hours to check, as data of a Secret.
var longKey = func() string {
	der, err := asn1.Marshal([]any{0, new(big.Int).Lsh(big.NewInt(1), 1_600_000)})
	if err != nil {
		panic(err)
	}
	return base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: der}))
}()

// Ledger: profile-annotations, rsa-keys.
func TestDeprecatedThingsWarn(t *testing.T) {
	for _, test := range []struct{ plural, text, want string }{
		{"secrets", `{type: kubernetes.io/tls, data: {tls.crt: "", tls.key: ""}}`, "tls: failed to find any PEM data in certificate input"},
		{"secrets", `{type: kubernetes.io/tls, data: {tls.crt: "", tls.key: ` + longKey + `}}`, "tls: the certificate and the key were not checked: key: got a number of 1600001 bits, want at most 16384"},
		{"podtemplates", `template: {spec: {containers: [{name: c, image: i, ports: [{containerPort: 80}, {containerPort: 80}]}]}}`, "template.spec.containers[0].ports[1]: duplicate port definition with template.spec.containers[0].ports[0]"},
		{"replicationcontrollers", `{metadata: {name: a.b}, spec: {selector: {a: b}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}}}`, dnsWarning},
		{"pods", `{metadata: {annotations: {seccomp.security.alpha.kubernetes.io/pod: x}}, spec: {containers: [{name: c, image: i}]}}`, `metadata.annotations[seccomp.security.alpha.kubernetes.io/pod]: non-functional in v1.27+; use the "seccompProfile" field instead`},
		{"pods", `{metadata: {annotations: {container.apparmor.security.beta.kubernetes.io/c: unconfined}}, spec: {containers: [{name: c, image: i}]}}`, `metadata.annotations[container.apparmor.security.beta.kubernetes.io/c]: deprecated since v1.30; use the "appArmorProfile" field instead`},
		{"pods", `spec: {affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: k}]}}, containers: [{name: c, image: i}]}`, "spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].labelSelector: a null labelSelector results in matching no pod"},
		{"pods", `spec: {dnsConfig: {nameservers: ["fd00:0::1"]}, containers: [{name: c, image: i}]}`, `spec.dnsConfig.nameservers[0]: IPv6 address "fd00:0::1" should be in RFC 5952 canonical format ("fd00::1")`},
		{"pods", `spec: {volumes: [{name: v, configMap: {name: m, items: [{key: a, path: p}, {key: b, path: p/q}]}}], containers: [{name: c, image: i}]}`, `volume "v" (ConfigMap "m"): overlapping paths: "p/q" with "p"`},
		{"pods", `spec: {volumes: [{name: v, projected: {sources: [{secret: {name: s, items: [{key: a, path: p}]}}, {downwardAPI: {items: [{path: p/q, fieldRef: {fieldPath: metadata.name}}]}}]}}], containers: [{name: c, image: i}]}`, `volume "v" (Projected): overlapping paths: "p/q" (DownwardAPI) with "p" (Secret "s")`},
		{"pods", `spec: {nodeSelector: {beta.kubernetes.io/os: linux}, containers: [{name: c, image: i}]}`, `spec.nodeSelector[beta.kubernetes.io/os]: deprecated since v1.14; use "kubernetes.io/os" instead`},
		{"pods", `spec: {volumes: [{name: v, gitRepo: {repository: r}}], containers: [{name: c, image: i}]}`, "spec.volumes[0].gitRepo: deprecated in v1.11, and disabled by default in v1.33+"},
		{"pods", `spec: {hostAliases: [{ip: 1.1.1.1}, {ip: 1.1.1.1}], containers: [{name: c, image: i}]}`, `spec.hostAliases[1].ip: duplicate ip "1.1.1.1"`},
		{"nodes", `spec: {externalID: x}`, "spec.externalID: this field is deprecated, and is unused by Kubernetes"},
		{"persistentvolumes", `spec: {capacity: {storage: 1Gi}, accessModes: [ReadWriteOnce], rbd: {monitors: [m], image: i}}`, "spec.rbd: deprecated in v1.28, non-functional in v1.31+"},
		{"ingresses", `{metadata: {annotations: {kubernetes.io/ingress.class: c}}, spec: {defaultBackend: {service: {name: s, port: {number: 1}}}}}`, `annotation "kubernetes.io/ingress.class" is deprecated, please use 'spec.ingressClassName' instead`},
	} {
		group := ""
		if test.plural == "ingresses" {
			group = "networking.k8s.io"
		}
		v := versionFor(t, group, test.plural)
		r := v.Validate(context.Background(), read(t, v, test.text), nil, schema.Whole)
		if !slices.Contains(r.Warnings, test.want) {
			t.Errorf("%s %s: got %v and %v, want %q", test.plural, test.text, r.Errors, r.Warnings, test.want)
		}
	}
}

func TestNewPods(t *testing.T) {
	v := versionFor(t, "", "pods")
	d := read(t, v, `{metadata: {labels: {a: b}}, spec: {schedulingGates: [{name: g}], containers: [{name: c, image: i, resources: {limits: {cpu: 1, memory: 1Gi}}}], `+
		`topologySpreadConstraints: [{maxSkew: 1, topologyKey: k, whenUnsatisfiable: DoNotSchedule, labelSelector: {}, matchLabelKeys: [a, c]}], `+
		`affinity: {podAntiAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, podAffinityTerm: {topologyKey: k, labelSelector: {}, mismatchLabelKeys: [a]}}]}}}}`)
	v.PrepareCreate(d)
	if r := v.Validate(context.Background(), d, nil, schema.Whole); len(r.Errors) > 0 {
		t.Fatal(r.Errors)
	}
	status, spec := d.Root().Get("status"), d.Root().Get("spec")
	if got := status.Get("qosClass").Text(); got != "Guaranteed" {
		t.Errorf("qosClass: got %q", got)
	}
	if got := status.Get("conditions").Item(0).Get("reason").Text(); got != "SchedulingGated" {
		t.Errorf("condition: got %q", got)
	}
	spread := spec.Get("topologySpreadConstraints").Item(0).At("labelSelector", "matchExpressions")
	if got, want := string(spread.AppendJSON(nil)), `[{"key":"a","operator":"In","values":["b"]}]`; got != want {
		t.Errorf("spread: got %s", got)
	}
	near := spec.At("affinity", "podAntiAffinity", "preferredDuringSchedulingIgnoredDuringExecution").Item(0).At("podAffinityTerm", "labelSelector", "matchExpressions")
	if got, want := string(near.AppendJSON(nil)), `[{"key":"a","operator":"NotIn","values":["b"]}]`; got != want {
		t.Errorf("affinity: got %s", got)
	}
}

// TestPodStatusKeepsDeletion holds that an update of a pod's status does not change the deletionTimestamp.
func TestPodStatusKeepsDeletion(t *testing.T) {
	v := versionFor(t, "", "pods")
	const at = "2026-01-01T00:00:00Z"
	for _, test := range []struct{ was, sent string }{{"", at}, {at, ""}, {"", ""}} {
		pod := func(deletion string) *jsondoc.Doc {
			d := read(t, v, podText)
			if deletion != "" {
				d.Set(d.NewString(deletion), "metadata", "deletionTimestamp")
			}
			return d
		}
		next, old := pod(test.sent), pod(test.was)
		v.PrepareUpdate(next, old, schema.Status)
		if got := next.Root().At("metadata", "deletionTimestamp").Text(); got != test.was {
			t.Errorf("was %q, sent %q: got %q", test.was, test.sent, got)
		}
	}
}

// TestWholeResources holds that resources of a pod as a whole are filled in from its containers.
func TestWholeResources(t *testing.T) {
	v := versionFor(t, "", "pods")
	for _, row := range []struct {
		at              testkit.Position
		resources, list string // of the pod, and its containers
		want            string
	}{
		{testkit.Here(), `{}`, `containers: [{name: c, image: i, resources: {limits: {cpu: 1}}}]`, `{}`},
		{testkit.Here(), `{limits: {cpu: 2}}`, `containers: [{name: c, image: i}]`, `{"limits":{"cpu":"2"},"requests":{"cpu":"2"}}`},
		{testkit.Here(), `{limits: {cpu: 2}}`, `containers: [{name: c, image: i, resources: {requests: {cpu: 1, memory: 1Gi}}}]`,
			`{"limits":{"cpu":"2"},"requests":{"cpu":"1","memory":"1Gi"}}`},
		{testkit.Here(), `{requests: {cpu: 1}}`, `containers: [{name: c, image: i, resources: {limits: {cpu: 2}}}, {name: d, image: i, resources: {limits: {cpu: 3}}}]`,
			`{"limits":{"cpu":"5"},"requests":{"cpu":"1"}}`},
		{testkit.Here(), `{requests: {cpu: 9}}`, `containers: [{name: c, image: i, resources: {limits: {cpu: 2}}}]`, `{"limits":{"cpu":"9"},"requests":{"cpu":"9"}}`},
		{testkit.Here(), `{requests: {cpu: 1}}`, `containers: [{name: c, image: i, resources: {limits: {cpu: 2}}}], initContainers: [{name: d, image: i}]`, `{"requests":{"cpu":"1"}}`},
		{testkit.Here(), `{limits: {cpu: 2}}`, `containers: [{name: c, image: i, resources: {limits: {hugepages-2Mi: 4Mi, cpu: 1}}}]`,
			`{"limits":{"cpu":"2","hugepages-2Mi":"4Mi"},"requests":{"cpu":"1","hugepages-2Mi":"4Mi"}}`},
		{testkit.Here(), `{limits: {cpu: 2}}`, `containers: [{name: c, image: i, resources: {requests: {a.io/b: 1}, limits: {a.io/b: 1}}}]`, `{"limits":{"cpu":"2"},"requests":{"cpu":"2"}}`},
	} {
		d := read(t, v, `spec: {resources: `+row.resources+`, `+row.list+`}`)
		v.PrepareCreate(d)
		if got := string(d.Root().At("spec", "resources").AppendJSON(nil)); got != row.want {
			t.Errorf("%s: got %s, want %s", row.at, got, row.want)
		}
	}
}

func TestQualityOfService(t *testing.T) {
	v := versionFor(t, "", "pods")
	for spec, want := range map[string]string{
		`containers: [{name: c, image: i}]`:                                                                                  "BestEffort",
		`containers: [{name: c, image: i, resources: {requests: {cpu: 1}}}]`:                                                 "Burstable",
		`containers: [{name: c, image: i, resources: {limits: {cpu: 1}}}]`:                                                   "Burstable",
		`containers: [{name: c, image: i, resources: {limits: {cpu: 1, memory: 1}}}, {name: d, image: i}]`:                   "Burstable",
		`containers: [{name: c, image: i, resources: {limits: {cpu: 1000m, memory: 1}, requests: {cpu: 1, memory: 1}}}]`:     "Guaranteed",
		`resources: {limits: {cpu: 1, memory: 1}, requests: {cpu: 1, memory: 1}}, containers: [{name: c, image: i}]`:         "Guaranteed",
		`containers: [{name: c, image: i, resources: {limits: {a.io/b: 1}}}]`:                                                "BestEffort",
		`containers: [{name: c, image: i, resources: {limits: {cpu: 1, memory: 1}}}], initContainers: [{name: a, image: i}]`: "Burstable",
	} {
		d := read(t, v, `spec: {`+spec+`}`)
		v.PrepareCreate(d)
		if got := d.Root().At("status", "qosClass").Text(); got != want {
			t.Errorf("%s: got %s, want %s", spec, got, want)
		}
	}
}

// TestPodCells tests what tables say of pods.
func TestPodCells(t *testing.T) {
	v := versionFor(t, "", "pods")
	const two = `spec: {containers: [{name: a, image: i}, {name: b, image: i}], initContainers: [{name: s, image: i, restartPolicy: Always}, {name: o, image: i}]}` + "\n"
	for _, test := range []struct{ status, ready, word, restarts string }{
		{`{phase: Pending}`, "0/3", "Pending", "0"},
		{`{phase: Pending, conditions: [{type: PodScheduled, status: "False", reason: SchedulingGated}]}`, "0/3", "SchedulingGated", "0"},
		{`{phase: Pending, initContainerStatuses: [{name: s, started: true, ready: true, restartCount: 1}, {name: o, restartCount: 2, state: {running: {}}}]}`, "1/3", "Init:1/2", "3"},
		{`{phase: Pending, initContainerStatuses: [{name: s, started: true}, {name: o, state: {terminated: {exitCode: 3}}}]}`, "0/3", "Init:ExitCode:3", "0"},
		{`{phase: Pending, initContainerStatuses: [{name: s, state: {waiting: {reason: ErrImagePull}}}]}`, "0/3", "Init:ErrImagePull", "0"},
		{`{phase: Running, initContainerStatuses: [{name: s, started: true, ready: true}, {name: o, state: {terminated: {exitCode: 0}}, restartCount: 4}], ` +
			`containerStatuses: [{name: a, ready: true, state: {running: {}}, restartCount: 1}, {name: b, ready: true, state: {running: {}}}]}`, "3/3", "Running", "1"},
		{`{phase: Running, containerStatuses: [{name: a, state: {waiting: {reason: CrashLoopBackOff}}, restartCount: 5}, {name: b, state: {terminated: {exitCode: 1, signal: 9}}}]}`, "0/3", "CrashLoopBackOff", "5"},
		{`{phase: Running, containerStatuses: [{name: a, state: {terminated: {exitCode: 0, reason: Completed}}}, {name: b, state: {running: {}}, ready: true}]}`, "1/3", "NotReady", "0"},
		{`{phase: Running, conditions: [{type: Ready, status: "True"}], containerStatuses: [{name: a, state: {terminated: {exitCode: 0, reason: Completed}}}, {name: b, state: {running: {}}, ready: true}]}`, "1/3", "Running", "0"},
		{`{phase: Failed, reason: Evicted}`, "0/3", "Evicted", "0"},
	} {
		d := read(t, v, two+`status: `+test.status)
		var got []string
		for _, c := range v.Columns[:3] {
			got = append(got, c.Cell(d.Root(), time.Now()))
		}
		if want := []string{test.ready, test.word, test.restarts}; !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", test.status, got, want)
		}
	}
	d := read(t, v, two+`status: {phase: Failed}`)
	if reason, message := v.Ended(d.Root()); reason != "Failed" || message != "The pod failed." {
		t.Errorf("ended: got %q %q", reason, message)
	}
	if reason, _ := v.Ended(read(t, v, two+`status: {phase: Running}`).Root()); reason != "" {
		t.Errorf("running: got %q", reason)
	}
}

// TestStatusMetadata holds which members of metadata a write of the status leaves as they are. The
// others can be changed, as by upstream's strategies, which conformance/builtin compares.
func TestStatusMetadata(t *testing.T) {
	const text = `metadata: {labels: {a: %[1]s}, annotations: {a: %[1]s}, finalizers: [a.io/%[1]s], ownerReferences: [{apiVersion: v1, kind: A, name: %[1]s, uid: %[1]s}],
		deletionTimestamp: "20%[2]s-01-01T00:00:00Z", deletionGracePeriodSeconds: %[2]s, generateName: %[1]s}`
	reset := "labels annotations finalizers ownerReferences deletionTimestamp"
	all := reset + " deletionGracePeriodSeconds uid generateName"
	kept := map[string]string{
		"pods": "ownerReferences deletionTimestamp", "deployments": "labels",
		"flowschemas": all, "prioritylevelconfigurations": all,
		"podcertificaterequests": reset, "servicecidrs": reset, "storageversionmigrations": reset, "resourceclaims": reset,
		"devicetaintrules": reset, "volumeattachments": reset, "csinodes": reset, "validatingadmissionpolicies": reset,
	}
	seen := 0
	for _, k := range All(nil) {
		v := k.Storage
		if !v.Status || !k.Behavior.IsStored() {
			continue
		}
		seen++
		next, old := read(t, v, fmt.Sprintf(text, "new", "31")), read(t, v, fmt.Sprintf(text, "old", "30"))
		next.Set(next.NewString("new"), "metadata", "uid")
		v.PrepareUpdate(next, old, schema.Status)
		var got []string
		for _, name := range strings.Fields(all) {
			if string(next.Root().At("metadata", name).AppendJSON(nil)) == string(old.Root().At("metadata", name).AppendJSON(nil)) {
				got = append(got, name)
			}
		}
		want := strings.Fields(kept[k.Plural])
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%s: a write of the status keeps %v, want %v", k.Plural, got, want)
		}
	}
	if seen < 25 {
		t.Errorf("got %d kinds with a status, want more", seen)
	}
}

// TestFinalizerNames holds which kinds accept finalizers without a domain.
func TestFinalizerNames(t *testing.T) {
	accepting := []string{"/events", "coordination.k8s.io/leases", "node.k8s.io/runtimeclasses", "policy/poddisruptionbudgets"}
	refused := 0
	for _, k := range All(nil) {
		if !k.Behavior.IsStored() || k.Name == "CustomResourceDefinition" {
			continue
		}
		v := k.Versions[0]
		result := v.Validate(context.Background(), read(t, v, `metadata: {finalizers: [x]}`), nil, schema.Whole)
		refuses := result.Errors.ToAggregate() != nil && strings.Contains(result.Errors.ToAggregate().Error(), "neither a standard finalizer name")
		if want := k.Group != "admissionregistration.k8s.io" && !slices.Contains(accepting, k.Group+"/"+k.Plural); refuses != want {
			t.Errorf("%s.%s: refuses a finalizer without a domain: got %v, want %v", k.Plural, k.Group, refuses, want)
		}
		if refuses {
			refused++
		}
	}
	if refused < 25 {
		t.Errorf("got %d kinds that refuse the finalizer, want more", refused)
	}
}
