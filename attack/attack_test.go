package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

var drawn = options{width: 4, size: 100}

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

// TestChosen: moves are named, or all but some are.
func TestChosen(t *testing.T) {
	all := len(moveNames())
	for list, want := range map[string]int{"": all, "nest,lists": 2, "-items": all - 1, "nest,lists,-lists": 1, "none": -1, "-none": -1} {
		names, err := chosen(list)
		if err != nil && want >= 0 || err == nil && len(names) != want || slices.Contains(names, "items") && list == "-items" {
			t.Errorf("%q: got %v, %v, want %d", list, names, err, want)
		}
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

// TestMovesAreDealt: if moves are dealt out, each is made once before any is made again, and the quick run makes all.
func TestMovesAreDealt(t *testing.T) {
	o := options{width: 7, size: 40, deal: true, seed: 1, round: time.Second}
	made := map[string]int{}
	for n := range uint64(5) {
		r := draw(o.seed+n, hand(moveNames(), n, &o), &o)
		for _, m := range r.Moves {
			made[m.Name]++
			if m.Size < 1 || m.Size > o.size {
				t.Errorf("%s: got size %d, want at most %d", m.Name, m.Size, o.size)
			}
		}
	}
	for _, name := range moveNames() {
		if made[name] != 1 {
			t.Errorf("%s: made %d times in five rounds, want once", name, made[name])
		}
	}
}

// TestTraffic names a move for each sort of traffic that an attack has to have.
func TestTraffic(t *testing.T) {
	for sort, names := range map[string]string{
		"raw TCP": "handshakes reset", "TLS": "tiny handshakes", "HTTP/1.1": "odd-http unread-http", "HTTP/2": "frames-http2", "WebSocket": "websockets",
		"stalls": "stalled-http bodies-http2", "floods": "flood frames-http2 events", "partial requests": "stalled-http", "resets": "reset frames-http2",
		"windows": "unread-http2 tiny", "header bombs": "frames-http2 giant odd-http", "nesting": "nest", "repetition": "repeat", "compression": "compressed convert",
		"giant": "giant lists", "tiny": "tiny", "CRDs": "define multiply swarm convert", "policies and webhooks": "govern", "objects that multiply": "breed multiply",
		"quotas": "quotas", "priority and fairness": "fairness", "plugins": "events mutate",
		"long lists": "derive", "a small disk": "churn", "connections": "connect", "repositories": "offline",
	} {
		for name := range strings.SplitSeq(names, " ") {
			if _, ok := moves[name]; !ok {
				t.Errorf("%s: unknown move %q", sort, name)
			}
		}
	}
}

// TestClockOfABusyMachine: the clock runs as fast as a process gets the processor time that it asks for.
func TestClockOfABusyMachine(t *testing.T) {
	for _, test := range []struct {
		ran, waited time.Duration
		want        float64
	}{
		{0, 0, 1}, {second, 0, 1}, {second, second, 0.5}, {second / 4, 3 * second / 4, 0.25},
		{0, second, 0.001},  // it waits for a processor all the time
		{0, second / 30, 1}, // it asks for next to nothing
	} {
		if got := portion(test.ran, test.waited, second); got < test.want*0.9 || got > test.want*1.1 {
			t.Errorf("ran %v, waited %v: got %v, want %v", test.ran, test.waited, got, test.want)
		}
	}
	if s, ok := parseSpent("1500 2500 3\n"); !ok || s.ran != 1500 || s.waited != 2500 {
		t.Errorf("got %v, %v", s, ok)
	}
	p := &paced{waiting: map[*waiter]bool{}}
	ctx, cancel := p.patience(t.Context(), 3*second)
	defer cancel()
	p.advance(2 * second)
	if ctx.Err() != nil {
		t.Error("patience ended after 2 of 3 s")
	}
	p.advance(second)
	if !errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
		t.Errorf("got %v after 3 s, want that the deadline has passed", context.Cause(ctx))
	}
}

// TestUsageOfThisProcess: the kernel counts what this process runs and waits.
func TestUsageOfThisProcess(t *testing.T) {
	u := &usage{dir: "/proc/self/task"}
	u.share(second)
	if len(u.threads) == 0 {
		t.Skip("this kernel does not count how long threads wait")
	}
	for _, s := range u.threads {
		if s.ran > 0 {
			return
		}
	}
	t.Error("no thread of this process has run")
}

const second = time.Second

// TestListsAreShort: the objects with long lists are JSON, and short enough that no request is refused because memory is tight.
func TestListsAreShort(t *testing.T) {
	for _, text := range listed {
		body := expand(text, "n", 1000)
		if !json.Valid([]byte(body)) || len(body) > 64<<10 || strings.Count(body, ",") < 250 {
			t.Errorf("got %d bytes: %.200s", len(body), body)
		}
	}
}
