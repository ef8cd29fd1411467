package server

import (
	"bytes"
	"crypto/tls"
	"io"
	"strconv"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/keelson-io/keelson/internal/store/mem"
)

// This file refuses requests over HTTP/2 whose bodies are still on their way.

// answered is what came of a stream.
type answered struct {
	code          string
	reset, closed bool
}

// refuse sends a request that is answered 401, its body in parts, with a ping and its answer before each but the first:
// by then the server has the request, or the part before.
func refuse(t *testing.T, addr string, size int, parts ...string) (got answered) {
	t.Helper()
	conn, err := tls.Dial("tcp", addr, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(time.Minute))
	var block bytes.Buffer
	out := hpack.NewEncoder(&block)
	for _, f := range []hpack.HeaderField{{Name: ":method", Value: "POST"}, {Name: ":scheme", Value: "https"}, {Name: ":authority", Value: "localhost"},
		{Name: ":path", Value: widgetsPath}, {Name: "authorization", Value: "Bearer wrong"}, {Name: "content-type", Value: "application/json"},
		{Name: "content-length", Value: strconv.Itoa(size)}} {
		out.WriteField(f)
	}
	io.WriteString(conn, http2.ClientPreface)
	c := http2.NewFramer(conn, conn)
	c.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	c.WriteSettings()
	c.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block.Bytes(), EndHeaders: true})
	read := func(until func(http2.Frame) bool) {
		for {
			f, err := c.ReadFrame()
			if err != nil {
				t.Fatal(err)
			}
			switch f := f.(type) {
			case *http2.MetaHeadersFrame:
				got.code, got.closed = f.PseudoValue("status"), f.StreamEnded()
			case *http2.DataFrame:
				got.closed = got.closed || f.StreamEnded()
			case *http2.RSTStreamFrame:
				got.reset = true
			}
			if until(f) {
				return
			}
		}
	}
	ping := func() {
		c.WritePing(false, [8]byte{})
		read(func(f http2.Frame) bool { p, ok := f.(*http2.PingFrame); return ok && p.IsAck() })
	}
	for i, part := range parts {
		ping()
		c.WriteData(1, i == len(parts)-1, []byte(part))
	}
	read(func(http2.Frame) bool { return got.closed || got.reset })
	ping() // what comes after the answer
	return got
}

// TestRefusedRequestsKeepTheirAnswers holds that the stream of a refused request is not reset while its body arrives: some clients
// then lose the answer. A body that does not end gets the answer, too.
func TestRefusedRequestsKeepTheirAnswers(t *testing.T) {
	r := start(t, Config{Store: mem.New(mem.Options{})})
	for range 20 {
		if got, want := refuse(t, r.Addr(), 6, "{", "abc", "d}"), (answered{code: "401", closed: true}); got != want {
			t.Fatalf("got %+v, want %+v", got, want)
		}
	}
	if got := refuse(t, r.Addr(), 6); got.code != "401" {
		t.Errorf("without a body: got %+v, want the answer 401", got)
	}
}
