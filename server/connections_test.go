package server

import (
	"bytes"
	"log/slog"
	"net"
	"strings"
	"testing"
)

// This file tests how many connections there may be.

func TestTooManyConnections(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	limited := limitListener{l, &connections{limit: 2, log: slog.New(slog.NewTextHandler(&log, nil))}}
	accepted := make(chan net.Conn)
	done := make(chan bool)
	go func() {
		defer close(done)
		for {
			c, err := limited.Accept()
			if err != nil {
				return
			}
			accepted <- c
		}
	}()
	dial := func() net.Conn {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	refused := func() {
		t.Helper()
		if _, err := dial().Read(make([]byte, 1)); err == nil {
			t.Error("a connection beyond the limit is open")
		}
	}
	dial()
	first := <-accepted
	dial()
	second := <-accepted
	refused()
	refused()
	first.Close()
	first.Close() // counts once
	dial()
	third := <-accepted
	refused()
	second.Close()
	third.Close()
	l.Close()
	<-done
	if n := strings.Count(log.String(), "connections are refused"); n != 1 {
		t.Errorf("got %d lines in the log, want one a minute:\n%s", n, log.String())
	}
	if limited.open != 0 {
		t.Errorf("got %d connections at the end", limited.open)
	}
}

func TestConnectionsLeaveFiles(t *testing.T) {
	for files, want := range map[int64]int64{0: 0, 300: 150, 1024: 768, 65536: 65280} {
		if got := maxConnections(files); got != want {
			t.Errorf("%d files: got %d connections, want %d", files, got, want)
		}
	}
	if files := openFiles(); files > 0 && maxConnections(files) >= files {
		t.Errorf("this process may open %d files", files)
	}
}
