package builtin

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-io/keelson/doc"
)

// This file warns of what is right in a pod and hardly meant.

// podWarnings are those of the pod, or template of pods, that stands at a path.
func podWarnings(path ...string) func(new, old *doc.Doc) []string {
	var at *field.Path
	if len(path) > 0 {
		at = field.NewPath(path[0], path[1:]...)
	}
	return func(new, old *doc.Doc) []string {
		// Of a pod that is there it is too late; a template may change.
		if old != nil && (at == nil || doc.Equal(new.Root().Get("spec"), old.Root().Get("spec"))) {
			return nil
		}
		pod := new.Root().At(path...)
		w := &podWarner{ports: map[string][]warnedPort{}, names: map[string]*field.Path{}}
		below := at.Child("spec")
		spec := readAs[corev1.PodSpec](pod.Get("spec"))
		w.placement(spec, below)
		w.annotations(pod, at.Child("metadata"))
		w.volumes(pod.Get("spec"), below)
		w.spec(spec, below)
		return w.texts
	}
}

// daemonWarnings are those of a daemon set's template, if that changes.
func daemonWarnings(new, old *doc.Doc) []string {
	if old != nil && doc.Equal(new.Root().At("spec", "template"), old.Root().At("spec", "template")) {
		return nil
	}
	return podWarnings("spec", "template")(new, old)
}

// podWarner collects warnings.
type podWarner struct {
	texts []string
	ports map[string][]warnedPort // by number and protocol
	names map[string]*field.Path  // of ports
}

type warnedPort struct {
	path *field.Path
	*corev1.ContainerPort
}

func (w *podWarner) say(path *field.Path, format string, args ...any) {
	w.texts = append(w.texts, path.String()+": "+fmt.Sprintf(format, args...))
}

func (w *podWarner) spec(spec *corev1.PodSpec, path *field.Path) {
	for i, s := range spec.TopologySpreadConstraints {
		if msg := deprecatedLabels[s.TopologyKey]; msg != "" {
			w.say(path.Child("topologySpreadConstraints").Index(i).Child("topologyKey"), "%s is %s", s.TopologyKey, msg)
		}
		if s.LabelSelector == nil {
			w.say(path.Child("topologySpreadConstraints").Index(i).Child("labelSelector"), "a null labelSelector results in matching no pod")
		}
	}
	ips := map[string]bool{}
	for i, a := range spec.HostAliases {
		if ips[a.IP] {
			w.say(path.Child("hostAliases").Index(i).Child("ip"), "duplicate ip %q", a.IP)
		}
		ips[a.IP] = true
	}
	secrets := map[string]bool{}
	for i, s := range spec.ImagePullSecrets {
		if secrets[s.Name] {
			w.say(path.Child("imagePullSecrets").Index(i).Child("name"), "duplicate name %q", s.Name)
		}
		secrets[s.Name] = true
	}
	for i, s := range spec.ImagePullSecrets {
		if s.Name == "" {
			w.say(path.Child("imagePullSecrets").Index(i).Child("name"), "invalid empty name %q", s.Name)
		}
	}
	for _, name := range []corev1.ResourceName{corev1.ResourceMemory, corev1.ResourceEphemeralStorage} {
		if q, ok := spec.Overhead[name]; ok && q.MilliValue()%1000 != 0 {
			w.say(path.Child("overhead").Key(string(name)), "fractional byte value %q is invalid, must be an integer", q.String())
		}
	}
	containers := func(each func(c *corev1.Container, at *field.Path)) {
		for i := range spec.InitContainers {
			each(&spec.InitContainers[i], path.Child("initContainers").Index(i))
		}
		for i := range spec.Containers {
			each(&spec.Containers[i], path.Child("containers").Index(i))
		}
	}
	containers(w.container)
	containers(w.overlaps)
	containers(w.portNames)
	if grace := spec.TerminationGracePeriodSeconds; grace != nil && *grace < 0 {
		w.say(path.Child("terminationGracePeriodSeconds"), "must be >= 0; negative values are invalid and will be treated as 1")
	}
}

func (w *podWarner) container(c *corev1.Container, path *field.Path) {
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
