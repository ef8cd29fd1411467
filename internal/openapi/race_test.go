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
	wg.Go(func() {
		for range 20 {
			h.Shed()
			if n := h.Bytes(); n < 0 {
				t.Errorf("the documents take %d bytes", n)
			}
		}
	})
	wg.Wait()
}

// TestShed holds that documents that were dropped come back as they were, and that their bytes are counted.
func TestShed(t *testing.T) {
	_, h, _ := start(t)
	get := func() (text string, sum int64) {
		for _, path := range []string{"/openapi/v3", "/openapi/v3/apis/demo.io/v1", "/openapi/v2"} {
			r := httptest.NewRequest("GET", path, nil)
			r.Header.Set("Accept-Encoding", "identity")
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			text += w.Header().Get("Etag") + w.Body.String()
		}
		return text, h.Bytes()
	}
	before, kept := get()
	if kept < int64(len(before))/2 {
		t.Errorf("%d bytes of documents are kept, and %d were sent", kept, len(before))
	}
	h.Shed()
	if n := h.Bytes(); n != 0 {
		t.Errorf("%d bytes are kept of what was dropped", n)
	}
	if after, again := get(); after != before || again != kept {
		t.Errorf("dropped and built again: the same text: %t; %d bytes, before %d", after == before, again, kept)
	}
}
