package core

import (
	"fmt"
	"math"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-io/keelson/internal/builtin/describe"
	"github.com/keelson-io/keelson/internal/texts"
	"github.com/keelson-io/keelson/jsondoc"
)

// sameSpec compares two specs without the members that may differ.
func sameSpec(new, old *jsondoc.Doc, may func(name string) bool) bool {
	a, b := new.Root().Get("spec"), old.Root().Get("spec")
	for name, value := range a.Members() {
		if !may(name) && !jsondoc.Equal(value, b.Get(name)) {
			return false
		}
	}
	for name := range b.Members() {
		if !may(name) && !a.Get(name).Exists() {
			return false
		}
	}
	return true
}

// The fields that may change, as errors list them.
const (
	claimMay = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"
	podMay   = "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`," +
		"`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations)," +
		"`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)

// checkPodUpdate refuses to change fields of a pod, except for a few.
func checkPodUpdate(new, old *jsondoc.Doc) field.ErrorList {
	path := field.NewPath("spec")
	a, b := new.Root().Get("spec"), old.Root().Get("spec")
	for _, list := range []string{"containers", "initContainers"} {
		if a.Get(list).Len() != b.Get(list).Len() {
			return field.ErrorList{field.Forbidden(path.Child(list), "pod updates may not add or remove containers")}
		}
	}
	if errs := checkDeadlineUpdate(a.Get("activeDeadlineSeconds"), b.Get("activeDeadlineSeconds"), path.Child("activeDeadlineSeconds")); errs != nil {
		return errs
	}
	now, was := describe.ReadAs[corev1.PodSpec](a), describe.ReadAs[corev1.PodSpec](b)
	var errs field.ErrorList
	gates := sets.New(was.SchedulingGates...)
	for i, g := range texts.Each(&errs, now.SchedulingGates) {
		if !gates.Has(g) {
			errs = append(errs, field.Forbidden(path.Child("schedulingGates").Index(i).Child("name"), fmt.Sprintf("only deletion is allowed, but found new scheduling gate '%s'", g.Name)))
		}
	}
	kept := sets.Set[corev1.Toleration]{}
	for _, t := range now.Tolerations {
		t.TolerationSeconds = nil
		kept.Insert(t)
	}
	for _, t := range was.Tolerations {
		if t.TolerationSeconds = nil; !kept.Has(t) {
			errs = append(errs, field.Forbidden(path.Child("tolerations"), "existing toleration can not be modified except its tolerationSeconds"))
			break
		}
	}
	if !samePod(a, b, new, old) {
		errs = append(errs, field.Forbidden(path, podMay))
	}
	return errs
}

// samePod compares pods without the fields that may change.
func samePod(a, b jsondoc.Value, new, old *jsondoc.Doc) bool {
	may := []string{"containers", "initContainers", "activeDeadlineSeconds", "tolerations", "schedulingGates", "terminationGracePeriodSeconds"}
	if b.Get("schedulingGates").Len() > 0 { // a pod with scheduling gates waits: its placement may become stricter
		may = append(may, "nodeSelector", "affinity")
	}
	same := sameSpec(new, old, func(name string) bool { return slices.Contains(may, name) })
	for _, list := range []string{"containers", "initContainers"} {
		same = same && sameContainers(a.Get(list), b.Get(list))
	}
	if grace := b.Get("terminationGracePeriodSeconds"); !jsondoc.Equal(a.Get("terminationGracePeriodSeconds"), grace) {
		same = same && grace.Int() < 0 && a.Get("terminationGracePeriodSeconds").Int() == 1
	}
	return same
}

// checkDeadlineUpdate refuses to give a pod more time than it had.
func checkDeadlineUpdate(now, was jsondoc.Value, path *field.Path) field.ErrorList {
	switch n := now.Int(); {
	case now.Exists() && (n < 0 || n > math.MaxInt32):
		return field.ErrorList{field.Invalid(path, n, validation.InclusiveRangeError(0, math.MaxInt32))}
	case !was.Exists():
	case !now.Exists():
		return field.ErrorList{field.Invalid(path, nil, "must not update from a positive integer to nil value")}
	case n > was.Int():
		return field.ErrorList{field.Invalid(path, n, "must be less than or equal to previous value")}
	}
	return nil
}

// sameContainers compares containers apart from their images.
func sameContainers(a, b jsondoc.Value) bool {
	if a.Len() != b.Len() {
		return false
	}
	for i := range a.Len() {
		x, y := a.Item(i), b.Item(i)
		if !slices.Equal(without(x, "image"), without(y, "image")) {
			return false
		}
	}
	return true
}

// without returns the JSON of an object's members without one of them.
func without(v jsondoc.Value, name string) []string {
	var out []string
	for key, value := range v.Members() {
		if key != name {
			out = append(out, strings.Clone(key)+string(value.AppendJSON(nil)))
		}
	}
	return out
}
