package e2e

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"strings"
	"testing"
)

// This file tests nodes that try to reach objects that their pods do not need.

// foreignPod is a pod that a node makes for itself to get at a Secret.
const foreignPod = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"thief"},"spec":{"nodeName":"n1","containers":[{"name":"c","image":"i"}],
	"volumes":[{"name":"s","secret":{"secretName":"treasure"}}]}}`

// startNodes starts a server with the nodes n1 and n2, and a Secret that neither needs.
func startNodes(t *testing.T, args ...string) *guarded {
	g := startGuarded(t, "", []string{"system:node:n1/system:nodes", "system:node:n2/system:nodes", "system:node:/system:nodes"},
		append([]string{"--authorization-mode", "Node,RBAC"}, args...)...)
	for _, body := range []string{`{"apiVersion":"v1","kind":"Node","metadata":{"name":"n1"}}`,
		`{"apiVersion":"v1","kind":"Node","metadata":{"name":"n2"},"spec":{"taints":[{"key":"a","effect":"NoSchedule"}]}}`} {
		g.do(t, 201, "POST", "/api/v1/nodes", []byte(body))
	}
	g.do(t, 201, "POST", "/api/v1/namespaces", []byte(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"vault"}}`))
	g.do(t, 201, "POST", "/api/v1/namespaces/vault/secrets", []byte(`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"treasure"},"stringData":{"gold":"bars"}}`))
	return g
}

// TestNodeCannotReachForeignSecrets: a node makes a pod that mounts a Secret, binds it to itself and reads the Secret. NodeRestriction
// refuses the pod, and runs with the Node authorizer unless it is disabled.
// Ledger: node-restriction.
func TestNodeCannotReachForeignSecrets(t *testing.T) {
	t.Parallel()
	g := startNodes(t)
	const n1, at = "system:node:n1", "/api/v1/namespaces/vault/"
	if r := g.as(n1, "POST", at+"pods", foreignPod); r.code != 403 || !strings.Contains(r.body,
		`pods \"thief\" is forbidden: pod does not have \"kubernetes.io/config.mirror\" annotation, node \"n1\" can only create mirror pods`) {
		t.Errorf("creating the pod: got %d %s", r.code, r.body)
	}
	if r := g.as(n1, "GET", at+"secrets/treasure", ""); r.code != 403 {
		t.Errorf("reading the Secret: got %d %s, want 403", r.code, r.body)
	}
	g.stop(15)
	open := startNodes(t, "--disable-admission-plugins", "NodeRestriction")
	if r := open.as(n1, "POST", at+"pods", foreignPod); r.code != 201 {
		t.Errorf("creating the pod without the plugin: got %d %s, want 201", r.code, r.body)
	}
	if log := open.log.String(); !strings.Contains(log, "without the NodeRestriction admission plugin") {
		t.Errorf("the log does not warn that NodeRestriction is disabled: %s", log)
	}
}

// request makes a certificate request for a user.
func request(t *testing.T, user string) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: user, Organization: []string{"system:nodes"}}}, key)
	if err != nil {
		t.Fatal(err)
	}
	return base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}))
}

// TestNodeRestriction goes through the ways in which a node could widen its reach.
func TestNodeRestriction(t *testing.T) {
	t.Parallel()
	g := startNodes(t)
	const n1, core, ns = "system:node:n1", "/api/v1/", "/api/v1/namespaces/default/"
	uid := func(path string) string {
		t.Helper()
		var o struct{ Metadata struct{ UID string } }
		if err := json.Unmarshal(g.do(t, 200, "GET", path, nil), &o); err != nil {
			t.Fatal(err)
		}
		return o.Metadata.UID
	}
	create := func(path, body string) { t.Helper(); g.do(t, 201, "POST", path, []byte(body)) }
	g.do(t, 201, "POST", ns+"serviceaccounts", []byte(`{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":"admin"}}`))
	for _, node := range []string{"n1", "n2"} {
		create(ns+"pods", fmt.Sprintf(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"on-%s","labels":{"a":"b"}},"spec":{"nodeName":%q,"serviceAccountName":"admin",
			"containers":[{"name":"c","image":"i"}],"volumes":[{"name":"v","persistentVolumeClaim":{"claimName":"claim"}},{"name":"t","projected":{"sources":[
			{"serviceAccountToken":{"path":"t","audience":"db"}}]}}]}}`, node, node))
	}
	create(ns+"persistentvolumeclaims", `{"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{"name":"claim"},"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}},"volumeName":"pv"}}`)
	create(core+"persistentvolumes", `{"apiVersion":"v1","kind":"PersistentVolume","metadata":{"name":"pv"},"spec":{"accessModes":["ReadWriteOnce"],"capacity":{"storage":"1Gi"},
		"claimRef":{"namespace":"default","name":"claim"},"hostPath":{"path":"/x"}}}`)
	node, theirs, mine := uid(core+"nodes/n1"), uid(ns+"pods/on-n2"), uid(ns+"pods/on-n1")
	mirror := func(name, spec string) string {
		return fmt.Sprintf(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":%q,"annotations":{"kubernetes.io/config.mirror":"x"},"ownerReferences":[
			{"apiVersion":"v1","kind":"Node","name":"n1","uid":%q,"controller":true}]},"spec":{"containers":[{"name":"c","image":"i"}],%s}}`, name, node, spec)
	}
	token := func(pod, uid, audiences string) string {
		return fmt.Sprintf(`{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{"audiences":[%s],"boundObjectRef":{"apiVersion":"v1","kind":"Pod","name":%q,"uid":%q}}}`, audiences, pod, uid)
	}
	csr := func(user string) string {
		return fmt.Sprintf(`{"apiVersion":"certificates.k8s.io/v1","kind":"CertificateSigningRequest","metadata":{"generateName":"csr-"},"spec":{"request":%q,
			"signerName":"kubernetes.io/kube-apiserver-client-kubelet","usages":["client auth","digital signature"]}}`, request(t, user))
	}
	lease := `{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":%q},"spec":{}}`
	const certificate = `{"apiVersion":"certificates.k8s.io/v1","kind":"PodCertificateRequest","metadata":{"name":"r"},"spec":{"signerName":"a.io/b","podName":"on-n2","podUID":"u",
		"serviceAccountName":"admin","serviceAccountUID":"u","nodeName":"n2","nodeUID":"u","pkixPublicKey":"AAAA","proofOfPossession":"AAAA"}}`
	const attachment, leases = "/apis/storage.k8s.io/v1/volumeattachments", "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
	for _, row := range []struct {
		what, user, method, path, body string
		code                           int
		text                           string
	}{
		{"a mirror pod", n1, "POST", ns + "pods", mirror("m", `"nodeName":"n1"`), 201, ""},
		{"a mirror pod with a Secret", n1, "POST", ns + "pods", mirror("x", `"nodeName":"n1","volumes":[{"name":"s","secret":{"secretName":"treasure"}}]`), 403, `a mirror pod may not reference secrets`},
		{"a Secret in the environment", n1, "POST", ns + "pods", strings.Replace(mirror("x", `"nodeName":"n1"`), `"image":"i"`, `"image":"i","envFrom":[{"secretRef":{"name":"treasure"}}]`, 1), 403, `a mirror pod may not reference secrets`},
		{"a service account", n1, "POST", ns + "pods", mirror("x", `"nodeName":"n1","serviceAccountName":"admin"`), 403, `a mirror pod may not reference service accounts`},
		{"a service account by its old name", n1, "POST", ns + "pods", mirror("x", `"nodeName":"n1","serviceAccount":"admin"`), 403, `a mirror pod may not reference service accounts`},
		{"a claim", n1, "POST", ns + "pods", mirror("x", `"nodeName":"n1","volumes":[{"name":"s","persistentVolumeClaim":{"claimName":"claim"}}]`), 403, `can not create pods that reference persistentvolumeclaims`},
		{"a resource claim", n1, "POST", ns + "pods", mirror("x", `"nodeName":"n1","resourceClaims":[{"name":"c","resourceClaimName":"c"}]`), 403, `can not create pods that reference resourceclaims`},
		{"a pod of another node", n1, "POST", ns + "pods", mirror("x", `"nodeName":"n2"`), 403, `node "n1" can only create pods with spec.nodeName set to itself`},
		{"a pod of a set", n1, "POST", ns + "pods", strings.Replace(mirror("x", `"nodeName":"n1"`), `"kind":"Node"`, `"kind":"ReplicaSet"`, 1), 403, `with an owner reference set to itself`},
		{"deleting another node's pod", n1, "DELETE", ns + "pods/on-n2", "", 403, `node "n1" can only delete pods with spec.nodeName set to itself`},
		{"changing a pod", n1, "PATCH", ns + "pods/on-n1", `{"metadata":{"labels":{"a":"c"}}}`, 403, `cannot patch resource "pods"`},
		{"an ephemeral container", n1, "PATCH", ns + "pods/on-n1/ephemeralcontainers", `{"spec":{"ephemeralContainers":[{"name":"e","image":"i"}]}}`, 403, `cannot patch resource "pods/ephemeralcontainers"`},
		{"binding a pod", n1, "POST", ns + "pods/on-n1/binding", `{"apiVersion":"v1","kind":"Binding","metadata":{"name":"on-n1"},"target":{"name":"n1"}}`, 403, `cannot create resource "pods/binding"`},
		{"evicting another node's pod", n1, "POST", ns + "pods/on-n2/eviction", `{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"on-n2"}}`, 403, `node n1 can only evict pods with spec.nodeName set to itself`},
		{"a pod's status", n1, "PATCH", ns + "pods/on-n1/status", `{"status":{"phase":"Running"}}`, 200, ""},
		{"labels by a status", n1, "PATCH", ns + "pods/on-n1/status", `{"metadata":{"labels":{"a":"c"}}}`, 403, `node "n1" cannot update labels through pod status`},
		{"claims by a status", n1, "PATCH", ns + "pods/on-n1/status", `{"status":{"resourceClaimStatuses":[{"name":"c","resourceClaimName":"c"}]}}`, 403, `node "n1" cannot update resource claim statues`},
		{"another pod's status", n1, "PATCH", ns + "pods/on-n2/status", `{"status":{"phase":"Failed"}}`, 403, `node "n1" can only update pod status for pods with spec.nodeName set to itself`},
		{"another node", n1, "PATCH", core + "nodes/n2", `{"metadata":{"labels":{"a":"b"}}}`, 403, `node "n1" is not allowed to modify node "n2"`},
		{"nothing of another node", n1, "PATCH", core + "nodes/n2", `{}`, 403, `node "n1" is not allowed to modify node "n2"`},
		{"another node's status", n1, "PATCH", core + "nodes/n2/status", `{"status":{"phase":"x"}}`, 403, `node "n1" is not allowed to modify node "n2"`},
		{"a node of another name", n1, "POST", core + "nodes", `{"apiVersion":"v1","kind":"Node","metadata":{"name":"n3"}}`, 403, `node "n1" is not allowed to modify node "n3"`},
		{"a generated node", n1, "POST", core + "nodes", `{"apiVersion":"v1","kind":"Node","metadata":{"generateName":"n"}}`, 403, `node "n1" is not allowed to modify node ""`},
		{"labels that attract pods", n1, "PATCH", core + "nodes/n1", `{"metadata":{"labels":{"node-role.kubernetes.io/control-plane":"","x.node-restriction.kubernetes.io/y":""}}}`, 403,
			`nodes "n1" is forbidden: is not allowed to modify labels: node-role.kubernetes.io/control-plane, x.node-restriction.kubernetes.io/y`},
		{"such labels by the status", n1, "PATCH", core + "nodes/n1/status", `{"metadata":{"labels":{"node-role.kubernetes.io/control-plane":""}}}`, 403, `is not allowed to modify labels`},
		{"own labels", n1, "PATCH", core + "nodes/n1", `{"metadata":{"labels":{"a":"b","kubernetes.io/hostname":"n1","x.kubelet.kubernetes.io/y":"z"}}}`, 200, ""},
		{"taints", n1, "PATCH", core + "nodes/n1", `{"spec":{"taints":[{"key":"a","effect":"NoSchedule"}]}}`, 403, `node "n1" is not allowed to modify taints`},
		{"taints by the status", n1, "PATCH", core + "nodes/n1/status", `{"spec":{"taints":[{"key":"a","effect":"NoSchedule"}]}}`, 403, `node "n1" is not allowed to modify taints`},
		{"owners", n1, "PATCH", core + "nodes/n1", `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Node","name":"n2","uid":"u"}]}}`, 403, `node "n1" is not allowed to modify ownerReferences`},
		{"a config source", n1, "PATCH", core + "nodes/n1", `{"spec":{"configSource":{"configMap":{"namespace":"a","name":"b","kubeletConfigKey":"c"}}}}`, 403, `node "n1" is not allowed to update configSource to a new non-nil configSource`},
		{"a claim's status", n1, "PATCH", ns + "persistentvolumeclaims/claim/status", `{"status":{"capacity":{"storage":"2Gi"}}}`, 200, ""},
		{"a claim's volume by its status", n1, "PATCH", ns + "persistentvolumeclaims/claim/status", `{"spec":{"volumeName":"other"}}`, 403, `node "n1" is not allowed to update fields other than status.quantity and status.conditions: `},
		{"a claim's labels by its status", n1, "PATCH", ns + "persistentvolumeclaims/claim/status", `{"metadata":{"labels":{"a":"b"}}}`, 403, `is not allowed to update fields other than`},
		{"a volume", n1, "POST", core + "persistentvolumes", `{}`, 403, `cannot create resource "persistentvolumes"`},
		{"a volume's secret", n1, "PATCH", core + "persistentvolumes/pv", `{}`, 403, `cannot patch resource "persistentvolumes"`},
		{"an attachment", n1, "POST", attachment, `{}`, 403, `cannot create resource "volumeattachments"`},
		{"a resource claim's status", n1, "PATCH", "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims/c/status", `{}`, 403, `cannot patch resource "resourceclaims/status"`},
		{"a slice of another node", n1, "POST", "/apis/resource.k8s.io/v1/resourceslices", `{"apiVersion":"resource.k8s.io/v1","kind":"ResourceSlice","metadata":{"name":"s"},"spec":{"driver":"d.io","nodeName":"n2","pool":{"name":"p","resourceSliceCount":1}}}`, 403,
			`can only create ResourceSlice with the same NodeName as the requesting node`},
		{"a token for a pod", n1, "POST", ns + "serviceaccounts/admin/token", token("on-n1", mine, `"db"`), 201, ""},
		{"a token for the API", n1, "POST", ns + "serviceaccounts/admin/token", token("on-n1", mine, `"api"`), 403, `serviceaccounts "admin" is forbidden: `},
		{"a token for another node's pod", n1, "POST", ns + "serviceaccounts/admin/token", token("on-n2", theirs, `"db"`), 403, `node requested token bound to a pod scheduled on a different node`},
		{"a token for a pod of another uid", n1, "POST", ns + "serviceaccounts/admin/token", token("on-n1", theirs, `"db"`), 403, `does not match the UID in record`},
		{"an unbound token", n1, "POST", ns + "serviceaccounts/admin/token", `{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{"audiences":["db"]}}`, 403, `node requested token not bound to a pod`},
		{"a token of a foreign account", n1, "POST", ns + "serviceaccounts/default/token", token("on-n1", mine, `"db"`), 403, `no relationship found between node 'n1' and this object`},
		{"another node's certificate", n1, "POST", "/apis/certificates.k8s.io/v1/certificatesigningrequests", csr("system:node:n2"), 403, `can only create a node CSR with CN=system:node:n1`},
		{"an administrator's certificate", n1, "POST", "/apis/certificates.k8s.io/v1/certificatesigningrequests", csr("admin"), 403, `can only create a node CSR with CN=system:node:n1`},
		{"its own certificate", n1, "POST", "/apis/certificates.k8s.io/v1/certificatesigningrequests", csr("system:node:n1"), 201, ""},
		{"another pod's certificate", n1, "POST", "/apis/certificates.k8s.io/v1/namespaces/default/podcertificaterequests", certificate, 403, `PodCertificateRequest.Spec.NodeName="n2", which is not the requesting node "n1"`},
		{"another node's lease", n1, "POST", leases, fmt.Sprintf(lease, "n2"), 403, `can only access node lease with the same name as the requesting node`},
		{"a controller's lease", n1, "POST", "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases", fmt.Sprintf(lease, "n1"), 403, `can only access leases in the "kube-node-lease" system namespace`},
		{"its own lease", n1, "POST", leases, fmt.Sprintf(lease, "n1"), 201, ""},
		{"another CSINode", n1, "POST", "/apis/storage.k8s.io/v1/csinodes", `{"apiVersion":"storage.k8s.io/v1","kind":"CSINode","metadata":{"name":"n2"},"spec":{"drivers":[]}}`, 403, `can only access CSINode with the same name as the requesting node`},
		{"a node without a name", "system:node:", "POST", core + "nodes", `{"apiVersion":"v1","kind":"Node","metadata":{"name":"n4"}}`, 403, `unknown node for user`},
	} {
		header := []string{}
		if row.method == "PATCH" {
			header = []string{"Content-Type", "application/merge-patch+json"}
		}
		r := g.as(row.user, row.method, row.path, row.body, header...)
		var s struct{ Message string }
		if json.Unmarshal([]byte(r.body), &s); r.code != row.code || !strings.Contains(s.Message, row.text) {
			t.Errorf("%s: got %d %s, want %d %s", row.what, r.code, r.body, row.code, row.text)
		}
	}
}
