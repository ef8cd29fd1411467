package e2e

import (
	"strings"
	"testing"
)

// TestKubectlAndPlugins tries quotas, limits, priorities and pod security with kubectl.
func TestKubectlAndPlugins(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	k := newKubectl(t, s)
	for _, line := range []string{"create namespace team", "create priorityclass urgent --value=1000", "create quota q --hard=pods=2,count/configmaps=2 -n team"} {
		k.in(t, "", args(line), " created")
	}
	used := func(want string) {
		t.Helper()
		eventually(t, "quota with "+want, func() bool {
			out, _ := k.run(t, "", args("get quota q -n team -o jsonpath={.status.used}")...)
			return strings.Contains(out, want)
		})
	}
	used(`"pods":"0"`)
	k.in(t, `{apiVersion: v1, kind: LimitRange, metadata: {name: l, namespace: team}, spec: {limits: [{type: Container, defaultRequest: {cpu: 100m}, max: {memory: 1Gi}, default: {memory: 64Mi}}]}}`,
		args("apply -f -"), "limitrange/l created")
	k.in(t, "", args(`run a --image=i -n team --overrides={"spec":{"priorityClassName":"urgent"}}`), "pod/a created")
	k.in(t, "", args("get pod a -n team -o jsonpath={.spec.priority}/{.spec.containers[0].resources.requests.cpu}/{.spec.serviceAccountName}"), "1000/100m/default")
	k.fails(t, "", args(`run b --image=i -n team --overrides={"spec":{"containers":[{"name":"b","image":"i","resources":{"limits":{"memory":"2Gi"}}}]}}`),
		`maximum memory usage per Container is 1Gi, but limit is 2Gi`)
	k.fails(t, "", args(`run b --image=i -n team --overrides={"spec":{"priorityClassName":"none"}}`), `no PriorityClass with name none was found`)
	k.in(t, "", args("run b --image=i -n team"), "pod/b created")
	k.fails(t, "", args("run c --image=i -n team"), `pods "c" is forbidden: exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2`)
	k.in(t, "", args("describe quota q -n team"), "pods")
	k.in(t, "", args("delete pod b -n team --force"), `pod "b" force deleted`)
	used(`"pods":"1"`)
	k.in(t, "", args("label namespace team pod-security.kubernetes.io/enforce=restricted"),
		`existing pods in namespace "team" violate the new PodSecurity enforce level "restricted:latest"`, "namespace/team labeled")
	k.fails(t, "", args("run c --image=i -n team"), `violates PodSecurity "restricted:latest": allowPrivilegeEscalation != false`)
}
