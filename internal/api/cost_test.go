package api

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/keelson-io/keelson/internal/api/stream"
	"github.com/keelson-io/keelson/internal/cache"
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
			if o.Known(k.Versions[0]) != nil {
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

// chunks is a ResponseWriter that notes what is written at once.
type chunks struct {
	sink
	body    []byte
	largest int
}

func (c *chunks) Write(b []byte) (int, error) {
	c.largest = max(c.largest, len(b))
	c.body = append(c.body, b...)
	return len(b), nil
}

// TestListsAreStreamed holds that a list is not gathered before it is sent, and says what it says however it is sent.
func TestListsAreStreamed(t *testing.T) {
	s := newTestServer(t)
	for _, n := range []int{0, 1, 300} {
		for i := range n {
			s.call("POST", widgets, widget(fmt.Sprintf("w%d", i), `"color":"`+strings.Repeat("x", 1000)+`"`))
		}
		get := func(method string, headers ...string) *chunks {
			r := httptest.NewRequest(method, widgets, nil)
			for i := 0; i < len(headers); i += 2 {
				r.Header.Set(headers[i], headers[i+1])
			}
			c := &chunks{sink: sink{header: http.Header{}}}
			s.h.ServeHTTP(c, r)
			return c
		}
		plain := get("GET")
		var list struct {
			Items []struct{ Spec struct{ Color string } }
		}
		if err := json.Unmarshal(plain.body, &list); err != nil || len(list.Items) != n || n > 0 && len(list.Items[n-1].Spec.Color) != 1000 {
			t.Errorf("%d objects: %d read, %v", n, len(list.Items), err)
		}
		length := plain.header.Get("Content-Length")
		if length != strconv.Itoa(len(plain.body)) || plain.largest > stream.PieceSize || n == 300 && len(plain.body) < 4*stream.PieceSize {
			t.Errorf("%d objects: Content-Length %s of %d bytes, %d written at once", n, length, len(plain.body), plain.largest)
		}
		if head := get("HEAD"); head.header.Get("Content-Length") != length || len(head.body) != 0 {
			t.Errorf("%d objects: HEAD has Content-Length %s and %d bytes", n, head.header.Get("Content-Length"), len(head.body))
		}
		zipped := get("GET", "Accept-Encoding", "gzip")
		body := zipped.body
		if n == 300 {
			z, err := gzip.NewReader(bytes.NewReader(zipped.body))
			if err != nil {
				t.Fatal(err)
			}
			if body, err = io.ReadAll(z); err != nil {
				t.Fatal(err)
			}
		}
		if !bytes.Equal(body, plain.body) || (zipped.header.Get("Content-Encoding") == "gzip") != (n == 300) {
			t.Errorf("%d objects: compressed it says %.200s", n, body)
		}
	}
}
