package api

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// This file tests lists in pages, and watches.

func TestListPages(t *testing.T) {
	s := newTestServer(t)
	for i := range 5 {
		s.must(201, "POST", widgets, widget(fmt.Sprintf("w%d", i), ``))
	}
	var names, versions []string
	path := widgets + "?limit=2"
	for {
		a := s.must(200, "GET", path, "")
		items, _ := a.get("items").([]any)
		for _, i := range items {
			names = append(names, i.(map[string]any)["metadata"].(map[string]any)["name"].(string))
		}
		versions = append(versions, a.text("metadata", "resourceVersion"))
		if len(names) == 2 {
			if n := a.get("metadata", "remainingItemCount"); n != 3.0 {
				t.Errorf("remainingItemCount: got %v", n)
			}
			// What happens between two pages is not on the second.
			s.must(201, "POST", widgets, widget("w2x", ``))
			s.must(200, "DELETE", widgets+"/w3", "")
		}
		next := a.text("metadata", "continue")
		if next == "" {
			break
		}
		path = widgets + "?limit=2&continue=" + next
	}
	if got, want := fmt.Sprint(names), "[w0 w1 w2 w3 w4]"; got != want {
		t.Errorf("names: got %s, want %s", got, want)
	}
	for _, v := range versions {
		if v != versions[0] {
			t.Errorf("pages are of different versions: %v", versions)
		}
	}
	if a := s.must(200, "GET", widgets+"?resourceVersion="+versions[0]+"&resourceVersionMatch=Exact", ""); strings.Contains(a.body, "w2x") ||
		a.text("metadata", "resourceVersion") != versions[0] {
		t.Errorf("exact list: %s", a.body)
	}
	if a := s.must(200, "GET", widgets+"?limit=1&resourceVersion=0", ""); a.text("metadata", "continue") != "" {
		t.Errorf("limit counts though any version will do: %s", a.body)
	}
}

func TestTable(t *testing.T) {
	s := newTestServer(t)
	s.must(201, "POST", widgets, widget("a", ``))
	a := s.must(200, "GET", widgets, "", "Accept", "application/json;as=Table;g=meta.k8s.io;v=v1,application/json")
	if a.text("kind") != "Table" || !strings.Contains(a.body, `"rows":[{"cells":["a","`) || !strings.Contains(a.body, `"kind":"PartialObjectMetadata"`) {
		t.Errorf("table: %s", a.body)
	}
	a = s.must(200, "GET", widgets+"/a?includeObject=None", "", "Accept", "application/json;as=Table;g=meta.k8s.io;v=v1")
	if a.text("kind") != "Table" || !strings.Contains(a.body, `"object":null`) {
		t.Errorf("table of one: %s", a.body)
	}
	s.must(400, "GET", widgets+"?includeObject=All", "", "Accept", "application/json;as=Table;g=meta.k8s.io;v=v1")
}

// event is one event of a watch, in short.
type event struct {
	Type   string
	Object struct {
		Kind     string
		Code     int
		Message  string
		Metadata struct {
			Name, ResourceVersion      string
			Annotations                map[string]string
			DeletionTimestamp          *metav1.Time
			DeletionGracePeriodSeconds *int64
			Generation                 int64
		}
		ColumnDefinitions []any
	}
}

func (e event) String() string {
	if e.Type == "ERROR" {
		return fmt.Sprintf("ERROR %d", e.Object.Code)
	}
	if e.Object.Metadata.Annotations["k8s.io/initial-events-end"] == "true" {
		return "END"
	}
	return e.Type + " " + e.Object.Metadata.Name
}

// watch opens a watch and returns its events; the channel closes with it.
func (s *testServer) watch(query string, headers ...string) <-chan event {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	s.t.Cleanup(cancel)
	r, err := http.NewRequestWithContext(ctx, "GET", s.url+query, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	if resp.StatusCode != 200 {
		s.t.Fatalf("watch %s: got %s", query, resp.Status)
	}
	out := make(chan event, 100)
	go func() {
		defer close(out)
		defer resp.Body.Close()
		lines := bufio.NewScanner(resp.Body)
		for lines.Scan() {
			var e event
			if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
				// The end of a test cuts the last line short.
				if ctx.Err() == nil {
					s.t.Errorf("event: %v: %s", err, lines.Text())
				}
				return
			}
			out <- e
		}
		if err := lines.Err(); err != nil && ctx.Err() == nil {
			s.t.Errorf("watch did not end in good order: %v", err)
		}
	}()
	return out
}

// expect reads events and compares them, joined by commas.
func (s *testServer) expect(events <-chan event, want string) {
	s.t.Helper()
	for _, w := range strings.Split(want, ", ") {
		select {
		case e, ok := <-events:
			got := "EOF"
			if ok {
				got = e.String()
			}
			if got != w {
				s.t.Fatalf("event: got %s, want %s", got, w)
			}
		case <-time.After(time.Minute):
			s.t.Fatalf("event: got none, want %s", w)
		}
	}
}

func TestWatch(t *testing.T) {
	s := newTestServer(t)
	a := s.must(201, "POST", widgets, widget("a", `"color":"blue"`))
	rev := a.text("metadata", "resourceVersion")
	s.must(201, "POST", widgets, widget("b", `"color":"green"`))

	from := s.watch(widgets + "?watch=1&resourceVersion=" + rev)
	all := s.watch(widgets + "?watch=1")
	marked := s.watch(widgets + "?watch=1&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan")
	blue := s.watch(widgets + "?watch=1&resourceVersion=" + rev + "&fieldSelector=spec.color=blue")
	now := s.watch(widgets + "?watch=1&sendInitialEvents=false&resourceVersionMatch=NotOlderThan")
	one := s.watch("/apis/demo.io/v1/watch/namespaces/default/widgets/a")
	s.expect(from, "ADDED b")
	s.expect(all, "ADDED a, ADDED b")
	s.expect(marked, "ADDED a, ADDED b, END")
	s.expect(one, "ADDED a")

	s.must(200, "PATCH", widgets+"/b", `{"spec":{"color":"blue"}}`, "Content-Type", merge)
	s.must(200, "PATCH", widgets+"/a", `{"spec":{"color":"green"}}`, "Content-Type", merge)
	s.must(200, "DELETE", widgets+"/a", "")
	const after = "MODIFIED b, MODIFIED a, DELETED a"
	for _, events := range []<-chan event{from, all, marked, now} {
		s.expect(events, after)
	}
	s.expect(one, "MODIFIED a, DELETED a")
	s.expect(blue, "ADDED b, DELETED a")

	s.h.Stop()
	for _, events := range []<-chan event{from, all, marked, now, one, blue} {
		s.expect(events, "EOF")
	}
}

func TestWatchErrorsAreEvents(t *testing.T) {
	s := newTestServer(t)
	s.expect(s.watch(widgets+"?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=99999"), "ERROR 504, EOF")
	s.must(422, "GET", widgets+"?watch=1&sendInitialEvents=true", "")
	s.must(500, "GET", widgets+"?watch=1&resourceVersion=x", "")
}

func TestWatchEndsInTime(t *testing.T) {
	s := newTestServer(t, func(c *setup) { c.BookmarkEvery = 100 * time.Millisecond })
	rev := s.must(200, "GET", widgets, "").text("metadata", "resourceVersion")
	events := s.watch(widgets + "?watch=1&timeoutSeconds=1&allowWatchBookmarks=true&resourceVersion=" + rev)
	n := 0
	for e := range events {
		if e.Type != "BOOKMARK" || e.Object.Kind != "Widget" || e.Object.Metadata.ResourceVersion == "" {
			t.Errorf("event: got %+v", e)
		}
		n++
	}
	if n == 0 {
		t.Error("no bookmark came")
	}
}

// TestBookmarksOfBuiltins holds that a bookmark has what objects of its Go type always have.
func TestBookmarksOfBuiltins(t *testing.T) {
	s := newTestServer(t)
	for path, want := range map[string]string{
		"/apis/apiextensions.k8s.io/v1/customresourcedefinitions": `"spec":{"group":"","names":{"plural":"","kind":""},"scope":"","versions":null},` +
			`"status":{"conditions":null,"acceptedNames":{"plural":"","kind":""},"storedVersions":null}`,
		"/api/v1/pods": `"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"`,
		widgets:        `{"type":"BOOKMARK","object":{"apiVersion":"demo.io/v1","kind":"Widget","metadata":{"annotations":{`,
	} {
		resp, err := http.Get(s.url + path + "?watch=1&timeoutSeconds=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&fieldSelector=metadata.name%3Dnone")
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || !strings.Contains(string(text), want) || !strings.Contains(string(text), metav1.InitialEventsAnnotationKey) {
			t.Errorf("%s: got %s, %v, want a bookmark with %s", path, text, err, want)
		}
	}
}

func TestWatchEndsWithItsKind(t *testing.T) {
	s := newTestServer(t)
	old := s.kinds.Load().Lookup("demo.io", "widgets")
	rev := s.must(200, "GET", widgets, "").text("metadata", "resourceVersion")
	events := s.watch(widgets + "?watch=1&resourceVersion=" + rev)
	// Nothing that matters to a client changes. Each event that arrives shows that the watch goes on,
	// and gives it the choice to look at the changed kind first.
	for i := range 20 {
		same := *old
		s.kinds.Put(&same)
		name := fmt.Sprintf("a%d", i)
		s.must(201, "POST", widgets, widget(name, ``))
		s.expect(events, "ADDED "+name)
	}
	s.kinds.Put(compile(t, strings.Replace(widgetCRD, "generation: 1", "generation: 2", 1)))
	s.expect(events, "EOF")
}

func TestWatchTables(t *testing.T) {
	s := newTestServer(t)
	s.must(201, "POST", widgets, widget("a", ``))
	s.must(201, "POST", widgets, widget("b", ``))
	events := s.watch(widgets+"?watch=1", "Accept", "application/json;as=Table;g=meta.k8s.io;v=v1")
	for i := range 2 {
		e := <-events
		if e.Object.Kind != "Table" || (len(e.Object.ColumnDefinitions) > 0) != (i == 0) {
			t.Errorf("event %d: got %+v", i, e)
		}
	}
	events = s.watch(widgets+"?watch=1", "Accept", "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1")
	if e := <-events; e.Object.Kind != "PartialObjectMetadata" || e.Object.Metadata.Name != "a" {
		t.Errorf("event: got %+v", e)
	}
}

// TestWatchTooOld holds what a watch says that asks for what neither the server nor the store remembers.
func TestWatchTooOld(t *testing.T) {
	s := newTestServer(t)
	first := s.must(201, "POST", widgets, widget("a", ``)).text("metadata", "resourceVersion")
	for i := range 3 {
		s.must(201, "POST", widgets, widget(fmt.Sprintf("w%d", i), ``))
	}
	last := s.must(200, "GET", widgets, "").text("metadata", "resourceVersion")
	rev, err := strconv.ParseInt(last, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.store.Compact(t.Context(), rev); err != nil {
		t.Fatal(err)
	}
	s.h.Cache.Drop("demo.io/widgets")
	a := s.must(200, "GET", widgets+"?watch=1&resourceVersion="+first, "")
	want := fmt.Sprintf(`{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure",`+
		`"message":"too old resource version: %s (%s)","reason":"Expired","code":410}}`+"\n", first, last)
	if a.body != want {
		t.Errorf("got  %s\nwant %s", a.body, want)
	}
}

// TestFreshReads: without a watch cache, a read at resource version 0 is like one without, so that lists keep to their limit and
// no read is older than the last write.
func TestFreshReads(t *testing.T) {
	s := newTestServer(t, func(c *setup) { c.FreshReads = true })
	for i := range 20 {
		name := fmt.Sprint("w", i)
		s.must(201, "POST", widgets, `{"apiVersion":"demo.io/v1","kind":"Widget","metadata":{"name":"`+name+`"}}`)
		s.must(200, "GET", widgets+"/"+name+"?resourceVersion=0", "")
		for _, query := range []string{"?resourceVersion=0", "?resourceVersion=0&resourceVersionMatch=NotOlderThan"} {
			if a := s.must(200, "GET", widgets+query, ""); strings.Count(a.body, `"kind":"Widget"`) != i+1 {
				t.Fatalf("%s after %d creates: got %s", query, i+1, a.body)
			}
		}
	}
	a := s.must(200, "GET", widgets+"?limit=7&resourceVersion=0", "")
	next := a.text("metadata", "continue")
	if n := strings.Count(a.body, `"kind":"Widget"`); n != 7 || next == "" {
		t.Errorf("a list with a limit: got %d objects, continue %q, want 7 and a token", n, next)
	}
	if a := s.must(200, "GET", widgets+"?resourceVersion=0&continue="+next, ""); strings.Count(a.body, `"kind":"Widget"`) != 13 {
		t.Errorf("the rest of it: got %s", a.body)
	}
	s.must(422, "GET", widgets+"?resourceVersion=0&resourceVersionMatch=Exact", "")
}
