package api

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/keelson-io/keelson/internal/api/admit"
	"github.com/keelson-io/keelson/internal/flow"
	"github.com/keelson-io/keelson/internal/memory"
	"github.com/keelson-io/keelson/internal/testkit"
)

// This file tests that requests give back what they take of what all share, however they end.

// leftovers describes what requests have not given back; "" if nothing is left.
func (s *testServer) leftovers() string {
	var out []string
	if left := s.h.limits.Leftovers(); left != "" {
		out = append(out, left)
	}
	if s.h.Flow != nil {
		out = append(out, inside(s.h.Flow)...)
	}
	return strings.Join(out, "; ")
}

// limitTo makes a server have other shares of memory.
func (s *testServer) limitTo(shares memory.Shares) {
	c := s.h.limits.Config
	c.Shares = shares
	s.h.limits = admit.New(c)
}

// broken is a body that ends in an error.
type broken struct{ io.Reader }

func (b broken) Read(p []byte) (int, error) {
	if n, err := b.Reader.Read(p); err == nil {
		return n, nil
	}
	return 0, io.ErrClosedPipe
}

// TestNothingIsKeptOfRequests ends requests in every way that there is: answered, refused, left by their clients at the
// header and in the midst of bodies and answers.
func TestNothingIsKeptOfRequests(t *testing.T) {
	t.Run("slots", func(t *testing.T) { endInEveryWay(t, newTestServer(t)) })
	t.Run("seats", func(t *testing.T) {
		endInEveryWay(t, newTestServer(t, withFlow(flow.New(flow.Config{Seats: DefaultReads + DefaultWrites}))))
	})
}

// endInEveryWay sends the requests of TestNothingIsKeptOfRequests.
func endInEveryWay(t *testing.T, s *testServer) {
	shares := memory.SharesOf(64 << 30)
	shares.Answers = 4 << 20 // one answer of a user at a time
	s.limitTo(shares)
	large := strings.Repeat("x", 400<<10)
	for i := range 6 {
		s.must(201, "POST", widgets, widget(fmt.Sprintf("large-%d", i), `"color":"`+large+`"`))
	}
	over := httptest.NewUnstartedServer(s.h)
	over.EnableHTTP2 = true
	over.StartTLS()
	t.Cleanup(over.Close)
	table := "application/json;as=Table;v=v1;g=meta.k8s.io"
	filler := strings.Repeat("x", 40<<10)
	type ask struct {
		method, path, accept, body string
		header                     string // a large one
		breaks, leaves             bool   // the body ends in an error; the client goes when the answer begins
	}
	var asks []ask
	for _, accept := range []string{"application/json", table, "application/yaml", "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io", "text/none"} {
		for _, path := range []string{widgets, widgets + "?pretty=true", widgets + "/large-1", widgets + "?limit=1", widgets + "?resourceVersion=x", widgets + "?watch=1&timeoutSeconds=1",
			widgets + "?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true", widgets + "/none", "/openapi/v2", "/apis"} {
			if accept == "application/yaml" && !strings.HasSuffix(path, "limit=1") && !strings.Contains(path, "watch=") && path != "/apis" {
				continue // YAML of megabytes takes minutes under the race detector; a page of one object is sent in the same way
			}
			watch := strings.Contains(path, "watch=")
			asks = append(asks, ask{method: "GET", path: path, accept: accept, leaves: true}, ask{method: "GET", path: path, accept: accept, header: filler, leaves: true})
			if !watch {
				asks = append(asks, ask{method: "GET", path: path, accept: accept}, ask{method: "HEAD", path: path, accept: accept}, ask{method: "GET", path: path, accept: accept, body: large})
			}
		}
	}
	for _, body := range []string{"", "{", widget("large-1", ""), `{"spec":` + large, strings.Repeat("x", admit.MaxBody+1)} {
		for _, method := range []string{"POST", "PUT", "PATCH", "DELETE"} {
			path := widgets
			if method != "POST" {
				path += "/none"
			}
			asks = append(asks, ask{method: method, path: path, body: body}, ask{method: method, path: path, body: body, header: filler}, ask{method: method, path: path, body: body, breaks: true})
		}
	}
	for _, client := range []*http.Client{
		{Transport: &http.Transport{}},
		{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true}},
	} {
		base := s.url
		if client.Transport.(*http.Transport).ForceAttemptHTTP2 {
			base = over.URL
		}
		var wg sync.WaitGroup
		for worker := range 4 {
			wg.Go(func() {
				for i, a := range asks {
					if i%4 != worker {
						continue
					}
					ctx, cancel := context.WithCancel(context.Background())
					var body io.Reader
					if a.body != "" {
						body = bytes.NewReader([]byte(a.body))
					}
					if a.breaks {
						body = broken{strings.NewReader(a.body)}
					}
					r, err := http.NewRequestWithContext(ctx, a.method, base+a.path, body)
					if err != nil {
						t.Error(err)
					}
					r.Header.Set("Accept", a.accept)
					r.Header.Set("Content-Type", "application/json")
					if a.method == "PATCH" {
						r.Header.Set("Content-Type", "application/merge-patch+json")
					}
					if a.header != "" {
						r.Header.Set("X-Filler", a.header)
					}
					if resp, err := client.Do(r); err == nil {
						if !a.leaves {
							io.Copy(io.Discard, resp.Body)
						}
						cancel()
						resp.Body.Close()
					}
					cancel()
				}
			})
		}
		wg.Wait()
		client.CloseIdleConnections()
	}
	for range 20 {
		conn, err := s.socketTo(widgets + "?watch=1")
		if err != nil {
			t.Fatal(err)
		}
		conn.Close()
	}
	s.must(200, "GET", widgets+"/large-1", "")
	testkit.EventuallySay(t, func() (string, bool) {
		left := s.leftovers()
		return "nothing is left: " + left, left == ""
	})
}
