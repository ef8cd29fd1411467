package builtin

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-io/keelson/doc"
	"github.com/keelson-io/keelson/kind"
	"github.com/keelson-io/keelson/schema"
)

// This file refuses changes of what must stay as it was created.

// both runs one check after another.
func both(first, then checker) checker {
	return func(v *kind.Version, new, old *doc.Doc, scope schema.Scope) field.ErrorList {
		return append(first(v, new, old, scope), then(v, new, old, scope)...)
	}
}

// onlyMay refuses changes of a spec apart from the given members.
func onlyMay(detail string, may ...string) checker {
	return func(_ *kind.Version, new, old *doc.Doc, scope schema.Scope) field.ErrorList {
		if old == nil || scope == schema.Status || sameSpec(new, old, func(name string) bool { return slices.Contains(may, name) }) {
			return nil
		}
		return field.ErrorList{field.Forbidden(field.NewPath("spec"), detail)}
	}
}

// sameSpec compares two specs apart from the members that may differ.
func sameSpec(new, old *doc.Doc, may func(name string) bool) bool {
	a, b := new.Root().Get("spec"), old.Root().Get("spec")
	for name, value := range a.Members() {
		if !may(name) && !doc.Equal(value, b.Get(name)) {
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

// What errors say may be changed.
const (
	statefulSetMay = "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', " +
		"'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"
	claimMay = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"
	podMay   = "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`," +
		"`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations)," +
		"`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)

// checkJobUpdate refuses a change of what the pods of a job are made of, unless
// none have been made yet.
func checkJobUpdate(_ *kind.Version, new, old *doc.Doc, scope schema.Scope) field.ErrorList {
	if old == nil || scope == schema.Status {
		return nil
	}
	var errs field.ErrorList
	a, b := new.Root().Get("spec"), old.Root().Get("spec")
	for _, name := range []string{"template", "completionMode", "podFailurePolicy", "backoffLimitPerIndex"} {
		if name == "template" && b.Get("suspend").Bool() {
			continue
		}
		if now := a.Get(name); !doc.Equal(now, b.Get(name)) {
			errs = append(errs, field.Invalid(field.NewPath("spec", name), now.Interface(), "field is immutable").WithOrigin("immutable"))
		}
	}
	return errs
}

// checkPodUpdate refuses changes of a pod apart from those of a few fields.
func checkPodUpdate(new, old *doc.Doc) field.ErrorList {
	may := func(name string) bool {
		return name == "containers" || name == "initContainers" || name == "activeDeadlineSeconds" || name == "tolerations" ||
			name == "schedulingGates" || name == "terminationGracePeriodSeconds"
	}
	same := sameSpec(new, old, may) || old.Root().At("spec", "schedulingGates").Len() > 0
	a, b := new.Root().Get("spec"), old.Root().Get("spec")
	for _, list := range []string{"containers", "initContainers"} {
		same = same && sameContainers(a.Get(list), b.Get(list))
	}
	if grace := b.Get("terminationGracePeriodSeconds"); !doc.Equal(a.Get("terminationGracePeriodSeconds"), grace) {
		same = same && grace.Int() < 0 && a.Get("terminationGracePeriodSeconds").Int() == 1
	}
	var kept []string
	for _, t := range a.Get("tolerations").Items() {
		kept = append(kept, string(t.AppendJSON(nil)))
	}
	for _, t := range b.Get("tolerations").Items() {
		same = same && slices.Contains(kept, string(t.AppendJSON(nil)))
	}
	if same {
		return nil
	}
	return field.ErrorList{field.Forbidden(field.NewPath("spec"), podMay)}
}

// sameContainers compares containers apart from their images.
func sameContainers(a, b doc.Value) bool {
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

// without are the members of an object but one, as text.
func without(v doc.Value, name string) []string {
	var out []string
	for key, value := range v.Members() {
		if key != name {
			out = append(out, strings.Clone(key)+string(value.AppendJSON(nil)))
		}
	}
	return out
}

// checkClaimUpdate refuses changes of a claim apart from the room that it asks
// for.
func checkClaimUpdate(_ *kind.Version, new, old *doc.Doc, scope schema.Scope) field.ErrorList {
	if old == nil || scope == schema.Status {
		return nil
	}
	a, b := new.Root().Get("spec"), old.Root().Get("spec")
	bound := b.Get("volumeName").Text() == "" && a.Get("volumeName").Text() != ""
	may := func(name string) bool {
		return name == "resources" || name == "volumeAttributesClassName" || name == "volumeName" && bound
	}
	if sameSpec(new, old, may) && doc.Equal(a.At("resources", "limits"), b.At("resources", "limits")) {
		return nil
	}
	return field.ErrorList{field.Forbidden(field.NewPath("spec"), claimMay)}
}

// required refuses an object without what stands at a path.
func required(detail string, path ...string) checker {
	return func(_ *kind.Version, d, _ *doc.Doc, scope schema.Scope) field.ErrorList {
		if v := d.Root().At(path...); scope == schema.Status || v.Len() > 0 || v.Text() != "" {
			return nil
		}
		return field.ErrorList{field.Required(field.NewPath(path[0], path[1:]...), detail)}
	}
}

// immutable refuses changes of what stands at a path.
func immutable(path ...string) checker {
	return func(_ *kind.Version, new, old *doc.Doc, scope schema.Scope) field.ErrorList {
		if old == nil || scope == schema.Status {
			return nil
		}
		if now := new.Root().At(path...); !doc.Equal(now, old.Root().At(path...)) {
			return field.ErrorList{field.Invalid(field.NewPath(path[0], path[1:]...), now.Interface(), "field is immutable")}
		}
		return nil
	}
}
