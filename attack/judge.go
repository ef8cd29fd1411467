package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// This file judges the server: during a round, after it, and after a restart.

// play makes the moves of a round side by side, and returns what must not have happened.
func (a *arena) play(ctx context.Context, r *Round) []Finding {
	limited, cancel := context.WithTimeout(ctx, time.Duration(r.Seconds*float64(time.Second)))
	defer cancel()
	a.peak = 0
	var attackers, watchers sync.WaitGroup
	for _, m := range r.Moves {
		attackers.Go(func() { moves[m.Name].run(limited, a, m, rand.New(rand.NewPCG(m.Seed, 2))) })
	}
	// The ordinary user goes on until the server is normal again: what an attack leaves behind concerns others, too.
	var mu sync.Mutex
	var findings []Finding
	add := func(class, text string) {
		mu.Lock()
		defer mu.Unlock()
		if text != "" {
			findings = append(findings, Finding{class, text})
		}
	}
	watched, stop := context.WithCancel(ctx)
	watchers.Go(func() { add("ordinary", a.ordinary.work(watched)) })
	watchers.Go(func() { add("probe", a.ordinary.probe(watched)) })
	watchers.Go(func() { add("memory", a.watchMemory(watched)) })
	done := make(chan struct{})
	go func() { attackers.Wait(); close(done) }()
	select {
	case <-done:
	case <-a.server.ended:
		cancel()
		<-done
	}
	if ctx.Err() == nil && a.server.running() {
		add("lasting", a.normal(ctx))
	}
	stop()
	watchers.Wait()
	if ctx.Err() != nil {
		return nil
	}
	return a.verdict(ctx, findings)
}

// verdict adds what can be seen after a round.
func (a *arena) verdict(ctx context.Context, findings []Finding) []Finding {
	if line := a.server.crashed(); line != "" {
		return append([]Finding{{"panic", line}}, findings...)
	}
	if !a.server.running() {
		return append([]Finding{{"ended", fmt.Sprintf("%v: %s", a.server.cmd.ProcessState, a.log())}}, findings...)
	}
	a.mu.Lock()
	if len(a.leaks) > 0 {
		findings = append(findings, Finding{"leak", a.leaks[0]})
	}
	findings = append(findings, a.noted...)
	a.leaks, a.noted = nil, nil
	a.mu.Unlock()
	return append(findings, a.changed(ctx)...)
}

// watchMemory measures the resident memory, and reports the most of a round if that is too much.
func (a *arena) watchMemory(ctx context.Context) string {
	var stored int64 // at the peak
	for ctx.Err() == nil {
		if now := a.server.resident(); now > a.peak {
			a.peak, stored = now, a.server.stored()
		}
		pause(ctx, 50*time.Millisecond)
	}
	if a.peak <= a.o.memory<<20 {
		return ""
	}
	return fmt.Sprintf("%d MiB resident, %d MiB of them stored, want at most %d", a.peak>>20, stored>>20, a.o.memory)
}

// normal waits until the server is as at rest: it takes next to no processor time, has let go of the connections, and answers fast.
// It returns what is not normal when the time is over.
func (a *arena) normal(ctx context.Context) (wrong string) {
	c := client(a, "ordinary", ordinaryAddress, true)
	defer c.CloseIdleConnections()
	for end := a.server.clock.time() + a.o.settle; ; {
		before := a.server.processor()
		pause(ctx, time.Second)
		used := a.server.processor() - before
		took, failed := a.ordinary.request(ctx, c, "GET", "/api/v1/namespaces/ordinary/configmaps?limit=1", "", 200, "")
		files := a.server.files()
		switch {
		case ctx.Err() != nil || !a.server.running():
			return ""
		case failed != "":
			wrong = failed
		case used > 400*time.Millisecond:
			wrong = fmt.Sprintf("the server still uses %v of processor time in a second", used)
		case files > a.files+200:
			wrong = fmt.Sprintf("the server still has %d open files, %d before", files, a.files)
		case took > time.Second:
			wrong = fmt.Sprintf("a small list still takes %v", took.Round(time.Millisecond))
		default:
			return ""
		}
		if a.server.clock.time() > end {
			return fmt.Sprintf("%v after the attack: %s", a.o.settle, wrong)
		}
	}
}

// baseline is what no attack may change.
type baseline struct {
	resources map[string]string // entry of discovery by path, as JSON
	objects   map[string]string // objects by path, as JSON
}

// untouchable are objects that no actor may change. The node n2 belongs to another node.
var untouchable = []string{
	"/api/v1/namespaces/vault", "/api/v1/namespaces/vault/secrets/treasure", "/api/v1/namespaces/vault/configmaps/map",
	"/api/v1/namespaces/vault/serviceaccounts/keeper", "/api/v1/nodes/n2", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/canary",
	"/apis/rbac.authorization.k8s.io/v1/clusterroles/canary", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/author",
	"/api/v1/namespaces/ordinary",
}

func (a *arena) observe(ctx context.Context) (*baseline, error) {
	b := &baseline{resources: map[string]string{}, objects: map[string]string{}}
	// What attackers may define and delete is not part of it.
	a.resources = slices.DeleteFunc(a.resources, func(r resource) bool { return r.Group == "attack.example" })
	for _, r := range a.resources {
		text, err := json.Marshal(r)
		if err != nil {
			return nil, err
		}
		b.resources[r.path("", "")] = string(text)
	}
	for _, path := range untouchable {
		text, err := a.ask(ctx, "GET", path, "", 200)
		if err != nil {
			return nil, err
		}
		b.objects[path] = string(text)
	}
	return b, nil
}

// changed compares the server with the baseline, and does what an administrator must be able to do at all times.
func (a *arena) changed(ctx context.Context) (findings []Finding) {
	add := func(class, format string, args ...any) {
		if !slices.ContainsFunc(findings, func(f Finding) bool { return f.Class == class }) {
			findings = append(findings, Finding{class, fmt.Sprintf(format, args...)})
		}
	}
	resources, err := a.discover(ctx)
	if err != nil {
		add("discovery", "%v", err)
		return findings
	}
	served := map[string]string{}
	for _, r := range resources {
		text, _ := json.Marshal(r)
		served[r.path("", "")] = string(text)
	}
	for path, was := range a.baseline.resources {
		if served[path] != was {
			add("discovery", "%s: %q, was %q", path, served[path], was)
		}
	}
	for path, was := range a.baseline.objects {
		if is, err := a.ask(ctx, "GET", path, "", 200); err != nil {
			add("objects", "%v", err)
		} else if string(is) != was {
			add("objects", "%s has changed: %s", path, is[:min(len(is), 300)])
		}
	}
	for _, r := range a.resources {
		if !slices.Contains(r.Verbs, "list") {
			continue
		}
		text, err := a.ask(ctx, "GET", r.path("", "")+"?limit=1", "", 200)
		if err != nil {
			add("lists", "%v", err)
			continue
		}
		var list struct{ Kind string }
		if err := json.Unmarshal(text, &list); err != nil || list.Kind != r.Kind+"List" {
			add("lists", "%s lists something else: %s", r.path("", ""), text[:min(len(text), 200)])
		}
	}
	return append(findings, a.administer(ctx)...)
}

// administer gives and takes a right, writes a Secret, and reviews a token that nobody has.
func (a *arena) administer(ctx context.Context) (findings []Finding) {
	name := "drill-" + random(4)
	const rbac = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
	for _, s := range []struct {
		method, path, body string
		code               int
		contains           string
	}{
		{"POST", rbac, `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRoleBinding","metadata":{"name":"` + name + `"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"canary"},"subjects":[{"apiGroup":"rbac.authorization.k8s.io","kind":"User","name":"` + name + `"}]}`, 201, `"canary"`},
		{"DELETE", rbac + "/" + name, "", 200, ""},
		{"POST", "/api/v1/namespaces/vault/secrets", `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"` + name + `"},"stringData":{"k":"v"}}`, 201, `"k":"dg=="`},
		{"DELETE", "/api/v1/namespaces/vault/secrets/" + name, "", 200, ""},
		{"POST", "/apis/authentication.k8s.io/v1/tokenreviews", `{"apiVersion":"authentication.k8s.io/v1","kind":"TokenReview","spec":{"token":"` + name + `"}}`, 201, `"kind":"TokenReview"`},
	} {
		text, err := a.ask(ctx, s.method, s.path, s.body, s.code)
		switch {
		case err != nil:
			findings = append(findings, Finding{"administrator", "an administrator cannot work: " + err.Error()})
		case !strings.Contains(string(text), s.contains):
			findings = append(findings, Finding{"administrator", fmt.Sprintf("%s %s answers without %s: %s", s.method, s.path, s.contains, text[:min(len(text), 300)])})
		case strings.Contains(string(text), `"authenticated":true`):
			findings = append(findings, Finding{"administrator", "a token that nobody has is reviewed as good: " + string(text)})
		}
	}
	return findings
}

// restart ends the server as a power failure does, starts it again, and looks whether all that was acknowledged is there. Then it
// starts servers on damaged copies of the data directory.
func (a *arena) restart(ctx context.Context, seed uint64) []Finding {
	rng := rand.New(rand.NewPCG(seed, 3))
	if a.disk != nil {
		return a.powerFailures(ctx, rng)
	}
	a.server.kill()
	copyOf := filepath.Join(a.dir, "copy")
	if err := copyTree(copyOf, a.server.dir); err != nil {
		return []Finding{{"restart", err.Error()}}
	}
	if err := a.startAgain(ctx); err != nil {
		return []Finding{{"restart", fmt.Sprintf("after the round: %v: %s", err, a.log())}}
	}
	findings := a.missing(ctx, a)
	findings = append(findings, a.changed(ctx)...)
	for range 4 {
		findings = append(findings, a.damaged(ctx, copyOf, rng)...)
	}
	os.RemoveAll(copyOf)
	return findings
}

// missing looks for the ordinary user's objects on a server.
func (a *arena) missing(ctx context.Context, on *arena) (findings []Finding) {
	for _, name := range a.ordinary.names() {
		text, err := on.ask(ctx, "GET", "/api/v1/namespaces/ordinary/configmaps/"+name, "", 200)
		if err == nil && !strings.Contains(string(text), ordinaryMark) {
			err = errors.New("it has changed: " + string(text[:min(len(text), 300)]))
		}
		if err != nil {
			findings = append(findings, Finding{"restart-lost", fmt.Sprintf("an acknowledged object is not there after a restart: %v", err)})
		}
	}
	return findings[:min(len(findings), 3)]
}

// damages are what can happen to a file of the data directory.
var damages = map[string]func(*rand.Rand, string, []byte) error{
	"truncated": func(rng *rand.Rand, file string, b []byte) error {
		return os.Truncate(file, rng.Int64N(int64(len(b))+1))
	},
	"emptied": func(_ *rand.Rand, file string, _ []byte) error { return os.Truncate(file, 0) },
	"removed": func(_ *rand.Rand, file string, _ []byte) error { return os.Remove(file) },
	"zeroed": func(rng *rand.Rand, file string, b []byte) error {
		at := rng.IntN(len(b) + 1)
		clear(b[at:min(at+4096, len(b))])
		return os.WriteFile(file, b, 0o600)
	},
	"garbled": func(rng *rand.Rand, file string, b []byte) error {
		for i := range min(len(b), 4096) {
			b[i] = byte(rng.Uint32())
		}
		return os.WriteFile(file, b, 0o600)
	},
}

// damaged damages a copy of the data directory and starts a server on it. The server may run, with all that was acknowledged, or end
// with exit code 1 and a message; it must not end in a stack trace, hang, or run without the data.
func (a *arena) damaged(ctx context.Context, from string, rng *rand.Rand) []Finding {
	dir := filepath.Join(a.dir, "damaged")
	if err := copyTree(filepath.Join(dir, "data"), from); err != nil {
		return []Finding{{"restart", err.Error()}}
	}
	defer os.RemoveAll(dir)
	var files []string
	filepath.WalkDir(filepath.Join(dir, "data"), func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			files = append(files, path)
		}
		return nil
	})
	if chance(rng, 2) {
		files = slices.DeleteFunc(files, func(f string) bool { return !strings.Contains(f, "/etcd/member/") })
	}
	file := files[rng.IntN(len(files))]
	kinds := slices.Sorted(maps.Keys(damages))
	damage := kinds[rng.IntN(len(kinds))]
	b, err := os.ReadFile(file)
	if err != nil {
		return []Finding{{"restart", err.Error()}}
	}
	if err := damages[damage](rng, file, b); err != nil {
		return []Finding{{"restart", err.Error()}}
	}
	what, _ := filepath.Rel(filepath.Join(dir, "data"), file)
	what += " " + damage
	p, err := start(ctx, a.o, filepath.Join(dir, "data"))
	defer p.kill()
	text := p.log.String()
	text = text[max(0, len(text)-1000):]
	switch {
	case errors.Is(err, errNotReady):
		return []Finding{{"restart-hangs", what + ": neither ready nor ended after 30 s: " + text}}
	case p.crashed() != "":
		return []Finding{{"restart-trace", what + ": " + p.crashed()}}
	case err != nil:
		if code := p.cmd.ProcessState.ExitCode(); code != 1 || p.cmd.ProcessState.Sys().(syscall.WaitStatus).Signaled() {
			return []Finding{{"restart-code", fmt.Sprintf("%s: exit code %d, want 1: %s", what, code, text)}}
		}
		return nil
	}
	on := &arena{server: p, o: a.o}
	on.admin = client(on, "admin", ordinaryAddress, false)
	defer on.admin.CloseIdleConnections()
	findings := a.missing(ctx, on)
	for i := range findings {
		findings[i].Text = what + ": " + findings[i].Text
	}
	return findings
}
