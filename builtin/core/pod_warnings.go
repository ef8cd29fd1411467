package core

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-io/keelson/builtin/describe"
	"github.com/keelson-io/keelson/jsondoc"
)

// This file warns of what is right in a pod and hardly meant.

// podWarnings are those of a new pod. Of one that is there it is too late.
func podWarnings(new, old *jsondoc.Doc) []string {
	if old != nil {
		return nil
	}
	return append(nameWarnings(new, "the Pod's hostname"), warningsAt(new)...)
}

// podStatusWarnings are those of the addresses of a pod and its node.
func podStatusWarnings(new *jsondoc.Doc) []string {
	var out []string
	for _, list := range []string{"podIPs", "hostIPs"} {
		for i, of := range new.Root().At("status", list).Items() {
			out = append(out, validation.GetWarningsForIP(field.NewPath("status", list).Index(i).Child("ip"), of.Get("ip").Text())...)
		}
	}
	return out
}

// TemplateWarnings are those of the template of pods that stands at a path, whenever the content changes.
func TemplateWarnings(path ...string) func(new, old *jsondoc.Doc) []string {
	return func(new, old *jsondoc.Doc) []string {
		if old != nil && jsondoc.Equal(new.Root().Get(path[0]), old.Root().Get(path[0])) {
			return nil
		}
		return warningsAt(new, path...)
	}
}

// NamedWarnings are besides those of the name of a new object, after which its pods are called.
func NamedWarnings(path ...string) func(new, old *jsondoc.Doc) []string {
	return func(new, old *jsondoc.Doc) []string {
		var out []string
		if old == nil {
			out = nameWarnings(new, "Pod names and hostnames")
		}
		return append(out, TemplateWarnings(path...)(new, old)...)
	}
}

// nameWarnings returns warnings about names that do not suit host names.
func nameWarnings(d *jsondoc.Doc, in string) []string {
	msgs := validation.IsDNS1123Label(d.Root().At("metadata", "name").Text())
	if len(msgs) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("metadata.name: this is used in %s, which can result in surprising behavior; a DNS label is recommended: %v", in, msgs)}
}

// controllerWarnings are those of a replication controller. When it changes upstream warns of the template that it had.
func controllerWarnings(new, old *jsondoc.Doc) []string {
	switch {
	case old == nil:
		return NamedWarnings("spec", "template")(new, nil)
	case jsondoc.Equal(new.Root().Get("spec"), old.Root().Get("spec")):
		return nil
	}
	return warningsAt(old, "spec", "template")
}

// JobWarnings are those of a job, or of the jobs of a cron job, whose spec stands at a path.
func JobWarnings(path ...string) func(new, old *jsondoc.Doc) []string {
	return func(new, old *jsondoc.Doc) []string {
		out := NamedWarnings(append(path, "template")...)(new, old)
		if at := new.Root().At("spec", "schedule"); old != nil && strings.Contains(at.Text(), "TZ") {
			// The path is theirs.
			out = append(out, "cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead, see https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details")
		}
		return out
	}
}

// warningsAt are those of the pod, or template of pods, that stands at a path.
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
	return w.texts
}

// DaemonWarnings are those of a daemon set's template, if that changes.
func DaemonWarnings(new, old *jsondoc.Doc) []string {
	if old != nil && jsondoc.Equal(new.Root().At("spec", "template"), old.Root().At("spec", "template")) {
		return nil
	}
	return warningsAt(new, "spec", "template")
}

// podWarner collects warnings.
type podWarner struct {
	*corev1.PodSpec
	template    bool
	annotations jsondoc.Value
	annotated   *field.Path // where they are

	texts []string
	ports map[string][]warnedPort // by number and protocol
	names map[string]*field.Path  // of ports
}

type warnedPort struct {
	path *field.Path
	*corev1.ContainerPort
}

// say adds a warning.
func (w *podWarner) say(path *field.Path, format string, args ...any) {
	w.texts = append(w.texts, path.String()+": "+fmt.Sprintf(format, args...))
}

func (w *podWarner) spec(path *field.Path) {
	w.listed(path)
	for _, name := range []corev1.ResourceName{corev1.ResourceMemory, corev1.ResourceEphemeralStorage} {
		if q, ok := w.Overhead[name]; ok && q.MilliValue()%1000 != 0 {
			w.say(path.Child("overhead").Key(string(name)), "fractional byte value %q is invalid, must be an integer", q.String())
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
		w.say(path.Child("terminationGracePeriodSeconds"), "must be >= 0; negative values are invalid and will be treated as 1")
	}
}

// listed warns of lists that say something twice.
func (w *podWarner) listed(path *field.Path) {
	ips := map[string]bool{}
	for i, a := range w.HostAliases {
		if ips[a.IP] {
			w.say(path.Child("hostAliases").Index(i).Child("ip"), "duplicate ip %q", a.IP)
		}
		ips[a.IP] = true
	}
	secrets := map[string]bool{}
	for i, s := range w.ImagePullSecrets {
		if secrets[s.Name] {
			w.say(path.Child("imagePullSecrets").Index(i).Child("name"), "duplicate name %q", s.Name)
		}
		secrets[s.Name] = true
	}
	for i, s := range w.ImagePullSecrets {
		if s.Name == "" {
			w.say(path.Child("imagePullSecrets").Index(i).Child("name"), "invalid empty name %q", s.Name)
		}
	}
}

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
				w.say(path.Child("resources", of.member).Key(string(name)), "fractional byte value %q is invalid, must be an integer", q.String())
			}
		}
	}
	names := map[string]bool{}
	for i, e := range c.Env {
		own := "$(" + e.Name + ")"
		if names[e.Name] && (e.ValueFrom != nil || e.Value == own || !strings.Contains(e.Value, own)) {
			w.say(path.Child("env").Index(i), "hides previous definition of %q, which may be dropped when using apply", e.Name)
		}
		names[e.Name] = true
	}
}

// overlaps adds warnings about ports that overlap.
func (w *podWarner) overlaps(c *corev1.Container, path *field.Path) {
	for i := range c.Ports {
		p, at := &c.Ports[i], path.Child("ports").Index(i)
		if p.HostIP != "" && p.HostPort == 0 {
			w.say(at, "hostIP set without hostPort: %+v", *p)
		}
		key := fmt.Sprintf("%d/%s", p.ContainerPort, p.Protocol)
		for _, other := range w.ports[key] {
			switch {
			case p.HostIP == other.HostIP && p.HostPort == other.HostPort:
				w.say(at, "duplicate port definition with %s", other.path)
			case p.HostPort == 0 || other.HostPort == 0:
				w.say(at, "overlapping port definition with %s", other.path)
			case p.HostPort == other.HostPort && (p.HostIP == "") != (other.HostIP == ""):
				w.say(at, "dangerously ambiguous port definition with %s", other.path)
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
			w.say(at, "duplicate port name %q with %s, services and probes that select ports by name will use %s", p.Name, other, other)
		} else {
			w.names[p.Name] = at
		}
	}
}
