package server

import (
	"crypto/tls"
	"encoding/binary"
	"io"
	"maps"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keelson-io/keelson/internal/store/mem"
)

// This file reads what the server says first on a connection of HTTP/2 (RFC 9113).

// TestGreetingOfHTTP2 checks the limits that the server announces to clients.
// Ledger: http2-windows.
func TestGreetingOfHTTP2(t *testing.T) {
	const (
		settings, ping, windowUpdate = 4, 6, 8 // types of frames

		headerTableSize, maxConcurrentStreams, initialWindowSize, maxFrameSize, maxHeaderListSize = 1, 3, 4, 5, 6
	)
	r := start(t, Config{Store: mem.New(mem.Options{})})
	conn, err := tls.Dial("tcp", r.Addr(), &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(time.Minute))
	// The preface, no settings, and a ping, whose answer comes last.
	io.WriteString(conn, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00\x00\x00\x08\x06\x00\x00\x00\x00\x0012345678")
	told, window := map[uint16]uint32{}, uint32(65535)
	for done := false; !done; {
		var head [9]byte
		if _, err := io.ReadFull(conn, head[:]); err != nil {
			t.Fatal(err)
		}
		payload := make([]byte, uint32(head[0])<<16|uint32(binary.BigEndian.Uint16(head[1:])))
		if _, err := io.ReadFull(conn, payload); err != nil {
			t.Fatal(err)
		}
		switch head[3] {
		case settings:
			for ; len(payload) >= 6; payload = payload[6:] {
				told[binary.BigEndian.Uint16(payload)] = binary.BigEndian.Uint32(payload[2:])
			}
		case windowUpdate:
			window += binary.BigEndian.Uint32(payload)
		case ping:
			done = true
		}
	}
	want := map[uint16]uint32{maxConcurrentStreams: 1000, initialWindowSize: 256 << 10, maxFrameSize: 32 << 10, maxHeaderListSize: 1<<20 + 320, headerTableSize: 4096}
	for id, value := range want {
		if told[id] != value {
			t.Errorf("setting %d: got %d, want %d", id, told[id], value)
		}
	}
	for id := range maps.Keys(told) {
		if _, ok := want[id]; !ok && told[id] != 0 {
			t.Errorf("setting %d: got %d, want none", id, told[id])
		}
	}
	if window != 4<<20 {
		t.Errorf("a connection may send %d bytes ahead, want 4 MiB", window)
	}
}

// TestTimeLimitsOfConnections checks how long a connection may be idle, as upstream.
func TestTimeLimitsOfConnections(t *testing.T) {
	r := start(t, Config{Store: mem.New(mem.Options{})})
	if idle, headers := r.Server.http.IdleTimeout, r.Server.http.ReadHeaderTimeout; idle != 90*time.Second || headers != 32*time.Second {
		t.Errorf("got %v between requests and %v for headers", idle, headers)
	}
}

// TestConnectionThatTakesNothingEnds lets an HTTP/2 client ask for an answer without an end and read none of it. The connection is
// served with the settings of the server, in a bubble whose clock runs ahead.
func TestConnectionThatTakesNothingEnds(t *testing.T) {
	r := start(t, Config{Store: mem.New(mem.Options{})})
	settings, encryption := *r.Server.http.HTTP2, r.Server.http.TLSConfig.Clone()
	synctest.Test(t, func(t *testing.T) {
		endless := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			for {
				if _, err := w.Write(make([]byte, 1<<10)); err != nil {
					return
				}
			}
		})
		ours, theirs := net.Pipe()
		one := &oneConn{conns: make(chan net.Conn, 1), done: make(chan struct{})}
		one.conns <- theirs
		hs := &http.Server{Handler: endless, HTTP2: &settings, TLSConfig: encryption}
		go hs.ServeTLS(one, "", "")
		defer func() { close(one.done); hs.Close() }()
		conn := tls.Client(ours, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
		if err := conn.Handshake(); err != nil {
			t.Fatal(err)
		}
		// The preface, a window of 1 GiB for the stream and for the connection, and a request for /.
		go io.WriteString(conn, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"+
			"\x00\x00\x06\x04\x00\x00\x00\x00\x00\x00\x04\x40\x00\x00\x00\x00\x00\x04\x08\x00\x00\x00\x00\x00\x3f\x00\x00\x00"+
			"\x00\x00\x06\x01\x05\x00\x00\x00\x01\x82\x84\x87\x41\x01a")
		buffer := make([]byte, 16<<10)
		if _, err := io.ReadFull(conn, buffer[:9]); err != nil { // its settings: it is served
			t.Fatal(err)
		}
		began := time.Now()
		time.Sleep(29 * time.Second)
		if _, err := conn.Read(buffer); err != nil {
			t.Fatalf("after 29 s: %v", err)
		}
		time.Sleep(31 * time.Second)
		for {
			if _, err := conn.Read(buffer); err != nil {
				break // what was under way comes before the end
			}
			if time.Since(began) > 2*time.Minute {
				t.Fatal("the connection is open after two minutes")
			}
		}
		if took := time.Since(began); took > 61*time.Second {
			t.Errorf("the connection ended after %v, want 30 s after its last byte", took)
		}
	})
}

// oneConn is a listener with one connection.
type oneConn struct {
	conns chan net.Conn
	done  chan struct{}
}

func (l *oneConn) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}
func (l *oneConn) Close() error   { return nil }
func (l *oneConn) Addr() net.Addr { return &net.TCPAddr{} }
