package main

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"time"

	"golang.org/x/net/http2"
)

// This file has the moves whose sizes are hostile: pieces of a byte, connections that are reset, names and headers as long as they may
// be, bodies and answers that are compressed.

// tiny sends requests in the smallest pieces, and takes answers in the smallest pieces.
func tiny(ctx context.Context, a *arena, m Move, rng *rand.Rand) {
	crowd(rng, 2*m.Size, func(_ int, rng *rand.Rand) {
		for ctx.Err() == nil {
			if chance(rng, 2) {
				tinyHTTP(ctx, a, m, rng)
			} else {
				tinyHTTP2(ctx, a, m, rng)
			}
			pause(ctx, 50*time.Millisecond)
		}
	})
}

// tinyHTTP sends a request in TLS records, or chunks, of one byte, and reads its answer by the byte.
func tinyHTTP(ctx context.Context, a *arena, m Move, rng *rand.Rand) {
	c, err := dialTLS(ctx, a, "http/1.1")
	if err != nil {
		return
	}
	defer c.Close()
	r, namespace := somewhere(a, m.Actor, rng)
	head := "GET " + reading(a, rng) + " HTTP/1.1\r\nHost: a\r\n" + authorization(m.Actor) + "\r\n"
	if chance(rng, 2) {
		head = "POST " + r.path(namespace, "") + " HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n" + authorization(m.Actor) + "Transfer-Encoding: chunked\r\n\r\n"
		head += strings.Repeat("1\r\n[\r\n", 1+rng.IntN(20_000)) + pick(rng, "0\r\n\r\n", "")
	}
	for i := range len(head) {
		if _, err := io.WriteString(c, head[i:i+1]); err != nil || ctx.Err() != nil {
			return
		}
	}
	one := make([]byte, 1)
	for range rng.IntN(5000) {
		c.SetReadDeadline(time.Now().Add(time.Second))
		if _, err := c.Read(one); err != nil || ctx.Err() != nil {
			return
		}
	}
}

// tinyHTTP2 opens streams whose bodies come in frames of at most a byte, and whose windows grow by a byte.
func tinyHTTP2(ctx context.Context, a *arena, m Move, rng *rand.Rand) {
	s, err := dial2(ctx, a, http2.Setting{ID: http2.SettingInitialWindowSize, Val: uint32(rng.IntN(2))}, http2.Setting{ID: http2.SettingMaxFrameSize, Val: 16384})
	if err != nil {
		return
	}
	defer s.c.Close()
	go s.answerSettings()
	for range 1 + rng.IntN(20) {
		r, namespace := somewhere(a, m.Actor, rng)
		if chance(rng, 2) {
			err = s.open(m.Actor, "POST", r.path(namespace, ""), false, "content-type", "application/json")
		} else {
			err = s.open(m.Actor, "GET", reading(a, rng), true)
		}
		if err != nil {
			return
		}
	}
	for i := range 5000 {
		id := uint32(1 + 2*rng.IntN(int(s.next/2)))
		switch i % 3 {
		case 0:
			err = s.f.WriteData(id, false, []byte("[")[:rng.IntN(2)])
		case 1:
			err = s.f.WriteWindowUpdate(id, 1)
		default:
			err = s.f.WriteWindowUpdate(0, 1)
		}
		if err != nil || ctx.Err() != nil {
			return
		}
	}
}

// reset begins requests, answers and watches, and resets their connections at some moment.
func reset(ctx context.Context, a *arena, m Move, rng *rand.Rand) {
	crowd(rng, m.Size, func(_ int, rng *rand.Rand) {
		for ctx.Err() == nil {
			raw, err := net.DialTimeout("tcp", a.server.address, 5*time.Second)
			if err != nil {
				pause(ctx, 100*time.Millisecond)
				continue
			}
			raw.(*net.TCPConn).SetLinger(0) // Close sends a reset
			resetLater(ctx, a, m, raw, rng)
			raw.Close()
		}
	})
}

func resetLater(ctx context.Context, a *arena, m Move, raw net.Conn, rng *rand.Rand) {
	raw.SetDeadline(time.Now().Add(time.Duration(rng.IntN(400)) * time.Millisecond))
	c := tlsClient(raw, "http/1.1")
	if c.HandshakeContext(ctx) != nil {
		return
	}
	r, namespace := somewhere(a, m.Actor, rng)
	body := strings.Repeat("[", rng.IntN(200_000))
	fmt.Fprintf(c, "%s HTTP/1.1\r\nHost: a\r\n%sContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", pick(rng, "POST "+r.path(namespace, ""), "GET "+reading(a, rng), "DELETE "+r.path("arena", "x")),
		authorization(m.Actor), len(body)+rng.IntN(2)*1000, body)
	io.CopyN(io.Discard, c, rng.Int64N(100_000))
}

// giant sends names, selectors, tokens, headers and paths that are as long as they may be, or a little longer.
func giant(ctx context.Context, a *arena, m Move, rng *rand.Rand) {
	c := client(a, m.Actor, attackersAddress, true)
	defer c.CloseIdleConnections()
	crowd(rng, 1+m.Size/12, func(_ int, rng *rand.Rand) {
		for ctx.Err() == nil {
			n := pick(rng, 253, 254, 4096, 60_000, 500_000, 900_000)
			long := strings.Repeat(pick(rng, "a", "a,", "a/", "=", "%25", "a."), n)[:n]
			r, namespace := somewhere(a, m.Actor, rng)
			path := r.path(namespace, "")
			switch rng.IntN(9) {
			case 0:
				hit(ctx, a, c, m.Actor, pick(rng, "GET", "DELETE", "PATCH"), path+"/"+long, nil)
			case 1:
				hit(ctx, a, c, m.Actor, "GET", path+"?"+pick(rng, "continue", "resourceVersion", "labelSelector", "fieldSelector", "limit", "fieldManager", "pretty", "allowWatchBookmarks")+"="+long, nil)
			case 2:
				hit(ctx, a, c, m.Actor, "GET", path, nil, pick(rng, "Accept", "User-Agent", "If-None-Match", "Audit-Id", "Cookie", "Traceparent", "Accept-Encoding", "Impersonate-Extra-"+long[:min(n, 200)]), long)
			case 3:
				hit(ctx, a, c, m.Actor, "GET", path, nil, "Accept", strings.Repeat("application/json;as=Table;v=v1;g=meta.k8s.io,", min(n, 900_000)/46)+"*/*")
			case 4: // an object with long parts
				large := strings.Repeat("a", 3*n)[:min(3*n, largest)]
				hit(ctx, a, c, m.Actor, "POST", path, fmt.Appendf(nil, `{"apiVersion":%q,"kind":%q,"metadata":{"name":"n%d",%s}}`, r.apiVersion(), r.Kind, rng.IntN(40),
					pick(rng, `"labels":{"a":"`+large+`"}`, `"annotations":{"`+large+`":""}`, `"generateName":"`+large+`"`, `"finalizers":["`+large+`"]`, `"resourceVersion":"`+large+`"`, `"managedFields":[{"manager":"`+large+`"}]`, `"uid":"`+large+`"`)))
			case 5: // numbers that are long
				hit(ctx, a, c, m.Actor, "POST", path, fmt.Appendf(nil, `{"apiVersion":%q,"kind":%q,"metadata":{"name":"n1","generation":%s},"spec":{"replicas":%s}}`, r.apiVersion(), r.Kind, strings.Repeat("9", n), "1e"+strings.Repeat("9", n)))
			case 6: // a path that is deep
				hit(ctx, a, c, m.Actor, "GET", path+strings.Repeat("/a", n/2), nil)
			case 7: // reviews
				hit(ctx, a, c, m.Actor, "POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", fmt.Appendf(nil, `{"apiVersion":"authorization.k8s.io/v1","kind":"SelfSubjectAccessReview","spec":{"resourceAttributes":{"verb":%q,"resource":%q,"labelSelector":{"rawSelector":%q}}}}`, long, long, long))
			default: // a token
				one := client(a, long[:min(n, 900_000)], attackersAddress, false)
				hit(ctx, a, one, m.Actor, "GET", path, nil)
				one.CloseIdleConnections()
			}
		}
	})
}

// compressed sends bodies that say that they are compressed, and reads answers that are, slowly.
func compressed(ctx context.Context, a *arena, m Move, rng *rand.Rand) {
	c := client(a, m.Actor, attackersAddress, true)
	defer c.CloseIdleConnections()
	plain := []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"z"},"data":{"a":"` + strings.Repeat("a", 1_000_000*m.Size) + `"}}`)
	var gz, fl bytes.Buffer
	w := gzip.NewWriter(&gz)
	w.Write(plain)
	w.Close()
	f, _ := flate.NewWriter(&fl, flate.BestSpeed)
	f.Write(plain)
	f.Close()
	crowd(rng, 1+m.Size/12, func(_ int, rng *rand.Rand) {
		for ctx.Err() == nil {
			r, namespace := somewhere(a, m.Actor, rng)
			body, coding := gz.Bytes(), "gzip"
			if chance(rng, 3) {
				body, coding = fl.Bytes(), "deflate"
			}
			hit(ctx, a, c, m.Actor, pick(rng, "POST", "PUT", "PATCH"), r.path(namespace, ""), body[:min(len(body), largest)], "Content-Encoding", pick(rng, coding, coding+", "+coding, "br"))
			s, err := dial2(ctx, a)
			if err != nil {
				pause(ctx, 100*time.Millisecond)
				continue
			}
			for range 1 + m.Size/2 {
				if s.open(m.Actor, "GET", reading(a, rng), true, "accept", accept(rng), "accept-encoding", pick(rng, "gzip", "gzip;q=0.1, *;q=0", strings.Repeat("gzip,", 10_000))) != nil {
					break
				}
			}
			slowly, cancel := context.WithTimeout(ctx, 2*time.Second)
			s.takeSlowly(slowly, rng)
			cancel()
			s.c.Close()
		}
	})
}
