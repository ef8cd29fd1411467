package api

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/keelson-io/keelson/internal/store"
)

// This file tests writes of which the server is not told whether they were made.

// mute is a store that makes writes and says that it is unavailable, as a cluster does whose member dies in between.
type mute struct {
	store.Store
	on atomic.Bool
}

func (m *mute) answer(rev int64, err error) (int64, error) {
	if m.on.Load() {
		return 0, store.ErrUnavailable
	}
	return rev, err
}

func (m *mute) Create(ctx context.Context, key string, value []byte) (int64, error) {
	return m.answer(m.Store.Create(ctx, key, value))
}

func (m *mute) Update(ctx context.Context, key string, value []byte, rev int64) (int64, error) {
	return m.answer(m.Store.Update(ctx, key, value, rev))
}

func (m *mute) Delete(ctx context.Context, key string, rev int64) (int64, error) {
	return m.answer(m.Store.Delete(ctx, key, rev))
}

// TestUnsettledWritesAreNotTriedAgain holds that a write is made once, and that its own outcome is no reason to refuse it.
func TestUnsettledWritesAreNotTriedAgain(t *testing.T) {
	const path = "/apis/demo.io/v1/gadgets"
	gadget := func(name, spec string) string {
		return `{"apiVersion":"demo.io/v1","kind":"Gadget","metadata":{"name":"` + name + `"},"spec":{` + spec + `}}`
	}
	m := &mute{}
	s := newTestServer(t, func(c *setup) {
		m.Store = c.Store
		c.Store = m
	})
	s.must(201, "POST", path, gadget("a", `"tags":["x"]`))
	m.on.Store(true)
	s.must(503, "PATCH", path+"/a", `[{"op":"add","path":"/spec/tags/-","value":"y"}]`, "Content-Type", "application/json-patch+json")
	if a := s.must(200, "GET", path+"/a", ""); strings.Count(a.body, `"y"`) != 1 {
		t.Errorf("a patch was made other than once: %s", a.body)
	}
	rv := s.must(200, "GET", path+"/a", "").text("metadata", "resourceVersion")
	update := strings.Replace(gadget("a", `"tags":["z"]`), `"metadata":{`, `"metadata":{"resourceVersion":"`+rv+`",`, 1)
	s.must(503, "PUT", path+"/a", update)
	if a := s.must(200, "GET", path+"/a", ""); !strings.Contains(a.body, `"z"`) {
		t.Errorf("the update was not made: %s", a.body)
	}
	s.must(503, "DELETE", path+"/a", "")
	s.must(404, "GET", path+"/a", "")
	s.must(503, "POST", path, gadget("b", ``))
	s.must(200, "GET", path+"/b", "")
}
