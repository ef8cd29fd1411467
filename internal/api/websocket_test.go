package api

import (
	"context"
	"encoding/base64"
	"io"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/websocket"

	"github.com/keelson-io/keelson/internal/testkit"
)

// This file tests watches over WebSockets.

// socketTo opens a WebSocket; the server may choose among the protocols.
func (s *testServer) socketTo(path string, protocols ...string) (*websocket.Conn, error) {
	s.t.Helper()
	config, err := websocket.NewConfig("ws"+strings.TrimPrefix(s.url, "http")+path, s.url)
	if err != nil {
		s.t.Fatal(err)
	}
	config.Protocol = protocols
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	conn, err := config.DialContext(ctx)
	if err != nil {
		return nil, err
	}
	s.t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(10 * time.Second))
	return conn, nil
}

func receive(t *testing.T, conn *websocket.Conn) string {
	t.Helper()
	var message string
	if err := websocket.Message.Receive(conn, &message); err != nil {
		t.Fatal(err)
	}
	return message
}

func TestWatchOverWebSocket(t *testing.T) {
	s := newTestServer(t)
	s.must(201, "POST", widgets, widget("a", ``))
	s.must(201, "POST", widgets, widget("b", ``))
	conn, err := s.socketTo(widgets+"?watch=1", "text", protocolOf("secret"))
	if err != nil {
		t.Fatal(err)
	}
	if got := conn.Config().Protocol; len(got) != 1 || got[0] != "text" {
		t.Errorf("protocol: got %q, want text", got)
	}
	for _, name := range []string{"a", "b"} { // each event is a message, also where they are sent at once
		if m := receive(t, conn); !strings.HasPrefix(m, `{"type":"ADDED"`) || strings.Count(m, "\n") != 1 || !strings.Contains(m, `"name":"`+name+`"`) {
			t.Errorf("event: got %s", m)
		}
	}
	s.must(200, "DELETE", widgets+"/a", "")
	if m := receive(t, conn); !strings.HasPrefix(m, `{"type":"DELETED"`) {
		t.Errorf("event: got %s", m)
	}
	// What a client sends is read and means nothing, however much it is.
	if err := websocket.Message.Send(conn, strings.Repeat("x", 1<<20)); err != nil {
		t.Fatal(err)
	}
	s.must(200, "DELETE", widgets+"/b", "")
	if m := receive(t, conn); !strings.HasPrefix(m, `{"type":"DELETED"`) {
		t.Errorf("event: got %s", m)
	}
	s.h.Stop()
	if _, err := conn.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("after the server stopped: got %v, want EOF", err)
	}
}

func protocolOf(token string) string {
	return "base64url.bearer.authorization.k8s.io." + base64.RawURLEncoding.EncodeToString([]byte(token))
}

func TestWebSocketsThatAreNone(t *testing.T) {
	s := newTestServer(t)
	for _, path := range []string{widgets, widgets + "?watch=1&resourceVersion=x", "/version"} {
		if _, err := s.socketTo(path); err == nil {
			t.Errorf("%s: became a WebSocket", path)
		}
	}
	if _, err := s.socketTo(widgets+"?watch=1", "one", "two"); err == nil {
		t.Error("one of two protocols was chosen")
	}
	conn, err := s.socketTo(widgets + "?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=1000000")
	if err != nil {
		t.Fatal(err)
	}
	if m := receive(t, conn); !strings.HasPrefix(m, `{"type":"ERROR"`) || !strings.Contains(m, "Too large resource version") {
		t.Errorf("event: got %s", m)
	}
}

// TestWebSocketThatIsGone: nobody but the reader of what clients send notices that one is gone.
func TestWebSocketThatIsGone(t *testing.T) {
	s := newTestServer(t)
	conn, err := s.socketTo(widgets + "?watch=1")
	if err != nil {
		t.Fatal(err)
	}
	watchers := func() string {
		for line := range strings.SplitSeq(s.must(200, "GET", "/metrics", "").body, "\n") {
			if strings.HasPrefix(line, "apiserver_longrunning_requests{") && strings.Contains(line, "widgets") {
				return line[strings.LastIndexByte(line, ' ')+1:]
			}
		}
		return ""
	}
	testkit.Eventually(t, "the watch begins", func() bool { return watchers() == "1" })
	conn.Close()
	testkit.Eventually(t, "the watch ends with its client", func() bool { return watchers() != "1" })
}
