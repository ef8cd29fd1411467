package resource

import (
	"regexp"

	resourcev1 "k8s.io/api/resource/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-io/keelson/internal/builtin/core"
	"github.com/keelson-io/keelson/internal/builtin/describe"
	"github.com/keelson-io/keelson/internal/texts"
	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/kind"
	"github.com/keelson-io/keelson/schema"
)

// This file checks claims of devices, slices of devices, and taints.

// shownRequest returns the request of a claim as errors print it, nil if it is empty.
func shownRequest(now jsondoc.Value) any {
	for _, list := range []string{"requests", "constraints", "config"} {
		if now.At("devices", list).Len() > 0 {
			return now.Interface()
		}
	}
	return nil
}

// shareID is the pattern for IDs of shares.
var shareID = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`)

// sharedDevice is an allocated device, or a share of it, as errors print it.
type sharedDevice struct{ Driver, Pool, Device, ShareID string }

// checkClaimStatus checks an update of a claim's status.
func checkClaimStatus(_ *kind.Version, new, old *jsondoc.Doc, scope schema.Scope) field.ErrorList {
	if scope != schema.Status {
		return nil
	}
	now, was := describe.ReadAs[resourcev1.ResourceClaimStatus](new.Root().Get("status")), describe.ReadAs[resourcev1.ResourceClaimStatus](old.Root().Get("status"))
	path := field.NewPath("status")
	var errs field.ErrorList
	for i, r := range texts.Each(&errs, now.ReservedFor) {
		at := path.Child("reservedFor").Index(i)
		errs = append(errs, describe.NeedText(at.Child("resource"), r.Resource)...)
		errs = append(errs, describe.NeedText(at.Child("name"), r.Name)...)
		errs = append(errs, describe.NeedText(at.Child("uid"), string(r.UID))...)
	}
	have := map[sharedDevice]bool{}
	if now.Allocation != nil {
		for _, r := range now.Allocation.Devices.Results {
			have[sharedDevice{r.Driver, r.Pool, r.Device, string(describe.OrNothing(r.ShareID))}] = true
		}
	}
	for i := range texts.Each(&errs, now.Devices) {
		errs = append(errs, checkDeviceStatus(&now.Devices[i], have, path.Child("devices").Index(i))...)
	}
	if len(now.ReservedFor) > 0 && now.Allocation == nil {
		errs = append(errs, field.Forbidden(path.Child("reservedFor"), "may not be specified when `allocated` is not set"))
	}
	if now.Allocation != nil && was.Allocation != nil && !describe.SameJSON(now.Allocation, was.Allocation) {
		errs = append(errs, field.Invalid(path.Child("allocation"), nil, "field cannot be modified once set").WithOrigin("update"))
	}
	return errs
}

// checkDeviceStatus checks the status of a device, which must be allocated.
func checkDeviceStatus(s *resourcev1.AllocatedDeviceStatus, have map[sharedDevice]bool, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if s.ShareID != nil && !shareID.MatchString(*s.ShareID) {
		errs = append(errs, field.Invalid(path.Child("shareID"), *s.ShareID, "must be a lowercase UUID in 8-4-4-4-12 format"))
	}
	if own := (sharedDevice{s.Driver, s.Pool, s.Device, describe.OrNothing(s.ShareID)}); !have[own] {
		errs = append(errs, field.Invalid(path, own, "must be an allocated device in the claim"))
	}
	errs = append(errs, metav1validation.ValidateConditions(s.Conditions, path.Child("conditions"))...)
	if s.NetworkData != nil {
		for i, ip := range texts.Each(&errs, s.NetworkData.IPs) {
			errs = append(errs, validation.IsValidInterfaceAddress(path.Child("networkData", "ips").Index(i), ip)...)
		}
	}
	return errs
}

// checkTaintRule checks the taint of a rule.
func checkTaintRule(new, _ *jsondoc.Doc) field.ErrorList {
	t, path := describe.ReadAs[resourcev1.DeviceTaint](new.Root().At("spec", "taint")), field.NewPath("spec", "taint")
	errs := metav1validation.ValidateLabelName(t.Key, path.Child("key"))
	if t.Value != "" {
		errs = append(errs, describe.Invalid(path.Child("value"), t.Value, validation.IsValidLabelValue(t.Value))...)
	}
	if t.Effect == "" {
		return append(errs, field.Required(path.Child("effect"), ""))
	}
	return append(errs, describe.Among(path.Child("effect"), t.Effect, resourcev1.DeviceTaintEffectNoExecute, resourcev1.DeviceTaintEffectNoSchedule, resourcev1.DeviceTaintEffectNone)...)
}

// checkSlice checks the driver and the nodes of a slice. The devices in it are not checked: they
// are up to the driver.
func checkSlice(new, _ *jsondoc.Doc) field.ErrorList {
	spec, path := describe.ReadAs[resourcev1.ResourceSliceSpec](new.Root().Get("spec")), field.NewPath("spec")
	var errs field.ErrorList
	if spec.Driver == "" {
		errs = append(errs, field.Required(path.Child("driver"), ""))
	} else {
		errs = append(errs, core.CheckDriverName(spec.Driver, path.Child("driver"))...)
	}
	errs = append(errs, describe.NeedText(path.Child("pool", "name"), spec.Pool.Name)...)
	if n := spec.Pool.ResourceSliceCount; n <= 0 {
		errs = append(errs, field.Invalid(path.Child("pool", "resourceSliceCount"), n, "must be greater than zero"))
	}
	if n := spec.Pool.Generation; n < 0 {
		errs = append(errs, field.Invalid(path.Child("pool", "generation"), n, "must be greater than or equal to zero"))
	}
	isSet := func(b *bool) bool { return b != nil }
	ways := 0
	for _, way := range []bool{spec.NodeName != nil, spec.NodeSelector != nil, isSet(spec.AllNodes), isSet(spec.PerDeviceNodeSelection)} {
		if way {
			ways++
		}
	}
	const exactly = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"
	switch {
	case ways == 0:
		errs = append(errs, field.Required(path, exactly))
	case ways > 1:
		errs = append(errs, field.Invalid(path, nil, exactly))
	}
	return errs
}
