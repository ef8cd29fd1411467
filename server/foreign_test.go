package server

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-io/keelson/crd"
	"github.com/keelson-io/keelson/internal/store/mem"
	"github.com/keelson-io/keelson/kind"
)

// This file opens stores that a kube-apiserver has written.

// message is what kubernetes stores.
type message interface{ Marshal() ([]byte, error) }

// stored returns an object as kube-apiserver stores built-in kinds.
func stored(t *testing.T, apiVersion, kindName string, o message) []byte {
	t.Helper()
	raw, err := o.Marshal()
	if err == nil {
		raw, err = kind.WrapProtobuf(raw, apiVersion, kindName)
	}
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// legacyDefinition is a definition as Kubernetes 1.15 has left it behind: all at the top, and
// nothing pruned.
const legacyDefinition = `{"kind":"CustomResourceDefinition","apiVersion":"apiextensions.k8s.io/v1beta1","metadata":{"name":"relics.demo.io","uid":"r","generation":1,
"creationTimestamp":"2019-01-01T00:00:00Z"},"spec":{"group":"demo.io","version":"v1","scope":"Namespaced","preserveUnknownFields":true,
"names":{"plural":"relics","singular":"relic","kind":"Relic","listKind":"RelicList"},"subresources":{"status":{}},
"validation":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","properties":{"n":{"type":"integer","maximum":3}}}}}},
"additionalPrinterColumns":[{"name":"N","type":"integer","JSONPath":".spec.n"}]},
"status":{"conditions":[{"type":"NamesAccepted","status":"True","lastTransitionTime":"2019-01-01T00:00:00Z","reason":"NoConflicts","message":"no conflicts found"},
{"type":"Established","status":"True","lastTransitionTime":"2019-01-01T00:00:00Z","reason":"InitialNamesAccepted","message":"the initial names have been accepted"}],
"acceptedNames":{"plural":"relics","singular":"relic","kind":"Relic","listKind":"RelicList"},"storedVersions":["v1"]}}`

// TestStoreOfKubernetes opens a store as kube-apiserver writes it: built-in kinds in protobuf,
// definitions of v1beta1, malformed objects. Controllers handle all of them, and the error for an
// unreadable object gives the reason.
// Ledger: stored-encodings.
func TestStoreOfKubernetes(t *testing.T) {
	now := metav1.Now()
	named := func(namespace, name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: namespace, Name: name, UID: "u", CreationTimestamp: now}
	}
	dependent := named("default", "orphan")
	dependent.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "gone", UID: "gone"}}
	going := named("", "going")
	going.DeletionTimestamp = &now
	//lint:ignore SA1019 clients still store it
	endpoints := &corev1.Endpoints{ObjectMeta: named("default", "web")}
	st := mem.New(mem.Options{})
	for key, value := range map[string][]byte{
		"secrets/default/s":              stored(t, "v1", "Secret", &corev1.Secret{ObjectMeta: named("default", "s"), Type: "Opaque", Data: map[string][]byte{"k": []byte("v")}}),
		"secrets/kube-system/enc":        []byte("k8s:enc:aescbc:v1:key1:\x01\x02\x03"),
		"services/specs/default/web":     stored(t, "v1", "Service", &corev1.Service{ObjectMeta: named("default", "web"), Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}),
		"services/endpoints/default/web": stored(t, "v1", "Endpoints", endpoints),
		"serviceaccounts/default/robot":  stored(t, "v1", "ServiceAccount", &corev1.ServiceAccount{ObjectMeta: named("default", "robot")}),
		"minions/n1":                     stored(t, "v1", "Node", &corev1.Node{ObjectMeta: named("", "n1")}),
		"controllers/default/rc":         stored(t, "v1", "ReplicationController", &corev1.ReplicationController{ObjectMeta: named("default", "rc")}),
		"configmaps/default/orphan":      stored(t, "v1", "ConfigMap", &corev1.ConfigMap{ObjectMeta: dependent}),
		"configmaps/going/a":             stored(t, "v1", "ConfigMap", &corev1.ConfigMap{ObjectMeta: named("going", "a")}),
		"namespaces/going": stored(t, "v1", "Namespace", &corev1.Namespace{ObjectMeta: going,
			Spec: corev1.NamespaceSpec{Finalizers: []corev1.FinalizerName{"kubernetes"}}, Status: corev1.NamespaceStatus{Phase: "Terminating"}}),
		"namespaces/default": stored(t, "v1", "Namespace", &corev1.Namespace{ObjectMeta: named("", "default"),
			Spec: corev1.NamespaceSpec{Finalizers: []corev1.FinalizerName{"kubernetes"}}, Status: corev1.NamespaceStatus{Phase: "Active"}}),
		"clusterroles/mine": stored(t, "rbac.authorization.k8s.io/v1", "ClusterRole", &rbacv1.ClusterRole{ObjectMeta: named("", "mine"),
			AggregationRule: &rbacv1.AggregationRule{ClusterRoleSelectors: []metav1.LabelSelector{{MatchLabels: map[string]string{"kubernetes.io/bootstrapping": "rbac-defaults"}}}}}),
		crd.Prefix + "/relics.demo.io": []byte(legacyDefinition),
		"demo.io/relics/default/odd":   []byte(`{"apiVersion":"demo.io/v1","kind":"Relic","metadata":{"name":"odd","namespace":"default","uid":"o","labels":{"a":1},"finalizers":"none","generation":0},"spec":{"n":9,"more":true}}`),
		"demo.io/relics/default/cbor":  []byte("\xd9\xd9\xf7\xa1\x61a\x01"),
		"masterleases/10.0.0.1":        []byte("k8s\x00rubbish"),
	} {
		if _, err := st.Create(context.Background(), key, value); err != nil {
			t.Fatal(err)
		}
	}
	r := start(t, Config{Store: st})
	for path, want := range map[string]string{
		"/api/v1/namespaces/default/secrets/s":                                   `"k":"dg=="`,
		"/api/v1/namespaces/default/services/web":                                `"port":80`,
		"/api/v1/namespaces/default/endpoints/web":                               `"name":"web"`,
		"/api/v1/nodes/n1":                                                       `"name":"n1"`,
		"/api/v1/namespaces/default/replicationcontrollers/rc":                   `"name":"rc"`,
		"/apis/demo.io/v1/namespaces/default/relics/odd":                         `"more":true`,
		"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/relics.demo.io": `"jsonPath":".spec.n"`,
	} {
		if code, text := r.call(r.client, "GET", path, ""); code != 200 || !strings.Contains(text, want) {
			t.Errorf("%s: got %d %s, want %s", path, code, text, want)
		}
	}
	for _, path := range []string{"/api/v1/namespaces/default/configmaps/orphan", "/api/v1/namespaces/going"} {
		r.until(path+" is gone", func() bool {
			code, _ := r.call(r.client, "GET", path, "")
			return code == 404
		})
	}
	r.until("the role is aggregated", func() bool {
		return strings.Contains(r.must("GET", rbacPath+"clusterroles/mine", ""), "selfsubjectaccessreviews")
	})
	// A service account gets a token, with which somebody is let in.
	var token struct{ Status struct{ Token string } }
	if err := json.Unmarshal([]byte(r.must("POST", "/api/v1/namespaces/default/serviceaccounts/robot/token", `{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{}}`,
		"Content-Type", "application/json")), &token); err != nil {
		t.Fatal(err)
	}
	if code, text := r.as(token.Status.Token, "POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", `{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}`); code != 201 || !strings.Contains(text, "system:serviceaccount:default:robot") {
		t.Errorf("token: got %d %s", code, text)
	}
	// The malformed object: what is wrong with its metadata is dropped; it is validated when it is
	// written, and can be deleted.
	text := r.must("GET", "/apis/demo.io/v1/namespaces/default/relics/odd", "")
	if strings.Contains(text, `"labels"`) || strings.Contains(text, `"finalizers"`) || !strings.Contains(text, `"generation":1`) {
		t.Errorf("malformed: got %s", text)
	}
	if code, text := r.call(r.client, "PATCH", "/apis/demo.io/v1/namespaces/default/relics/odd", `{"spec":{"n":8}}`, "Content-Type", "application/merge-patch+json"); code != 422 {
		t.Errorf("malformed: got %d %s", code, text)
	}
	r.must("PATCH", "/apis/demo.io/v1/namespaces/default/relics/odd", `{"spec":{"n":2}}`, "Content-Type", "application/merge-patch+json")
	r.must("DELETE", "/apis/demo.io/v1/namespaces/default/relics/odd", "")
	const encrypted, cbor = "identity transformer tried to read encrypted data", "it is stored as CBOR, which is not read"
	for path, want := range map[string]string{
		"/api/v1/namespaces/kube-system/secrets/enc": encrypted,
		"/api/v1/secrets": encrypted,
		"/apis/demo.io/v1/namespaces/default/relics/cbor": cbor,
		"/apis/demo.io/v1/namespaces/default/relics":      cbor,
	} {
		if code, text := r.call(r.client, "GET", path, ""); code != 500 || !strings.Contains(text, want) {
			t.Errorf("%s: got %d %s, want %s", path, code, text, want)
		}
	}
	r.must("GET", "/api/v1/namespaces/default/secrets", "")
}
