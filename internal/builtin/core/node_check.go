package core

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-io/keelson/internal/builtin/describe"
	"github.com/keelson-io/keelson/internal/texts"
	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/kind"
	"github.com/keelson-io/keelson/schema"
)

// This file checks nodes, quotas and limit ranges.

// shownTaint is a taint as errors print it: with Go's field names.
type shownTaint struct {
	Key, Value string
	Effect     corev1.TaintEffect
	TimeAdded  *metav1.Time
}

// nodeWarnings returns warnings about a deprecated field and unusual ranges of addresses of a node.
func nodeWarnings(new, _ *jsondoc.Doc) []string {
	var out []string
	spec := describe.ReadAs[corev1.NodeSpec](new.Root().Get("spec"))
	if spec.DoNotUseExternalID != "" {
		out = append(out, "spec.externalID: this field is deprecated, and is unused by Kubernetes")
	}
	for i, cidr := range spec.PodCIDRs {
		out = append(out, validation.GetWarningsForCIDR(field.NewPath("spec", "podCIDRs").Index(i), cidr)...)
	}
	return out
}

// checkNode checks a node, and which of its fields an update changes.
func checkNode(_ *kind.Version, new, old *jsondoc.Doc, _ schema.Scope) field.ErrorList {
	spec, path := describe.ReadAs[corev1.NodeSpec](new.Root().Get("spec")), field.NewPath("spec")
	errs := checkTaints(spec.Taints, field.NewPath("metadata", "taints"))
	errs = append(errs, checkFeatures(new.Root().At("status", "declaredFeatures"))...)
	if old == nil {
		for i, cidr := range texts.Each(&errs, spec.PodCIDRs) {
			errs = append(errs, validation.IsValidCIDRForLegacyField(path.Child("podCIDRs").Index(i), cidr, true, nil)...)
		}
		return errs
	}
	was := describe.ReadAs[corev1.NodeSpec](old.Root().Get("spec"))
	if len(was.PodCIDRs) > 0 && !slices.Equal(was.PodCIDRs, spec.PodCIDRs) {
		errs = append(errs, field.Forbidden(path.Child("podCIDRs"), "node updates may not change podCIDR except from \"\" to valid"))
	}
	switch {
	case was.ProviderID == "" || was.ProviderID == spec.ProviderID:
	case spec.ProviderID == "":
		errs = append(errs, field.Invalid(path.Child("providerID"), nil, "field cannot be cleared once set"))
	default:
		errs = append(errs, field.Invalid(path.Child("providerID"), nil, "field cannot be modified once set"))
	}
	if was.DoNotUseExternalID != spec.DoNotUseExternalID {
		errs = append(errs, field.Forbidden(path.Child("externalID"), "may not be updated"))
	}
	return errs
}

// featureName is the pattern for the features that a node declares.
var featureName = regexp.MustCompile(`^[A-Z][a-zA-Z0-9]*(/[a-zA-Z][a-zA-Z0-9]*)*$`)

// checkFeatures checks the declared features of a node, which must be sorted.
func checkFeatures(features jsondoc.Value) field.ErrorList {
	var errs field.ErrorList
	last := ""
	for i, f := range texts.Until(&errs, features.Items()) {
		name, at := strings.Clone(f.Text()), field.NewPath("status", "declaredFeatures").Index(i)
		switch {
		case i > 0 && name == last:
			errs = append(errs, field.Duplicate(at, name))
		case name < last:
			errs = append(errs, field.Invalid(at, name, "list must be sorted alphabetically"))
		}
		if last = name; len(name) > validation.DNS1123SubdomainMaxLength {
			errs = append(errs, field.Invalid(at, name, fmt.Sprintf("invalid feature name %q: must be no more than %d characters", name, validation.DNS1123SubdomainMaxLength)))
		} else if !featureName.MatchString(name) {
			errs = append(errs, field.Invalid(at, name, fmt.Sprintf("invalid feature name %q: must start with an UpperCamelCase segment, with subsequent segments "+
				"separated by '/' (e.g., MyFeature or MyFeature/mySubFeature), and contain only alphanumeric characters and slashes", name)))
		}
	}
	return errs
}

// checkTaints checks the taints of a node; no two have the same key and effect.
func checkTaints(taints []corev1.Taint, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	have := map[string]bool{}
	for i, t := range texts.Each(&errs, taints) {
		at := path.Index(i)
		errs = append(errs, metav1validation.ValidateLabelName(t.Key, at.Child("key"))...)
		if msgs := validation.IsValidLabelValue(t.Value); len(msgs) > 0 {
			errs = append(errs, field.Invalid(at.Child("value"), t.Value, strings.Join(msgs, ";")))
		}
		if t.Effect == "" {
			errs = append(errs, field.Required(at.Child("effect"), ""))
		}
		errs = append(errs, checkTaintEffect(at.Child("effect"), t.Effect)...)
		if key := string(t.Effect) + "/" + t.Key; have[key] {
			err := field.Duplicate(at, shownTaint{t.Key, t.Value, t.Effect, t.TimeAdded})
			err.Detail = "taints must be unique by key and effect pair"
			errs = append(errs, err)
		} else {
			have[key] = true
		}
	}
	return errs
}

// Resources in quotas: those whose quantities are whole numbers, and others.
var (
	countedQuotas = []corev1.ResourceName{
		"pods", "services", "replicationcontrollers", "resourcequotas", "secrets", "configmaps", "persistentvolumeclaims", "services.nodeports", "services.loadbalancers",
	}
	measuredQuotas = []corev1.ResourceName{
		"cpu", "memory", "ephemeral-storage", "requests.cpu", "requests.memory", "requests.storage", "requests.ephemeral-storage",
		"limits.cpu", "limits.memory", "limits.ephemeral-storage",
	}
)

// checkQuotaStatus checks the quantities in a quota's status.
func checkQuotaStatus(new *jsondoc.Doc) field.ErrorList {
	var errs field.ErrorList
	status, path := describe.ReadAs[corev1.ResourceQuotaStatus](new.Root().Get("status")), field.NewPath("status")
	for _, of := range []struct {
		member string
		list   corev1.ResourceList
	}{{"hard", status.Hard}, {"used", status.Used}} {
		for _, name := range texts.Each(&errs, slices.Sorted(maps.Keys(of.list))) {
			at := path.Child(of.member).Key(string(name))
			errs = append(errs, checkQuotaName(at, name)...)
			errs = append(errs, CheckQuantity(at, of.list[name], isExtended(name) || slices.Contains(countedQuotas, name))...)
		}
	}
	return errs
}

// checkQuota checks the limits and scopes of a quota.
func checkQuota(_ *kind.Version, new, old *jsondoc.Doc, scope schema.Scope) field.ErrorList {
	if scope == schema.Status {
		return checkQuotaStatus(new)
	}
	spec, path := describe.ReadAs[corev1.ResourceQuotaSpec](new.Root().Get("spec")), field.NewPath("spec")
	var errs field.ErrorList
	for _, name := range texts.Each(&errs, slices.Sorted(maps.Keys(spec.Hard))) {
		at := path.Child("hard").Key(string(name))
		errs = append(errs, checkQuotaName(at, name)...)
		errs = append(errs, CheckQuantity(at, spec.Hard[name], isExtended(name) || slices.Contains(countedQuotas, name))...)
	}
	at := path.Child("scopes")
	has := func(a, b corev1.ResourceQuotaScope) bool {
		return slices.Contains(spec.Scopes, a) && slices.Contains(spec.Scopes, b)
	}
	for _, scope := range spec.Scopes {
		if !slices.Contains(quotaScopes, scope) {
			errs = append(errs, field.Invalid(at, spec.Scopes, "unsupported scope"))
		}
	}
	if has(corev1.ResourceQuotaScopeBestEffort, corev1.ResourceQuotaScopeNotBestEffort) || has(corev1.ResourceQuotaScopeTerminating, corev1.ResourceQuotaScopeNotTerminating) {
		errs = append(errs, field.Invalid(at, spec.Scopes, "conflicting scopes"))
	}
	if old == nil {
		return errs
	}
	was := describe.ReadAs[corev1.ResourceQuotaSpec](old.Root().Get("spec"))
	slices.Sort(was.Scopes)
	if !slices.Equal(slices.Sorted(slices.Values(spec.Scopes)), was.Scopes) {
		errs = append(errs, field.Invalid(at, spec.Scopes, "field is immutable"))
	}
	return errs
}

var quotaScopes = []corev1.ResourceQuotaScope{
	corev1.ResourceQuotaScopeTerminating, corev1.ResourceQuotaScopeNotTerminating, corev1.ResourceQuotaScopeBestEffort, corev1.ResourceQuotaScopeNotBestEffort,
	corev1.ResourceQuotaScopePriorityClass, corev1.ResourceQuotaScopeCrossNamespacePodAffinity, corev1.ResourceQuotaScopeVolumeAttributesClass,
}

// checkQuotaName checks the name of a resource that a quota limits.
func checkQuotaName(path *field.Path, name corev1.ResourceName) field.ErrorList {
	errs := describe.Invalid(path, name, validation.IsQualifiedName(string(name)))
	known := slices.Contains(countedQuotas, name) || slices.Contains(measuredQuotas, name)
	if strings.Contains(string(name), "/") || strings.HasPrefix(string(name), hugePages) || strings.HasPrefix(string(name), "requests."+hugePages) || known {
		return errs
	}
	if errs == nil && name != "storage" {
		errs = append(errs, field.Invalid(path, name, "must be a standard resource type or fully qualified"))
	}
	return append(errs, field.Invalid(path, name, "must be a standard resource for quota"))
}

// checkLimitRange checks the limits of a range; each type occurs once.
func checkLimitRange(_ *kind.Version, new, _ *jsondoc.Doc, _ schema.Scope) field.ErrorList {
	var errs field.ErrorList
	types := map[corev1.LimitType]bool{}
	for i, l := range texts.Each(&errs, describe.ReadAs[corev1.LimitRangeSpec](new.Root().Get("spec")).Limits) {
		path := field.NewPath("spec", "limits").Index(i)
		found := describe.Invalid(path.Child("type"), l.Type, validation.IsQualifiedName(string(l.Type)))
		if found == nil && !strings.Contains(string(l.Type), "/") && !slices.Contains([]corev1.LimitType{corev1.LimitTypePod, corev1.LimitTypeContainer, corev1.LimitTypePersistentVolumeClaim}, l.Type) {
			found = field.ErrorList{field.Invalid(path.Child("type"), l.Type, "must be a standard limit type or fully qualified")}
		}
		errs = append(errs, found...)
		if types[l.Type] {
			errs = append(errs, field.Duplicate(path.Child("type"), l.Type))
		}
		types[l.Type] = true
		errs = append(errs, checkLimits(&l, path)...)
	}
	return errs
}

// checkLimits checks that minima, defaults and maxima are in order.
func checkLimits(l *corev1.LimitRangeItem, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if l.Type == corev1.LimitTypePod {
		if len(l.Default) > 0 {
			errs = append(errs, field.Forbidden(path.Child("default"), "may not be specified when `type` is 'Pod'"))
		}
		if len(l.DefaultRequest) > 0 {
			errs = append(errs, field.Forbidden(path.Child("defaultRequest"), "may not be specified when `type` is 'Pod'"))
		}
		l.Default, l.DefaultRequest = nil, nil
	}
	if _, ok := l.Min[corev1.ResourceStorage]; l.Type == corev1.LimitTypePersistentVolumeClaim && !ok {
		if _, ok := l.Max[corev1.ResourceStorage]; !ok {
			errs = append(errs, field.Required(path.Child("limits"), "either minimum or maximum storage value is required, but neither was provided"))
		}
	}
	// order refuses a quantity that is larger than its bound. The error has the path and the value
	// of the one at the given place.
	order := func(at string, shown, low, high corev1.ResourceList, text string) {
		for _, name := range texts.Each(&errs, slices.Sorted(maps.Keys(low))) {
			less, more := low[name], resource.Quantity{}
			more, ok := high[name]
			if !ok || less.Cmp(more) <= 0 {
				continue
			}
			q := shown[name]
			errs = append(errs, field.Invalid(path.Child(at).Key(string(name)), q, fmt.Sprintf(text, less.String(), more.String())))
		}
	}
	order("min", l.Min, l.Min, l.Max, "min value %s is greater than max value %s")
	order("defaultRequest", l.DefaultRequest, l.Min, l.DefaultRequest, "min value %s is greater than default request value %s")
	order("defaultRequest", l.DefaultRequest, l.DefaultRequest, l.Max, "default request value %s is greater than max value %s")
	order("defaultRequest", l.DefaultRequest, l.DefaultRequest, l.Default, "default request value %s is greater than default limit value %s")
	order("default", l.Min, l.Min, l.Default, "min value %s is greater than default value %s")
	order("default", l.Max, l.Default, l.Max, "default value %s is greater than max value %s")
	return errs
}
