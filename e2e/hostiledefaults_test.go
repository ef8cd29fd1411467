package e2e

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
)

// This file holds what definitions do to objects that are stored already: default values that
// multiply, and schemas that change again and again.

const (
	swellers     = "/apis/demo.example.org/v1/namespaces/default/swellers"
	swellersCRD  = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/swellers.demo.example.org"
	definitionsV = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
)

// sweller is the definition of a list of objects. text is the schema of their only member.
func sweller(text string) []byte {
	version := func(name string, storage bool) string {
		return fmt.Sprintf(`{"name":%q,"served":true,"storage":%v,"schema":{"openAPIV3Schema":{"type":"object","properties":{
			"spec":{"type":"object","x-kubernetes-preserve-unknown-fields":true},
			"items":{"type":"array","items":{"type":"object","properties":{"text":%s}}}}}}}`, name, storage, text)
	}
	return []byte(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"swellers.demo.example.org"},"spec":{
		"group":"demo.example.org","scope":"Namespaced","names":{"plural":"swellers","singular":"sweller","kind":"Sweller","listKind":"SwellerList"},
		"versions":[` + version("v1", true) + `]}}`)
}

// defineSweller creates the definition and waits until it is served.
func (s *server) defineSweller(t *testing.T) {
	t.Helper()
	s.do(t, 201, "POST", definitionsV, sweller(`{"type":"string"}`))
	eventually(t, "swellers served", func() bool {
		code, _, err := s.try("GET", swellers, nil)
		return err == nil && code == 200
	})
}

// redefine replaces the schema of the definition, and waits until objects are read by it: until a new object that has one item has
// what is wanted of it.
func (s *server) redefine(t *testing.T, text string, probe string) {
	t.Helper()
	code, b, err := s.try("PATCH", swellersCRD, []byte(`{"spec":{"versions":`+versionsOf(string(sweller(text)))+`}}`), mergePatch...)
	if err != nil || code != 200 {
		t.Fatalf("got %d, %v: %s", code, err, tail(string(b), 500))
	}
	body := []byte(`{"apiVersion":"demo.example.org/v1","kind":"Sweller","metadata":{"generateName":"probe-"},"items":[{}]}`)
	eventually(t, "the new schema is in force", func() bool {
		code, b, err := s.try("POST", swellers+"?dryRun=All", body)
		return err == nil && code == 201 && strings.Contains(string(b), probe)
	})
}

func versionsOf(definition string) string {
	_, after, _ := strings.Cut(definition, `"versions":`)
	return strings.TrimSuffix(after, "}}")
}

// createSwellers writes objects of so many empty items.
func (s *server) createSwellers(t *testing.T, prefix string, n, items int) {
	t.Helper()
	list := "{}" + strings.Repeat(",{}", items-1)
	for i := range n {
		s.do(t, 201, "POST", swellers, fmt.Appendf(nil, `{"apiVersion":"demo.example.org/v1","kind":"Sweller",
			"metadata":{"name":"%s-%d","labels":{"of":"%s"}},"items":[%s]}`, prefix, i, prefix, list))
	}
}

// TestDefaultsOfStoredObjects gives the items of small stored objects a default of a megabyte.
// Ledger: large-defaults, large-lists-of-defaults.
func TestDefaultsOfStoredObjects(t *testing.T) {
	t.Parallel()
	const megabyte = 1_000_000
	s := startServer(t)
	s.defineSweller(t)
	s.createSwellers(t, "many", 25, 50)
	s.createSwellers(t, "few", 360, 3)
	s.redefine(t, `{"type":"string","default":"`+strings.Repeat("x", megabyte)+`"}`, "xxxx")
	before := s.peakMemory(t)

	// 50 MB in each of 25 objects.
	for i := range 25 {
		path := fmt.Sprintf("%s/many-%d", swellers, i)
		code, b, err := s.try("GET", path, nil)
		if err != nil || code != 500 || !strings.Contains(string(b), "default values make the object larger than 4194304 bytes") {
			t.Errorf("object %d: got %d, %v, %s; want 500", i, code, err, tail(string(b), 100))
		}
	}
	t.Logf("peak memory grew by %d MiB when 25 objects were read", (s.peakMemory(t)-before)>>20)
	body := `{"apiVersion":"demo.example.org/v1","kind":"Sweller","metadata":{"name":"new"},"items":[{}` + strings.Repeat(",{}", 49) + `]}`
	if b := s.do(t, 500, "POST", swellers, []byte(body)); !strings.Contains(string(b), `"etcdserver: request is too large"`) {
		t.Errorf("got %s", tail(string(b), 300))
	}
	// It can be deleted all the same, so that neither its namespace nor its definition are held up.
	s.do(t, 200, "DELETE", swellers+"/many-0", nil)
	for i := 1; i < 25; i++ {
		s.do(t, 200, "DELETE", fmt.Sprintf("%s/many-%d", swellers, i), nil)
	}

	// 3 MB in each of 360 objects: each is served, but not all of them at once.
	for i := range 360 {
		if b := s.do(t, 200, "GET", fmt.Sprintf("%s/few-%d", swellers, i), nil); len(b) < 3*megabyte {
			t.Fatalf("got %d bytes", len(b))
		}
	}
	for _, all := range []string{"", "?labelSelector=of%3Dfew"} {
		if b := s.do(t, 413, "GET", swellers+all, nil); !strings.Contains(string(b), "list fewer at a time") {
			t.Errorf("got %s", tail(string(b), 300))
		}
	}
	if b := s.do(t, 200, "GET", swellers+"?limit=40", nil); len(b) < 40*3*megabyte {
		t.Errorf("got %d bytes of a page", len(b))
	}
	grown := s.peakMemory(t) - before
	t.Logf("peak memory grew by %d MiB, of %d MiB before", grown>>20, before>>20)
	if grown > 900<<20 {
		t.Errorf("peak memory grew by %d MiB", grown>>20)
	}
	s.do(t, 200, "DELETE", swellersCRD, nil)
	eventually(t, "the definition is gone", func() bool {
		code, _, err := s.try("GET", swellersCRD, nil)
		return err == nil && code == 404
	})
}

// TestChangingSchemas replaces a large schema again and again. Each of them is used for a write and to read an object that nobody
// reads or writes any more.
func TestChangingSchemas(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	s.defineSweller(t)
	const rounds = 20
	s.createSwellers(t, "old", rounds, 1)
	before := s.liveHeap(t)
	var words []string
	for i := range 20_000 {
		words = append(words, fmt.Sprintf(`"some-value-%d"`, i))
	}
	for i := range rounds {
		first := fmt.Sprintf("first-of-%d", i)
		s.redefine(t, fmt.Sprintf(`{"type":"string","default":%q,"enum":[%q,%s]}`, first, first, strings.Join(words, ",")), first)
		if b := s.do(t, 200, "GET", fmt.Sprintf("%s/old-%d", swellers, i), nil); !strings.Contains(string(b), first) {
			t.Fatalf("got %s", b)
		}
	}
	live := s.liveHeap(t)
	t.Logf("the live heap is %d MiB, of %d MiB before", live>>20, before>>20)
	if live > before+60<<20 {
		t.Errorf("the live heap is %d MiB, %d MiB of it before", live>>20, before>>20)
	}
}

// liveHeap returns about how many bytes a garbage collection leaves: the next one comes when the
// heap is twice as large.
func (s *server) liveHeap(t *testing.T) int64 {
	t.Helper()
	s.do(t, 200, "GET", "/debug/pprof/heap?gc=1", nil)
	next, err := strconv.ParseFloat(s.metric(t, "go_memstats_next_gc_bytes"), 64)
	if err != nil {
		t.Fatal(err)
	}
	return int64(next) / 2
}
