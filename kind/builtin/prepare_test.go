package builtin

import (
	"context"
	"slices"
	"strings"
	"testing"

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

func TestDeprecatedThingsWarn(t *testing.T) {
	for _, test := range []struct{ plural, text, want string }{
		{"pods", `spec: {nodeSelector: {beta.kubernetes.io/os: linux}, containers: [{name: c, image: i}]}`, `spec.nodeSelector[beta.kubernetes.io/os]: deprecated since v1.14; use "kubernetes.io/os" instead`},
		{"pods", `spec: {volumes: [{name: v, gitRepo: {repository: r}}], containers: [{name: c, image: i}]}`, "spec.volumes[0].gitRepo: deprecated in v1.11, and disabled by default in v1.33+"},
		{"pods", `spec: {hostAliases: [{ip: 1.1.1.1}, {ip: 1.1.1.1}], containers: [{name: c, image: i}]}`, `spec.hostAliases[1].ip: duplicate ip "1.1.1.1"`},
		{"nodes", `spec: {externalID: x}`, "spec.externalID: this field is deprecated, and is unused by Kubernetes"},
		{"persistentvolumes", `spec: {capacity: {storage: 1Gi}, accessModes: [ReadWriteOnce], rbd: {monitors: [m], image: i}}`, "spec.rbd: deprecated in v1.28, non-functional in v1.31+"},
	} {
		v := versionFor(t, "", test.plural)
		r := v.Validate(context.Background(), read(t, v, test.text), nil, schema.Whole)
		if !slices.Contains(r.Warnings, test.want) {
			t.Errorf("%s %s: got %v and %v, want %q", test.plural, test.text, r.Errors, r.Warnings, test.want)
		}
	}
}
