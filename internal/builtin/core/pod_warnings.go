package core

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-io/keelson/internal/builtin/describe"
	"github.com/keelson-io/keelson/internal/texts"
	"github.com/keelson-io/keelson/jsondoc"
)

// This file warns of fields of pods that are valid and probably a mistake.

// podWarnings returns the warnings for a new pod. For an old one they would come too late.
func podWarnings(new, old *jsondoc.Doc) []string {
	if old != nil {
		return nil
	}
	return append(nameWarnings(new, "the Pod's hostname"), warningsAt(new)...)
}

// podStatusWarnings returns warnings about the addresses of a pod and its node.
func podStatusWarnings(new *jsondoc.Doc) []string {
	var out []string
	for _, list := range []string{"podIPs", "hostIPs"} {
		for i, of := range new.Root().At("status", list).Items() {
			out = append(out, validation.GetWarningsForIP(field.NewPath("status", list).Index(i).Child("ip"), of.Get("ip").Text())...)
		}
	}
	return out
}

// TemplateWarnings returns the warnings for a pod template at a path, if the template has changed.
func TemplateWarnings(path ...string) func(new, old *jsondoc.Doc) []string {
	return func(new, old *jsondoc.Doc) []string {
		if old != nil && jsondoc.Equal(new.Root().Get(path[0]), old.Root().Get(path[0])) {
			return nil
		}
		return warningsAt(new, path...)
	}
}

// NamedWarnings returns the warnings for a pod template and, for a new object, for its name: the
// names of its pods begin with it.
func NamedWarnings(path ...string) func(new, old *jsondoc.Doc) []string {
	return func(new, old *jsondoc.Doc) []string {
		var out []string
		if old == nil {
			out = nameWarnings(new, "Pod names and hostnames")
		}
		return append(out, TemplateWarnings(path...)(new, old)...)
	}
}

// nameWarnings returns warnings about names that are no valid host names.
func nameWarnings(d *jsondoc.Doc, in string) []string {
	msgs := validation.IsDNS1123Label(d.Root().At("metadata", "name").Text())
	if len(msgs) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("metadata.name: this is used in %s, which can result in surprising behavior; a DNS label is recommended: %v", in, msgs)}
}

// controllerWarnings returns the warnings for a replication controller. After a change, upstream
// warns of the old template.
func controllerWarnings(new, old *jsondoc.Doc) []string {
	switch {
	case old == nil:
		return NamedWarnings("spec", "template")(new, nil)
	case jsondoc.Equal(new.Root().Get("spec"), old.Root().Get("spec")):
		return nil
	}
	return warningsAt(old, "spec", "template")
}

// JobWarnings returns the warnings for the job, or the job template of a cron job, whose spec is at
// a path.
func JobWarnings(path ...string) func(new, old *jsondoc.Doc) []string {
	return func(new, old *jsondoc.Doc) []string {
		out := NamedWarnings(append(path, "template")...)(new, old)
		if at := new.Root().At("spec", "schedule"); old != nil && strings.Contains(at.Text(), "TZ") {
			// This is upstream's text; the path in it is not one of the object.
			out = append(out, "cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead, see https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details")
		}
		return out
	}
}

// warningsAt returns the warnings for the pod or pod template at a path.
func warningsAt(d *jsondoc.Doc, path ...string) []string {
	var at *field.Path
	if len(path) > 0 {
		at = field.NewPath(path[0], path[1:]...)
	}
	pod := d.Root().At(path...)
	spec := describe.ReadAs[corev1.PodSpec](pod.Get("spec"))
	w := &podWarner{PodSpec: spec, template: at != nil, ports: map[string][]warnedPort{}, names: map[string]*field.Path{},
		annotations: pod.At("metadata", "annotations"), annotated: at.Child("metadata", "annotations")}
	below := at.Child("spec")
	w.placement(spec, below)
	w.retired()
	w.volumes(pod.Get("spec"), below)
	w.spec(below)
	w.networks(below)
	return w.List()
}

// DaemonWarnings returns the warnings for the template of a daemon set, if it has changed.
func DaemonWarnings(new, old *jsondoc.Doc) []string {
	if old != nil && jsondoc.Equal(new.Root().At("spec", "template"), old.Root().At("spec", "template")) {
		return nil
	}
	return warningsAt(new, "spec", "template")
}

// podWarner collects warnings.
type podWarner struct {
	*corev1.PodSpec
	texts.Warnings
	template    bool
	annotations jsondoc.Value
	annotated   *field.Path // path of the annotations

	ports map[string][]warnedPort // by number and protocol
	names map[string]*field.Path  // of ports
}

// warnedPort is a port with its path.
type warnedPort struct {
	path *field.Path
	*corev1.ContainerPort
}

// warn adds a warning.
func (w *podWarner) warn(path *field.Path, format string, args ...any) {
	if !w.Full() {
		w.Add(path.String() + ": " + fmt.Sprintf(format, args...))
	}
}

// spec warns of everything in the spec of a pod.
func (w *podWarner) spec(path *field.Path) {
	w.listed(path)
	for _, name := range []corev1.ResourceName{corev1.ResourceMemory, corev1.ResourceEphemeralStorage} {
		if q, ok := w.Overhead[name]; ok && q.MilliValue()%1000 != 0 {
			w.warn(path.Child("overhead").Key(string(name)), "fractional byte value %q is invalid, must be an integer", q.String())
		}
	}
	if w.SecurityContext == nil || w.SecurityContext.SeccompProfile == nil {
		w.seccomp(corev1.SeccompPodAnnotationKey)
	}
	containers := func(each func(c *corev1.Container, at *field.Path)) {
		for i := range w.InitContainers {
			each(&w.InitContainers[i], path.Child("initContainers").Index(i))
		}
		for i := range w.Containers {
			each(&w.Containers[i], path.Child("containers").Index(i))
		}
		for i := range w.EphemeralContainers {
			c := corev1.Container(w.EphemeralContainers[i].EphemeralContainerCommon)
			each(&c, path.Child("ephemeralContainers").Index(i))
		}
	}
	containers(w.container)
	containers(w.overlaps)
	containers(w.portNames)
	if grace := w.TerminationGracePeriodSeconds; grace != nil && *grace < 0 {
		w.warn(path.Child("terminationGracePeriodSeconds"), "must be >= 0; negative values are invalid and will be treated as 1")
	}
}

// listed warns of lists with duplicates.
func (w *podWarner) listed(path *field.Path) {
	ips := map[string]bool{}
	for i, a := range w.HostAliases {
		if ips[a.IP] {
			w.warn(path.Child("hostAliases").Index(i).Child("ip"), "duplicate ip %q", a.IP)
		}
		ips[a.IP] = true
	}
	secrets := map[string]bool{}
	for i, s := range w.ImagePullSecrets {
		if secrets[s.Name] {
			w.warn(path.Child("imagePullSecrets").Index(i).Child("name"), "duplicate name %q", s.Name)
		}
		secrets[s.Name] = true
	}
	for i, s := range w.ImagePullSecrets {
		if s.Name == "" {
			w.warn(path.Child("imagePullSecrets").Index(i).Child("name"), "invalid empty name %q", s.Name)
		}
	}
}

// container warns of a container's fields.
func (w *podWarner) container(c *corev1.Container, path *field.Path) {
	if c.SecurityContext == nil || c.SecurityContext.SeccompProfile == nil {
		w.seccomp(corev1.SeccompContainerAnnotationKeyPrefix + c.Name)
	}
	w.appArmor(c)
	for _, name := range []corev1.ResourceName{corev1.ResourceMemory, corev1.ResourceEphemeralStorage} {
		for _, of := range []struct {
			member string
			list   corev1.ResourceList
		}{{"limits", c.Resources.Limits}, {"requests", c.Resources.Requests}} {
			if q, ok := of.list[name]; ok && q.MilliValue()%1000 != 0 {
				w.warn(path.Child("resources", of.member).Key(string(name)), "fractional byte value %q is invalid, must be an integer", q.String())
			}
		}
	}
	names := map[string]bool{}
	for i, e := range c.Env {
		own := "$(" + e.Name + ")"
		if names[e.Name] && (e.ValueFrom != nil || e.Value == own || !strings.Contains(e.Value, own)) {
			w.warn(path.Child("env").Index(i), "hides previous definition of %q, which may be dropped when using apply", e.Name)
		}
		names[e.Name] = true
	}
}

// overlaps adds warnings about ports that overlap.
func (w *podWarner) overlaps(c *corev1.Container, path *field.Path) {
	for i := range c.Ports {
		p, at := &c.Ports[i], path.Child("ports").Index(i)
		if p.HostIP != "" && p.HostPort == 0 {
			w.warn(at, "hostIP set without hostPort: %+v", *p)
		}
		key := fmt.Sprintf("%d/%s", p.ContainerPort, p.Protocol)
		for _, other := range w.ports[key] {
			if w.Full() {
				return
			}
			switch {
			case p.HostIP == other.HostIP && p.HostPort == other.HostPort:
				w.warn(at, "duplicate port definition with %s", other.path)
			case p.HostPort == 0 || other.HostPort == 0:
				w.warn(at, "overlapping port definition with %s", other.path)
			case p.HostPort == other.HostPort && (p.HostIP == "") != (other.HostIP == ""):
				w.warn(at, "dangerously ambiguous port definition with %s", other.path)
			}
		}
		w.ports[key] = append(w.ports[key], warnedPort{at, p})
	}
}

// portNames adds warnings about ports of the same name.
func (w *podWarner) portNames(c *corev1.Container, path *field.Path) {
	for i, p := range c.Ports {
		at := path.Child("ports").Index(i)
		if other := w.names[p.Name]; p.Name == "" {
			continue
		} else if other != nil {
			w.warn(at, "duplicate port name %q with %s, services and probes that select ports by name will use %s", p.Name, other, other)
		} else {
			w.names[p.Name] = at
		}
	}
}
