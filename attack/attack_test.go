package main

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"slices"
	"testing"
)

var drawn = options{width: 4}

// TestRoundsAreDrawnAgain: a seed draws the same round each time, so that a kept round is the one that was found.
func TestRoundsAreDrawnAgain(t *testing.T) {
	different := 0
	for seed := range uint64(100) {
		a, b := draw(seed, moveNames(), &drawn), draw(seed, moveNames(), &drawn)
		if !slices.Equal(a.Moves, b.Moves) {
			t.Errorf("seed %d: got %v, then %v", seed, a.Moves, b.Moves)
		}
		if !slices.Equal(a.Moves, draw(seed+1, moveNames(), &drawn).Moves) {
			different++
		}
		text, err := json.Marshal(a)
		if err != nil {
			t.Fatal(err)
		}
		var read Round
		if err := json.Unmarshal(text, &read); err != nil || !slices.Equal(read.Moves, a.Moves) {
			t.Errorf("seed %d: got %v, %v after it was written and read, want %v", seed, read.Moves, err, a.Moves)
		}
	}
	if different < 95 {
		t.Errorf("%d of 100 rounds differ from the next one", different)
	}
}

// served is a small part of discovery.
var served = []resource{
	{"", "v1", "configmaps", "ConfigMap", true, []string{"create", "list"}},
	{"", "v1", "pods", "Pod", true, []string{"create", "list"}},
	{"", "v1", "nodes", "Node", false, []string{"create", "list"}},
	{"apps", "v1", "deployments", "Deployment", true, []string{"create", "list"}},
	{"apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", false, []string{"create", "list"}},
	{"admissionregistration.k8s.io", "v1", "validatingadmissionpolicies", "ValidatingAdmissionPolicy", false, []string{"create", "list"}},
}

// TestBodiesFit: nested bodies are as large as a request may be at most, and are the same each time.
func TestBodiesFit(t *testing.T) {
	a := &arena{resources: served}
	protobuf, deepest := 0, 0
	for seed := range uint64(80) {
		body := func() ([]byte, string) {
			rng := rand.New(rand.NewPCG(seed, 2))
			r, object := template(a, "author", rng)
			return nested(r, object, pick(rng, 500, 500_000), rng)
		}
		b, contentType := body()
		again, _ := body()
		if len(b) > 3<<20 || !bytes.Equal(b, again) {
			t.Errorf("seed %d, %s: got %d bytes, and then %d", seed, contentType, len(b), len(again))
		}
		deepest = max(deepest, bytes.Count(b, []byte("[")), bytes.Count(b, []byte("{")))
		if bytes.HasPrefix(b, []byte("k8s\x00")) {
			protobuf++
		}
	}
	if protobuf < 8 || deepest < 400_000 {
		t.Errorf("got %d protobuf bodies, and at most %d levels", protobuf, deepest)
	}
}

// TestMutationsEnd: objects stay JSON, however often they are mutated.
func TestMutationsEnd(t *testing.T) {
	a := &arena{resources: served}
	rng := rand.New(rand.NewPCG(1, 1))
	for range 2000 {
		_, object := template(a, "editor", rng)
		var changed any = object
		for range rng.IntN(10) {
			changed = mutated(changed, rng)
		}
		if _, err := json.Marshal(changed); err != nil {
			t.Fatal(err)
		}
	}
}

// TestLeaks: an answer with what another actor keeps is noticed, in plain text and in the base64 of Secrets.
func TestLeaks(t *testing.T) {
	for _, test := range []struct {
		text string
		leak bool
	}{{"nothing", false}, {"a secret-0 b", true}, {"c2VjcmV0LTA=", true}, {ordinaryMark, true}} {
		a := &arena{secret: "secret-0"}
		a.inspect("nobody", "GET", []byte(test.text))
		if (len(a.leaks) > 0) != test.leak {
			t.Errorf("%q: got %q, want a leak: %v", test.text, a.leaks, test.leak)
		}
	}
}

// TestCrashes: what Go prints when a process ends, and what the server logs of a panic, is noticed; an ordinary error is not.
func TestCrashes(t *testing.T) {
	for text, want := range map[string]bool{
		"panic: runtime error: index out of range":                             true,
		"fatal error: stack overflow":                                          true,
		"goroutine 1 [running]:":                                               true,
		`time=x level=ERROR msg="request panicked" panic="BUG: y"`:             true,
		`time=x level=ERROR msg="writes are refused" error="the disk is full"`: false,
	} {
		p := &process{log: &lockedBuffer{}}
		p.log.Write([]byte("a line\n" + text + "\nanother\n"))
		if got := p.crashed(); (got != "") != want {
			t.Errorf("%s: got %q, want a crash: %v", text, got, want)
		}
	}
}
