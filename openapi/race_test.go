package openapi

import (
	"net/http/httptest"
	"sync"
	"testing"
)

// This file serves while kinds change.

func TestServesWhileKindsChange(t *testing.T) {
	r, h, _ := start(t)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 20 {
				for _, path := range []string{"/openapi/v3", "/openapi/v3/apis/demo.io/v1", "/openapi/v2"} {
					w := httptest.NewRecorder()
					h.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
					if w.Code != 200 {
						t.Errorf("%s: status %d", path, w.Code)
					}
				}
			}
		})
	}
	for i := range 20 {
		k := widgets(t, "other.io", "gadgets", "Gadget")
		k.Generation = int64(i)
		r.Put(k)
	}
	wg.Wait()
}
