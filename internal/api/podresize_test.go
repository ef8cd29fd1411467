package api

import (
	"strings"
	"testing"
)

// This file resizes pods.

// TestPodResize: a resize changes requests and limits for CPU and memory, makes a new generation, and changes nothing else.
func TestPodResize(t *testing.T) {
	s := newTestServer(t)
	const (
		path      = podsPath + "/a"
		strategic = "application/strategic-merge-patch+json"
	)
	s.must(201, "POST", podsPath, `{"metadata":{"name":"a"},"spec":{"containers":[
		{"name":"c","image":"i","resources":{"requests":{"cpu":"1","memory":"1Gi","ephemeral-storage":"1Gi"}}}],
		"initContainers":[{"name":"i","image":"i","resources":{"requests":{"cpu":"1"}},"resizePolicy":[{"resourceName":"cpu","restartPolicy":"NotRequired"}]}]}}`)
	resize := func(code int, containers, want string) answer {
		t.Helper()
		a := s.must(code, "PATCH", path+"/resize", `{"spec":{"containers":[`+containers+`]}}`, "Content-Type", strategic)
		if !strings.Contains(a.body, want) {
			t.Errorf("%s: got %s, want %s", containers, a.body, want)
		}
		return a
	}
	if a := resize(200, `{"name":"c","image":"other","resources":{"requests":{"cpu":"2"}}}`, `"cpu":"2"`); a.get("metadata", "generation") != 2.0 || !strings.Contains(a.body, `"image":"i"`) || strings.Contains(a.body, "other") {
		t.Errorf("the CPU of a pod: got %s, want generation 2 and the image as it was", a.body)
	}
	if a := resize(200, `{"name":"c","resources":{"requests":{"cpu":"2000m"}}}`, `"cpu":"2`); a.get("metadata", "generation") != 2.0 {
		t.Errorf("no change: got %s, want generation 2", a.body)
	}
	resize(422, `{"name":"c","resources":{"requests":{"ephemeral-storage":"2Gi"}}}`, "spec: Forbidden: only cpu and memory resources are mutable")
	resize(422, `{"name":"c","resources":{"requests":{"cpu":null}}}`, "spec.containers[0].resources.requests: Forbidden: resource requests cannot be removed")
	resize(422, `{"name":"c","resources":{"requests":{"cpu":null,"memory":null,"ephemeral-storage":null}}}`, "resource requests cannot be removed")
	resize(422, `{"name":"d","image":"i"}`, "spec.containers: Forbidden: containers may not be added or removed on resize")
	resize(422, `{"name":"d","image":"i"},{"name":"c","$patch":"delete"}`, "spec.containers[0].name: Forbidden: containers may not be renamed or reordered on resize")
	s.must(200, "PATCH", path+"/resize", `{"spec":{"initContainers":[{"name":"i","resources":{"requests":{"cpu":"3"}}}]}}`, "Content-Type", strategic)

	s.must(201, "POST", podsPath, `{"metadata":{"name":"b"},"spec":{"containers":[{"name":"c","image":"i","resources":{"limits":{"cpu":"1","memory":"1Gi"}}}]}}`)
	if a := s.must(422, "PATCH", podsPath+"/b/resize", `{"spec":{"containers":[{"name":"c","resources":{"requests":{"cpu":"500m"}}}]}}`, "Content-Type", strategic); !strings.Contains(a.body, "Pod QOS Class may not change as a result of resizing") {
		t.Errorf("another class: got %s", a.body)
	}
	s.must(201, "POST", podsPath, `{"metadata":{"name":"w"},"spec":{"os":{"name":"windows"},"containers":[{"name":"c","image":"i"}]}}`)
	if a := s.must(422, "PATCH", podsPath+"/w/resize", `{"spec":{"containers":[{"name":"c","resources":{"requests":{"cpu":"1"}}}]}}`, "Content-Type", strategic); !strings.Contains(a.body, "windows pods cannot be resized") {
		t.Errorf("windows: got %s", a.body)
	}
	// Ephemeral containers are part of the specification, too.
	a := s.must(200, "PATCH", path+"/ephemeralcontainers", `{"spec":{"ephemeralContainers":[{"name":"e","image":"i"}]}}`, "Content-Type", strategic)
	if a.get("metadata", "generation") != 4.0 {
		t.Errorf("an ephemeral container: got generation %v, want 4", a.get("metadata", "generation"))
	}
}
