package e2e

import (
	"fmt"
	"strings"
	"testing"
)

// This file is nodes, which get what their pods need, and no more.

func TestAuthzNode(t *testing.T) {
	t.Parallel()
	g := startGuarded(t, "", []string{"system:node:n1/system:nodes", "system:node:n2/system:nodes"}, "--authorization-mode", "Node,RBAC")
	create := func(path, body string) { t.Helper(); g.do(t, 201, "POST", path, []byte(body)) }
	const ns = "/api/v1/namespaces/default/"
	create("/api/v1/nodes", `{"apiVersion":"v1","kind":"Node","metadata":{"name":"n1"}}`)
	for _, name := range []string{"used", "unused", "behind"} {
		create(ns+"secrets", fmt.Sprintf(`{"apiVersion":"v1","kind":"Secret","metadata":{"name":%q}}`, name))
	}
	create(ns+"persistentvolumeclaims", `{"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{"name":"claim"},"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}},"volumeName":"pv"}}`)
	create("/api/v1/persistentvolumes", `{"apiVersion":"v1","kind":"PersistentVolume","metadata":{"name":"pv"},"spec":{"accessModes":["ReadWriteOnce"],"capacity":{"storage":"1Gi"},"claimRef":{"namespace":"default","name":"claim"},
		"csi":{"driver":"d.io","volumeHandle":"h","nodePublishSecretRef":{"namespace":"default","name":"behind"}}}}`)
	pod := func(name, node string) string {
		return fmt.Sprintf(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":%q},"spec":{"nodeName":%q,"serviceAccountName":"default","containers":[{"name":"c","image":"i"}],
			"volumes":[{"name":"s","secret":{"secretName":"used"}},{"name":"v","persistentVolumeClaim":{"claimName":"claim"}}]}}`, name, node)
	}
	const unrelated = `no relationship found between node 'n1' and this object`
	may := func(what, user, method, path string, code int, text string) {
		t.Helper()
		eventually(t, what, func() bool { return g.as(user, method, path, "").code == code })
		if r := g.as(user, method, path, ""); !strings.Contains(r.body, text) {
			t.Errorf("%s: got %d %s", what, r.code, r.body)
		}
	}
	const n1, n2 = "system:node:n1", "system:node:n2"
	may("before there is a pod", n1, "GET", ns+"secrets/used", 403, "node: "+unrelated)
	create(ns+"pods", pod("p", "n1"))
	may("secret of a pod", n1, "GET", ns+"secrets/used", 200, "")
	may("the pod itself", n1, "GET", ns+"pods/p", 200, "")
	may("secret of a pod, by a watch of it alone", n1, "GET", ns+"secrets?fieldSelector=metadata.name%3Dused", 200, "")
	may("all secrets", n1, "GET", ns+"secrets", 403, "node: No Object name found")
	may("a secret of nobody", n1, "GET", ns+"secrets/unused", 403, unrelated)
	may("a secret behind a volume", n1, "GET", ns+"secrets/behind", 200, "")
	may("a claim", n1, "GET", ns+"persistentvolumeclaims/claim", 200, "")
	may("a volume", n1, "GET", "/api/v1/persistentvolumes/pv", 200, "")
	may("a service account", n1, "GET", ns+"serviceaccounts/default", 200, "")
	may("a secret of another node's pod", n2, "GET", ns+"secrets/used", 403, "no relationship found between node 'n2' and this object")
	may("to change a secret", n1, "DELETE", ns+"secrets/used", 403, "node: can only read resources of this type")
	may("its own node", n1, "GET", "/api/v1/nodes/n1", 200, "")
	may("all nodes", n1, "GET", "/api/v1/nodes", 403, "node 'n1' cannot read all nodes, only its own Node object")
	may("its own pods", n1, "GET", "/api/v1/pods?fieldSelector=spec.nodeName%3Dn1", 200, "")
	may("all pods", n1, "GET", "/api/v1/pods", 403, "can only list/watch pods with spec.nodeName field selector")
	may("another's lease", n1, "GET", "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/n2", 403, "can only access node lease with the same name as the requesting node")
	may("another's CSI node", n1, "GET", "/apis/storage.k8s.io/v1/csinodes/n2", 403, "can only access CSINode with the same name as the requesting node")
	may("an attachment of nobody", n1, "GET", "/apis/storage.k8s.io/v1/volumeattachments/va", 403, unrelated)
	create("/apis/storage.k8s.io/v1/volumeattachments", `{"apiVersion":"storage.k8s.io/v1","kind":"VolumeAttachment","metadata":{"name":"va"},"spec":{"attacher":"a","nodeName":"n1","source":{"persistentVolumeName":"pv"}}}`)
	may("an attachment", n1, "GET", "/apis/storage.k8s.io/v1/volumeattachments/va", 200, "")
	g.do(t, 200, "DELETE", "/api/v1/namespaces/default/pods/p?gracePeriodSeconds=0", nil)
	may("when the pod is gone", n1, "GET", ns+"secrets/used", 403, unrelated)
	may("behind a volume, when the pod is gone", n1, "GET", ns+"secrets/behind", 403, unrelated)
	create(ns+"pods", pod("p", "n2"))
	may("when the pod is another node's", n2, "GET", ns+"secrets/used", 200, "")
	may("when the pod is another node's", n1, "GET", ns+"secrets/used", 403, unrelated)
	// What was there before the server counts as well.
	g.stop(15)
	g.start()
	may("after a restart", n2, "GET", ns+"secrets/used", 200, "")
	if text := string(g.do(t, 200, "GET", "/metrics", nil)); !strings.Contains(text, `node_authorizer_graph_actions_duration_seconds_count{operation="AddPod"} 1`) {
		t.Error("metrics do not count what the graph is told")
	}
}
