package api

import (
	"fmt"
	"strings"
	"testing"

	"github.com/keelson-io/keelson/cache"
)

// This file tests that a list costs nothing for the objects that it does not touch.

// TestListOfOneNamespace lists one of two namespaces in every way: the objects of the other one are not even printed.
func TestListOfOneNamespace(t *testing.T) {
	s := newTestServer(t)
	s.must(201, "POST", "/api/v1/namespaces", `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"other"}}`)
	other := strings.Replace(widgets, "/default/", "/other/", 1)
	for i := range 20 {
		s.must(201, "POST", widgets, widget(fmt.Sprintf("w%d", i), ``))
		s.must(201, "POST", other, strings.Replace(widget(fmt.Sprintf("w%d", i), ``), "default", "other", 1))
	}
	last := s.must(200, "GET", widgets, "").text("metadata", "resourceVersion")
	k := s.kinds.Load().Lookup("demo.io", "widgets")
	for _, query := range []string{
		"", "resourceVersion=0", "resourceVersion=" + last, "resourceVersionMatch=Exact&resourceVersion=" + last,
		"limit=5", "labelSelector=a", "fieldSelector=metadata.name%3Dw3", "watch=1&timeoutSeconds=1&resourceVersion=0",
	} {
		s.h.Cache.Drop(k.StoragePrefix) // and all that was printed
		s.must(200, "GET", widgets+"?"+query, "")
		own, others := 0, 0
		s.h.Cache.Resource(k.StoragePrefix).Snapshot().Ascend("", func(o *cache.Object) bool {
			if o.Viewed(k.Versions[0]) {
				if strings.HasPrefix(o.Key, k.StoragePrefix+"/default/") {
					own++
				} else {
					others++
				}
			}
			return true
		})
		if own == 0 || others != 0 {
			t.Errorf("%q: printed %d of the namespace and %d of the other", query, own, others)
		}
	}
}
