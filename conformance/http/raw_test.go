package http

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
)

// This file sends what no HTTP client of Go's sends: bytes on a connection of HTTP/1.1, and frames on one of HTTP/2. What is compared are
// the answers, interim ones too, and whether the connection is ended.

// exchange is what is sent on one connection.
type exchange struct {
	name    string
	send    []string // with a pause before each but the first; the requests' paths may say what scripts say
	methods string   // of the requests that are answered, since an answer to HEAD has no body; "" if none is HEAD
	leave   bool     // the connection is ended by the client after that
}

// pause is how long a client waits that sends its request in pieces.
const pause = 150 * time.Millisecond

// exchanges are the connections that are tried.
func exchanges() []exchange {
	const host = "Host: localhost\r\n"
	get := func(path string, headers ...string) string {
		return "GET " + path + " HTTP/1.1\r\n" + host + strings.Join(append(headers, ""), "\r\n") + "\r\n"
	}
	again := get("/healthz", "Connection: close")
	object := func(name string) string {
		return `{` + macros.Replace("$WHEAD") + `,"metadata":{"name":"` + name + `"},"spec":{"color":"red"}}`
	}
	post := func(path, body string, headers ...string) string {
		return "POST " + path + " HTTP/1.1\r\n" + host + "User-Agent: conformance/1\r\n" + strings.Join(append(headers, ""), "\r\n") + "\r\n" + body
	}
	const typed = "Content-Type: application/json"
	length := func(n int) string { return "Content-Length: " + strconv.Itoa(n) }
	create := func(name string, headers ...string) string {
		body := object(name)
		return post("$R", body, append([]string{typed, length(len(body))}, headers...)...)
	}
	expect := func(path, name string) []string {
		body := object(name)
		return []string{post(path, "", typed, length(len(body)), "Expect: 100-continue"), body}
	}
	out := []exchange{
		{name: "two requests", send: []string{get("$R/none") + again}},
		{name: "a request in pieces", send: []string{"GET /hea", "lthz HTTP/1.1\r\nHost: loc", "alhost\r\nConnection: close\r\n\r\n"}},
		{name: "HTTP/1.0", send: []string{"GET /healthz HTTP/1.0\r\n\r\n"}},
		{name: "HTTP/1.0 that stays", send: []string{"GET /healthz HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"}},
		{name: "HTTP/1.0 list", send: []string{"GET $R HTTP/1.0\r\n\r\n"}},
		{name: "HTTP/1.0 watch", send: []string{"GET $R?watch=1&timeoutSeconds=1&labelSelector=none HTTP/1.0\r\n\r\n"}},
		{name: "HTTP/1.2", send: []string{"GET /healthz HTTP/1.2\r\nHost: localhost\r\n\r\n"}},
		{name: "HTTP/3.0", send: []string{"GET /healthz HTTP/3.0\r\nHost: localhost\r\n\r\n"}},
		{name: "no version", send: []string{"GET /healthz\r\n\r\n"}},
		{name: "no HTTP", send: []string{"hello\r\n\r\n"}},
		{name: "no host", send: []string{"GET /healthz HTTP/1.1\r\n\r\n"}},
		{name: "two hosts", send: []string{"GET /healthz HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"}},
		{name: "a bad host", send: []string{"GET /healthz HTTP/1.1\r\nHost: a b\r\n\r\n"}},
		{name: "a foreign host", send: []string{"GET /healthz HTTP/1.1\r\nHost: example.com\r\nConnection: close\r\n\r\n"}},
		{name: "an absolute URL", send: []string{"GET https://example.com/healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"}},
		{name: "a relative path", send: []string{"GET healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"}},
		{name: "dots in a path", send: []string{get("/apis/../healthz") + get("/./healthz") + again}},
		{name: "a fragment", send: []string{get("/healthz#a") + again}},
		{name: "a space in a path", send: []string{"GET $R/a b HTTP/1.1\r\nHost: a\r\n\r\n"}},
		{name: "encoded slashes", send: []string{get("$R/a%2Fb") + get("/apis%2Fdemo.io") + get("$R%2Fa") + again}},
		{name: "encoded letters", send: []string{get("/%68ealthz") + get("$R/%6eone") + again}},
		{name: "bad encoding in a path", send: []string{get("$R/%zz") + again}},
		{name: "an encoded zero", send: []string{get("$R/a%00b") + get("$R/%ff%fe") + get("$R/%C3%A9") + again}},
		{name: "bytes beyond ASCII in a path", send: []string{get("$R/\xc3\xa9") + get("$R/\xff") + again}},
		{name: "bad encoding in a query", send: []string{get("$R?labelSelector=%zz") + get("$R?watch=%zz&limit=1") + get("$R?limit=%31%zz") + again}},
		{name: "semicolons in a query", send: []string{get("$R?limit=x;a=b") + get("$R?labelSelector=a;b") + get("$R?a;b&limit=x") + again}},
		{name: "a query of signs", send: []string{get("$R??") + get("$R?&&&=&") + get("$R?limit") + get("$R?=x&limit=x") + again}},
		{name: "a long path", send: []string{get("$R/"+strings.Repeat("a", 9000)) + again}},
		{name: "a long query", send: []string{get("$R?labelSelector="+strings.Repeat("a", 9000)) + get("$R?bogus="+strings.Repeat("a", 200000)) + again}},
		{name: "many parameters", send: []string{get("$R/none?"+strings.Repeat("a=b&", 20000)) + again}},
		{name: "a URL beyond a megabyte", send: []string{get("$R/" + strings.Repeat("a", 1100000))}},
		{name: "headers beyond a megabyte", send: []string{get("/healthz", "X-A: "+strings.Repeat("a", 1100000))}},
		{name: "many headers", send: []string{get("/healthz", strings.Repeat("X-A: b\r\n", 5000)+"Connection: close")}},
		{name: "a header without a colon", send: []string{get("/healthz", "garbage")}},
		{name: "a space before a colon", send: []string{get("/healthz", "X-A : b")}},
		{name: "a folded header", send: []string{get("/healthz", "X-A: b\r\n c", "Connection: close")}},
		{name: "a control character in a header", send: []string{get("/healthz", "X-A: \x01")}},
		{name: "lines that end with a newline", send: []string{"GET /healthz HTTP/1.1\nHost: a\nConnection: close\n\n"}},
		{name: "a method in lower case", send: []string{"get /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", "get $R/none HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"}},
		{name: "a method of its own", send: []string{"FROB $R/none HTTP/1.1\r\nHost: a\r\n\r\nFROB /healthz HTTP/1.1\r\nHost: a\r\n\r\nFROB /version HTTP/1.1\r\nHost: a\r\n\r\nFROB /nothing HTTP/1.1\r\nHost: a\r\n\r\n" + again}},
		{name: "a bad method", send: []string{"G(T /healthz HTTP/1.1\r\nHost: a\r\n\r\n"}},
		{name: "OPTIONS *", send: []string{"OPTIONS * HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"}},
		{name: "OPTIONS", send: []string{"OPTIONS $R HTTP/1.1\r\nHost: a\r\nOrigin: https://example.com\r\nAccess-Control-Request-Method: GET\r\n\r\nOPTIONS /version HTTP/1.1\r\nHost: a\r\n\r\nOPTIONS /healthz HTTP/1.1\r\nHost: a\r\n\r\n" + again}},
		{name: "CONNECT", send: []string{"CONNECT example.com:443 HTTP/1.1\r\nHost: example.com:443\r\n\r\n"}},
		{name: "HEAD", methods: "HEAD HEAD HEAD HEAD HEAD GET", send: []string{strings.ReplaceAll(get("$R/none")+get("$R")+get("/nothing")+get("/healthz")+get("/version"), "GET ", "HEAD ") + again}},
		{name: "HEAD of a watch", methods: "HEAD GET", send: []string{strings.ReplaceAll(get("$R?watch=1&timeoutSeconds=1&labelSelector=none"), "GET ", "HEAD "), again}},
		{name: "GET with a body", send: []string{get("$R/none", "Content-Length: 5") + "hello" + again}},
		{name: "GET with a body and Expect", send: []string{get("$R/none", "Content-Length: 5", "Expect: 100-continue"), "hello" + again}},

		{name: "Expect", send: append(expect("$R", "expected"), again)},
		{name: "Expect, before a refusal", send: append(expect("/apis/demo.io/v1/namespaces/raw/nothings", "refused"), again)},
		{name: "Expect, before a refusal of its media type", send: []string{post("$R", "", "Content-Type: text/plain", length(10), "Expect: 100-continue"), "0123456789" + again}},
		{name: "Expect of what is too large", send: []string{post("$R", "", typed, length(4<<20), "Expect: 100-continue"), "x"}},
		{name: "Expect something else", send: []string{create("unexpected", "Expect: miracles"), again}},
		{name: "Expect in HTTP/1.0", send: []string{strings.Replace(expect("$R", "old")[0], "HTTP/1.1", "HTTP/1.0", 1), object("old")}},

		{name: "a body that is longer than it says", send: []string{post("$R", object("longer"), typed, length(10)) + again}},
		{name: "a body that is shorter than it says", send: []string{post("$R", object("shorter"), typed, length(1000))}, leave: true},
		{name: "a body that never comes", send: []string{post("$R", "", typed, length(1000))}, leave: true},
		{name: "half a chunk", send: []string{post("$R", "ff\r\n{\"a\"", typed, "Transfer-Encoding: chunked")}, leave: true},
		{name: "a POST of nothing", send: []string{post("$R", "", typed, length(0)) + post("$R", "", typed) + again}},
		{name: "a negative length", send: []string{post("$R", "{}", typed, "Content-Length: -1")}},
		{name: "a length that is none", send: []string{post("$R", "{}", typed, "Content-Length: two")}},
		{name: "two lengths", send: []string{post("$R", "{}", typed, length(2), length(3))}},
		{name: "the same length twice", send: []string{post("$R", "{}", typed, length(2), length(2)) + again}},
		{name: "a length and chunks", send: []string{post("$R", "2\r\n{}\r\n0\r\n\r\n", typed, length(2), "Transfer-Encoding: chunked") + again}},
		{name: "chunks", send: []string{post("$R", fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(object("chunks")), object("chunks")), typed, "Transfer-Encoding: chunked") + again}},
		{name: "chunks with trailers", send: []string{post("$R", "2\r\n{}\r\n0\r\nX-A: b\r\n\r\n", typed, "Transfer-Encoding: chunked", "Trailer: X-A") + again}},
		{name: "bad chunks", send: []string{post("$R", "zz\r\n{}\r\n", typed, "Transfer-Encoding: chunked")}},
		{name: "another transfer coding", send: []string{post("$R", "{}", typed, "Transfer-Encoding: gzip")}},
		{name: "more in chunks than is read", send: []string{post("$R", fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", 4<<20, strings.Repeat("x", 4<<20)), typed, "Transfer-Encoding: chunked")}},
		{name: "a compressed body", send: []string{post("$R", zipped(object("zipped")), typed, length(len(zipped(object("zipped")))), "Content-Encoding: gzip") + again}},
		{name: "a body of another coding", send: []string{create("coded", "Content-Encoding: br") + again}},
		{name: "a media type twice", send: []string{create("twice", "Content-Type: text/plain") + again}},
		{name: "an Accept twice", send: []string{get("$R/none", "Accept: text/html", "Accept: application/json") + again}},

		{name: "on after refusals", send: []string{get("$R/none", "Accept: text/html") + post("$R", "{}", "Content-Type: text/plain", length(2)) + post("$R", "{", typed, length(1)) +
			get("$R?limit=x") + strings.Replace(post("$R/none", "x", "Content-Type: text/plain", length(1)), "POST", "PATCH", 1) + again}},
		{name: "on after a body that nobody reads", send: []string{post("/apis/demo.io/v1/namespaces/raw/nothings", strings.Repeat("x", 1000), typed, length(1000)) + again}},
		{name: "on after a large body that nobody reads", send: []string{post("/apis/demo.io/v1/namespaces/raw/nothings", strings.Repeat("x", 1<<20), typed, length(1<<20)) + again}},
		{name: "on after a body that is too large", send: []string{post("$R", strings.Repeat("x", 4<<20), typed, length(4<<20)) + again}},
		{name: "on after a watch", send: []string{get("$R?watch=1&timeoutSeconds=1&labelSelector=none") + again}},
		{name: "an upgrade to something", send: []string{get("$R/none", "Connection: Upgrade", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAAQAAP__") + again}},
		{name: "HTTP/2 where HTTP/1.1 was agreed on", send: []string{"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"}},
	}
	for i := range out {
		for j := range out[i].send {
			out[i].send[j] = strings.ReplaceAll(out[i].send[j], "$R", "/apis/demo.io/v1/namespaces/raw/widgets")
		}
	}
	return out
}

func zipped(text string) string {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	io.WriteString(z, text)
	z.Close()
	return b.String()
}

// raw tries connections.
func (r *run) raw() {
	all := exchanges()
	var names []string
	for _, e := range all {
		names = append(names, e.name)
	}
	r.connections("raw", "RAW", names, func(p *peer, i int, idle time.Duration) string { return p.exchange(all[i], idle) })
	names = nil
	for _, talk := range talks {
		names = append(names, talk.name)
	}
	r.connections("frames", "FRAMES", names, func(p *peer, i int, idle time.Duration) string { return p.talk(talks[i].send, idle) })
	// What the connections left behind is the same.
	list := &request{script: "raw", line: -1, method: "GET", path: "/apis/demo.io/v1/namespaces/raw/widgets"}
	r.step(list)
	for side, p := range r.peers {
		if err := p.settings(); err != nil {
			r.t.Errorf("%s: %v", r.peers[side].name, err)
		}
	}
	theirs, ours := r.peers[0].greeting, r.peers[1].greeting
	r.requests++
	r.judge(&request{script: "raw", line: -2, method: "RAW", path: "settings"}, theirs, ours, nil)
}

// connections tries connections to both servers, some at a time.
func (r *run) connections(script, method string, names []string, try func(p *peer, i int, idle time.Duration) string) {
	got := make([][2]string, len(names))
	var wg sync.WaitGroup
	slots := make(chan struct{}, 8)
	chosen := func(i int) bool { return !testing.Short() || i%8 == 0 }
	for i := range names {
		if !chosen(i) {
			continue
		}
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			for _, idle := range []time.Duration{1500 * time.Millisecond, 10 * time.Second} { // machines may be busy
				var both sync.WaitGroup
				for side, p := range r.peers {
					both.Go(func() { got[i][side] = r.same.text(side, try(p, i, idle)) })
				}
				if both.Wait(); got[i][0] == got[i][1] {
					return
				}
			}
		})
	}
	wg.Wait()
	for i, name := range names {
		if chosen(i) {
			r.requests++
			q := &request{script: script, line: i, method: method, path: strings.ReplaceAll(name, " ", "_")}
			r.judge(q, got[i][0], got[i][1], nil)
		}
	}
}

// exchange sends e and says what came back until nothing came for a while.
func (p *peer) exchange(e exchange, idle time.Duration) string {
	config := p.tls.Clone()
	config.NextProtos = []string{"http/1.1"}
	conn, err := tls.Dial("tcp", strings.TrimPrefix(p.base, "https://"), config)
	if err != nil {
		return "error: " + err.Error()
	}
	defer conn.Close()
	var got bytes.Buffer
	done := make(chan string, 1)
	go func() { done <- receive(conn, &got, idle) }()
	for i, part := range e.send {
		if i > 0 {
			time.Sleep(pause)
		}
		if _, err := io.WriteString(conn, part); err != nil {
			break // it does not want to hear more, and says why
		}
	}
	if e.leave {
		time.Sleep(pause)
		conn.CloseWrite()
	}
	end := <-done
	if e.leave {
		return "" // who is gone is answered, or not
	}
	return answers(got.Bytes(), strings.Fields(e.methods)) + end
}

// receive reads until the connection ends, or nothing comes any more, and says which.
func receive(conn net.Conn, into *bytes.Buffer, idle time.Duration) string {
	buf := make([]byte, 64<<10)
	for {
		conn.SetReadDeadline(time.Now().Add(idle))
		n, err := conn.Read(buf)
		into.Write(buf[:n])
		var timeout net.Error
		switch {
		case err == nil:
		case errors.As(err, &timeout) && timeout.Timeout():
			return "(stays open)\n"
		default:
			return "(ends)\n"
		}
	}
}

// answers prints the answers of a connection.
func answers(got []byte, methods []string) string {
	var out strings.Builder
	in := bufio.NewReader(bytes.NewReader(got))
	for i := 0; ; {
		if _, err := in.Peek(1); err != nil {
			return out.String()
		}
		method := "GET"
		if i < len(methods) {
			method = methods[i]
		}
		resp, err := http.ReadResponse(in, &http.Request{Method: method})
		if err != nil {
			fmt.Fprintf(&out, "no answer: %q\n", got[:min(len(got), 200)])
			return out.String()
		}
		if resp.StatusCode >= 200 {
			i++
		}
		body, err := io.ReadAll(resp.Body)
		if bytes.Contains(body, []byte(`"paths": [`)) {
			body = []byte("(the index)") // which is compared elsewhere
		}
		fmt.Fprintf(&out, "%s %s close=%t\n", resp.Proto, resp.Status, resp.Close)
		for _, name := range append([]string{"Connection"}, headers...) {
			for _, v := range resp.Header.Values(name) {
				if name == "Audit-Id" {
					v = "…"
				}
				fmt.Fprintf(&out, "%s: %s\n", name, v)
			}
		}
		fmt.Fprintf(&out, "%.600s\n", body)
		if err != nil {
			fmt.Fprintf(&out, "and then: %v\n", err)
		}
	}
}

// settings says how a server greets clients of HTTP/2.
func (p *peer) settings() error {
	config := p.tls.Clone()
	config.NextProtos = []string{"h2"}
	conn, err := tls.Dial("tcp", strings.TrimPrefix(p.base, "https://"), config)
	if err != nil {
		return err
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(patience))
	if _, err := io.WriteString(conn, http2.ClientPreface); err != nil {
		return err
	}
	f := http2.NewFramer(conn, conn)
	if err := errors.Join(f.WriteSettings(), f.WritePing(false, [8]byte{1})); err != nil {
		return err
	}
	for {
		frame, err := f.ReadFrame()
		if err != nil {
			return err
		}
		switch frame := frame.(type) {
		case *http2.SettingsFrame:
			frame.ForeachSetting(func(s http2.Setting) error {
				p.greeting += fmt.Sprintln(s.ID, s.Val)
				return nil
			})
		case *http2.WindowUpdateFrame:
			p.greeting += fmt.Sprintf("%d bytes more of stream %d\n", frame.Increment, frame.StreamID)
		case *http2.PingFrame:
			return nil
		}
	}
}
