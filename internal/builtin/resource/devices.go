// Package resource describes the kinds of the API group resource.k8s.io: devices, their classes and
// claims of them.
package resource

import (
	"strings"
	"time"

	resourcev1 "k8s.io/api/resource/v1"
	resourcev1beta2 "k8s.io/api/resource/v1beta2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-io/keelson/internal/builtin/describe"
	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/kind"
)

// This file describes the kinds of dynamic resource allocation. They are stored; nothing here
// allocates a device.

// Kinds returns the descriptions of the kinds of the group.
func Kinds() []describe.Description {
	slice, taint := resourcev1.ResourceSliceSpec{}.SwaggerDoc(), resourcev1.DeviceTaint{}.SwaggerDoc()
	all := []describe.Description{{
		Kind: "DeviceClass", Plural: "deviceclasses", Traits: kind.Traits{DeleteReturnsObject: true}, ClusterScoped: true, Generation: true, Versions: describe.V1[resourcev1.DeviceClass](nil),
	}, {
		Kind: "ResourceClaim", Plural: "resourceclaims", Traits: kind.Traits{DeleteReturnsObject: true, StatusKeeps: kind.WritableMetadata}, Status: true,
		Versions: describe.V1(func(c *resourcev1.ResourceClaim) { fillClaim(&c.Spec) }),
		Columns:  []kind.Column{describe.Cell("State", "A summary of the current state (allocated, pending, reserved, etc.).", claimState), describe.AgeColumn()},
		Check:    describe.Both(describe.ImmutableAs(shownRequest, "spec"), checkClaimStatus),
	}, {
		Kind: "ResourceClaimTemplate", Plural: "resourceclaimtemplates", Traits: kind.Traits{DeleteReturnsObject: true},
		Versions: describe.V1(func(t *resourcev1.ResourceClaimTemplate) { fillClaim(&t.Spec.Spec) }),
		Check:    describe.ImmutableAs(describe.AsGo[resourcev1.ResourceClaimTemplateSpec], "spec"),
	}, {
		Kind: "ResourceSlice", Plural: "resourceslices", Traits: kind.Traits{DeleteReturnsObject: true}, ClusterScoped: true, Generation: true,
		Versions: describe.V1(func(s *resourcev1.ResourceSlice) {
			for i := range s.Spec.Devices {
				for j := range s.Spec.Devices[i].Taints {
					fillTaint(&s.Spec.Devices[i].Taints[j])
				}
			}
		}),
		Fields: []kind.Selectable{kind.NewSelectable(".spec.nodeName"), kind.NewSelectable(".spec.driver"), kind.NewSelectable(".spec.pool.name")},
		Columns: []kind.Column{
			describe.Cell("Node", slice["nodeName"], describe.TextAt("spec", "nodeName")),
			describe.Cell("Driver", slice["driver"], describe.TextAt("spec", "driver")),
			describe.Cell("Pool", resourcev1.ResourcePool{}.SwaggerDoc()["name"], describe.TextAt("spec", "pool", "name")),
			describe.AgeColumn(),
		},
		Check: describe.Both(describe.UnlessStatus(checkSlice), describe.Both(describe.Immutable("spec", "pool", "name"), describe.Both(describe.Immutable("spec", "driver"), describe.Immutable("spec", "nodeName")))),
	}, {
		Kind: "DeviceTaintRule", Plural: "devicetaintrules", Traits: kind.Traits{RequireResourceVersion: true, StoredAs: "v1beta2", StatusKeeps: kind.WritableMetadata}, ClusterScoped: true, Status: true, Generation: true,
		Older:    []describe.Version{describe.VersionOf[resourcev1beta2.DeviceTaintRule](nil, "v1beta2")},
		Versions: describe.V1(func(r *resourcev1.DeviceTaintRule) { fillTaint(&r.Spec.Taint) }), Check: describe.UnlessStatus(checkTaintRule),
		Columns: []kind.Column{
			describe.Cell("Key", taint["key"], describe.TextAt("spec", "taint", "key")),
			describe.Cell("Value", taint["value"], describe.TextAt("spec", "taint", "value")),
			describe.Cell("Effect", taint["effect"], describe.TextAt("spec", "taint", "effect")),
			describe.Timed("TimeAdded", taint["timeAdded"], func(obj jsondoc.Value, now time.Time) string {
				return describe.Age(obj.At("spec", "taint", "timeAdded").Text(), now)
			}),
			describe.AgeColumn(),
		},
	}}
	for i := range all {
		all[i].Group = "resource.k8s.io"
	}
	return all
}

// claimState returns the state of a claim for tables.
func claimState(obj jsondoc.Value) string {
	var words []string
	deleted := obj.At("metadata", "deletionTimestamp").Exists()
	if deleted {
		words = append(words, "deleted")
	}
	switch status := obj.Get("status"); {
	case status.Get("allocation").Kind() != jsondoc.Object:
		if !deleted {
			words = append(words, "pending")
		}
	case status.Get("reservedFor").Len() > 0:
		words = append(words, "allocated", "reserved")
	default:
		words = append(words, "allocated")
	}
	return strings.Join(words, ",")
}

// fillClaim sets the defaults of the requests of a claim: one device each.
func fillClaim(spec *resourcev1.ResourceClaimSpec) {
	for i := range spec.Devices.Requests {
		r := &spec.Devices.Requests[i]
		if r.Exactly != nil {
			fillCount(&r.Exactly.AllocationMode, &r.Exactly.Count)
		}
		for j := range r.FirstAvailable {
			fillCount(&r.FirstAvailable[j].AllocationMode, &r.FirstAvailable[j].Count)
		}
	}
}

// fillCount sets the default number of devices.
func fillCount(mode *resourcev1.DeviceAllocationMode, count *int64) {
	if *mode == "" {
		*mode = resourcev1.DeviceAllocationModeExactCount
	}
	if *mode == resourcev1.DeviceAllocationModeExactCount && *count == 0 {
		*count = 1
	}
}

// fillTaint sets the time at which a taint was added.
func fillTaint(t *resourcev1.DeviceTaint) {
	describe.OrDefault(&t.TimeAdded, metav1.NewTime(time.Now().Truncate(time.Second)))
}
