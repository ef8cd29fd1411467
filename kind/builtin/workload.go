package builtin

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"

	"github.com/keelson-io/keelson/doc"
	"github.com/keelson-io/keelson/kind"
	"github.com/keelson-io/keelson/schema"
)

// This file checks pods and templates of pods, as far as operators rely on being
// told: what must be there, how things are named, what refers to what.

func checkPod(_ *kind.Version, d, old *doc.Doc, scope schema.Scope) field.ErrorList {
	if scope == schema.Status {
		return nil
	}
	errs := checkPodSpec(d.Root().Get("spec"), field.NewPath("spec"), nil)
	if old != nil && scope == schema.Whole {
		errs = append(errs, checkPodUpdate(d, old)...)
	}
	return errs
}

// checkWorkload checks a kind with a selector and a template of pods, which may
// be restarted in the given ways. name is what errors call the kind; "" for the
// one whose selector is a plain map.
func checkWorkload(name string, restart ...string) checker {
	return func(_ *kind.Version, d, old *doc.Doc, scope schema.Scope) field.ErrorList {
		if scope == schema.Status {
			return nil
		}
		var errs field.ErrorList
		spec, path := d.Root().Get("spec"), field.NewPath("spec")
		for _, count := range []string{"replicas", "minReadySeconds", "revisionHistoryLimit", "parallelism", "completions", "backoffLimit"} {
			if n := spec.Get(count); n.Int() < 0 {
				errs = append(errs, field.Invalid(path.Child(count), n.Int(), "must be greater than or equal to 0").WithOrigin("minimum"))
			}
		}
		errs = append(errs, checkSelector(name, spec, path)...)
		claims := map[string]bool{}
		for i, claim := range spec.Get("volumeClaimTemplates").Items() {
			claims[strings.Clone(claim.At("metadata", "name").Text())] = true
			if old == nil { // they cannot be changed
				errs = append(errs, checkClaimSpec(claim.Get("spec"), path.Child("volumeClaimTemplates").Index(i).Child("spec"))...)
			}
		}
		errs = append(errs, checkTemplate(spec.Get("template"), path.Child("template"), claims, restart)...)
		if old != nil && name != "" && !doc.Equal(spec.Get("selector"), old.Root().At("spec", "selector")) {
			errs = append(errs, field.Invalid(path.Child("selector"), selectorOf(spec.Get("selector")), "field is immutable").WithOrigin("immutable"))
		}
		return errs
	}
}

func selectorOf(v doc.Value) *metav1.LabelSelector {
	s := new(metav1.LabelSelector)
	if v.Kind() != doc.Object || kjson.UnmarshalCaseSensitivePreserveInts(v.AppendJSON(nil), s) != nil {
		return nil
	}
	return s
}

// checkSelector checks that a selector selects the pods of the template.
func checkSelector(name string, spec doc.Value, path *field.Path) field.ErrorList {
	at, v := path.Child("selector"), spec.Get("selector")
	podLabels := labels.Set{}
	for key, value := range spec.At("template", "metadata", "labels").Members() {
		podLabels[key] = value.Text()
	}
	var selector labels.Selector
	switch {
	case name == "":
		set := labels.Set{}
		for key, value := range v.Members() {
			set[key] = value.Text()
		}
		if len(set) == 0 {
			return field.ErrorList{field.Required(at, "")}
		}
		selector = set.AsSelector()
	case v.Kind() != doc.Object: // which selects nothing
		var set map[string]string
		if len(podLabels) > 0 {
			set = podLabels
		}
		errs := field.ErrorList{field.Invalid(path.Child("template", "metadata", "labels"), set, "`selector` does not match template `labels`")}
		if name == "daemonset" {
			return errs
		}
		return append(errs, field.Required(at, ""))
	default:
		s := selectorOf(v)
		if s != nil && len(s.MatchLabels)+len(s.MatchExpressions) == 0 {
			return field.ErrorList{field.Invalid(at, s, "empty selector is invalid for "+name)}
		}
		parsed, err := metav1.LabelSelectorAsSelector(s)
		if err != nil {
			return field.ErrorList{field.Invalid(at, s, "invalid label selector")}
		}
		selector = parsed
	}
	if !selector.Matches(podLabels) {
		return field.ErrorList{field.Invalid(path.Child("template", "metadata", "labels"), map[string]string(podLabels), "`selector` does not match template `labels`")}
	}
	return nil
}

// checkTemplate checks a template of pods, which have volumes by the names of claims besides.
func checkTemplate(t doc.Value, path *field.Path, claims map[string]bool, restart []string) field.ErrorList {
	if t.Kind() != doc.Object {
		return field.ErrorList{field.Required(path, "")}
	}
	errs := checkPodSpec(t.Get("spec"), path.Child("spec"), claims)
	switch policy := t.At("spec", "restartPolicy").Text(); {
	case restart == nil || policy == "" || slices.Contains(restart, policy):
	case len(restart) > 1 && policy == "Always": // the default
		errs = append(errs, field.Required(path.Child("spec", "restartPolicy"), fmt.Sprintf("valid values: %q, %q", restart[0], restart[1])))
	default:
		errs = append(errs, field.NotSupported(path.Child("spec", "restartPolicy"), strings.Clone(policy), restart))
	}
	return errs
}

func checkCronJob(_ *kind.Version, d, _ *doc.Doc, scope schema.Scope) field.ErrorList {
	if scope == schema.Status {
		return nil
	}
	var errs field.ErrorList
	spec, path := d.Root().Get("spec"), field.NewPath("spec")
	if spec.Get("schedule").Text() == "" {
		errs = append(errs, field.Required(path.Child("schedule"), ""))
	}
	if name := d.Root().At("metadata", "name").Text(); len(name) > validation.DNS1035LabelMaxLength-11 {
		errs = append(errs, field.Invalid(field.NewPath("metadata").Child("name"), strings.Clone(name), "must be no more than 52 characters"))
	}
	return append(errs, checkTemplate(spec.At("jobTemplate", "spec", "template"),
		path.Child("jobTemplate", "spec", "template"), nil, []string{"OnFailure", "Never"})...)
}

// checkPodSpec checks containers and volumes. A claim takes the place of a volume of the same name.
func checkPodSpec(spec doc.Value, path *field.Path, claims map[string]bool) field.ErrorList {
	var errs field.ErrorList
	volumes := map[string]bool{}
	maps.Copy(volumes, claims)
	for i, v := range spec.Get("volumes").Items() {
		at, name := path.Child("volumes").Index(i).Child("name"), strings.Clone(v.Get("name").Text())
		if claims[name] {
			continue
		}
		if found := checkLabel(at, name); len(found) > 0 {
			errs = append(errs, found...)
		} else if volumes[name] {
			errs = append(errs, field.Duplicate(at, name))
		}
		volumes[name] = true
	}
	names := map[string]bool{}
	if spec.Get("containers").Len() == 0 {
		errs = append(errs, field.Required(path.Child("containers"), ""))
	}
	for _, list := range []string{"containers", "initContainers", "ephemeralContainers"} {
		for i, c := range spec.Get(list).Items() {
			errs = append(errs, checkContainer(c, path.Child(list).Index(i), names, volumes)...)
		}
	}
	return errs
}

func checkContainer(c doc.Value, path *field.Path, names, volumes map[string]bool) field.ErrorList {
	var errs field.ErrorList
	name := strings.Clone(c.Get("name").Text())
	if found := checkLabel(path.Child("name"), name); len(found) > 0 {
		errs = append(errs, found...)
	} else if names[name] {
		errs = append(errs, field.Duplicate(path.Child("name"), name))
	}
	names[name] = true
	image := strings.Clone(c.Get("image").Text())
	switch {
	case image == "":
		errs = append(errs, field.Required(path.Child("image"), ""))
	case strings.TrimSpace(image) != image:
		errs = append(errs, field.Invalid(path.Child("image"), image, "must not have leading or trailing whitespace"))
	}
	for i, p := range c.Get("ports").Items() {
		at := path.Child("ports").Index(i).Child("containerPort")
		if p.Get("containerPort").Int() == 0 {
			errs = append(errs, field.Required(at, ""))
			continue
		}
		errs = append(errs, checkPort(at, p.Get("containerPort"))...)
	}
	for i, e := range c.Get("env").Items() {
		if e.Get("name").Text() == "" {
			errs = append(errs, field.Required(path.Child("env").Index(i).Child("name"), ""))
		}
	}
	for i, m := range c.Get("volumeMounts").Items() {
		at, volume := path.Child("volumeMounts").Index(i), strings.Clone(m.Get("name").Text())
		switch {
		case volume == "":
			errs = append(errs, field.Required(at.Child("name"), ""))
		case !volumes[volume]:
			errs = append(errs, field.NotFound(at.Child("name"), volume))
		}
		if m.Get("mountPath").Text() == "" {
			errs = append(errs, field.Required(at.Child("mountPath"), ""))
		}
	}
	return errs
}

// checkLabel checks a name that must be a DNS-1123 label.
func checkLabel(path *field.Path, name string) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(path, "")}
	}
	var errs field.ErrorList
	for _, msg := range validation.IsDNS1123Label(name) {
		errs = append(errs, field.Invalid(path, name, msg))
	}
	return errs
}

func checkPort(path *field.Path, v doc.Value) field.ErrorList {
	var errs field.ErrorList
	for _, msg := range validation.IsValidPortNum(int(v.Int())) {
		errs = append(errs, field.Invalid(path, v.Int(), msg))
	}
	return errs
}

// ports is how tables show a list of ports.
func portText(p doc.Value) string {
	text := number(p.Get("port"))
	if n := p.Get("nodePort").Int(); n > 0 {
		text = fmt.Sprintf("%s:%d", text, n)
	}
	return text + "/" + p.Get("protocol").Text()
}
