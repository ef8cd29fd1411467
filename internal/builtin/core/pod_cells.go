package core

import (
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-io/keelson/internal/builtin/describe"
	"github.com/keelson-io/keelson/jsondoc"
)

// This file computes the cells of tables that summarize the containers of a pod.

// podSummary summarizes the states of a pod's containers.
type podSummary struct {
	reason             string
	ready, containers  int
	restarts           int64
	restarted          string // time of the last restart, "": never
	starting           bool   // an init container has not ended
	running            bool
	failure            string // why the newest failed container failed
	sidecars           map[string]bool
	sidecarRestarts    int64
	sidecarRestartedAt string
}

// summary returns the summary of a pod.
func summary(obj jsondoc.Value) *podSummary {
	spec, status := obj.Get("spec"), obj.Get("status")
	s := &podSummary{containers: spec.Get("containers").Len(), sidecars: map[string]bool{},
		reason: describe.Either(status.Get("reason").Text(), status.Get("phase").Text())}
	for _, c := range status.Get("conditions").Items() {
		if c.Get("type").Text() == string(corev1.PodScheduled) && c.Get("reason").Text() == corev1.PodReasonSchedulingGated {
			s.reason = corev1.PodReasonSchedulingGated
		}
	}
	for _, c := range spec.Get("initContainers").Items() {
		if c.Get("restartPolicy").Text() == string(corev1.ContainerRestartPolicyAlways) {
			s.sidecars[c.Get("name").Text()] = true
			s.containers++
		}
	}
	s.initContainers(status.Get("initContainerStatuses"), spec.Get("initContainers").Len())
	if !s.starting || isTrue(status, corev1.PodInitialized) {
		s.restarts, s.restarted = s.sidecarRestarts, s.sidecarRestartedAt
		s.mainContainers(status)
	}
	switch phase := corev1.PodPhase(status.Get("phase").Text()); {
	case obj.At("metadata", "deletionTimestamp").Text() == "":
	case status.Get("reason").Text() == "NodeLost":
		s.reason = "Unknown"
	case phase != corev1.PodFailed && phase != corev1.PodSucceeded:
		s.reason = "Terminating"
	}
	return s
}

// isTrue reports whether a condition is true.
func isTrue(status jsondoc.Value, condition corev1.PodConditionType) bool {
	for _, c := range status.Get("conditions").Items() {
		if c.Get("type").Text() == string(condition) {
			return c.Get("status").Text() == string(corev1.ConditionTrue)
		}
	}
	return false
}

// initContainers summarizes the init containers, up to the first that has not ended. Sidecars,
// which restart always, need not end.
func (s *podSummary) initContainers(list jsondoc.Value, all int) {
	for i, c := range list.Items() {
		sidecar, last := s.sidecars[c.Get("name").Text()], c.At("lastState", "terminated", "finishedAt").Text()
		s.restarts, s.restarted = s.restarts+c.Get("restartCount").Int(), max(s.restarted, last)
		if sidecar {
			s.sidecarRestarts, s.sidecarRestartedAt = s.sidecarRestarts+c.Get("restartCount").Int(), max(s.sidecarRestartedAt, last)
		}
		done, waits := c.At("state", "terminated"), c.At("state", "waiting", "reason").Text()
		switch {
		case done.Kind() == jsondoc.Object && done.Get("exitCode").Int() == 0:
			continue
		case sidecar && c.Get("started").Bool():
			if c.Get("ready").Bool() {
				s.ready++
			}
			continue
		case done.Kind() == jsondoc.Object:
			s.reason = "Init:" + endReason(done)
		case waits != "" && waits != "PodInitializing":
			s.reason = "Init:" + waits
		default:
			s.reason = "Init:" + strconv.Itoa(i) + "/" + strconv.Itoa(all)
		}
		s.starting = true
		return
	}
}

// mainContainers summarizes the main containers, from the last to the first.
func (s *podSummary) mainContainers(status jsondoc.Value) {
	list := status.Get("containerStatuses")
	for i := list.Len() - 1; i >= 0; i-- {
		c := list.Item(i)
		s.restarts, s.restarted = s.restarts+c.Get("restartCount").Int(), max(s.restarted, c.At("lastState", "terminated", "finishedAt").Text())
		done, waits := c.At("state", "terminated"), c.At("state", "waiting", "reason").Text()
		switch {
		case waits != "":
			s.reason = waits
		case done.Kind() == jsondoc.Object:
			s.reason = endReason(done)
			if done.Get("exitCode").Int() != 0 {
				s.failure = s.reason
			}
		case c.Get("ready").Bool() && c.At("state", "running").Exists():
			s.running = true
			s.ready++
		}
	}
	switch {
	case s.reason != "Completed":
	case s.running && isTrue(status, corev1.PodReady):
		s.reason = "Running"
	case s.failure != "":
		s.reason = s.failure
	case s.running:
		s.reason = "NotReady"
	}
}

// endReason returns the reason of the end of a container.
func endReason(done jsondoc.Value) string {
	switch {
	case done.Get("reason").Text() != "":
		return done.Get("reason").Text()
	case done.Get("signal").Int() != 0:
		return "Signal:" + describe.Number(done.Get("signal"))
	}
	return "ExitCode:" + describe.Number(done.Get("exitCode"))
}

// podReady counts the containers that are ready.
func podReady(obj jsondoc.Value) string {
	s := summary(obj)
	return strconv.Itoa(s.ready) + "/" + strconv.Itoa(s.containers)
}

// podStatus returns the state of a pod in one word.
func podStatus(obj jsondoc.Value) string { return summary(obj).reason }

// podRestarts returns the number of restarts, and the time since the last one.
func podRestarts(obj jsondoc.Value, now time.Time) string {
	s := summary(obj)
	text := strconv.FormatInt(s.restarts, 10)
	if s.restarts != 0 && s.restarted != "" {
		text += " (" + describe.Age(s.restarted, now) + " ago)"
	}
	return text
}

// podEnded returns the phase of a pod that has ended, "" if it has not. Printers of tables show
// rows of such pods differently.
func podEnded(obj jsondoc.Value) (reason, message string) {
	switch phase := obj.At("status", "phase").Text(); corev1.PodPhase(phase) {
	case corev1.PodSucceeded:
		return phase, "The pod has completed successfully."
	case corev1.PodFailed:
		return phase, "The pod failed."
	}
	return "", ""
}
