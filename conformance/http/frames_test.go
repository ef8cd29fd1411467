package http

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// This file sends frames of HTTP/2 that no client of Go's sends, and requests in frames. What is compared is what comes back on each
// stream (the answer, how its stream ends), and how the connection ends.

// conversation is a client's end of a connection of HTTP/2.
type conversation struct {
	*http2.Framer
	out    io.Writer
	block  bytes.Buffer
	fields *hpack.Encoder
	next   uint32          // stream
	left   map[uint32]bool // streams of which it is of no interest what comes
}

// open begins a stream with the header fields "name=value", which are those of a GET of path unless they say otherwise; "-name" leaves one
// out.
func (c *conversation) open(end bool, path string, fields ...string) uint32 {
	said := []string{":method=GET", ":scheme=https", ":authority=localhost", ":path=" + path, "user-agent=conformance/1"}
	for _, f := range fields {
		name, _, _ := strings.Cut(strings.TrimPrefix(f, "-"), "=")
		at := slices.IndexFunc(said, func(s string) bool { return strings.HasPrefix(s, name+"=") })
		switch {
		case strings.HasPrefix(f, "-"):
			said = slices.Delete(said, at, at+1)
		case at >= 0 && !strings.HasPrefix(f, ":twice"):
			said[at] = f
		default:
			said = append(said, f)
		}
	}
	c.block.Reset()
	for _, f := range said {
		name, value, _ := strings.Cut(strings.ReplaceAll(f[1:], "$R", rawWidgets), "=") // a pseudo field begins with a colon
		c.fields.WriteField(hpack.HeaderField{Name: f[:1] + name, Value: value})
	}
	id := c.next
	c.next += 2
	rest := c.block.Bytes()
	first := rest[:min(len(rest), 16<<10)]
	rest = rest[len(first):]
	c.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: first, EndStream: end, EndHeaders: len(rest) == 0})
	for len(rest) > 0 {
		part := rest[:min(len(rest), 16<<10)]
		rest = rest[len(part):]
		c.WriteContinuation(id, len(rest) == 0, part)
	}
	return id
}

// get asks for a path.
func (c *conversation) get(path string, fields ...string) uint32 {
	return c.open(true, path, fields...)
}

// post sends a body in parts.
func (c *conversation) post(path string, fields []string, parts ...string) uint32 {
	id := c.open(len(parts) == 0, path, append([]string{":method=POST", "content-type=application/json"}, fields...)...)
	for i, part := range parts {
		c.WriteData(id, i == len(parts)-1, []byte(part))
	}
	return id
}

// trailers ends a stream with header fields.
func (c *conversation) trailers(id uint32, name, value string) {
	c.block.Reset()
	c.fields.WriteField(hpack.HeaderField{Name: name, Value: value})
	c.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: c.block.Bytes(), EndStream: true, EndHeaders: true})
}

// leave gives a stream up.
func (c *conversation) leave(id uint32) {
	c.left[id] = true
	c.WriteRSTStream(id, http2.ErrCodeCancel)
}

// rawWidgets is what connections are about.
const rawWidgets = "/apis/demo.io/v1/namespaces/raw/widgets"

// talks are the connections that are tried. The "$R" of paths is a collection.
var talks = []struct {
	name string
	send func(c *conversation)
}{
	{"requests", func(c *conversation) { c.get("/healthz"); c.get("$R/none") }},
	{"a list", func(c *conversation) { c.get("$R") }},
	{"HEAD", func(c *conversation) {
		c.get("$R", ":method=HEAD")
		c.get("$R/none", ":method=HEAD")
		c.get("/healthz", ":method=HEAD")
	}},
	{"HEAD of a watch", func(c *conversation) { c.get("$R?watch=1&timeoutSeconds=1&labelSelector=none", ":method=HEAD") }},
	{"a watch", func(c *conversation) { c.get("$R?watch=1&timeoutSeconds=1&labelSelector=none") }},
	{"a watch that is left", func(c *conversation) {
		c.leave(c.get("$R?watch=1&timeoutSeconds=60&labelSelector=none"))
		c.get("/healthz")
	}},
	{"OPTIONS *", func(c *conversation) { c.get("*", ":method=OPTIONS") }},
	{"a method of its own", func(c *conversation) { c.get("$R/none", ":method=FROB"); c.get("/healthz", ":method=get") }},
	{"CONNECT", func(c *conversation) { c.get("", ":method=CONNECT", "-:scheme", "-:path") }},
	{"CONNECT with a path", func(c *conversation) { c.get("/healthz", ":method=CONNECT"); c.get("/healthz") }},
	{"an extended CONNECT", func(c *conversation) {
		c.open(false, "$R?watch=1", ":method=CONNECT", ":protocol=websocket")
		c.get("/healthz")
	}},
	{"no path", func(c *conversation) { c.get("", "-:path"); c.get("/healthz") }},
	{"an empty path", func(c *conversation) { c.get(""); c.get("/healthz") }},
	{"a relative path", func(c *conversation) { c.get("healthz"); c.get("/healthz") }},
	{"an absolute URL", func(c *conversation) { c.get("https://example.com/healthz"); c.get("/healthz") }},
	{"odd paths", func(c *conversation) {
		c.get("/./healthz")
		c.get("$R/a%2Fb")
		c.get("$R/%zz")
		c.get("$R/a b")
		c.get("$R/\xff")
		c.get("/healthz#a")
	}},
	{"odd queries", func(c *conversation) { c.get("$R?limit=x;a=b"); c.get("$R?labelSelector=%zz"); c.get("$R??") }},
	{"no method", func(c *conversation) { c.get("/healthz", "-:method"); c.get("/healthz") }},
	{"no scheme", func(c *conversation) { c.get("/healthz", "-:scheme"); c.get("/healthz") }},
	{"another scheme", func(c *conversation) { c.get("/healthz", ":scheme=http"); c.get("/healthz", ":scheme=ftp") }},
	{"no authority", func(c *conversation) { c.get("/healthz", "-:authority"); c.get("/healthz", "-:authority", "host=a") }},
	{"an authority and a host", func(c *conversation) { c.get("/healthz", "host=example.com") }},
	{"a bad authority", func(c *conversation) { c.get("/healthz", ":authority=a b"); c.get("/healthz", ":authority=") }},
	{"a pseudo field that there is not", func(c *conversation) { c.get("/healthz", ":twice=1"); c.get("/healthz") }},
	{"a name in upper case", func(c *conversation) { c.get("/healthz", "X-A=b"); c.get("/healthz") }},
	{"a bad name", func(c *conversation) { c.get("/healthz", "x a=b"); c.get("/healthz") }},
	{"a bad value", func(c *conversation) {
		c.get("/healthz", "x-a=b\x01")
		c.get("/healthz", "x-a=b\nc")
		c.get("/healthz", "x-a= b ")
	}},
	{"fields of a connection", func(c *conversation) {
		c.get("/healthz", "connection=keep-alive")
		c.get("/healthz", "connection=close")
		c.get("/healthz", "upgrade=h2c")
		c.get("/healthz", "transfer-encoding=chunked")
		c.get("/healthz", "te=trailers")
		c.get("/healthz", "te=gzip")
	}},
	{"large fields", func(c *conversation) { c.get("/healthz", "x-b="+strings.Repeat("b", 100<<10)) }},
	{"fields beyond a megabyte", func(c *conversation) { c.get("/healthz", "x-a="+strings.Repeat("a", 1100000)); c.get("/healthz") }},
	{"a stranger", func(c *conversation) { c.get("/healthz", "authorization=Bearer x") }},
	{"accept twice", func(c *conversation) { c.get("$R/none", "accept=text/html") }},
	{"expect", func(c *conversation) {
		c.post("$R", []string{"expect=100-continue"}, object2("expected"))
		c.post("$R", []string{"expect=miracles"}, object2("unexpected"))
	}},
	{"a body", func(c *conversation) {
		c.post("$R", nil, object2("whole"))
		c.post("$R", nil, object2("parts")[:20], object2("parts")[20:], "")
	}},
	{"a body in large frames", func(c *conversation) {
		space := strings.Repeat(" ", 32<<10)
		c.post("$R", nil, object2("large"), space, space, space, space, space, space, space)
	}},
	{"a frame of 200 KiB", func(c *conversation) {
		c.post("/apis/demo.io/v1/namespaces/raw/nothings", nil, strings.Repeat(" ", 200<<10))
	}},
	{"no body", func(c *conversation) {
		c.post("$R", nil)
		c.post("$R", nil, "")
		c.post("$R", []string{"content-length=0"})
	}},
	{"a body that nobody reads", func(c *conversation) {
		c.post("/apis/demo.io/v1/namespaces/raw/nothings", nil, strings.Repeat("x", 1000))
		c.get("/healthz")
	}},
	{"a body that is shorter than it says", func(c *conversation) {
		c.post("$R", []string{"content-length=1000"}, object2("shorter"))
		c.get("/healthz")
	}},
	{"a body that is longer than it says", func(c *conversation) {
		c.post("$R", []string{"content-length=10"}, object2("longer"))
		c.get("/healthz")
	}},
	{"a length that is none", func(c *conversation) { c.post("$R", []string{"content-length=two"}, "{}"); c.get("/healthz") }},
	{"a compressed body", func(c *conversation) { c.post("$R", []string{"content-encoding=gzip"}, zipped(object2("zipped"))) }},
	{"trailers", func(c *conversation) {
		id := c.open(false, "$R", ":method=POST", "content-type=application/json", "trailer=x-a")
		c.WriteData(id, false, []byte(object2("trailed")))
		c.trailers(id, "x-a", "b")
	}},
	{"a pseudo field as a trailer", func(c *conversation) {
		id := c.open(false, "$R", ":method=POST", "content-type=application/json")
		c.WriteData(id, false, []byte(object2("trailed2")))
		c.trailers(id, ":path", "b")
	}},
	{"padding", func(c *conversation) {
		id := c.open(false, "$R", ":method=POST", "content-type=application/json")
		c.WriteDataPadded(id, true, []byte(object2("padded")), make([]byte, 100))
	}},
	{"a frame beyond the size", func(c *conversation) {
		c.WriteRawFrame(http2.FrameData, 0, c.open(false, "$R", ":method=POST"), make([]byte, 256<<10+1))
	}},
	{"data of no stream", func(c *conversation) { c.WriteData(1, true, []byte("x")) }},
	{"data of the connection", func(c *conversation) { c.WriteRawFrame(http2.FrameData, 0, 0, []byte("x")) }},
	{"an even stream", func(c *conversation) { c.next = 2; c.get("/healthz") }},
	{"an earlier stream", func(c *conversation) { c.next = 7; c.get("/healthz"); c.next = 3; c.get("/healthz") }},
	{"headers that do not end", func(c *conversation) {
		c.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: []byte{0x82}, EndStream: true})
		c.WritePing(false, [8]byte{2})
	}},
	{"a continuation of nothing", func(c *conversation) { c.WriteContinuation(1, true, []byte{0x82}) }},
	{"fields that cannot be read", func(c *conversation) {
		c.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, EndStream: true, EndHeaders: true})
	}},
	{"no fields", func(c *conversation) {
		c.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, EndStream: true, EndHeaders: true})
		c.next = 3
		c.get("/healthz")
	}},
	{"a promise", func(c *conversation) {
		c.WritePushPromise(http2.PushPromiseParam{StreamID: 1, PromiseID: 2, BlockFragment: []byte{0x82}, EndHeaders: true})
	}},
	{"the end of no stream", func(c *conversation) { c.WriteRSTStream(1, http2.ErrCodeCancel) }},
	{"a window of nothing", func(c *conversation) { c.WriteRawFrame(http2.FrameWindowUpdate, 0, 0, make([]byte, 4)) }},
	{"a stream's window of nothing", func(c *conversation) {
		c.WriteRawFrame(http2.FrameWindowUpdate, 0, c.open(false, "$R", ":method=POST"), make([]byte, 4))
		c.get("/healthz")
	}},
	{"a window beyond the size", func(c *conversation) { c.WriteWindowUpdate(0, 1<<31-1); c.WriteWindowUpdate(0, 1<<31-1) }},
	{"bad settings", func(c *conversation) { c.WriteSettings(http2.Setting{ID: http2.SettingEnablePush, Val: 2}) }},
	{"a frame size that is none", func(c *conversation) { c.WriteSettings(http2.Setting{ID: http2.SettingMaxFrameSize, Val: 1}) }},
	{"half a setting", func(c *conversation) { c.WriteRawFrame(http2.FrameSettings, 0, 0, []byte("abc")) }},
	{"settings of a stream", func(c *conversation) { c.WriteRawFrame(http2.FrameSettings, 0, 1, nil) }},
	{"settings nobody knows", func(c *conversation) { c.WriteSettings(http2.Setting{ID: 0x99, Val: 2}); c.get("/healthz") }},
	{"a small window", func(c *conversation) {
		c.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 10})
		c.get("$R/none")
	}},
	{"half a ping", func(c *conversation) { c.WriteRawFrame(http2.FramePing, 0, 0, []byte("abc")) }},
	{"a ping of a stream", func(c *conversation) { c.WriteRawFrame(http2.FramePing, 0, 1, make([]byte, 8)) }},
	{"a priority", func(c *conversation) {
		c.WritePriority(1, http2.PriorityParam{StreamDep: 3, Weight: 5})
		c.get("/healthz")
	}},
	{"a frame nobody knows", func(c *conversation) { c.WriteRawFrame(0x77, 0xff, 0, []byte("abc")); c.get("/healthz") }},
	{"a farewell", func(c *conversation) { c.WriteGoAway(0, http2.ErrCodeNo, nil); c.get("/healthz") }},
	{"no frames", func(c *conversation) { io.WriteString(c.out, strings.Repeat("x", 100)) }},
}

// object2 is a widget.
func object2(name string) string {
	return `{` + macros.Replace("$WHEAD") + `,"metadata":{"name":"` + name + `-2"},"spec":{"color":"red"}}`
}

// talk sends what there is to send, and says what came back until nothing came for a while.
func (p *peer) talk(send func(c *conversation), idle time.Duration) string {
	config := p.tls.Clone()
	config.NextProtos = []string{"h2"}
	conn, err := tls.Dial("tcp", strings.TrimPrefix(p.base, "https://"), config)
	if err != nil {
		return "error: " + err.Error()
	}
	defer conn.Close()
	c := &conversation{Framer: http2.NewFramer(conn, conn), out: conn, next: 1, left: map[uint32]bool{}}
	c.AllowIllegalWrites = true
	c.fields = hpack.NewEncoder(&c.block)
	c.fields.SetMaxDynamicTableSizeLimit(0)
	io.WriteString(conn, http2.ClientPreface)
	c.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 20})
	type said struct {
		streams map[uint32]*strings.Builder
		end     string
	}
	done := make(chan said, 1)
	go func() {
		streams, end := heard(conn, idle)
		done <- said{streams, end}
	}()
	send(c)
	got := <-done
	var out strings.Builder
	for _, id := range slices.Sorted(maps.Keys(got.streams)) {
		failed := id > 0 && got.streams[0] != nil && strings.Contains(got.streams[0].String(), "_ERROR") // what was answered before that depends on time
		text := got.streams[id].String()
		if at := strings.Index(text, "{\n  \"paths\": ["); at >= 0 {
			text = text[:at] + "(the index)\n" // which is compared elsewhere
		}
		if text != "" && !failed && !c.left[id] {
			fmt.Fprintf(&out, "stream %d:\n%.900s", id, text)
		}
	}
	return out.String() + got.end
}

// heard reads frames until nothing comes any more or the connection ends, and says what came on each stream.
func heard(conn *tls.Conn, idle time.Duration) (streams map[uint32]*strings.Builder, end string) {
	in := http2.NewFramer(io.Discard, conn)
	in.SetMaxReadFrameSize(1<<24 - 1)
	in.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	streams = map[uint32]*strings.Builder{}
	for {
		conn.SetReadDeadline(time.Now().Add(idle))
		frame, err := in.ReadFrame()
		var timeout net.Error
		switch {
		case errors.As(err, &timeout) && timeout.Timeout():
			return streams, "(stays open)\n"
		case err != nil:
			return streams, "(ends)\n"
		}
		b := streams[frame.Header().StreamID]
		if b == nil {
			b = new(strings.Builder)
			streams[frame.Header().StreamID] = b
		}
		switch frame := frame.(type) {
		case *http2.MetaHeadersFrame:
			hear(b, frame)
		case *http2.DataFrame:
			b.Write(frame.Data())
			if frame.StreamEnded() {
				b.WriteString("\n(end)\n")
			}
		case *http2.RSTStreamFrame:
			if frame.ErrCode != http2.ErrCodeNo { // which says that no more of a request is read
				fmt.Fprintf(b, "reset: %v\n", frame.ErrCode)
			}
		case *http2.GoAwayFrame:
			fmt.Fprintf(b, "farewell: %v after %d %q\n", frame.ErrCode, frame.LastStreamID, frame.DebugData())
		case *http2.PingFrame:
			fmt.Fprintf(b, "ping: %v\n", frame.Data)
		}
	}
}

// hear says what header fields say.
func hear(b *strings.Builder, frame *http2.MetaHeadersFrame) {
	fmt.Fprintf(b, "status %s\n", frame.PseudoValue("status"))
	for _, f := range frame.RegularFields() {
		name := strings.ToLower(f.Name)
		if !slices.ContainsFunc(headers, func(h string) bool { return strings.EqualFold(h, name) }) {
			continue
		}
		value := f.Value
		if name == "audit-id" {
			value = "…"
		}
		fmt.Fprintf(b, "%s: %s\n", name, value)
	}
	if frame.StreamEnded() {
		b.WriteString("(end)\n")
	}
}
