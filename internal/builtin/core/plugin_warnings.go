package core

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-io/keelson/internal/builtin/describe"
	"github.com/keelson-io/keelson/jsondoc"
)

// This file warns of deprecated fields, annotations, labels and volume sources.

// deprecatedLabels has the deprecated labels of nodes, with the text of the warning.
var deprecatedLabels = map[string]string{
	"beta.kubernetes.io/arch":                       `deprecated since v1.14; use "kubernetes.io/arch" instead`,
	"beta.kubernetes.io/os":                         `deprecated since v1.14; use "kubernetes.io/os" instead`,
	"failure-domain.beta.kubernetes.io/region":      `deprecated since v1.17; use "topology.kubernetes.io/region" instead`,
	"failure-domain.beta.kubernetes.io/zone":        `deprecated since v1.17; use "topology.kubernetes.io/zone" instead`,
	"beta.kubernetes.io/instance-type":              `deprecated since v1.17; use "node.kubernetes.io/instance-type" instead`,
	"app.kubernetes.io/created-by":                  `deprecated since v1.9`,
	"scheduler.alpha.kubernetes.io/preferAvoidPods": `deprecated since v1.22; use Taints and Tolerations instead`,
	"node-role.kubernetes.io/master":                `use "node-role.kubernetes.io/control-plane" instead`,
}

// nodeTerms returns warnings about the labels in terms of node selectors, and about their values if
// asked for.
func nodeTerms(term *corev1.NodeSelectorTerm, values bool, path *field.Path) []string {
	var out []string
	for i, e := range term.MatchExpressions {
		at := path.Child("matchExpressions").Index(i)
		if msg := deprecatedLabels[e.Key]; msg != "" {
			out = append(out, fmt.Sprintf("%s: %s is %s", at.Child("key"), e.Key, msg))
		}
		for n, value := range e.Values {
			for _, msg := range validation.IsValidLabelValue(value) {
				if values {
					out = append(out, fmt.Sprintf("%s: %s is invalid, %s", at.Child("values").Index(n), value, msg))
				}
			}
		}
	}
	return out
}

// retired has the deprecated sources of volumes: the member of the object, its name in the warning,
// and the text.
var retired = []struct{ member, named, text string }{
	{"photonPersistentDisk", "photonPersistentDisk", "deprecated in v1.11, non-functional in v1.16+"},
	{"gitRepo", "gitRepo", "deprecated in v1.11, and disabled by default in v1.33+"},
	{"scaleIO", "scaleIO", "deprecated in v1.16, non-functional in v1.22+"},
	{"flocker", "flocker", "deprecated in v1.22, non-functional in v1.25+"},
	{"storageos", "storageOS", "deprecated in v1.22, non-functional in v1.25+"},
	{"quobyte", "quobyte", "deprecated in v1.22, non-functional in v1.25+"},
	{"glusterfs", "glusterfs", "deprecated in v1.25, non-functional in v1.26+"},
	{"cephfs", "cephfs", "deprecated in v1.28, non-functional in v1.31+"},
	{"rbd", "rbd", "deprecated in v1.28, non-functional in v1.31+"},
}

// retiredSources returns warnings about the source of a volume. It does not warn of the sources in
// but.
func retiredSources(volume jsondoc.Value, path *field.Path, but ...string) []string {
	var out []string
	for _, r := range retired {
		if volume.Get(r.member).Exists() && !slices.Contains(but, r.member) {
			out = append(out, fmt.Sprintf("%s: %s", path.Child(r.named), r.text))
		}
	}
	return out
}

// retiredAnnotations has the annotations of pods and templates that have become fields.
var retiredAnnotations = []struct{ key, text string }{
	{"scheduler.alpha.kubernetes.io/critical-pod", `non-functional in v1.16+; use the "priorityClassName" field instead`},
	{"security.alpha.kubernetes.io/sysctls", `non-functional in v1.11+; use the "sysctls" field instead`},
	{"security.alpha.kubernetes.io/unsafe-sysctls", `non-functional in v1.11+; use the "sysctls" field instead`},
}

// retired warns of annotations of a pod that have become fields.
func (w *podWarner) retired() {
	for _, r := range retiredAnnotations {
		if w.annotations.Get(r.key).Exists() {
			w.warn(w.annotated.Key(r.key), "%s", r.text)
		}
	}
}

// seccomp warns of the annotations for seccomp that are older than the field.
func (w *podWarner) seccomp(key string) {
	if w.annotations.Get(key).Exists() {
		w.warn(w.annotated.Key(key), `non-functional in v1.27+; use the "seccompProfile" field instead`)
	}
}

// appArmor warns of the annotations for AppArmor that are older than the field, unless the field
// has the same profile.
func (w *podWarner) appArmor(c *corev1.Container) {
	key := corev1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix + c.Name
	said := w.annotations.Get(key)
	if !said.Exists() || c.SecurityContext != nil && c.SecurityContext.AppArmorProfile != nil {
		return
	}
	profile := annotatedProfile(said.Text())
	own := w.SecurityContext != nil && w.SecurityContext.AppArmorProfile != nil && describe.SameJSON(profile, w.SecurityContext.AppArmorProfile)
	if !own && (w.template || w.OS == nil || w.OS.Name != corev1.Windows) {
		w.warn(w.annotated.Key(key), `deprecated since v1.30; use the "appArmorProfile" field instead`)
	}
}

// annotatedProfile returns the profile in an annotation, nil for none.
func annotatedProfile(text string) *corev1.AppArmorProfile {
	name, local := strings.CutPrefix(text, corev1.DeprecatedAppArmorBetaProfileNamePrefix)
	switch {
	case text == corev1.DeprecatedAppArmorBetaProfileNameUnconfined:
		return &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeUnconfined}
	case text == corev1.DeprecatedAppArmorBetaProfileRuntimeDefault:
		return &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeRuntimeDefault}
	case local && name != "":
		return &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeLocalhost, LocalhostProfile: &name}
	}
	return nil
}

// volumes warns of the volumes of a pod.
func (w *podWarner) volumes(spec jsondoc.Value, path *field.Path) {
	for i, v := range spec.Get("volumes").Items() {
		at := path.Child("volumes").Index(i)
		w.Add(retiredSources(v, at)...)
		if claim := v.At("ephemeral", "volumeClaimTemplate", "spec"); claim.Exists() {
			w.Add(ClaimWarnings(claim, at.Child("ephemeral", "volumeClaimTemplate", "spec"))...)
		}
	}
	for i := range w.Volumes {
		w.overlappingFiles(&w.Volumes[i])
	}
}

// ClaimWarnings returns warnings about the spec of a claim of a volume.
func ClaimWarnings(claim jsondoc.Value, path *field.Path) []string {
	var out []string
	resources := describe.ReadAs[corev1.PersistentVolumeClaimSpec](claim).Resources
	for _, of := range []struct {
		member string
		list   corev1.ResourceList
	}{{"requests", resources.Requests}, {"limits", resources.Limits}} {
		if q, ok := of.list[corev1.ResourceStorage]; ok && q.MilliValue()%1000 != 0 {
			out = append(out, fmt.Sprintf("%s: fractional byte value %q is invalid, must be an integer", path.Child("resources", of.member).Key("storage"), q.String()))
		}
	}
	return out
}

// deprecatedClass is the annotation for the class of a claim or a volume that is older than the
// field.
const deprecatedClass = "volume.beta.kubernetes.io/storage-class"

// volumeClaimWarnings returns warnings about deprecated annotations of a claim.
func volumeClaimWarnings(new, _ *jsondoc.Doc) []string {
	var out []string
	if new.Root().At("metadata", "annotations", deprecatedClass).Exists() {
		out = append(out, fmt.Sprintf("%s: %s", field.NewPath("metadata", "annotations").Key(deprecatedClass), `deprecated since v1.8; use "storageClassName" attribute instead`))
	}
	return append(out, ClaimWarnings(new.Root().Get("spec"), field.NewPath("spec"))...)
}

// volumeWarnings returns warnings about deprecated fields and sources of a volume.
func volumeWarnings(new, _ *jsondoc.Doc) []string {
	var out []string
	for _, a := range []struct{ key, text string }{
		{deprecatedClass, `deprecated since v1.8; use "storageClassName" attribute instead`},
		{"volume.beta.kubernetes.io/mount-options", `deprecated since v1.31; use "mountOptions" attribute instead`},
	} {
		if new.Root().At("metadata", "annotations", a.key).Exists() {
			out = append(out, fmt.Sprintf("%s: %s", field.NewPath("metadata", "annotations").Key(a.key), a.text))
		}
	}
	spec, path := describe.ReadAs[corev1.PersistentVolumeSpec](new.Root().Get("spec")), field.NewPath("spec")
	if spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimRecycle {
		out = append(out, fmt.Sprintf("%s: The Recycle reclaim policy is deprecated. Instead, the recommended approach is to use dynamic provisioning.", path.Child("persistentVolumeReclaimPolicy")))
	}
	if spec.NodeAffinity != nil && spec.NodeAffinity.Required != nil {
		for i := range spec.NodeAffinity.Required.NodeSelectorTerms {
			out = append(out, nodeTerms(&spec.NodeAffinity.Required.NodeSelectorTerms[i], false, path.Child("nodeAffinity", "required", "nodeSelectorTerms").Index(i))...)
		}
	}
	return append(out, retiredSources(new.Root().Get("spec"), path, "gitRepo", "flocker", "quobyte")...)
}
