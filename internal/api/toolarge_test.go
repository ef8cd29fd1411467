package api

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/keelson-io/keelson/internal/store"
)

// This file tests writes that the store refuses: what is too large for it, and names that are taken.

// small is a store that takes values up to a size.
type small struct {
	store.Store
	mu    sync.Mutex
	limit int   // 0 is none
	sizes []int // of what was to be written
}

func (s *small) fits(value []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sizes = append(s.sizes, len(value))
	if s.limit > 0 && len(value) > s.limit {
		return store.ErrTooLarge
	}
	return nil
}

func (s *small) Create(ctx context.Context, key string, value []byte) (int64, error) {
	if err := s.fits(value); err != nil {
		return 0, err
	}
	return s.Store.Create(ctx, key, value)
}

func (s *small) Update(ctx context.Context, key string, value []byte, rev int64) (int64, error) {
	if err := s.fits(value); err != nil {
		return 0, err
	}
	return s.Store.Update(ctx, key, value, rev)
}

// take sets the limit and forgets what was tried.
func (s *small) take(limit int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.limit, s.sizes = limit, nil
}

func (s *small) tried() []int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sizes
}

// TestTooLargeForTheStore holds that an object that does not fit is written without managedFields, if that makes it fit, once; and that
// what an apply says of them is never left out.
func TestTooLargeForTheStore(t *testing.T) {
	s := &small{}
	api := newTestServer(t, func(c *setup) {
		s.Store = c.Store
		c.Store = s
	})
	var members []string
	for i := range 100 {
		members = append(members, fmt.Sprintf(`"member%d":%d`, i, i))
	}
	body := func(name, more string) string {
		return `{"apiVersion":"demo.io/v1","kind":"Gadget","metadata":{"name":"` + name + `"},"spec":{` + strings.Join(members, ",") + more + `}}`
	}
	const bare, whole = 2500, 8000 // enough without managedFields, and for those of several writers
	const apply = gadgets + "/%s?fieldManager=m"
	s.take(0)
	api.must(201, "POST", gadgets, body("there", ""))
	if n := s.tried(); len(n) != 1 || n[0] < bare+500 || n[0] > whole {
		t.Fatalf("an object is as large as %d", n)
	}
	version := func(name string) string {
		return api.must(200, "GET", gadgets+"/"+name, "").text("metadata", "resourceVersion")
	}
	for _, test := range []struct {
		name, method, path, media, body string
		code                            int // where the object fits without managedFields
		tries                           int
	}{
		{"create", "POST", gadgets, "application/json", body("new", ""), 201, 2},
		{"update", "PUT", gadgets + "/there", "application/json", body("there", `,"a":1`), 200, 2},
		{"merge patch", "PATCH", gadgets + "/there", merge, `{"spec":{"b":1}}`, 200, 2},
		{"patch of metadata", "PATCH", gadgets + "/there", merge, `{"metadata":{"labels":{"a":"b"}}}`, 200, 2},
		{"JSON patch", "PATCH", gadgets + "/there", jpatch, `[{"op":"add","path":"/spec/c","value":1}]`, 200, 2},
		{"apply", "PATCH", fmt.Sprintf(apply, "there"), ssa, body("there", `,"d":1`), 500, 1},
		{"apply of a new object", "PATCH", fmt.Sprintf(apply, "applied"), ssa, body("applied", ""), 500, 1},
	} {
		for _, limit := range []int{100, bare} { // too little in any case, and enough without managedFields
			s.take(whole)
			send := test.body
			if test.method == "PATCH" { // what the tries before left out is there again
				api.must(200, "PATCH", gadgets+"/there?force=true&fieldManager=again", body("there", ""), "Content-Type", ssa)
			}
			if test.method == "PUT" {
				send = strings.Replace(test.body, `"name":`, `"resourceVersion":"`+version("there")+`","name":`, 1)
			}
			before := version("there")
			s.take(limit)
			code := 500
			if limit == bare {
				code = test.code
			}
			a := api.call(test.method, test.path, send, "Content-Type", test.media)
			if a.code != code || len(s.tried()) != test.tries {
				t.Errorf("%s, up to %d bytes: got %d after writes of %d: %.200s", test.name, limit, a.code, s.tried(), a.body)
			}
			if code == 500 {
				if a.text("message") != "etcdserver: request is too large" || version("there") != before {
					t.Errorf("%s, up to %d bytes: %.200s", test.name, limit, a.body)
				}
				continue
			}
			stored := api.must(200, "GET", gadgets+"/"+a.text("metadata", "name"), "")
			for _, text := range []string{a.body, stored.body} {
				if strings.Contains(text, "managedFields") {
					t.Errorf("%s: managedFields are there: %s", test.name, text)
				}
			}
		}
	}
}

// crowded is a store that has the first names it is asked for.
type crowded struct {
	store.Store
	mu    sync.Mutex
	taken int // how many
	keys  map[string]bool
}

func (s *crowded) Create(ctx context.Context, key string, value []byte) (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if strings.Contains(key, "/gadgets/") {
		if s.keys[key] = true; len(s.keys) <= s.taken {
			return 0, store.ErrExists
		}
	}
	return s.Store.Create(ctx, key, value)
}

// TestGeneratedNames holds that eight names are tried, each another one, and what is said when all are taken.
func TestGeneratedNames(t *testing.T) {
	s := &crowded{}
	api := newTestServer(t, func(c *setup) {
		s.Store = c.Store
		c.Store = s
	})
	const taken = `already exists, the server was not able to generate a unique name for the object`
	for _, test := range []struct{ taken, tries, code int }{{0, 1, 201}, {1, 2, 201}, {7, 8, 201}, {8, 8, 409}, {20, 8, 409}} {
		s.keys, s.taken = map[string]bool{}, test.taken
		a := api.call("POST", gadgets, `{"apiVersion":"demo.io/v1","kind":"Gadget","metadata":{"generateName":"g-"}}`)
		if a.code != test.code || len(s.keys) != test.tries {
			t.Errorf("%d taken: got %d after trying %d names: %s", test.taken, a.code, len(s.keys), a.body)
		}
		if test.code == 409 && (!strings.Contains(a.text("message"), taken) || a.header.Get("Retry-After") != "1") {
			t.Errorf("%d taken: %s", test.taken, a.body)
		}
	}
	s.taken = 0
	const named = `{"apiVersion":"demo.io/v1","kind":"Gadget","metadata":{"name":"n","generateName":"g-"}}`
	api.must(201, "POST", gadgets, named)
	if a := api.must(409, "POST", gadgets, named); !strings.Contains(a.text("message"), taken) {
		t.Errorf("a name that is given, and taken: %s", a.body)
	}
}
