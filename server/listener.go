package server

import (
	"errors"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// This file accepts connections.

const (
	// readyConnections is the number of admitted connections that may wait until somebody serves them.
	readyConnections = 256
	// longQueue is the number of connections in the system's queue from which on the server is behind. The
	// queue has room for 4,096 on Linux; it is asked after every queueLook connections.
	longQueue = 64
	queueLook = 8
	// acceptors is the number of goroutines that accept while the server is behind, and helpTime how long
	// they wait for a connection.
	acceptors = 8
	helpTime  = 100 * time.Millisecond
)

// limitListener accepts connections as long as there is room for them, and closes others at once. It never waits for room: a connection that
// does is kept aside.
type limitListener struct {
	net.Listener
	all    *connections
	ready  chan net.Conn // that were admitted; has room, so that accepting does not wait for those who serve
	ended  chan struct{} // closed when the listener is
	once   sync.Once
	helped atomic.Bool // more goroutines accept
}

// limitListener returns a listener that bounds the connections of another one, until that is closed.
func (c *connections) limitListener(inner net.Listener) *limitListener {
	l := &limitListener{Listener: inner, all: c, ready: make(chan net.Conn, readyConnections), ended: make(chan struct{})}
	go l.accept()
	go l.admitWaiting()
	return l
}

// Accept implements net.Listener.
func (l *limitListener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.ready:
		return conn, nil
	case <-l.ended:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (l *limitListener) Close() error {
	l.end()
	return l.Listener.Close()
}

// end closes the connections that nobody will accept any more.
func (l *limitListener) end() {
	l.once.Do(func() { close(l.ended) })
	for {
		select {
		case conn := <-l.ready:
			conn.Close()
		default:
			return
		}
	}
}

// hand gives a connection to Accept.
func (l *limitListener) hand(conn *clientConn) {
	select {
	case l.ready <- conn:
		select {
		case <-l.ended: // perhaps after end has looked
			l.end()
		default:
		}
	case <-l.ended:
		conn.Close()
	}
}

// accept places new connections until the listener is closed.
func (l *limitListener) accept() {
	behind := false
	for n := 1; ; n++ {
		accepted, err := l.Listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			l.end()
			return
		}
		if err != nil { // too many open files, or a client that has gone
			l.all.log.Warn("a connection cannot be accepted", "error", err)
			time.Sleep(5 * time.Millisecond)
			continue
		}
		if n%queueLook == 0 {
			if behind = queued(l.Listener) >= longQueue; behind {
				l.help()
			}
		}
		l.place(accepted, behind)
	}
}

// place places a new connection.
func (l *limitListener) place(accepted net.Conn, behind bool) {
	conn := &clientConn{Conn: accepted, all: l.all, source: sourceOf(accepted)}
	conn.counting.Store(true)
	got, ready := l.all.place(conn, behind)
	if ready != nil {
		l.hand(ready)
	}
	switch got {
	case admitted:
		l.hand(conn)
	case waits:
		l.all.wake()
	case refused:
		accepted.Close()
	case shed:
		conn.abort()
	}
}

// help accepts with more goroutines until the system's queue is short. Goroutines take turns, so that one that accepts has a small part of
// the processors while clients keep many others busy.
func (l *limitListener) help() {
	t, ok := l.Listener.(*net.TCPListener)
	if !ok || !l.helped.CompareAndSwap(false, true) {
		return
	}
	var all sync.WaitGroup
	for range acceptors - 1 {
		all.Go(func() {
			if err := l.acceptFrom(t); err != nil {
				// accept meets the same, and says it once for all helpers.
				l.all.log.Debug("a helper cannot accept connections", "error", err)
			}
		})
	}
	go func() {
		all.Wait()
		l.helped.Store(false)
	}()
}

// acceptFrom places new connections until the system's queue is short. It uses a duplicate of the listener, because one listener accepts for
// one goroutine at a time.
func (l *limitListener) acceptFrom(t *net.TCPListener) error {
	file, err := t.File()
	if err != nil {
		return err
	}
	same, err := net.FileListener(file)
	if err := errors.Join(err, file.Close()); err != nil {
		return err
	}
	defer same.Close()
	for n := 0; ; n++ {
		if n%queueLook == 0 {
			select {
			case <-l.ended:
				return nil
			default:
			}
			if queued(same) < longQueue {
				return nil
			}
			if err := same.(*net.TCPListener).SetDeadline(time.Now().Add(helpTime)); err != nil {
				return err
			}
		}
		accepted, err := same.Accept()
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return nil
		}
		if err != nil {
			return err
		}
		l.place(accepted, true)
	}
}

// admitWaiting admits connections that wait when there is room, until the listener is closed.
func (l *limitListener) admitWaiting() {
	for {
		conn, wait := l.all.next()
		if conn != nil {
			l.hand(conn)
			continue
		}
		if wait == 0 {
			wait = time.Hour // nothing waits
		}
		t := time.NewTimer(wait)
		select {
		case <-l.all.changed:
		case <-t.C:
		case <-l.ended:
			l.all.forsakeAll()
			return
		}
		t.Stop()
	}
}
