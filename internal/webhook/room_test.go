package webhook

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"

	"github.com/keelson-io/keelson/internal/testkit"
)

// clientOf returns a client of a test server.
func clientOf(t *testing.T, s *httptest.Server, path string, all *Rooms) *Client {
	t.Helper()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	c, err := New(Target{URL: s.URL + path, CABundle: ca}, serializer.NewCodecFactory(runtime.NewScheme()).LegacyCodec(), Shared{Rooms: all})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestRedirectsAreNotFollowed holds that a webhook cannot make the server send requests to other addresses.
// Ledger: webhook-redirects.
func TestRedirectsAreNotFollowed(t *testing.T) {
	var reached atomic.Int32
	target := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Add(1) }))
	defer target.Close()
	status := 0
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Location", target.URL+"/secret")
		w.WriteHeader(status)
	}))
	defer s.Close()
	c := clientOf(t, s, "", nil)
	for _, status = range []int{301, 302, 303, 307, 308} {
		if _, _, err := c.Post(context.Background(), []byte("{}")); err == nil || !strings.Contains(err.Error(), "the server responded with the status code") {
			t.Errorf("%d: got %v, want an error about the status code", status, err)
		}
		if err := c.PostFor(context.Background(), []byte("{}"), time.Second, nil); err == nil {
			t.Errorf("%d: got no error", status)
		}
	}
	if n := reached.Load(); n > 0 {
		t.Errorf("the target of the redirects got %d requests, want none", n)
	}
}

// TestAnswersShareRoom keeps as many long answers of one webhook unread as there is room for.
// Ledger: webhook-room.
func TestAnswersShareRoom(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	release := make(chan struct{})
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/slow": // an answer of the second class, whose end is late
			io.Copy(w, zeros("{}", classes[0].bytes+100_000))
			w.(http.Flusher).Flush()
			select {
			case <-release:
			case <-r.Context().Done():
			}
		case "/long":
			io.Copy(w, zeros("{}", classes[0].bytes+100_000))
		default:
			io.WriteString(w, "{}")
		}
	}))
	defer s.Close()
	all := NewRooms(0)
	slow, other := clientOf(t, s, "/slow", all), clientOf(t, s, "/long", all)
	var calls sync.WaitGroup
	var failed atomic.Pointer[error]
	room := cap(slow.rooms[1])
	for range room {
		calls.Go(func() {
			_, done, err := slow.Post(ctx, nil)
			if err != nil {
				failed.Store(&err)
				return
			}
			done()
		})
	}
	testkit.EventuallySay(t, func() (string, bool) {
		return fmt.Sprintf("%d answers have room: got %d", room, len(slow.rooms[1])), len(slow.rooms[1]) == room || failed.Load() != nil
	})
	short, end := context.WithTimeout(ctx, 100*time.Millisecond)
	defer end()
	if _, _, err := slow.Post(short, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("one answer too many: got %v, want that its time is over", err)
	}
	// Others have room: another webhook for a long answer, and everybody for a short one.
	for _, c := range []*Client{other, clientOf(t, s, "/short", all)} {
		_, done, err := c.Post(ctx, nil)
		if err != nil {
			t.Fatalf("another webhook: %v", err)
		}
		done()
	}
	close(release)
	calls.Wait()
	if err := failed.Load(); err != nil {
		t.Error(*err)
	}
	for i := range classes {
		if n, m := len(all[i]), len(slow.rooms[i])+len(other.rooms[i]); n+m > 0 {
			t.Errorf("class %d: %d rooms of all and %d of these webhooks are held after the last call", i, n, m)
		}
	}
	// What the bound comes to, beside what is free.
	total := int64(0)
	for _, c := range classes {
		total += c.bytes * int64(c.rooms)
	}
	if total > MostRooms {
		t.Errorf("all answers together may have %d bytes, want 512 MiB", total)
	}
	// A server with little memory has fewer rooms, and still one for an answer of each length.
	few, bytes := NewRooms(MaxResponse), int64(0)
	for i, c := range classes {
		if cap(few[i]) == 0 || cap(few.share()[i]) == 0 {
			t.Errorf("class %d has no room", i)
		}
		bytes += c.bytes * int64(cap(few[i]))
	}
	if most := int64(MaxResponse) * 3 / 2; bytes > most {
		t.Errorf("all answers of a small server may have %d bytes, want at most %d", bytes, most)
	}
}
