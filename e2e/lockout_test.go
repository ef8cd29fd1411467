package e2e

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/keelson-io/keelson/internal/testkit"
)

// This file lets one client do its worst with connections, while others go on to be served.

// besieged is a server with users that have no roles: mallory, and jane, who means no harm.
type besieged struct {
	*server
	t *testing.T
}

// Tokens of the users; the administrator's is in the kubeconfig, too.
const (
	malloryToken = "mallorys"
	janeToken    = "janes"
	rootToken    = "roots"
)

// besiege starts a server. With files above 0, it may open no more files than that.
func besiege(t *testing.T, files int, args ...string) *besieged {
	t.Helper()
	tokens := filepath.Join(t.TempDir(), "tokens.csv")
	if err := os.WriteFile(tokens, []byte(malloryToken+",mallory,1\n"+janeToken+",jane,2\n"+rootToken+",root,3,\"system:masters\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := newServer(t, append([]string{"--token-auth-file", tokens}, args...)...)
	if files > 0 {
		few := filepath.Join(t.TempDir(), "keelson")
		if err := os.WriteFile(few, []byte(fmt.Sprintf("#!/bin/sh\nulimit -n %d\nexec %s \"$@\"\n", files, keelsonBin)), 0o700); err != nil {
			t.Fatal(err)
		}
		all := keelsonBin
		keelsonBin = few
		defer func() { keelsonBin = all }()
	}
	s.start()
	return &besieged{s, t}
}

func (s *besieged) addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

// dial opens a connection that speaks a protocol: h2 or http/1.1.
func (s *besieged) dial(protocol string) (*tls.Conn, error) {
	conn, err := tls.DialWithDialer(&net.Dialer{Timeout: 20 * time.Second}, "tcp", s.addr(), &tls.Config{InsecureSkipVerify: true, NextProtos: []string{protocol}})
	if err == nil {
		s.t.Cleanup(func() { conn.Close() })
		conn.SetDeadline(time.Now().Add(time.Minute))
	}
	return conn, err
}

// request sends a request with a connection of its own; token "" sends none.
func (s *besieged) request(token, method, path, body string) (int, string, error) {
	client := http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true}}
	defer client.CloseIdleConnections()
	req, err := http.NewRequest(method, s.url(path), strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	req.Header.Set("Content-Type", "application/json")
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(b), err
}

const (
	reviews = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
	review  = `{"apiVersion":"authorization.k8s.io/v1","kind":"SelfSubjectAccessReview","spec":{"nonResourceAttributes":{"path":"/","verb":"get"}}}`
)

// othersAreServed fails the test if jane, an administrator or a probe have to wait.
func (s *besieged) othersAreServed() {
	s.t.Helper()
	for range 5 {
		for _, c := range []struct {
			token, method, path, body string
			code                      int
		}{
			{"", "GET", "/livez", "", 200}, {"", "GET", "/readyz", "", 200}, {janeToken, "GET", "/version", "", 200},
			{janeToken, "POST", reviews, review, 201}, {rootToken, "GET", "/api/v1/namespaces", "", 200},
		} {
			if code, body, err := s.request(c.token, c.method, c.path, c.body); err != nil || code != c.code {
				s.t.Errorf("token %q: %s %s: got %d %q, %v, want %d", c.token, c.method, c.path, code, tail(body, 200), err, c.code)
			}
		}
	}
}

// streams is a connection of HTTP/2 whose frames tests write.
type streams struct {
	*http2.Framer
	t     *testing.T
	conn  net.Conn
	out   *hpack.Encoder
	block bytes.Buffer
	next  uint32
	codes map[uint32]string // by stream, of answers
	ended map[uint32]bool   // streams that have been reset or have ended
}

// speak opens a connection of HTTP/2 with settings.
func (s *besieged) speak(settings ...http2.Setting) *streams {
	s.t.Helper()
	conn, err := s.dial("h2")
	if err != nil {
		s.t.Fatal(err)
	}
	c := &streams{Framer: http2.NewFramer(conn, conn), t: s.t, conn: conn, next: 1, codes: map[uint32]string{}, ended: map[uint32]bool{}}
	c.out = hpack.NewEncoder(&c.block)
	c.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	io.WriteString(conn, http2.ClientPreface)
	if err := c.WriteSettings(settings...); err != nil {
		s.t.Fatal(err)
	}
	return c
}

// send sends a request; with a body it only says how long that is.
func (c *streams) send(token, method, path string, body int, header ...string) {
	c.t.Helper()
	c.block.Reset()
	fields := append([]string{":method", method, ":scheme", "https", ":authority", "localhost", ":path", path}, header...)
	if token != "" {
		fields = append(fields, "authorization", "Bearer "+token)
	}
	if body > 0 {
		fields = append(fields, "content-type", "application/json", "content-length", strconv.Itoa(body))
	}
	for i := 0; i < len(fields); i += 2 {
		c.out.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]})
	}
	block := c.block.Bytes()
	first := block[:min(len(block), 16<<10)]
	err := c.WriteHeaders(http2.HeadersFrameParam{StreamID: c.next, BlockFragment: first, EndStream: body == 0, EndHeaders: len(first) == len(block)})
	for rest := block[len(first):]; len(rest) > 0 && err == nil; {
		part := rest[:min(len(rest), 16<<10)]
		rest = rest[len(part):]
		err = c.WriteContinuation(c.next, len(rest) == 0, part)
	}
	if err != nil {
		c.t.Fatal(err)
	}
	c.next += 2
}

// readUntil reads frames until done returns true, or it takes too long.
func (c *streams) readUntil(what string, done func() bool) {
	c.t.Helper()
	c.conn.SetReadDeadline(time.Now().Add(2 * time.Minute))
	for !done() {
		f, err := c.ReadFrame()
		if err != nil {
			c.t.Fatalf("waiting for %s: %v; %d streams have answers, %d have ended", what, err, len(c.codes), len(c.ended))
		}
		switch f := f.(type) {
		case *http2.MetaHeadersFrame:
			c.codes[f.StreamID] = f.PseudoValue("status")
			if f.StreamEnded() {
				c.ended[f.StreamID] = true
			}
		case *http2.DataFrame:
			if f.StreamEnded() {
				c.ended[f.StreamID] = true
			}
		case *http2.RSTStreamFrame:
			c.ended[f.StreamID] = true
		case *http2.PingFrame:
			if f.IsAck() {
				c.ended[0] = true
			} else {
				c.WritePing(true, f.Data)
			}
		}
	}
}

// answeredOrEnded returns the number of streams that have an answer or have ended.
func (c *streams) answeredOrEnded() int {
	n := len(c.codes)
	for id := range c.ended {
		if _, ok := c.codes[id]; !ok && id != 0 {
			n++
		}
	}
	return n
}

// TestUnreadAnswersLockNobodyOut lets one connection ask for 450 large answers and read none.
func TestUnreadAnswersLockNobodyOut(t *testing.T) {
	t.Parallel()
	s := besiege(t, 0, "--request-timeout", "5s")
	c := s.speak(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
	const many = 450
	for range many {
		c.send(malloryToken, "GET", "/openapi/v2", 0)
	}
	// On a busy machine, the time of some requests is over before they have an answer.
	c.readUntil("answers, or their end", func() bool { return c.answeredOrEnded() == many })
	s.othersAreServed()
	// The answers end although nobody reads them.
	c.readUntil("the end of answers", func() bool { return len(c.ended) >= many })
}

// TestSmallUnreadAnswers lets one user ask for 8,000 small answers and read none: their handlers have ended, but not their streams.
// Ledger: unread-answers.
func TestSmallUnreadAnswers(t *testing.T) {
	s := besiege(t, 0, "--memory-limit", "448Mi")
	before := s.peakMemory(t)
	reset := 0
	for range 10 {
		c := s.speak(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
		const many = 800
		for range many {
			c.send(malloryToken, "GET", "/version", 0)
		}
		c.readUntil("answers or their end", func() bool { return len(c.codes)+len(c.ended) >= many })
		reset += len(c.ended)
	}
	s.othersAreServed()
	grown := s.peakMemory(t) - before
	t.Logf("peak memory grew by %d MiB, %d streams were reset", grown>>20, reset)
	if grown > 100<<20 || reset == 0 {
		t.Errorf("peak memory grew by %d MiB, and %d streams were reset, want at most 100 MiB, and some", grown>>20, reset)
	}
}

// TestBodiesThatDoNotArriveLockNobodyOut lets one connection begin 250 writes whose bodies never come.
func TestBodiesThatDoNotArriveLockNobodyOut(t *testing.T) {
	t.Parallel()
	s := besiege(t, 0, "--request-timeout", "4s")
	c := s.speak()
	const many = 250
	for range many {
		c.send(malloryToken, "POST", reviews, len(review))
	}
	c.WritePing(false, [8]byte{1})
	c.readUntil("a sign of life", func() bool { return c.ended[0] })
	s.othersAreServed()
	c.readUntil("the end of requests", func() bool { return len(c.codes) == many })
	for id, code := range c.codes {
		if code != "504" {
			t.Errorf("stream %d: got %s, want 504", id, code)
		}
	}
}

// TestAnnouncedBodiesTakeNoMemory lets one user announce bodies of 3 MiB.
func TestAnnouncedBodiesTakeNoMemory(t *testing.T) {
	s := besiege(t, 0)
	before := s.peakMemory(t)
	for range 4 {
		c := s.speak()
		for range 500 {
			c.send(malloryToken, "POST", reviews, 3<<20)
		}
		c.WritePing(false, [8]byte{1})
		c.readUntil("a sign of life", func() bool { return c.ended[0] })
	}
	s.othersAreServed()
	if grown := s.peakMemory(t) - before; grown > 200<<20 {
		t.Errorf("peak memory grew by %d MiB", grown>>20)
	} else {
		t.Logf("peak memory grew by %d MiB", grown>>20)
	}
}

// TestStalledWatchesEnd checks that a watch ends if its client does not read it.
func TestStalledWatchesEnd(t *testing.T) {
	t.Parallel()
	s := besiege(t, 0, "--request-timeout", "2s")
	c := s.speak(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
	for range 3 {
		c.send(rootToken, "GET", "/apis/rbac.authorization.k8s.io/v1/clusterroles?watch=true", 0)
	}
	c.readUntil("the end of watches", func() bool { return len(c.ended) == 3 })

	// One that is read, or has nothing to tell, goes on beyond the time of other requests.
	quiet := s.speak()
	quiet.send(rootToken, "GET", "/api/v1/configmaps?watch=true&resourceVersion=0&timeoutSeconds=10", 0)
	began := time.Now()
	quiet.readUntil("the end of a quiet watch", func() bool { return len(quiet.ended) == 1 })
	if took := time.Since(began); took < 9*time.Second {
		t.Errorf("a watch that has nothing to tell ended after %v", took)
	}
}

// TestStalledConnectionsEnd checks that an HTTP/1.1 connection ends if its client reads nothing.
func TestStalledConnectionsEnd(t *testing.T) {
	t.Parallel()
	s := besiege(t, 0, "--request-timeout", "2s")
	conn, err := s.dial("http/1.1")
	if err != nil {
		t.Fatal(err)
	}
	ask := "GET /openapi/v2 HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " + malloryToken + "\r\n\r\n"
	io.WriteString(conn, strings.Repeat(ask, 20))
	eventually(t, "the connection is closed", func() bool {
		_, err := io.WriteString(conn, "G")
		return err != nil
	})
}

// TestHeadersThatDoNotEnd lets strangers send headers without an end. All strangers share one
// budget.
func TestHeadersThatDoNotEnd(t *testing.T) {
	s := besiege(t, 0)
	before := s.peakMemory(t)
	line := "X-Filler: " + strings.Repeat("x", 8000) + "\r\n"
	part := strings.Repeat(line, 120)
	for range 300 {
		conn, err := s.dial("http/1.1")
		if err != nil {
			t.Fatal(err)
		}
		io.WriteString(conn, "GET /version HTTP/1.1\r\nHost: localhost\r\n"+part)
	}
	s.othersAreServed()
	if grown := s.peakMemory(t) - before; grown > 220<<20 {
		t.Errorf("peak memory grew by %d MiB", grown>>20)
	} else {
		t.Logf("peak memory grew by %d MiB", grown>>20)
	}
}

// TestLargeHeadersOfManyStreams lets streams of HTTP/2 with long headers wait for their bodies.
func TestLargeHeadersOfManyStreams(t *testing.T) {
	t.Parallel()
	s := besiege(t, 0)
	before := s.peakMemory(t)
	c := s.speak()
	filler := strings.Repeat("x", 600<<10)
	for range 400 {
		c.send(malloryToken, "POST", reviews, len(review), "x-filler", filler)
	}
	c.WritePing(false, [8]byte{1})
	c.readUntil("a sign of life", func() bool { return c.ended[0] })
	s.othersAreServed()
	if grown := s.peakMemory(t) - before; grown > 250<<20 {
		t.Errorf("peak memory grew by %d MiB", grown>>20)
	} else {
		t.Logf("peak memory grew by %d MiB", grown>>20)
	}
}

// TestConnectionsOfOneClient lets one user, and then strangers, open all connections that they can.
// Ledger: connections-of-one-user.
func TestConnectionsOfOneClient(t *testing.T) {
	t.Parallel()
	s := besiege(t, 400)
	ask := "GET /version HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " + malloryToken + "\r\n\r\n"
	codes := map[string]int{}
	for range 300 {
		conn, err := s.dial("http/1.1")
		if err != nil {
			codes["none"]++
			continue
		}
		io.WriteString(conn, ask)
		line := make([]byte, len("HTTP/1.1 200"))
		io.ReadFull(conn, line)
		codes[strings.TrimPrefix(string(line), "HTTP/1.1 ")]++
	}
	if codes["200"] == 0 || codes["200"] > 100 {
		t.Errorf("one user has connections: %v", codes)
	}
	s.othersAreServed()
	for range 300 {
		conn, err := net.Dial("tcp", s.addr())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
	}
	s.othersAreServed()
}

// TestFloodsOfFrames sends frames that ask for answers, reads none, opens streams only to reset them, and sends frames that are empty
// or belong to headers without end.
func TestFloodsOfFrames(t *testing.T) {
	t.Parallel()
	s := besiege(t, 0)
	before := s.peakMemory(t)
	fragment := make([]byte, 16<<10) // of headers: a literal whose name and value are empty takes three bytes
	for name, flood := range map[string]struct {
		begin  func(c *streams) // nil: the connection is enough
		frame  func(c *streams) error
		count  int
		closes bool // the server must close the connection
	}{
		"pings": {nil, func(c *streams) error { return c.WritePing(false, [8]byte{1}) }, 50_000, false},
		"settings": {nil, func(c *streams) error {
			return c.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1})
		}, 50_000, false},
		"resets": {nil, func(c *streams) error {
			c.send(malloryToken, "GET", "/openapi/v2", 0)
			return c.WriteRSTStream(c.next-2, http2.ErrCodeCancel)
		}, 5_000, false},
		"empty data": {func(c *streams) { c.send(malloryToken, "POST", configMapList, 1000) }, func(c *streams) error {
			return c.WriteData(c.next-2, false, nil)
		}, 50_000, false},
		"empty continuations": {func(c *streams) { c.open() }, func(c *streams) error {
			return c.WriteContinuation(1, false, nil)
		}, 50_000, false},
		"continuations": {func(c *streams) { c.open() }, func(c *streams) error {
			return c.WriteContinuation(1, false, fragment)
		}, 10_000, true},
	} {
		c := s.speak()
		c.conn.SetWriteDeadline(time.Now().Add(20 * time.Second))
		if flood.begin != nil {
			flood.begin(c)
		}
		var err error
		for i := 0; i < flood.count && err == nil; i++ {
			err = flood.frame(c) // an error: the server has had enough of it
		}
		if flood.closes && (err == nil || errors.Is(err, os.ErrDeadlineExceeded)) {
			t.Errorf("%s: the connection was not closed: %v", name, err)
		}
		s.othersAreServed()
	}
	if grown := s.peakMemory(t) - before; grown > 200<<20 {
		t.Errorf("peak memory grew by %d MiB", grown>>20)
	}
}

// TestClientsThatAreGoneAreNoticed checks that connections end that their clients have reset, also if the next request has arrived
// already: the server does not read on then, and a watch without events writes nothing.
func TestClientsThatAreGoneAreNoticed(t *testing.T) {
	if _, err := os.Stat("/proc/self/fd"); err != nil {
		t.Skip("open files of processes are not known here")
	}
	s := besiege(t, 0, "--request-timeout", "2s")
	open := func() int {
		files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", s.cmd.Process.Pid))
		if err != nil {
			t.Fatal(err)
		}
		return len(files)
	}
	before := open()
	for i := range 60 {
		tcp, err := net.Dial("tcp", s.addr())
		if err != nil {
			t.Fatal(err)
		}
		conn := tls.Client(tcp, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"http/1.1"}})
		watch := "GET /api/v1/podtemplates?watch=true&resourceVersion=0 HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer " + rootToken + "\r\n\r\n"
		if _, err := io.WriteString(conn, watch); err != nil {
			t.Fatal(err)
		}
		status := make([]byte, 15)
		if _, err := io.ReadFull(conn, status); err != nil || string(status) != "HTTP/1.1 200 OK" {
			t.Fatalf("got %q, %v", status, err)
		}
		io.WriteString(conn, watch)
		time.Sleep(5 * time.Millisecond) // usually it has arrived then
		if i%2 == 0 {
			tcp.(*net.TCPConn).SetLinger(0) // a reset; otherwise only an end
		}
		tcp.Close()
	}
	testkit.EventuallySay(t, func() (string, bool) {
		now := open()
		return fmt.Sprintf("the files of clients that have gone are closed: %d are open, %d before", now, before), now <= before+20
	})
}

// open begins the headers of the first stream, which do not end.
func (c *streams) open() {
	c.t.Helper()
	c.block.Reset()
	c.out.WriteField(hpack.HeaderField{Name: ":method", Value: "GET"})
	if err := c.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: c.block.Bytes()}); err != nil {
		c.t.Fatal(err)
	}
}
