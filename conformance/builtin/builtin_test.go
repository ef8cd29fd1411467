package builtin

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/keelson-io/keelson/internal/testpeers"
)

// This file sends the requests.

// request is what both servers are asked.
type request struct {
	method, path string
	accept, kind string // media types of the answer and of the body; "": JSON
	body         any    // nil: none; bytes and strings as they are
}

// answer is what a server says.
type answer struct {
	code   int
	header http.Header
	body   []byte
}

// patience is how long an answer, or an event, may take.
const patience = 20 * time.Second

// build is a request to a server.
func (p *peer) build(ctx context.Context, q *request) (*http.Request, error) {
	var text []byte
	switch body := q.body.(type) {
	case nil:
	case string:
		text = []byte(body)
	case []byte:
		text = body
	default:
		text = []byte(print(body))
	}
	r, err := http.NewRequestWithContext(ctx, q.method, p.base+q.path, bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("User-Agent", "conformance/1")
	if text != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if q.kind != "" {
		r.Header.Set("Content-Type", q.kind)
	}
	if q.accept != "" {
		r.Header.Set("Accept", q.accept)
	}
	return r, nil
}

// ask sends a request. That there is no answer is one, too.
func (p *peer) ask(q *request) *answer {
	for {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		a := p.once(ctx, q)
		cancel()
		// As long as upstream's cache of the kind is not there yet it says so.
		if a.code != http.StatusTooManyRequests || !bytes.Contains(a.body, []byte("storage is (re)initializing")) {
			return a
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func (p *peer) once(ctx context.Context, q *request) *answer {
	r, err := p.build(ctx, q)
	if err != nil {
		return &answer{body: []byte(err.Error())}
	}
	resp, err := p.Do(r)
	if err != nil {
		return &answer{body: []byte(strings.ReplaceAll(err.Error(), p.base, ""))}
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		text = append(text, err.Error()...)
	}
	return &answer{resp.StatusCode, resp.Header, text}
}

// run compares two servers.
type run struct {
	t                  *testing.T
	peers              [2]*peer // upstream, keelson
	same               *sameness
	records            *records // if not nil, what admission sees is compared, in place of the answers
	requests           int
	differ, unintended int // requests whose answers differ, and other than intended
	intended           map[*exception]int
	rules              []*rule // that Keelson lacks
	// Members of all kinds, those that objects had, and those that were tried; values of enumerations, too.
	reachable, covered, tried map[string]bool
}

// ask sends a request to both servers and compares the answers. The request is a step of the comparison of a kind.
func (r *run) ask(of, step string, q *request) [2]*answer {
	r.t.Helper()
	r.requests++
	if m := collections.FindString(q.path); (r.records != nil || unchanging.MatchString(step)) && m != "" {
		r.peers[0].ask(&request{method: "GET", path: m + "?labelSelector=none%3Dnone"})
	}
	var got [2]*answer
	var wg sync.WaitGroup
	for side, p := range r.peers {
		wg.Go(func() { got[side] = p.ask(q) })
	}
	wg.Wait()
	r.judge(of, step, q, got)
	return got
}

// judge compares two answers, or what admission saw of the requests.
func (r *run) judge(of, step string, q *request, got [2]*answer) {
	r.t.Helper()
	if r.records != nil {
		r.compareRecords(of, step, q, got)
		return
	}
	r.compare(of, step, q, got)
}

// unchanging matches the steps that change nothing. Upstream starts each write from the object in its cache. If that is outdated, it warns
// about the changes since, and asks webhooks again. A list waits until the cache has the last change.
var unchanging = regexp.MustCompile(`\b(nothing|again|no change)$`)

// collections matches the part of a path that names a collection.
var collections = regexp.MustCompile(`^(/api/v1|/apis/[^/]+/[^/]+)(/namespaces/[^/]+)?/[^/?]+`)

// compare reports where two answers differ, unless that is intended.
func (r *run) compare(of, step string, q *request, got [2]*answer) {
	r.t.Helper()
	all := r.same.differences(got[0], got[1])
	if len(all) == 0 {
		return
	}
	r.differ++
	if strings.HasPrefix(step, "full ") && r.lacks(of, got[0], got[1]) {
		return
	}
	var open []string
	for _, d := range all {
		if e := excuse(of, step, d); e != nil {
			r.intended[e]++
			continue
		}
		open = append(open, "    "+d.String())
	}
	if open != nil {
		r.unintended++
		body := ""
		if q.body != nil {
			body = " " + print(q.body)
		}
		r.t.Errorf("%s %s: %s %s%.300s\n%s", of, step, q.method, q.path, body, strings.Join(open, "\n"))
	}
}

// TestBuiltin is the comparison.
func TestBuiltin(t *testing.T) {
	if testing.Short() {
		t.Skip("kube-apiserver takes its time to start")
	}
	r := &run{t: t, peers: [2]*peer{startUpstream(t), startKeelson(t)}, same: &sameness{given: new(testpeers.Pairs)}, intended: map[*exception]int{}, rules: readRules(t, "testdata/unchecked.txt"),
		reachable: map[string]bool{}, covered: map[string]bool{}, tried: map[string]bool{}}
	objects := readObjects(t, "testdata/minimal.yaml")
	wrong := r.readMistakes("testdata/invalid.yaml")
	only := os.Getenv("ONLY") // kinds, and comparisons of their own, while working on some
	wanted := func(name string) bool { return only == "" || strings.Contains(" "+only+" ", " "+name+" ") }
	r.start()
	r.surroundings()
	r.groups(func(g group) {
		r.t.Helper()
		if wanted("discovery") {
			r.discovery(g)
		}
		published := r.shapesOf(g)
		for _, res := range g.resources {
			name := g.Group + "/" + res.Name
			if g.Group == "" {
				name = res.Name
			}
			body, ok := objects[name]
			if !wanted(name) {
				continue
			}
			r.wrong(&subject{group: g, APIResource: res, name: name}, wrong)
			if !ok {
				if !strings.Contains(res.Name, "/") && !without[name] {
					t.Errorf("%s: no object of it in testdata", name)
				}
				continue
			}
			of := &subject{group: g, APIResource: res, name: name, minimal: body}
			r.kind(of)
			r.full(of, published)
		}
	})
	if wanted("services") {
		r.services()
	}
	if wanted("parts") {
		r.partsOf()
	}
	if wanted("surface") {
		r.surface(objects)
	}
	if wanted("openapi") {
		r.documents()
	}
	if only == "" {
		for name := range wrong {
			t.Errorf("%s: nobody serves it", name)
		}
		r.unused()
		r.unusedExceptions(func(e *exception) bool { return !e.ofRecords() })
	}
	fmt.Printf("builtin: %d requests, %d answers differ, %d of them other than intended\n", r.requests, r.differ, r.unintended)
}

// unusedExceptions reports exceptions that nothing needed, among those that a comparison is about.
func (r *run) unusedExceptions(about func(*exception) bool) {
	r.t.Helper()
	for i := range exceptions {
		if e := &exceptions[i]; about(e) && r.intended[e] == 0 {
			r.t.Errorf("ledger: %s: there is no such difference any more", e.why)
		}
	}
}

// unused reports what is known to differ in objects that say everything, and does not, and how many members they had.
func (r *run) unused() {
	r.t.Helper()
	for _, rule := range r.rules {
		if rule.used == 0 {
			r.t.Errorf("unchecked: %s: that is checked, or nobody asks", rule.text)
		}
	}
	set, all := 0, 0
	for name := range r.reachable {
		if strings.Contains(name, ".") && !strings.HasPrefix(name, "in ") {
			if all++; r.covered[name] {
				set++
			}
		}
	}
	fmt.Printf("builtin: %d of %d members of all definitions were set\n", set, all)
}

// group is a group version that both servers serve.
type group struct {
	metav1.GroupVersion
	resources []metav1.APIResource
}

func (g group) base() string {
	if g.Group == "" {
		return "/api/" + g.Version
	}
	return "/apis/" + g.String()
}

// groups calls f for all group versions that Keelson serves.
func (r *run) groups(f func(group)) {
	r.t.Helper()
	var list metav1.APIGroupList
	r.read(1, "/apis", &list)
	all := []metav1.GroupVersion{{Version: "v1"}}
	for _, g := range list.Groups {
		for _, v := range g.Versions {
			all = append(all, metav1.GroupVersion{Group: g.Name, Version: v.Version})
		}
	}
	for _, gv := range all {
		g := group{GroupVersion: gv}
		var resources metav1.APIResourceList
		r.read(1, g.base(), &resources)
		g.resources = resources.APIResources
		f(g)
	}
}

// read reads what one server says.
func (r *run) read(side int, path string, v any) {
	r.t.Helper()
	a := r.peers[side].ask(&request{method: "GET", path: path})
	if err := json.Unmarshal(a.body, v); err != nil {
		r.t.Fatalf("GET %s: %v: %s", path, err, a.body)
	}
}

// readObjects reads objects by kind.
func readObjects(t *testing.T, path string) map[string]map[string]any {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var all map[string]map[string]any
	if err := yaml.UnmarshalStrict(text, &all); err != nil {
		t.Fatal(err)
	}
	return all
}
