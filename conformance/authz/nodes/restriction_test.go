// Package nodes holds Keelson's NodeRestriction against Kubernetes' admission plugin of that name: the same writes of nodes, the same
// objects around them, the same verdicts and texts.
package nodes

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	mrand "math/rand/v2"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	_ "k8s.io/kubernetes/pkg/apis/authentication/install"
	_ "k8s.io/kubernetes/pkg/apis/certificates/install"
	_ "k8s.io/kubernetes/pkg/apis/coordination/install"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	_ "k8s.io/kubernetes/pkg/apis/policy/install"
	_ "k8s.io/kubernetes/pkg/apis/resource/install"
	_ "k8s.io/kubernetes/pkg/apis/storage/install"
	"k8s.io/kubernetes/pkg/auth/nodeidentifier"
	"k8s.io/kubernetes/plugin/pkg/admission/noderestriction"

	"github.com/keelson-io/keelson/authz"
	ouradmission "github.com/keelson-io/keelson/internal/admission"
	ours "github.com/keelson-io/keelson/internal/admission/noderestriction"
	"github.com/keelson-io/keelson/internal/authn"
	"github.com/keelson-io/keelson/internal/builtin"
	"github.com/keelson-io/keelson/internal/status"
	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/kind"
)

// dice makes the same random choices every time.
type dice struct{ *mrand.Rand }

// one is one of the texts.
func (d dice) one(in ...string) string { return in[d.IntN(len(in))] }

// world is what is stored, for both sides.
type world map[string]runtime.Object

func key(resource, namespace, name string) string { return resource + "/" + namespace + "/" + name }

// Read implements noderestriction.Objects.
func (w world) Read(_ context.Context, r schema.GroupResource, namespace, name string, into any) (bool, error) {
	o, ok := w[key(r.Resource, namespace, name)]
	if !ok {
		return false, nil
	}
	text, err := json.Marshal(o)
	if err != nil {
		return false, err
	}
	return true, json.Unmarshal(text, into)
}

// fill puts objects into the world and into upstream's informers.
func (w world) fill(t *testing.T, f informers.SharedInformerFactory) {
	t.Helper()
	core, storage := f.Core().V1(), f.Storage().V1()
	stores := map[string]cache.Indexer{
		"pods": core.Pods().Informer().GetIndexer(), "nodes": core.Nodes().Informer().GetIndexer(),
		"serviceaccounts": core.ServiceAccounts().Informer().GetIndexer(), "csidrivers": storage.CSIDrivers().Informer().GetIndexer(),
		"persistentvolumeclaims": core.PersistentVolumeClaims().Informer().GetIndexer(), "persistentvolumes": core.PersistentVolumes().Informer().GetIndexer(),
	}
	add := func(resource string, o runtime.Object, text string) {
		if err := json.Unmarshal([]byte(text), o); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if err := stores[resource].Add(o); err != nil {
			t.Fatal(err)
		}
		var m struct {
			Metadata struct{ Namespace, Name string }
		}
		if err := json.Unmarshal([]byte(text), &m); err != nil {
			t.Fatal(err)
		}
		w[key(resource, m.Metadata.Namespace, m.Metadata.Name)] = o
	}
	for _, node := range []string{"n1", "n2"} {
		add("nodes", new(corev1.Node), `{"metadata":{"name":"`+node+`","uid":"u-`+node+`"}}`)
		for i, volume := range volumes {
			add("pods", new(corev1.Pod), fmt.Sprintf(`{"metadata":{"namespace":"ns","name":"%s-%d","uid":"u%[2]d"},"spec":{"nodeName":%[1]q,"serviceAccountName":"a","volumes":[%[3]s]}}`, node, i, volume))
		}
		add("pods", new(corev1.Pod), `{"metadata":{"namespace":"ns","name":"`+node+`-m","uid":"um","annotations":{"kubernetes.io/config.mirror":"x"}},"spec":{"nodeName":"`+node+`"}}`)
	}
	add("serviceaccounts", new(corev1.ServiceAccount), `{"metadata":{"namespace":"ns","name":"a","uid":"ua"}}`)
	add("csidrivers", new(storagev1.CSIDriver), `{"metadata":{"name":"d.io"},"spec":{"tokenRequests":[{"audience":"csi"}]}}`)
	for _, driver := range []string{"ebs.csi.aws.com", "pd.csi.storage.gke.io", "disk.csi.azure.com", "file.csi.azure.com", "cinder.csi.openstack.org"} {
		add("csidrivers", new(storagev1.CSIDriver), `{"metadata":{"name":"`+driver+`"},"spec":{"tokenRequests":[{"audience":"csi"}]}}`)
	}
	for i, source := range sources {
		add("persistentvolumeclaims", new(corev1.PersistentVolumeClaim), fmt.Sprintf(`{"metadata":{"namespace":"ns","name":"c%d"},"spec":{"volumeName":"v%[1]d"}}`, i))
		add("persistentvolumes", new(corev1.PersistentVolume), fmt.Sprintf(`{"metadata":{"name":"v%d","labels":{"topology.kubernetes.io/zone":%q}},"spec":{%s}}`, i, zones[i%len(zones)], source))
	}
	add("persistentvolumeclaims", new(corev1.PersistentVolumeClaim), `{"metadata":{"namespace":"ns","name":"unbound"}}`)
	add("persistentvolumeclaims", new(corev1.PersistentVolumeClaim), `{"metadata":{"namespace":"ns","name":"n1-3-e"},"spec":{"volumeName":"v0"}}`)
}

var zones = []string{"", "a-b-c__a-b-d", "a-b-c__x-y-z", "a__b", "a-b-c"}

// sources are those of persistent volumes.
var sources = []string{
	`"csi":{"driver":"d.io"}`, `"csi":{"driver":"none.io"}`, `"hostPath":{"path":"/x"}`, `"gcePersistentDisk":{"pdName":"p"}`, `"awsElasticBlockStore":{"volumeID":"aws://z/vol-1"}`,
	`"awsElasticBlockStore":{"volumeID":"aws://z/x"}`, `"awsElasticBlockStore":{"volumeID":"x"}`, `"awsElasticBlockStore":{"volumeID":"aws://%zz"}`, `"gcePersistentDisk":{"pdName":"p"}`,
	`"azureDisk":{"diskName":"d","kind":"Dedicated"}`, `"azureDisk":{"diskName":"d","kind":"managed"}`, `"azureFile":{"secretName":"s"}`,
	`"azureFile":{"secretName":"s"},"claimRef":{"namespace":"ns"}`, `"gcePersistentDisk":{"pdName":"p"}`, `"cinder":{"volumeID":"v"}`, `"portworxVolume":{"volumeID":"v"}`, `"vsphereVolume":{"volumePath":"v"}`,
	`"gcePersistentDisk":{"pdName":"q"}`,
}

// volumes are those of pods. A pod that needs no object has the ones at the end.
var volumes = func() []string {
	out := []string{
		``, `{"name":"t","projected":{"sources":[{"serviceAccountToken":{"path":"t","audience":"db"}}]}}`, `{"name":"t","projected":{"sources":[{"serviceAccountToken":{"path":"t"}}]}}`,
		`{"name":"e","ephemeral":{"volumeClaimTemplate":{"spec":{}}}}`, `{"name":"c","csi":{"driver":"d.io"}}`, `{"name":"c","csi":{"driver":"none.io"}}`,
		`{"name":"p","persistentVolumeClaim":{"claimName":"unbound"}}`, `{"name":"p","persistentVolumeClaim":{"claimName":"none"}}`,
		`{"name":"c","csi":{"driver":"none.io"}},{"name":"p","persistentVolumeClaim":{"claimName":"none"}}`,
		`{"name":"p","projected":{"sources":[{"podCertificate":{"signerName":"a.io/b","keyType":"ED25519"}}]}}`, `{"name":"s","secret":{"secretName":"s"}}`, `{"name":"s","configMap":{"name":"s"}}`,
		`{"name":"s","projected":{"sources":[{"secret":{"name":"s"}}]}}`, `{"name":"s","projected":{"sources":[{"configMap":{"name":"s"}}]}}`, `{"name":"s","projected":{"sources":[{"secret":{}}]}}`,
		`{"name":"s","projected":{"sources":[{"clusterTrustBundle":{"name":"a","path":"p"}}]}}`, `{"name":"s","projected":{"sources":[{}]}}`, `{"name":"s","glusterfs":{"endpoints":"e","path":"p"}}`,
		`{"name":"s","azureFile":{"secretName":"","shareName":"s"}}`, `{"name":"s","azureFile":{"secretName":"s","shareName":"s"}}`, `{"name":"s","cephfs":{"monitors":["m"],"secretRef":{"name":"s"}}}`,
		`{"name":"s","awsElasticBlockStore":{"volumeID":"aws://z/x"}}`, `{"name":"s","azureDisk":{"diskName":"d","diskURI":"u","kind":"Dedicated"}}`, `{"name":"s","gcePersistentDisk":{"pdName":"p"}}`,
		`{"name":"s","iscsi":{"targetPortal":"p","iqn":"i","lun":0,"secretRef":{"name":"s"}}}`, `{"name":"s","flexVolume":{"driver":"d","secretRef":{"name":""}}}`, `{"name":"s","rbd":{"monitors":["m"],"image":"i"}}`,
		`{"name":"s","emptyDir":{}}`, `{"name":"s","hostPath":{"path":"/x"}}`, `{"name":"s","projected":{"sources":[{"downwardAPI":{}}]}}`, `{"name":"s"}`, `{"name":"s","configMap":{}}`, `{"name":"s","secret":{}}`,
	}
	for i := range sources {
		out = append(out, fmt.Sprintf(`{"name":"p","persistentVolumeClaim":{"claimName":"c%d"}}`, i))
	}
	return out
}()

// write is a request.
type write struct {
	group, version, resource, subresource, kind string
	namespace, name                             string
	operation                                   ouradmission.Operation
	text, old                                   string
	user                                        authn.User
}

func (d dice) metadata(name, more string) string {
	return fmt.Sprintf(`"metadata":{"name":%q,"namespace":"ns"%s}`, name, more)
}

func (d dice) write(requests []string) *write {
	w := &write{version: "v1", namespace: "ns", name: d.one("n1", "n1", "n2", ""), user: authn.User{Name: d.one("system:node:n1", "system:node:n1", "system:node:n1", "system:node:", "ann"), Groups: []string{"system:nodes"}}}
	w.operation = []ouradmission.Operation{ouradmission.Create, ouradmission.Update, ouradmission.Delete}[d.IntN(3)]
	if d.IntN(20) == 0 {
		w.user.Groups = nil
	}
	object := func(more string) string {
		return fmt.Sprintf(`{"apiVersion":%q,"kind":%q,%s}`, strings.TrimPrefix(w.group+"/"+w.version, "/"), w.kind, more)
	}
	each := func(make func() string) { w.text, w.old = object(make()), object(make()) }
	node := func() string { return d.one("n1", "n1", "n1", "n2", "") }
	switch d.IntN(9) {
	case 0, 1:
		w.resource, w.kind, w.subresource = "pods", "Pod", d.one("", "", "status", "status", "ephemeralcontainers", "resize", "eviction")
		if w.subresource == "eviction" {
			w.group, w.kind, w.operation = "policy", "Eviction", ouradmission.Create
			w.name = d.one("", "n1-0", "n2-0", "none")
			each(func() string { return d.metadata(d.one("", "n1-0", "n2-1"), "") })
			break
		}
		w.name = d.one("n1-0", "n2-0")
		each(func() string { return d.pod(w.name, node()) })
		if w.operation == ouradmission.Delete {
			w.old = object(d.pod(w.name, w.name[:2])) // upstream looks at the stored object
		}
	case 2:
		w.resource, w.kind, w.namespace, w.subresource = "nodes", "Node", "", d.one("", "", "status")
		each(func() string {
			labels := d.one(`{}`, `{"a":"b"}`, `{"kubernetes.io/hostname":"h"}`, `{"x.kubelet.kubernetes.io/y":"z","node.kubernetes.io/a":"b"}`, `{"node-role.kubernetes.io/a":"b","x.k8s.io/y":"z"}`,
				`{"node-restriction.kubernetes.io/x":"y"}`, `{"a.node-restriction.kubernetes.io/x":"y","b":"c"}`, `{"kubernetes.io":"x","beta.kubernetes.io/os":"l","beta.kubernetes.io/x":"y"}`)
			spec := d.one(`{}`, `{}`, `{}`, `{"taints":[{"key":"a","effect":"NoSchedule"}]}`, `{"podCIDR":"10.0.0.0/24"}`, `{"configSource":{"configMap":{"namespace":"a","name":"b","kubeletConfigKey":"c"}}}`, `{"configSource":{}}`)
			owners := d.one("", "", "", `,"ownerReferences":[{"apiVersion":"v1","kind":"Node","name":"n2","uid":"u"}]`)
			return fmt.Sprintf(`"metadata":{"name":%q,"labels":%s%s},"spec":%s`, w.name, labels, owners, spec)
		})
	case 3:
		w.resource, w.kind, w.subresource = "persistentvolumeclaims", "PersistentVolumeClaim", d.one("status", "status", "status", "")
		each(func() string {
			return fmt.Sprintf(`%s,"spec":%s,"status":%s`, d.metadata("c", d.one("", "", `,"labels":{"a":"b"}`, `,"resourceVersion":"7"`, `,"finalizers":["a.io/b"]`)),
				d.one(`{"volumeName":"v"}`, `{"volumeName":"v"}`, `{"volumeName":"w","accessModes":["ReadWriteOnce"],"dataSource":{"kind":"K","name":"n"}}`, `{"resources":{"requests":{"storage":"1Gi"}},"selector":{"matchLabels":{"a":"b"}},"dataSourceRef":{"apiGroup":"a.io","kind":"K","name":"n"}}`),
				d.one(`{}`, `{"capacity":{"storage":"2Gi"}}`, `{"conditions":[{"type":"Resizing","status":"True"}]}`, `{"phase":"Bound"}`, `{"accessModes":["ReadWriteOnce"]}`, `{"allocatedResources":{"storage":"1Gi"},"allocatedResourceStatuses":{"storage":"x"}}`, `{"modifyVolumeStatus":{"status":"Pending"}}`))
		})
	case 4, 5:
		w.group, w.resource, w.kind, w.subresource, w.name = "authentication.k8s.io", "serviceaccounts", "TokenRequest", "token", "a"
		w.operation = ouradmission.Create
		i := d.IntN(len(volumes))
		ref := fmt.Sprintf(`{"apiVersion":"v1","kind":"Pod","name":"%s-%d","uid":"u%d"}`, node(), i, i)
		ref = d.one(ref, ref, ref, ref, ref, ref, ref, ref, `{}`, `{"apiVersion":"v1","kind":"Pod","name":"x"}`, `{"apiVersion":"v1","kind":"Secret","name":"x","uid":"u"}`, `{"apiVersion":"v1","kind":"Pod","name":"n1-0","uid":"other"}`, `null`)
		each(func() string {
			return fmt.Sprintf(`"spec":{"audiences":%s,"boundObjectRef":%s}`, d.one(`[]`, `["db"]`, `["csi"]`, `["csi"]`, `["api"]`, `["allowed"]`, `["broken"]`, `["a","b"]`), ref)
		})
	case 6:
		w.group, w.resource, w.kind = "certificates.k8s.io", "podcertificaterequests", "PodCertificateRequest"
		w.subresource, w.operation = d.one("", "", "", "", "status"), []ouradmission.Operation{ouradmission.Create, ouradmission.Create, ouradmission.Create, ouradmission.Update}[d.IntN(4)]
		i := d.one("0", "9", "9", "9", "m", "x")
		each(func() string {
			return fmt.Sprintf(`%s,"spec":{"signerName":%q,"podName":"%s-%s","podUID":%q,"serviceAccountName":%q,"serviceAccountUID":%q,"nodeName":%q,"nodeUID":%q}`, d.metadata("r", ""),
				d.one("a.io/b", "a.io/c", "a.io/allowed", "a.io/broken"), d.one("n1", "n1", "n1", "n1", "n2"), i, d.one("u"+i, "u"+i, "u"+i, "u"+i, "other"), d.one("a", "a", "a", "a", "b"), d.one("ua", "ua", "ua", "other"), d.one("n1", "n1", "n1", "n1", "n2", "n3"), d.one("u-n1", "u-n1", "u-n1", "u-n1", "x"))
		})
	case 7:
		w.namespace = ""
		switch d.IntN(3) {
		case 0:
			w.group, w.resource, w.kind = "resource.k8s.io", "resourceslices", "ResourceSlice"
			each(func() string {
				return `"metadata":{"name":"s"},"spec":{"driver":"d.io","pool":{"name":"p","resourceSliceCount":1}` + d.one(`,"nodeName":"n1"`, `,"nodeName":"n2"`, `,"nodeName":""`, ``) + `}`
			})
		case 1:
			w.group, w.resource, w.kind, w.subresource = "storage.k8s.io", "csinodes", "CSINode", d.one("", "", "status")
			each(func() string { return `"metadata":{"name":"` + d.one("n1", "n2", "") + `"},"spec":{"drivers":[]}` })
		case 2:
			w.group, w.resource, w.kind = "certificates.k8s.io", "certificatesigningrequests", "CertificateSigningRequest"
			each(func() string {
				return fmt.Sprintf(`"metadata":{"generateName":"c-"},"spec":{"request":%q,"usages":["client auth"],"signerName":%q}`, d.one(requests...),
					d.one("kubernetes.io/kube-apiserver-client-kubelet", "kubernetes.io/kubelet-serving", "kubernetes.io/kube-apiserver-client", "a.io/b"))
			})
		}
	case 8:
		w.group, w.resource, w.kind, w.namespace = "coordination.k8s.io", "leases", "Lease", d.one("kube-node-lease", "kube-node-lease", "ns")
		each(func() string { return `"metadata":{"name":"` + d.one("n1", "n2", "") + `"},"spec":{}` })
	}
	return w
}

func (d dice) pod(name, node string) string {
	owner := func() string {
		return `{"apiVersion":"` + d.one("v1", "v1", "v1", "v1", "v2") + `","kind":"` + d.one("Node", "Node", "Node", "Node", "Pod") + `","name":"` + d.one("n1", "n1", "n1", "n1", "n2") + `","uid":"` +
			d.one("u-n1", "u-n1", "u-n1", "u-n1", "x") + `"` + d.one(`,"controller":true`, `,"controller":true`, `,"controller":true`, `,"controller":false`, ``) + d.one(``, ``, `,"blockOwnerDeletion":false`, `,"blockOwnerDeletion":true`) + `}`
	}
	owners := d.one(owner(), owner(), owner(), owner(), owner(), owner()+","+owner(), "")
	container := d.one(``, ``, ``, `,"envFrom":[{"secretRef":{"name":"s"}}]`, `,"envFrom":[{"configMapRef":{"name":"s"}}]`, `,"env":[{"name":"A","valueFrom":{"secretKeyRef":{"name":"s","key":"k"}}}]`,
		`,"env":[{"name":"A","valueFrom":{"configMapKeyRef":{"name":"","key":"k"}}}]`, `,"env":[{"name":"A","valueFrom":{"configMapKeyRef":{"name":"s","key":"k"}}}]`)
	spec := fmt.Sprintf(`{"nodeName":%q,%q:[{"name":"c","image":"i"%s}],"volumes":[%s]%s}`, node, d.one("containers", "initContainers", "ephemeralContainers"), container,
		d.one("", d.one(volumes...)), d.one("", "", "", "", `,"serviceAccountName":"a"`, `,"serviceAccount":"a"`, `,"imagePullSecrets":[{"name":"s"}]`, `,"imagePullSecrets":[{"name":""}]`, `,"resourceClaims":[{"name":"c"}]`))
	status := d.one(`{}`, `{}`, `{}`, `{"phase":"Running"}`, `{"resourceClaimStatuses":[{"name":"c"}]}`, `{"resourceClaimStatuses":[{"name":"c","resourceClaimName":"x"}]}`,
		`{"extendedResourceClaimStatus":{"resourceClaimName":"x","requestMappings":[]}}`, `{"extendedResourceClaimStatus":{"resourceClaimName":"x","requestMappings":[{"containerName":"c","resourceName":"r","requestName":"q"}]}}`)
	annotations := d.one(`,"annotations":{"kubernetes.io/config.mirror":"x"}`, `,"annotations":{"kubernetes.io/config.mirror":""}`, `,"annotations":{"kubernetes.io/config.mirror":"x"}`, ``)
	return fmt.Sprintf(`%s,"spec":%s,"status":%s`, d.metadata(name, annotations+d.one("", "", "", `,"labels":{"a":"b"}`)+`,"ownerReferences":[`+owners+`]`), spec, status)
}

// sides are both plugins over the same world.
type sides struct {
	theirs *noderestriction.Plugin
	ours   *ours.Step
	kinds  map[string]*kind.Kind
}

var errBroken = errors.New("broken")

// says is the authorizer of both sides.
func says(resource string) (authorizer.Decision, error) {
	switch {
	case strings.HasSuffix(resource, "allowed"):
		return authorizer.DecisionAllow, nil
	case strings.HasSuffix(resource, "broken"):
		return authorizer.DecisionNoOpinion, errBroken
	}
	return authorizer.DecisionNoOpinion, nil
}

func newSides(t *testing.T) *sides {
	t.Helper()
	s := &sides{theirs: noderestriction.NewPlugin(nodeidentifier.NewDefaultNodeIdentifier()), kinds: map[string]*kind.Kind{}}
	s.theirs.InspectFeatureGates(utilfeature.DefaultFeatureGate)
	f := informers.NewSharedInformerFactory(fake.NewClientset(), 0)
	s.theirs.SetExternalKubeInformerFactory(f)
	s.theirs.SetUnconditionalAuthorizer(authorizer.AuthorizerFunc(func(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
		decision, err := says(a.GetResource())
		return decision, "", err
	}))
	if err := s.theirs.ValidateInitialization(); err != nil {
		t.Fatal(err)
	}
	w := world{}
	w.fill(t, f)
	s.ours = ours.New(w, authz.Func(func(_ context.Context, a *authz.Attributes) authz.Result {
		decision, err := says(a.Resource)
		return authz.Result{Decision: map[authorizer.Decision]authz.Decision{authorizer.DecisionAllow: authz.Allow}[decision], Err: err}
	}))
	for _, k := range builtin.All(nil) {
		s.kinds[k.Group+"/"+k.Plural] = k
	}
	return s
}

// askTheirs returns upstream's verdict.
func (s *sides) askTheirs(t *testing.T, w *write) error {
	t.Helper()
	decoded := func(text string) runtime.Object {
		o, err := runtime.Decode(legacyscheme.Codecs.UniversalDecoder(), []byte(text))
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		return o
	}
	var object, old runtime.Object
	if w.operation != ouradmission.Delete {
		object = decoded(w.text)
	}
	if w.operation != ouradmission.Create {
		old = decoded(w.old)
	}
	group := w.group
	if w.kind == "Eviction" || w.kind == "TokenRequest" {
		group = ""
	}
	return s.theirs.Admit(context.Background(), admission.NewAttributesRecord(object, old, schema.GroupVersionKind{Group: w.group, Version: w.version, Kind: w.kind}, w.namespace, w.name,
		schema.GroupVersionResource{Group: group, Version: "v1", Resource: w.resource}, w.subresource, admission.Operation(w.operation), nil, false,
		&user.DefaultInfo{Name: w.user.Name, Groups: w.user.Groups}), nil)
}

// askOurs returns our verdict.
func (s *sides) askOurs(t *testing.T, w *write) error {
	t.Helper()
	group := w.group
	if w.kind == "Eviction" || w.kind == "TokenRequest" {
		group = ""
	}
	k := s.kinds[group+"/"+w.resource]
	v := k.Version(w.version)
	form := v
	if w.kind != k.Name {
		form = k.Behavior.Subresource(w.subresource).Version
	}
	decoded := func(text string) *jsondoc.Doc {
		d := jsondoc.Get()
		if _, err := form.Decode(d, []byte(text)); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		return d
	}
	r := &ouradmission.Request{Operation: w.operation, Version: v, Subresource: w.subresource, Namespace: w.namespace, Name: w.name, User: &w.user}
	if w.operation != ouradmission.Delete {
		r.New = decoded(w.text)
	}
	if w.operation != ouradmission.Create {
		r.Old = decoded(w.old)
	}
	return s.ours.Mutate(context.Background(), r)
}

// code is the code of the answer.
func code(err error) int32 {
	var s apierrors.APIStatus
	switch {
	case err == nil:
		return 200
	case errors.As(err, &s) && err == error(s.(error)):
		return s.Status().Code
	}
	return 500
}

func csr(t *testing.T, name string) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: name}}, key)
	if err != nil {
		t.Fatal(err)
	}
	return base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}))
}

// TestNodeRestriction compares verdicts, codes and texts.
// Ledger: node-restriction.
func TestNodeRestriction(t *testing.T) {
	s, d := newSides(t), dice{mrand.New(mrand.NewPCG(1, 1))}
	requests := []string{csr(t, "system:node:n1"), csr(t, "system:node:n2"), csr(t, "admin"), "AAAA",
		base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: []byte("x")}))}
	n := 200_000
	if testing.Short() {
		n = 20_000
	}
	texts, allowed, different := map[string]bool{}, 0, 0
	for range n {
		w := d.write(requests)
		theirs, our := s.askTheirs(t, w), s.askOurs(t, w)
		if theirs == nil {
			allowed++
		} else {
			texts[theirs.Error()] = true
		}
		ourCode := int32(200)
		if our != nil {
			ourCode = status.From(our).Code
		}
		if code(theirs) != ourCode || fmt.Sprint(theirs) != fmt.Sprint(our) {
			if different++; different > 10 {
				t.Fatal("and more")
			}
			t.Errorf("%s %s/%s %s/%s by %v\nnew %s\nold %s\nupstream %d %v\nkeelson  %d %v", w.operation, w.resource, w.subresource, w.namespace, w.name, w.user, w.text, w.old,
				code(theirs), theirs, ourCode, our)
		}
	}
	t.Logf("%d requests, %d allowed, %d texts", n, allowed, len(texts))
	if allowed < n/20 || len(texts) < 150 {
		t.Errorf("the requests reach too little: %d of %d are allowed, %d texts", allowed, n, len(texts))
	}
}
