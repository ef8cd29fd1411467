// This file is the client that drives both servers. It writes prepared requests on its own connections and reads the
// answers with little work of its own, because it shares the processors with the server that it measures.

package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// conn is one connection, with one request on the way at a time.
type conn struct {
	net.Conn
	host string
	r    *bufio.Reader
	w    bytes.Buffer
}

func dial(t *target) (*conn, error) {
	c, err := tls.Dial("tcp", t.addr, t.tls)
	if err != nil {
		return nil, err
	}
	return &conn{Conn: c, host: t.addr, r: bufio.NewReaderSize(c, 1<<16)}, nil
}

// request is one call; Body nil sends none.
type request struct {
	Method, Path, Type string
	Body               []byte
}

// send writes the request and reads the head of the answer.
func (c *conn) send(q request) (*http.Response, error) {
	c.w.Reset()
	fmt.Fprintf(&c.w, "%s %s HTTP/1.1\r\nHost: %s\r\nAccept: application/json\r\n", q.Method, q.Path, c.host)
	if q.Body != nil {
		fmt.Fprintf(&c.w, "Content-Type: %s\r\nContent-Length: %d\r\n", q.Type, len(q.Body))
	}
	c.w.WriteString("\r\n")
	c.w.Write(q.Body)
	if _, err := c.Write(c.w.Bytes()); err != nil {
		return nil, err
	}
	return http.ReadResponse(c.r, nil)
}

// do sends the request, reads the whole answer and wants a code of the 200s. The answer's length is returned.
func (c *conn) do(q request) (int64, error) {
	resp, err := c.send(q)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		b, err := io.ReadAll(resp.Body)
		return 0, errors.Join(fmt.Errorf("%s %s: got %s: %.400s", q.Method, q.Path, resp.Status, b), err)
	}
	return io.Copy(io.Discard, resp.Body)
}

// read is do that keeps the answer.
func (c *conn) read(q request) ([]byte, error) {
	resp, err := c.send(q)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode/100 != 2 {
		err = fmt.Errorf("%s %s: got %s: %.400s", q.Method, q.Path, resp.Status, b)
	}
	return b, err
}

// pool is the client's set of connections to one target.
type pool struct {
	target *target
	conns  []*conn
}

func newPool(t *target, n int) (*pool, error) {
	p := &pool{target: t}
	for range n {
		c, err := dial(t)
		if err != nil {
			return nil, err
		}
		p.conns = append(p.conns, c)
	}
	return p, nil
}

func (p *pool) close() {
	for _, c := range p.conns {
		c.Close()
	}
}

// each sends n requests over all connections and returns how many were done per second. The first error ends it.
func (p *pool) each(ctx context.Context, n int, q func(i int) request) (float64, error) {
	return p.send(ctx, n, 0, q)
}

// lasting sends n requests and goes on until a second is over: a moment in which the disk or another process is in the way counts
// for little then, on the fast side as on the slow one. q must be able to make more than n.
func (p *pool) lasting(ctx context.Context, n int, q func(i int) request) (float64, error) {
	return p.send(ctx, n, time.Second, q)
}

func (p *pool) send(ctx context.Context, n int, least time.Duration, q func(i int) request) (float64, error) {
	var next, done atomic.Int64
	var wg sync.WaitGroup
	errs := make([]error, len(p.conns))
	going, stop := context.WithCancel(ctx)
	defer stop()
	began := time.Now()
	for k, c := range p.conns {
		wg.Go(func() {
			for going.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= n && time.Since(began) >= least {
					return
				}
				if _, err := c.do(q(i)); err != nil {
					errs[k] = err
					stop()
					return
				}
				done.Add(1)
			}
		})
	}
	wg.Wait()
	took := time.Since(began)
	return float64(done.Load()) / took.Seconds(), errors.Join(append(errs, ctx.Err())...)
}
