package builtin

import (
	"strings"
	"time"

	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-io/keelson/doc"
	"github.com/keelson-io/keelson/kind"
)

// This file describes the kinds of dynamic resource allocation. They are kept; nothing allocates a device.

func deviceKinds() []description {
	slice, taint := resourcev1.ResourceSliceSpec{}.SwaggerDoc(), resourcev1.DeviceTaint{}.SwaggerDoc()
	all := []description{{
		kind: "DeviceClass", plural: "deviceclasses", returned: true, cluster: true, generation: true, versions: v1[resourcev1.DeviceClass](nil),
	}, {
		kind: "ResourceClaim", plural: "resourceclaims", returned: true, status: true, statusKeeps: wholeMetadata,
		versions: v1(func(c *resourcev1.ResourceClaim) { fillClaim(&c.Spec) }),
		columns:  []kind.Column{cell("State", "A summary of the current state (allocated, pending, reserved, etc.).", claimState), ageColumn()},
		check:    both(immutableAs(asAsked, "spec"), checkClaimStatus),
	}, {
		kind: "ResourceClaimTemplate", plural: "resourceclaimtemplates", returned: true,
		versions: v1(func(t *resourcev1.ResourceClaimTemplate) { fillClaim(&t.Spec.Spec) }),
		check:    immutableAs(asGo[resourcev1.ResourceClaimTemplateSpec], "spec"),
	}, {
		kind: "ResourceSlice", plural: "resourceslices", returned: true, cluster: true, generation: true,
		versions: v1(func(s *resourcev1.ResourceSlice) {
			for i := range s.Spec.Devices {
				for j := range s.Spec.Devices[i].Taints {
					fillTaint(&s.Spec.Devices[i].Taints[j])
				}
			}
		}),
		fields: []kind.Selectable{kind.NewSelectable(".spec.nodeName"), kind.NewSelectable(".spec.driver"), kind.NewSelectable(".spec.pool.name")},
		columns: []kind.Column{
			cell("Node", slice["nodeName"], textAt("spec", "nodeName")),
			cell("Driver", slice["driver"], textAt("spec", "driver")),
			cell("Pool", resourcev1.ResourcePool{}.SwaggerDoc()["name"], textAt("spec", "pool", "name")),
			ageColumn(),
		},
		check: both(unlessStatus(checkSlice), both(immutable("spec", "pool", "name"), both(immutable("spec", "driver"), immutable("spec", "nodeName")))),
	}, {
		kind: "DeviceTaintRule", plural: "devicetaintrules", storedAs: "v1beta2", versioned: true, cluster: true, status: true, statusKeeps: wholeMetadata, generation: true,
		versions: v1(func(r *resourcev1.DeviceTaintRule) { fillTaint(&r.Spec.Taint) }), check: unlessStatus(checkTaintRule),
		columns: []kind.Column{
			cell("Key", taint["key"], textAt("spec", "taint", "key")),
			cell("Value", taint["value"], textAt("spec", "taint", "value")),
			cell("Effect", taint["effect"], textAt("spec", "taint", "effect")),
			timed("TimeAdded", taint["timeAdded"], func(obj doc.Value, now time.Time) string {
				return age(obj.At("spec", "taint", "timeAdded").Text(), now)
			}),
			ageColumn(),
		},
	}}
	for i := range all {
		all[i].group = "resource.k8s.io"
	}
	return all
}

func textAt(path ...string) func(doc.Value) string {
	return func(obj doc.Value) string { return obj.At(path...).Text() }
}

// claimState says how far a claim has come.
func claimState(obj doc.Value) string {
	var words []string
	deleted := obj.At("metadata", "deletionTimestamp").Exists()
	if deleted {
		words = append(words, "deleted")
	}
	switch status := obj.Get("status"); {
	case status.Get("allocation").Kind() != doc.Object:
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

// fillClaim: one device of each request, unless something else is asked for.
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

func fillCount(mode *resourcev1.DeviceAllocationMode, count *int64) {
	if *mode == "" {
		*mode = resourcev1.DeviceAllocationModeExactCount
	}
	if *mode == resourcev1.DeviceAllocationModeExactCount && *count == 0 {
		*count = 1
	}
}

func fillTaint(t *resourcev1.DeviceTaint) {
	orDefault(&t.TimeAdded, metav1.NewTime(time.Now().Truncate(time.Second)))
}
