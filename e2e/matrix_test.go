package e2e

import (
	"strings"
	"testing"
)

// This file runs the commands of kubectl that the other tests do not: of each, what it does on a server that keeps pods and runs none.

const pruned = `{apiVersion: v1, kind: ConfigMap, metadata: {name: pa, labels: {app: x}}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: pb, labels: {app: x}}}
`

func TestKubectlMatrix(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	k := newKubectl(t, s)
	k.write(t, "two.yaml", []byte(pruned))
	k.write(t, "one.yaml", []byte(strings.SplitN(pruned, "---\n", 2)[0]))
	k.write(t, "role.yaml", []byte(`{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: r, namespace: default}, rules: [{apiGroups: [""], resources: [pods], verbs: [get]}]}`))
	t.Run("rollout", func(t *testing.T) {
		k.ok(t, args("create deployment web --image=nginx:1 --replicas=2"))
		k.fails(t, "", args("rollout status deployment/web --timeout=200ms"), "Waiting for deployment spec update to be observed")
		k.ok(t, args("rollout history deployment/web"), "No rollout history found")
		k.ok(t, args("rollout restart deployment/web"), "restarted")
		k.ok(t, args("rollout pause deployment/web"), "paused")
		k.ok(t, args("rollout resume deployment/web"), "resumed")
		k.ok(t, args("set env deploy/web A=b"), "env updated")
		k.ok(t, args("set resources deploy/web --limits=cpu=1"), "resource requirements updated")
		k.ok(t, args("get deploy web -o go-template={{.metadata.name}}/{{.spec.replicas}}"), "web/2")
		k.ok(t, args("patch deployment web --subresource=status --type=merge -p {\"status\":{\"observedGeneration\":9,\"replicas\":2,\"updatedReplicas\":2,\"readyReplicas\":2,\"availableReplicas\":2}}"), "patched")
		k.ok(t, args("rollout status deployment/web --timeout=10s"), "successfully rolled out")
	})
	t.Run("apply and prune", func(t *testing.T) {
		k.ok(t, args("apply -f two.yaml --prune -l app=x --prune-allowlist=core/v1/ConfigMap"), "configmap/pa created", "configmap/pb created")
		k.ok(t, args("apply -f one.yaml --prune -l app=x --prune-allowlist=core/v1/ConfigMap"), "configmap/pa unchanged", "configmap/pb pruned")
		k.ok(t, args("replace --force -f one.yaml"), `configmap "pa" deleted`, "configmap/pa replaced")
		k.ok(t, args("wait --for=create cm/pa --timeout=10s"), "condition met")
		k.ok(t, args("wait --for=create cm/kube-root-ca.crt --timeout=60s"), "condition met")
		k.ok(t, args("get --chunk-size=1 configmaps -A -o name"), "configmap/pa", "configmap/kube-root-ca.crt")
	})
	t.Run("applied before", func(t *testing.T) {
		k.in(t, `{apiVersion: v1, kind: ConfigMap, metadata: {name: last}, data: {a: b}}`, args("apply -f -"), "created")
		k.ok(t, args("apply view-last-applied cm/last"), "kind: ConfigMap", "a: b")
		k.in(t, `{apiVersion: v1, kind: ConfigMap, metadata: {name: last}, data: {a: b, c: d}}`, args("apply set-last-applied -f -"), "configured")
		k.ok(t, args("apply view-last-applied cm/last"), "c: d")
		k.fails(t, `{apiVersion: v1, kind: ConfigMap, metadata: {name: last}, data: {a: b, c: d}}`, args("diff --server-side -f -"), "+  c: d")
		k.in(t, `{apiVersion: v1, kind: ConfigMap, metadata: {name: last}, data: {a: b}}`, args("apply --server-side -f -"), "serverside-applied")
		k.in(t, `{apiVersion: v1, kind: ConfigMap, metadata: {name: last}, data: {a: b}}`, args("diff --server-side -f -"))
		// From client-side apply to server-side apply: what is no longer applied goes, as if it had been applied so before.
		k.in(t, `{apiVersion: v1, kind: ConfigMap, metadata: {name: moved}, data: {a: "1", b: "2"}}`, args("apply -f -"), "created")
		k.in(t, `{apiVersion: v1, kind: ConfigMap, metadata: {name: moved}, data: {a: "1"}}`, args("apply --server-side -f -"), "serverside-applied")
		k.ok(t, args("get cm moved -o jsonpath={.data}"), `{"a":"1"}`)
	})
	t.Run("patch", func(t *testing.T) {
		k.ok(t, []string{"patch", "deployment", "web", "-p", `{"spec":{"template":{"spec":{"containers":[{"name":"nginx","image":"nginx:2"}]}}}}`}, "patched")
		k.ok(t, args("get deploy web -o jsonpath={.spec.template.spec.containers[*].image}"), "nginx:2")
		k.ok(t, args("set image deploy/web nginx=nginx:3"), "image updated")
		k.ok(t, args("scale deploy/web --replicas=4"), "scaled")
		k.ok(t, args("get deploy/web -o jsonpath={.spec.replicas}"), "4")
	})
	t.Run("sets", func(t *testing.T) {
		k.env = append(k.env, "KUBECTL_APPLYSET=true")
		k.ok(t, args("apply -f two.yaml --prune --applyset=both -n default"), "configmap/pa", "configmap/pb")
		k.ok(t, args("apply -f one.yaml --prune --applyset=both -n default"), "configmap/pb pruned")
	})
	t.Run("nodes", func(t *testing.T) {
		k.in(t, `{apiVersion: v1, kind: Node, metadata: {name: node}}`, args("create -f -"), "node/node created")
		k.in(t, `{apiVersion: v1, kind: Pod, metadata: {name: placed}, spec: {nodeName: node, containers: [{name: c, image: i}]}}`, args("create -f -"))
		k.ok(t, args("taint nodes node example.com/a=b:NoSchedule"), "tainted")
		k.ok(t, args("cordon node"), "node/node cordoned")
		k.ok(t, args("get node node"), "SchedulingDisabled")
		k.ok(t, args("drain node --force --grace-period=0 --timeout=20s"), "evicting pod default/placed", "pod/placed evicted", "node/node drained")
		k.fails(t, "", args("get pod placed"), "NotFound")
		k.ok(t, args("uncordon node"), "node/node uncordoned")
	})
	t.Run("auth", func(t *testing.T) {
		k.ok(t, args("auth reconcile -f role.yaml"), "reconciliation required create", "missing rules added")
		if out := k.ok(t, args("auth reconcile -f role.yaml")); strings.Contains(out, "required") {
			t.Errorf("a second time: %s", out)
		}
		k.ok(t, args("auth whoami"), "system:masters")
		k.ok(t, args("auth can-i create pods"), "yes")
		k.ok(t, args("auth can-i --list"), "*.*")
		k.fails(t, "", args("auth can-i create pods --as=nobody"), "no")
		k.ok(t, args("wait --for=create serviceaccount/default --timeout=10s"))
		if out := k.ok(t, args("create token default --duration=10m")); strings.Count(out, ".") != 2 {
			t.Errorf("token: %s", out)
		}
	})
	t.Run("what nobody runs", func(t *testing.T) {
		k.ok(t, args("run p --image=nginx"), "pod/p created")
		for _, line := range []string{"logs p", "exec p -- ls", "attach p", "cp p:/x x"} {
			k.fails(t, "", args(line), "pod p does not have a host assigned")
		}
		k.fails(t, "", args("port-forward p 1:1"), "pod is not running. Current status=Pending")
		k.fails(t, "", args("top pods"), "Metrics API not available")
	})
	t.Run("discovery", func(t *testing.T) {
		k.ok(t, args("get apiservices"), "v1.apps", "Local", "True")
		k.ok(t, args("explain apiservice.spec"), "groupPriorityMinimum")
		k.ok(t, args("api-resources --verbs=list --namespaced -o name"), "resourceclaims.resource.k8s.io", "podcertificaterequests.certificates.k8s.io")
		k.ok(t, args("cluster-info"), "is running at")
		out, _ := k.run(t, "", "version") // which finds its own version odd where it was built from a module
		contains(t, args("version"), out, []string{"Server Version: v1.37"})
	})
	t.Run("delete", func(t *testing.T) {
		k.in(t, `{apiVersion: v1, kind: ConfigMap, metadata: {name: owner}}`, args("create -f -"))
		for _, cascade := range []string{"orphan", "foreground", "background"} {
			uid := k.ok(t, args("get configmap owner -o jsonpath={.metadata.uid}"))
			k.in(t, `{apiVersion: v1, kind: ConfigMap, metadata: {name: child, ownerReferences: [{apiVersion: v1, kind: ConfigMap, name: owner, uid: "`+uid+`", blockOwnerDeletion: true}]}}`,
				args("apply -f -"))
			k.ok(t, args("delete configmap owner --timeout=20s --cascade="+cascade), "deleted")
			if cascade == "orphan" {
				k.ok(t, args("get configmap child -o jsonpath={.metadata.name}"), "child")
				k.ok(t, args("delete configmap child"))
			} else {
				k.ok(t, args("wait --for=delete configmap/child --timeout=20s"))
			}
			k.in(t, `{apiVersion: v1, kind: ConfigMap, metadata: {name: owner}}`, args("create -f -"))
		}
	})
}
