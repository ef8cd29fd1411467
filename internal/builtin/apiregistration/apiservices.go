// Package apiregistration has the kind APIService. The server makes its objects from the list of
// what it serves.
package apiregistration

import (
	"context"
	"crypto/sha1"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/kind"
	"github.com/keelson-io/keelson/schema/structural"
)

// This file makes the objects: one for each version of a group that the server serves. None is
// stored.

const apiRegistration = "apiregistration.k8s.io"

// Kind returns the kind APIService.
func Kind() *kind.Kind {
	spec := structural.Object(map[string]*structural.Schema{
		"group": structural.String(), "version": structural.String(),
		"groupPriorityMinimum": {Type: "integer", Format: "int32"}, "versionPriority": {Type: "integer", Format: "int32"},
	})
	s := structural.Object(map[string]*structural.Schema{
		"spec": spec, "status": structural.Object(map[string]*structural.Schema{"conditions": structural.Conditions(nil)}),
	})
	k := kind.NewBuiltin(kind.Kind{
		Group: apiRegistration, Plural: "apiservices", Singular: "apiservice", Name: "APIService", Categories: []string{"api-extensions"},
		StoragePrefix: apiRegistration + "/apiservices", Behavior: kind.Behavior{Traits: kind.Traits{PrintType: reflect.TypeFor[apiService](), Listed: &kind.Listed{
			Objects: func(_ context.Context, s kind.ListedSource) []kind.ListedObject { return listServices(s.Kinds) },
			Refusal: "say what this server serves itself: they cannot be written or watched, and no API of another server is served",
		}}},
	}, "v1", s, nil,
		kind.Column{
			Name: "Service", Type: "string", Description: "The reference to the service that hosts this API endpoint.",
			Cell: func(jsondoc.Value, time.Time) string { return "Local" },
		},
		kind.Column{
			Name: "Available", Type: "string", Description: "Whether this service is available.",
			Cell: func(jsondoc.Value, time.Time) string { return "True" },
		},
		kind.AgeColumn())
	k.Storage.Status = false
	return k
}

// priorities has the priorities of the groups of Kubernetes. Other groups have 1000, and their
// versions 100.
var priorities = map[string]int32{
	"": 18000, apiRegistration: 18000, "apps": 17800, "events.k8s.io": 17750, "authentication.k8s.io": 17700, "authorization.k8s.io": 17600,
	"autoscaling": 17500, "batch": 17400, "certificates.k8s.io": 17300, "networking.k8s.io": 17200, "policy": 17100,
	"rbac.authorization.k8s.io": 17000, "storage.k8s.io": 16800, "admissionregistration.k8s.io": 16700, "apiextensions.k8s.io": 16700,
	"scheduling.k8s.io": 16600, "coordination.k8s.io": 16500, "node.k8s.io": 16300, "discovery.k8s.io": 16200, "resource.k8s.io": 16200,
	"flowcontrol.apiserver.k8s.io": 16100, "storagemigration.k8s.io": 15800,
}

// versionPriorities has the priorities of versions that differ from 15.
var versionPriorities = map[string]int32{
	"/v1": 1, "autoscaling/v2": 30, "flowcontrol.apiserver.k8s.io/v1": 21, "resource.k8s.io/v1": 21, "apiextensions.k8s.io/v1beta1": 9,
}

// started is the creation time of the objects: the start of the process.
var started = metav1.Now().Rfc3339Copy()

// apiService has the fields of an APIService that are set.
type apiService struct {
	metav1.TypeMeta   `json:""`
	metav1.ObjectMeta `json:"metadata"`

	Spec struct {
		Group                string `json:"group,omitempty"`
		Version              string `json:"version"`
		GroupPriorityMinimum int32  `json:"groupPriorityMinimum"`
		VersionPriority      int32  `json:"versionPriority"`
	} `json:"spec"`
	Status struct {
		Conditions []metav1.Condition `json:"conditions"`
	} `json:"status"`
}

// listServices makes the objects, sorted by name.
func listServices(s *kind.Snapshot) []kind.ListedObject {
	seen := map[string]bool{}
	var out []kind.ListedObject
	for k := range s.All() {
		if !k.Established || k.Group == apiRegistration {
			continue
		}
		for _, v := range k.Versions {
			if name := v.Name + "." + k.Group; !seen[name] {
				seen[name] = true
				out = append(out, kind.ListedObject{Name: name, Text: serviceOf(name, v)})
			}
		}
	}
	slices.SortFunc(out, func(a, b kind.ListedObject) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// serviceOf returns the service of the group and version of v, as JSON.
func serviceOf(name string, v *kind.Version) []byte {
	o := apiService{TypeMeta: metav1.TypeMeta{Kind: "APIService", APIVersion: apiRegistration + "/v1"}}
	o.ObjectMeta = metav1.ObjectMeta{
		Name: name, UID: uidOf(name), CreationTimestamp: started, Labels: map[string]string{"kube-aggregator.kubernetes.io/automanaged": "onstart"},
	}
	o.Spec.Group, o.Spec.Version = v.Kind.Group, v.Name
	if minimum, ok := priorities[v.Kind.Group]; ok {
		o.Spec.GroupPriorityMinimum, o.Spec.VersionPriority = minimum, 15
		if p := versionPriorities[v.Kind.Group+"/"+v.Name]; p != 0 {
			o.Spec.VersionPriority = p
		}
	} else {
		o.Labels["kube-aggregator.kubernetes.io/automanaged"] = "true"
		o.Spec.GroupPriorityMinimum, o.Spec.VersionPriority = 1000, 100
	}
	o.Status.Conditions = []metav1.Condition{{
		Type: "Available", Status: metav1.ConditionTrue, LastTransitionTime: started, Reason: "Local", Message: "Local APIServices are always available",
	}}
	text, err := json.Marshal(&o)
	if err != nil {
		panic("BUG: " + err.Error()) // strings and numbers
	}
	return text
}

// uidOf returns a UID that is computed from the name, so that all servers return the same.
func uidOf(name string) types.UID {
	sum := sha1.Sum([]byte(apiRegistration + "/" + name))
	sum[6], sum[8] = sum[6]&0x0f|0x50, sum[8]&0x3f|0x80
	return types.UID(fmt.Sprintf("%x-%x-%x-%x-%x", sum[:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16]))
}
