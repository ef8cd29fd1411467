package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// ordinaryMark is in each object that the ordinary user writes.
const ordinaryMark = "ordinary-data-7f3a91"

// bystander is the ordinary user: small requests one after another, over a connection that stays, as a controller's. Answers with 429
// and Retry-After are asked again, as every client of Kubernetes does, within the same -patience.
type bystander struct {
	a    *arena
	mu   sync.Mutex
	took []time.Duration
	held map[string]bool // names of objects whose writes were acknowledged and that were not deleted since
	n    int
}

func newBystander(a *arena) *bystander { return &bystander{a: a, held: map[string]bool{}} }

// take returns the times of the requests since the last call.
func (b *bystander) take() []time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	took := b.took
	b.took = nil
	return took
}

// names are the objects that must be there.
func (b *bystander) names() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var names []string
	for n := range b.held {
		names = append(names, n)
	}
	return names
}

// holds tells whether an object must be there.
func (b *bystander) holds(name string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.held[name]
}

// work does ordinary work until the context ends. It returns the first request that failed.
func (b *bystander) work(ctx context.Context) (failed string) {
	c := client(b.a, "ordinary", ordinaryAddress, true)
	defer c.CloseIdleConnections()
	for ctx.Err() == nil {
		if failed = b.turn(ctx, c); failed != "" {
			return failed
		}
		pause(ctx, 30*time.Millisecond)
	}
	return ""
}

// turn creates, changes, reads and lists objects of a built-in kind and of a CRD's, and deletes old ones.
func (b *bystander) turn(ctx context.Context, c *http.Client) string {
	b.n++
	name := fmt.Sprint("o", b.n)
	const maps, works = "/api/v1/namespaces/ordinary/configmaps", "/apis/ordinary.example/v1/namespaces/ordinary/works"
	type step struct {
		method, path, body string
		code               int
		contentType        string
	}
	steps := []step{
		{"POST", maps, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"` + name + `"},"data":{"mark":"` + ordinaryMark + `"}}`, 201, ""},
		{"GET", maps + "/" + name, "", 200, ""},
		{"PATCH", maps + "/" + name, `{"data":{"more":"1"}}`, 200, "application/merge-patch+json"},
		{"POST", works, `{"apiVersion":"ordinary.example/v1","kind":"Work","metadata":{"name":"` + name + `"},"spec":{}}`, 201, ""},
		{"GET", works + "/" + name, "", 200, ""},
		{"GET", maps + "?limit=20", "", 200, ""},
		{"DELETE", works + "/" + name, "", 200, ""},
	}
	if b.n%10 == 0 { // a list that waits when memory is tight
		steps = append(steps, step{"GET", maps, "", 200, ""})
	}
	if old := fmt.Sprint("o", b.n-20); b.holds(old) {
		steps = append(steps, step{"DELETE", maps + "/" + old, "", 200, ""})
	}
	for _, s := range steps {
		if s.method == "DELETE" { // from here on it may be gone
			b.mu.Lock()
			delete(b.held, strings.TrimPrefix(s.path, maps+"/"))
			b.mu.Unlock()
		}
		took, failed := b.request(ctx, c, s.method, s.path, s.body, s.code, s.contentType)
		if ctx.Err() != nil {
			return ""
		}
		if failed == storeFull {
			return "" // as docs/limits.md says of namespaces without ResourceQuotas; deletes go on
		}
		if failed != "" {
			return failed
		}
		b.mu.Lock()
		b.took = append(b.took, took)
		if s.method == "POST" && s.path == maps {
			b.held[name] = true
		}
		b.mu.Unlock()
	}
	return ""
}

// storeFull is the failure of a write that would store more than the memory has room for.
const storeFull = "the store is full"

// request sends one ordinary request, and again while it is told to come back.
func (b *bystander) request(ctx context.Context, c *http.Client, method, path, body string, code int, contentType string) (time.Duration, string) {
	if contentType == "" {
		contentType = "application/json"
	}
	clock := b.a.server.clock
	began, exact := clock.time(), time.Now()
	limited, cancel := clock.patience(ctx, b.a.o.patience)
	defer cancel()
	for try := 1; ; try++ {
		r, err := send(limited, c, method, path, []byte(body), "Content-Type", contentType)
		took := min(clock.time()-began+tick, time.Since(exact)) // the clock is exact to a tick
		switch {
		case ctx.Err() != nil:
			return took, ""
		case err == nil && r.code == code:
			return took, ""
		case err == nil && r.code == 500 && method != "DELETE" && strings.Contains(string(r.body), "what is stored takes"):
			return took, storeFull
		case err == nil && r.code == 409 && try > 1 && method == "POST", err == nil && r.code == 404 && try > 1 && method == "DELETE":
			return took, "" // the try before, whose answer was lost, did it
		case err == nil && (r.code == 429 || r.code >= 500) && r.retry && took < b.a.o.patience:
			pause(limited, time.Second)
		case err != nil && try < 3 && took < b.a.o.patience:
			pause(limited, 50*time.Millisecond) // a connection that was closed is opened again
		case err != nil:
			return took, fmt.Sprintf("%s %s failed after %v and %d tries: %v", method, path, took.Round(time.Millisecond), try, err)
		default:
			return took, fmt.Sprintf("%s %s got %d after %v, want %d: %s", method, path, r.code, took.Round(time.Millisecond), code, r.body[:min(len(r.body), 200)])
		}
	}
}

// probeTimeout is that of a kubelet, unless a pod sets another.
const probeTimeout = time.Second

// probe has a process of its own ask the health endpoints: in this one, which runs the attack, an answer may wait long until somebody
// looks at it. It returns the first check that failed three times in a row.
func (b *bystander) probe(ctx context.Context) (failed string) {
	self, err := os.Executable()
	if err != nil {
		return err.Error()
	}
	p := b.a.server
	cmd := exec.CommandContext(ctx, self, "-probe", fmt.Sprintf("%s,%d", p.address, p.cmd.Process.Pid), "-patience", b.a.o.patience.String(), fmt.Sprintf("-shared=%v", b.a.o.machine))
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.Output()
	if ctx.Err() != nil {
		return ""
	}
	if err != nil {
		return "the process that probes ended: " + err.Error()
	}
	return strings.TrimSpace(string(out))
}

// runProbe asks the health endpoints of the server at "address,process", each time over a new connection and without a credential, as a
// kubelet does, until a check has failed three times in a row.
func runProbe(ctx context.Context, o *options) error {
	address, number, _ := strings.Cut(o.probe, ",")
	pid, err := strconv.Atoi(number)
	if err != nil {
		return fmt.Errorf("-probe: got %q, want an address and the number of a process", o.probe)
	}
	b := newBystander(&arena{o: o, server: &process{address: address, clock: newPaced(ctx, pid, o.machine)}})
	for ctx.Err() == nil {
		for _, path := range []string{"/livez", "/readyz"} {
			var last string
			ok := false
			for try := 0; try < 3 && !ok && ctx.Err() == nil; try++ {
				last, ok = b.check(ctx, path)
			}
			if !ok && ctx.Err() == nil {
				fmt.Println("GET " + path + " failed three times: " + last)
				return nil
			}
		}
		pause(ctx, 200*time.Millisecond)
	}
	return nil
}

func (b *bystander) check(ctx context.Context, path string) (failed string, ok bool) {
	c := client(b.a, "", ordinaryAddress, false)
	c.Transport.(*bearer).next.DisableKeepAlives = true
	limited, cancel := b.a.server.clock.patience(ctx, min(probeTimeout, b.a.o.patience))
	defer cancel()
	r, err := send(limited, c, "GET", path, nil)
	if err != nil {
		return err.Error(), false
	}
	return fmt.Sprint(r.code, " ", string(r.body[:min(len(r.body), 200)])), r.code == 200
}

// pause waits, or until the context ends.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}
