package http

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// This file sends the requests and compares the answers.

// patience is how long a request is repeated until it answers as wanted. Upstream looks every five seconds whether the instances of a
// definition are gone, and later when the machine is busy.
const patience = time.Minute

// quiet is how long nothing may come before a watch counts as having said all.
const quiet = 300 * time.Millisecond

// run is one comparison of both servers.
type run struct {
	t      *testing.T
	peers  [2]*peer // upstream, Keelson
	same   *sameness
	vars   [2]map[string]string
	open   map[string]*opened
	ledger map[string]needed // how often each entry was needed

	http2   bool      // how requests are sent, but for those that HTTP/2 cannot say
	wrote   time.Time // when something was last answered that watches may have to tell of
	deleted bool      // the last request deleted something

	requests, differences int
	reached               reached
}

func TestHTTP(t *testing.T) {
	r := &run{t: t, same: &sameness{again: map[string]bool{}}, vars: [2]map[string]string{{}, {}}, open: map[string]*opened{}, ledger: map[string]needed{},
		reached: reached{cells: map[cell]int{}, codes: map[string]map[int]int{}}}
	var wg sync.WaitGroup
	began := time.Now()
	wg.Go(func() { r.peers[0] = startUpstream(t) })
	wg.Go(func() { r.peers[1] = startKeelson(t) })
	wg.Wait()
	if t.Failed() {
		t.FailNow()
	}
	t.Logf("both serve after %v", time.Since(began))
	r.startConverter()
	scripts, err := filepath.Glob("testdata/*.http")
	if err != nil || len(scripts) == 0 {
		t.Fatal(err, "no scripts")
	}
	only := os.Getenv("ONLY") // while working on one script
	for _, path := range scripts {
		requests, err := readScript(path)
		if err != nil {
			t.Fatal(err)
		}
		base := filepath.Base(path)
		if only != "" && !strings.Contains(only, base) && base != "00-install.http" || testing.Short() && strings.HasPrefix(base, "long-") {
			continue
		}
		for i := range requests {
			r.step(&requests[i])
		}
	}
	if only == "" || strings.Contains(only, "raw") {
		r.raw()
	}
	if only == "pairs" {
		r.pairs()
	}
	if only == "generated" {
		r.generate()
	}
	if only == "" {
		r.matrix()
		r.pairs()
		r.generate()
		r.used()
		for _, e := range ledger {
			if r.ledger[e.name].fixed == 0 && e.chance == "" && !testing.Short() {
				t.Errorf("ledger: %s: no fixed request shows such a difference any more", e.name)
			}
		}
	}
	intended := 0
	for _, n := range r.ledger {
		intended += n.fixed + n.generated
	}
	fmt.Printf("http: %d requests, %d differences (%d of them intended, of %d kinds)\n", r.requests, r.differences+intended, intended, len(r.ledger))
}

// step sends one request to both servers.
func (r *run) step(q *request) {
	switch q.method {
	case "SLEEP":
		d, err := time.ParseDuration(q.path)
		if err != nil {
			r.t.Fatalf("%s: %v", q, err)
		}
		time.Sleep(d)
		return
	case "CLOSE":
		r.closeWatch(q)
		return
	case "COMPACT":
		r.compact(q)
		return
	}
	r.requests++
	defer func(began time.Time) {
		if took := time.Since(began); took > 2*time.Second {
			r.t.Logf("%s: took %v", q, took)
		}
	}(time.Now())
	if q.watch != "" {
		r.settle(q)
		w := opened{request: q}
		for side, p := range r.peers {
			if q.has("Upgrade") {
				w.sides[side] = startSocket(p, r.build(q, side))
				continue
			}
			w.sides[side] = startWatch(p, r.build(q, side))
		}
		r.open[q.watch] = &w
		for _, side := range w.sides {
			side.settle(time.Time{})
		}
		return
	}
	var got [2]*answer
	var wg sync.WaitGroup
	if strings.Contains(q.path, "resourceVersion=") || strings.Contains(q.path, "watch") || r.deleted { // a deletion that says watch= lists what its cache has
		r.settle(q)
	}
	for side, p := range r.peers {
		wg.Go(func() { got[side] = p.ask(r.build(q, side), q) })
	}
	wg.Wait()
	if q.method != "GET" && q.method != "HEAD" {
		r.wrote = time.Now()
	}
	r.deleted = q.method == "DELETE" // upstream begins a change with the object that its cache has, which one warning may come from
	r.compare(q, got[0], got[1])
	if q.save != "" {
		r.keep(q.save, got)
	}
}

// compact makes both stores forget all but their present states.
func (r *run) compact(q *request) {
	list := request{method: "GET", path: gadgets + "?limit=1"}
	for side, p := range r.peers {
		m := listRevision.FindSubmatch(p.once(r.build(&list, side)).body)
		if m == nil {
			r.t.Fatalf("%s: %s does not say of which revision a list is", q, p.name)
		}
		rev, err := strconv.ParseInt(string(m[1]), 10, 64)
		if err == nil {
			err = p.compact(context.Background(), rev)
		}
		if err != nil {
			r.t.Fatalf("%s: %s: %v", q, p.name, err)
		}
	}
}

// listRevision finds the resource version of a list.
var listRevision = regexp.MustCompile(`"resourceVersion":"(\d+)"\}\}\n$`)

// settle waits until upstream's cache of what q is about knows all that was written: any state answers a request for version 0, and any
// later one a request for another. A list that is to be current waits for that.
func (r *run) settle(q *request) {
	if m := collection.FindString(q.path); m != "" {
		r.peers[0].once(r.build(&request{method: "GET", path: m + "?labelSelector=none%3Dnone"}, 0))
	}
}

var collection = regexp.MustCompile(`^/apis/[^/]+/[^/]+/(namespaces/[^/]+/)?[^/?]+`)

// compare reports the differences between two answers.
func (r *run) compare(q *request, theirs, ours *answer) {
	r.t.Helper()
	r.note(q, theirs.code)
	a, b := r.same.both(theirs, ours, q.typed(), strings.HasPrefix(q.path, crds))
	if *trace && strings.HasPrefix(q.script, "generated") {
		fmt.Printf("%s: %s %s %v %s\n%s\n", q, q.method, q.path, q.header, q.body, a)
	}
	if q.random && theirs.code == ours.code || a == b {
		return
	}
	r.judge(q, a, b, func() { r.same.rewritten(theirs, ours) })
}

// judge reports a difference unless it is intended; again is what is done if upstream wrote objects again.
func (r *run) judge(q *request, a, b string, again func()) {
	r.t.Helper()
	if a == b {
		return
	}
	for _, e := range ledger {
		if e.covers(q, a, b) {
			if *excused {
				fmt.Printf("excused: %s\n%s: %s %s %v %.300s\n%s\n", e.name, q, q.method, q.path, q.header, q.body, diff(a, b))
			}
			if e.rewrites {
				again()
			}
			n := r.ledger[e.name]
			if strings.HasPrefix(q.script, "generated") {
				n.generated++
			} else {
				n.fixed++
			}
			r.ledger[e.name] = n
			return
		}
	}
	r.differences++
	body := q.body
	if len(body) > 600 {
		body = body[:600] + "…"
	}
	r.t.Errorf("%s: %s %s %v\n%s\n%s", q, q.method, q.path, q.header, body, diff(a, b))
}

// fill puts what one side answered earlier into a text.
func (r *run) fill(s string, side int) string {
	for k, v := range r.vars[side] {
		s = strings.ReplaceAll(s, "${"+k+"}", v)
	}
	return s
}

// request is q as it goes to one server.
func (r *run) build(q *request, side int) func(ctx context.Context) (*http.Request, error) {
	two := (r.http2 || *everything2) && !q.has("Upgrade") && !q.has("Connection")
	return func(ctx context.Context) (*http.Request, error) {
		body := r.fill(q.body, side)
		var reader io.Reader
		if body != "" {
			reader = strings.NewReader(body)
		}
		req, err := http.NewRequestWithContext(ctx, q.method, r.peers[side].base+r.fill(q.path, side), reader)
		if err != nil {
			return nil, err
		}
		req.Header.Set("User-Agent", "conformance/1")
		if body != "" {
			req.Header.Set("Content-Type", "application/json")
			if body[0] != '{' && body[0] != '[' {
				req.Header.Set("Content-Type", "application/yaml")
			}
		}
		for _, h := range q.header {
			if h[1] == "-" {
				req.Header[h[0]] = nil
				continue
			}
			req.Header.Set(h[0], h[1])
		}
		if two {
			req.Proto, req.ProtoMajor, req.ProtoMinor = "HTTP/2.0", 2, 0
		}
		return req, nil
	}
}

// ask sends a request, repeatedly if q waits for something.
func (p *peer) ask(build func(context.Context) (*http.Request, error), q *request) *answer {
	for deadline := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		a := p.once(build)
		if a.err == nil && strings.Contains(string(a.body), q.until) && (q.unless == "" || !strings.Contains(string(a.body), q.unless)) {
			return a
		}
		if q.until == "" && q.unless == "" {
			return a
		}
		if time.Now().After(deadline) {
			return &answer{err: fmt.Errorf("%s: not the wanted answer in time: %d %.2000s", p.name, a.code, a.body)}
		}
	}
}

// send sends a request, again and again as long as upstream's cache of the kind is not there yet: that it says so depends on time.
func (p *peer) send(ctx context.Context, build func(context.Context) (*http.Request, error)) (*http.Response, error) {
	for {
		req, err := build(ctx)
		if err != nil {
			return nil, err
		}
		resp, err := p.Do(req)
		if err != nil || resp.StatusCode != http.StatusTooManyRequests {
			return resp, err
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.Body = io.NopCloser(bytes.NewReader(body)); err != nil || !bytes.Contains(body, []byte("storage is (re)initializing")) {
			return resp, err
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func (p *peer) once(build func(context.Context) (*http.Request, error)) *answer {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	resp, err := p.send(ctx, build)
	if err != nil {
		return &answer{err: errors.New(strings.ReplaceAll(err.Error(), p.base, ""))}
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return &answer{code: resp.StatusCode, header: resp.Header, body: body, err: err, spoken: spoken(resp)}
}

// spoken is what there is to say of an answer's transport: another version of HTTP than was asked for, and trailers.
func spoken(resp *http.Response) string {
	said := ""
	if resp.ProtoMajor != resp.Request.ProtoMajor {
		said = resp.Proto + "\n"
	}
	if len(resp.Trailer) > 0 {
		said += fmt.Sprintln(resp.Trailer)
	}
	return said
}

var kept = map[string]*regexp.Regexp{
	"uid":      regexp.MustCompile(`"uid":\s*"([^"]*)"`),
	"rv":       regexp.MustCompile(`"resourceVersion":\s*"([^"]*)"`),
	"name":     regexp.MustCompile(`"name":\s*"([^"]*)"`),
	"continue": regexp.MustCompile(`"continue":\s*"([^"]*)"`),
	"url":      regexp.MustCompile(`"apis/demo.io/v1":{"serverRelativeURL":\s*"([^"]*)"`),
}

// keep remembers parts of both sides' answers under a name, for later requests. A part that one side lacks is not kept, because later
// requests must be the same on both sides: an intended difference may end a page on one side only.
func (r *run) keep(name string, got [2]*answer) {
	for part, re := range kept {
		found := [2][][]byte{re.FindSubmatch(got[0].body), re.FindSubmatch(got[1].body)}
		if found[0] == nil || found[1] == nil || (len(found[0][1]) == 0) != (len(found[1][1]) == 0) {
			continue
		}
		for side, m := range found {
			if was := r.vars[side][name+"."+part]; part == "rv" && was != "" && was != string(m[1]) {
				r.vars[side][name+".old"] = was
			}
			r.vars[side][name+"."+part] = string(m[1])
		}
	}
}

// opened is a watch that is open on both sides.
type opened struct {
	request *request
	sides   [2]*watching
}

// watching is an answer that is read as it comes.
type watching struct {
	cancel context.CancelFunc
	mu     sync.Mutex
	answer answer
	done   chan struct{}
	last   time.Time // when something came
}

func startWatch(p *peer, build func(context.Context) (*http.Request, error)) *watching {
	ctx, cancel := context.WithCancel(context.Background())
	w := &watching{cancel: cancel, done: make(chan struct{}), last: time.Now()}
	go func() {
		defer close(w.done)
		resp, err := p.send(ctx, build)
		w.mu.Lock()
		w.last = time.Now()
		if err != nil {
			w.answer.err = err
			w.mu.Unlock()
			return
		}
		w.answer.code, w.answer.header = resp.StatusCode, resp.Header
		w.mu.Unlock()
		defer resp.Body.Close()
		for buf := make([]byte, 64<<10); ; {
			n, err := resp.Body.Read(buf)
			w.mu.Lock()
			w.answer.body = append(w.answer.body, buf[:n]...)
			w.last = time.Now()
			if err != nil {
				w.answer.spoken = spoken(resp)
			}
			w.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	return w
}

// settle waits until the watch has been quiet for a while, also since a time, or ended.
func (w *watching) settle(since time.Time) {
	for {
		w.mu.Lock()
		if w.last.Before(since) {
			w.last = since
		}
		began, left := w.answer.code != 0, quiet-time.Since(w.last)
		w.mu.Unlock()
		if began && left <= 0 {
			return
		}
		select {
		case <-w.done:
			return
		case <-time.After(max(left, 5*time.Millisecond)):
		}
	}
}

// closeWatch compares what two watches brought. "CLOSE name ended" wants that
// the servers ended them.
func (r *run) closeWatch(q *request) {
	name, ended, _ := strings.Cut(q.path, " ")
	w := r.open[name]
	delete(r.open, name)
	if w == nil {
		r.t.Fatalf("%s: no watch %q is open", q, name)
	}
	var got [2]*answer
	for side, one := range w.sides {
		if ended != "" {
			select {
			case <-one.done:
			case <-time.After(patience):
				r.t.Errorf("%s: %s does not end the watch", q, r.peers[side].name)
			}
		}
		one.settle(r.wrote)
		one.cancel()
		<-one.done
		got[side] = &one.answer
		one.answer.beats = !strings.Contains(w.request.path, "timeoutSeconds") // with a time limit they come at a known time
	}
	r.compare(w.request, got[0], got[1])
}
