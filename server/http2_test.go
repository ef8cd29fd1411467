package server

import (
	"crypto/tls"
	"encoding/binary"
	"io"
	"maps"
	"testing"
	"time"

	"github.com/keelson-io/keelson/store/mem"
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
