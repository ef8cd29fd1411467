package api

import (
	"context"
	"fmt"
	"net/http"
	"runtime"
	"testing"

	"github.com/keelson-io/keelson/internal/testkit"
)

// This file tests that the server does not grow.

// TestNothingIsLeftBehind opens and leaves watches while objects come and go:
// goroutines and memory are afterwards what they were.
func TestNothingIsLeftBehind(t *testing.T) {
	s := newTestServer(t)
	churn := func(n int) {
		for i := range n {
			name := fmt.Sprintf("w%d", i)
			s.must(201, "POST", widgets, widget(name, ""))
			if i%10 == 0 {
				ctx, cancel := context.WithCancel(context.Background())
				r, err := http.NewRequestWithContext(ctx, "GET", s.url+widgets+"?watch=true&fieldSelector=metadata.name="+name, nil)
				if err != nil {
					t.Fatal(err)
				}
				resp, err := http.DefaultClient.Do(r)
				if err != nil {
					t.Fatal(err)
				}
				cancel()
				resp.Body.Close()
			}
			s.must(200, "DELETE", widgets+"/"+name, "")
		}
	}
	churn(100)
	before := runtime.NumGoroutine()
	churn(1000)
	testkit.EventuallySay(t, func() (string, bool) {
		n := runtime.NumGoroutine()
		return fmt.Sprintf("goroutines: got %d, before %d", n, before), n <= before+20
	})
	s.must(200, "GET", widgets, "") // as new as the last removal
	k := s.kinds.Load().Lookup("demo.io", "widgets")
	if n := s.h.Cache.Resource(k.StoragePrefix).Snapshot().Len(); n != 0 {
		t.Errorf("objects left: %d", n)
	}
}
