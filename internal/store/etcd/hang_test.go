package etcd

// This file holds tests of what is told too early or not at all: changes that cannot be read yet, members that hang.

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"

	"github.com/keelson-io/keelson/internal/store"
)

// TestReadWhatIsTold reads at a revision that watchers have seen but reads have not reached.
func TestReadWhatIsTold(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	s := openTest(t, Config{Fast: true})
	rev, err := s.Create(ctx, "g/p/a", nil)
	if err != nil {
		t.Fatal(err)
	}
	s.(*client).server.(*embedded).sawRevision(rev + 1) // as the watch does, which etcd tells first
	wrote := make(chan error)
	go func() {
		time.Sleep(10 * time.Millisecond)
		_, err := s.Create(ctx, "g/p/b", nil)
		wrote <- err
	}()
	p, err := s.List(ctx, "g/", store.ListOptions{Rev: rev + 1})
	if err != nil || len(p.Items) != 2 {
		t.Errorf("list: got %v, %v, want two items", p, err)
	}
	if err := <-wrote; err != nil {
		t.Error(err)
	}
	if _, err := s.List(ctx, "g/", store.ListOptions{Rev: rev + 2}); !errors.Is(err, store.ErrFuture) {
		t.Errorf("list at a future revision: got %v", err)
	}
}

// TestNewestIsWhatIsTold reads the newest state when watchers have seen a change that reads have
// not reached.
func TestNewestIsWhatIsTold(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	s := openTest(t, Config{Fast: true})
	rev, err := s.Create(ctx, "g/p/a", nil)
	if err != nil {
		t.Fatal(err)
	}
	for i, read := range []func(key string) error{
		func(key string) error { _, err := s.Get(ctx, key); return err },
		func(key string) error {
			p, err := s.List(ctx, key, store.ListOptions{})
			if err == nil && len(p.Items) == 0 {
				err = store.ErrNotFound
			}
			return err
		},
	} {
		key := fmt.Sprint("g/p/new", i)
		rev++
		s.(*client).server.(*embedded).sawRevision(rev) // as the watch does, which etcd tells first
		wrote := make(chan error)
		go func() {
			time.Sleep(10 * time.Millisecond)
			_, err := s.Create(ctx, key, nil)
			wrote <- err
		}()
		if err := read(key); err != nil {
			t.Errorf("%s: %v", key, err)
		}
		if err := <-wrote; err != nil {
			t.Error(err)
		}
	}
}

// proxy passes connections on to a server, and nothing at all while it is frozen.
type proxy struct {
	net.Listener
	to     string
	frozen atomic.Bool

	mu    sync.Mutex
	conns []net.Conn // to and from the server
}

func startProxy(t *testing.T, to string) *proxy {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{Listener: l, to: strings.TrimPrefix(to, "http://")}
	t.Cleanup(func() { l.Close(); p.cut() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s, err := net.Dial("tcp", p.to)
			if err != nil {
				c.Close()
				return
			}
			p.mu.Lock()
			p.conns = append(p.conns, c, s)
			p.mu.Unlock()
			go p.pass(c, s)
			go p.pass(s, c)
		}
	}()
	return p
}

// cut closes the connections.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.conns {
		c.Close()
	}
	p.conns = nil
}

func (p *proxy) pass(to io.WriteCloser, from io.Reader) {
	defer to.Close()
	b := make([]byte, 1<<15)
	for {
		n, err := from.Read(b)
		for p.frozen.Load() {
			time.Sleep(5 * time.Millisecond)
		}
		if err != nil {
			return
		}
		if _, err := to.Write(b[:n]); err != nil {
			return
		}
	}
}

// TestHungMember freezes one member after the other without closing connections. The watch
// continues on another member.
func TestHungMember(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	e := openTest(t, Config{Fast: true})
	url := listen(t, e, nil)
	members := []*proxy{startProxy(t, url), startProxy(t, url)}
	s := openTest(t, Config{
		Endpoints: []string{"http://" + members[0].Addr().String(), "http://" + members[1].Addr().String()},
		Logger:    slog.New(slog.DiscardHandler),
	})
	s.(*client).server.(*cluster).silence = 200 * time.Millisecond
	w, err := s.Watch(ctx, "", 0)
	if err != nil {
		t.Fatal(err)
	}
	for round := range 4 {
		hung := members[round%2]
		hung.frozen.Store(true)
		rev, err := e.Create(ctx, fmt.Sprintf("g/p/%d", round), nil)
		if err != nil {
			t.Fatal(err)
		}
		for got := int64(0); got < rev; {
			b, err := w.Next(ctx)
			if err != nil {
				t.Fatalf("round %d: %v", round, err)
			}
			got = b.Rev
		}
		hung.frozen.Store(false)
	}
	if w.(*watcher).source.(*remoteSource).turn.Load() == 0 {
		t.Error("the watch was never opened again")
	}
}

// TestReadersDoNotWaitForAHungWatch freezes the member of a watch while a reader waits for a newer
// revision.
func TestReadersDoNotWaitForAHungWatch(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	e := openTest(t, Config{Fast: true})
	url := listen(t, e, nil)
	members := []*proxy{startProxy(t, url), startProxy(t, url)}
	s := openTest(t, Config{
		Endpoints: []string{"http://" + members[0].Addr().String(), "http://" + members[1].Addr().String()},
		Logger:    slog.New(slog.DiscardHandler),
	})
	s.(*client).server.(*cluster).patience = 20 * time.Millisecond // its own silence is not over before the connection's
	w, err := s.Watch(ctx, "", 0)
	if err != nil {
		t.Fatal(err)
	}
	batches := make(chan int64)
	go func() {
		for {
			b, err := w.Next(ctx)
			if err != nil {
				close(batches)
				return
			}
			select {
			case batches <- b.Rev:
			case <-ctx.Done():
			}
		}
	}()
	turn := &w.(*watcher).source.(*remoteSource).turn
	for round := range 4 {
		members[round%2].frozen.Store(true)
		rev, err := e.Create(ctx, fmt.Sprintf("g/p/%d", round), nil)
		if err != nil {
			t.Fatal(err)
		}
		for got := int64(0); got < rev; {
			_ = s.RequestProgress(ctx) // as somebody who waits does
			select {
			case got = <-batches:
			case <-time.After(time.Millisecond):
			case <-ctx.Done():
				t.Fatalf("round %d: revision %d never came", round, rev)
			}
		}
		members[round%2].frozen.Store(false)
	}
	if turn.Load() == 0 {
		t.Error("the watch was never opened again")
	}
}

// hungMembers is a cluster in which the first member that is asked hangs, or all do.
type hungMembers struct {
	etcdserverpb.KVClient
	all   bool
	asked atomic.Int64
}

func (m *hungMembers) Range(ctx context.Context, _ *etcdserverpb.RangeRequest, _ ...grpc.CallOption) (*etcdserverpb.RangeResponse, error) {
	if m.asked.Add(1) == 1 || m.all {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return &etcdserverpb.RangeResponse{Header: &etcdserverpb.ResponseHeader{Revision: 7}}, nil
}

// TestRevisionDoesNotWaitForAHungMember holds that another member is asked when one does not
// answer, and that all waiting calls fail if none does.
func TestRevisionDoesNotWaitForAHungMember(t *testing.T) {
	c := &cluster{kv: &hungMembers{}, life: context.Background(), patience: time.Millisecond, answerTime: time.Hour}
	if rev, err := c.revision(context.Background()); rev != 7 || err != nil {
		t.Errorf("one hangs: got %d, %v", rev, err)
	}
	hung := &hungMembers{all: true}
	c = &cluster{kv: hung, life: context.Background(), patience: time.Hour, answerTime: time.Millisecond}
	first, second := &flight{done: make(chan struct{})}, &flight{done: make(chan struct{})}
	c.running, c.next = first, second
	c.fly(first)
	for _, f := range []*flight{first, second} {
		<-f.done
		if !errors.Is(f.err, context.DeadlineExceeded) {
			t.Errorf("all hang: got %v", f.err)
		}
	}
	if n := hung.asked.Load(); n != 1 || c.running != nil || c.next != nil {
		t.Errorf("all hang: asked %d times, want once for all who wait; running %v, next %v", n, c.running, c.next)
	}
}
