package core

import (
	"context"
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-io/keelson/internal/builtin/describe"
	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/kind"
)

// This file describes component statuses, of which nothing is stored: kubectl get componentstatuses.

// componentStatus is deprecated, and people still ask for it.
type componentStatus = corev1.ComponentStatus

// The store is shown under the name that upstream gives its first etcd.
const (
	storeComponent = "etcd-0"
	storeCheck     = "etcd" // of the server's health
)

// componentKinds returns component statuses.
func componentKinds() []describe.Description {
	return []describe.Description{{
		Kind: "ComponentStatus", Plural: "componentstatuses", ShortNames: []string{"cs"}, ClusterScoped: true,
		Versions: describe.V1[componentStatus](nil), Deprecated: "v1 ComponentStatus is deprecated in v1.19+",
		Traits: kind.Traits{Listed: &kind.Listed{Objects: listComponents, Missing: "componentstatus"}},
		Columns: []kind.Column{
			describe.Cell("Status", "Status of the component conditions", componentHealth),
			describe.Cell("Message", "Message of the component conditions", componentMember("message")),
			describe.Cell("Error", "Error of the component conditions", componentMember("error")),
		},
	}}
}

// listComponents returns the components that the server has: its store. It has no scheduler, and its
// controllers are parts of itself.
func listComponents(ctx context.Context, s kind.ListedSource) []kind.ListedObject {
	condition := corev1.ComponentCondition{Type: corev1.ComponentHealthy, Status: corev1.ConditionTrue, Message: "ok"}
	if err := s.Check(ctx, storeCheck); err != nil {
		condition = corev1.ComponentCondition{Type: corev1.ComponentHealthy, Status: corev1.ConditionFalse, Error: err.Error()}
	}
	text, err := json.Marshal(&componentStatus{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ComponentStatus"},
		ObjectMeta: metav1.ObjectMeta{Name: storeComponent},
		Conditions: []corev1.ComponentCondition{condition},
	})
	if err != nil {
		panic("BUG: " + err.Error()) // a Go type of the API
	}
	return []kind.ListedObject{{Name: storeComponent, Text: text}}
}

// healthyCondition returns the condition that tables show.
func healthyCondition(obj jsondoc.Value) jsondoc.Value {
	for _, c := range obj.Get("conditions").Items() {
		if c.Get("type").Text() == string(corev1.ComponentHealthy) {
			return c
		}
	}
	return jsondoc.Value{}
}

func componentHealth(obj jsondoc.Value) string {
	switch c := healthyCondition(obj); {
	case !c.Exists():
		return "Unknown"
	case c.Get("status").Text() == string(corev1.ConditionTrue):
		return "Healthy"
	}
	return "Unhealthy"
}

func componentMember(name string) func(jsondoc.Value) string {
	return func(obj jsondoc.Value) string { return healthyCondition(obj).Get(name).Text() }
}
