package etcd

// This file runs the store suite on both kinds of server, and tests what only etcd has.

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/client/pkg/v3/transport"

	"go.etcd.io/etcd/server/v3/etcdserver/api/v3rpc"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/keelson-io/keelson/internal/store"
	"github.com/keelson-io/keelson/internal/store/storetest"
)

func openTest(t testing.TB, c Config) store.Store {
	t.Helper()
	if c.DataDir == "" && c.Endpoints == nil {
		c.DataDir = t.TempDir()
	}
	s, err := Open(context.Background(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// listen serves an embedded server's gRPC interface, as a cluster of one does, and returns its address.
func listen(t *testing.T, s store.Store, secure *transport.TLSInfo) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	e := s.(*client).server.(*embedded)
	g := v3rpc.Server(e.EtcdServer, nil, nil)
	scheme := "http"
	if secure != nil {
		c, err := secure.ServerConfig()
		if err != nil {
			t.Fatal(err)
		}
		g, scheme = v3rpc.Server(e.EtcdServer, c, nil), "https"
	}
	go g.Serve(l)
	t.Cleanup(g.Stop)
	return (&url.URL{Scheme: scheme, Host: l.Addr().String()}).String()
}

func TestEmbedded(t *testing.T) {
	storetest.Run(t, func(t *testing.T) store.Store { return openTest(t, Config{}) })
}

func TestCluster(t *testing.T) {
	storetest.Run(t, func(t *testing.T) store.Store {
		return openTest(t, Config{Endpoints: []string{listen(t, openTest(t, Config{Fast: true}), nil)}})
	})
}

func TestTLS(t *testing.T) {
	dir := t.TempDir()
	info, err := transport.SelfCert(zap.NewNop(), dir, []string{"127.0.0.1:0"}, 1, x509.ExtKeyUsageClientAuth)
	if err != nil {
		t.Fatal(err)
	}
	info.ClientCertAuth, info.TrustedCAFile = true, info.CertFile
	url := listen(t, openTest(t, Config{Fast: true}), &info)
	c := Config{Endpoints: []string{url}, CAFile: info.CertFile, CertFile: info.CertFile, KeyFile: info.KeyFile}
	s := openTest(t, c)
	if _, err := s.Create(context.Background(), "g/p/a", nil); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 500*time.Millisecond)
	defer cancel()
	for name, row := range map[string]struct {
		bad  Config
		want string // in the error
	}{
		"no certificate":    {Config{Endpoints: c.Endpoints, CAFile: c.CAFile}, "no answer from " + url},
		"no key":            {Config{Endpoints: c.Endpoints, CertFile: c.CertFile}, "want both or none"},
		"no authority":      {Config{Endpoints: c.Endpoints, CAFile: filepath.Join(dir, "none"), CertFile: c.CertFile, KeyFile: c.KeyFile}, "no such file"},
		"authority is none": {Config{Endpoints: c.Endpoints, CAFile: c.KeyFile}, c.KeyFile + ": no certificate in it"},
		"plain":             {Config{Endpoints: []string{strings.Replace(url, "https", "http", 1)}}, "no answer from http://"},
		"plain with CA":     {Config{Endpoints: []string{strings.Replace(url, "https", "http", 1)}, CAFile: c.CAFile}, "is without TLS"},
		"unknown scheme":    {Config{Endpoints: []string{"ftp://127.0.0.1:1"}}, `servers of etcd: got "ftp://127.0.0.1:1", want a URL`},
		"no port":           {Config{Endpoints: []string{"127.0.0.1"}}, `servers of etcd: got "127.0.0.1", want a URL`},
	} {
		row.bad.Logger = slog.New(slog.DiscardHandler)
		if _, err := Open(ctx, row.bad); err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: got error %v, want one with %q", name, err, row.want)
		}
	}
	want := "no answer from http://127.0.0.1:1: dial tcp 127.0.0.1:1: connect: connection refused"
	if _, err := Open(context.Background(), Config{Endpoints: []string{"http://127.0.0.1:1"}, Logger: slog.New(slog.DiscardHandler)}); err == nil || err.Error() != want {
		t.Errorf("nobody there: got error %v, want %s", err, want)
	}
}

func TestConfig(t *testing.T) {
	for _, c := range []Config{{}, {DataDir: "x", Endpoints: []string{"http://127.0.0.1:1"}}} {
		if _, err := Open(context.Background(), c); err == nil {
			t.Errorf("opened %+v", c)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	quiet := slog.New(slog.DiscardHandler)
	_, err := Open(ctx, Config{Endpoints: []string{"http://127.0.0.1:1"}, Logger: quiet})
	if err == nil || !strings.Contains(err.Error(), "http://127.0.0.1:1") {
		t.Errorf("unreachable cluster: got %v", err)
	}
}

// TestLayout checks the keys as other programs on the same etcd see them.
func TestLayout(t *testing.T) {
	ctx := context.Background()
	for prefix, want := range map[string]string{
		"": "/registry/g/p/a", "/registry/": "/registry/g/p/a", "x/y": "/x/y/g/p/a", "/": "/g/p/a",
	} {
		s := openTest(t, Config{Prefix: prefix, Fast: true})
		if _, err := s.Create(ctx, "g/p/a", []byte("1")); err != nil {
			t.Fatal(err)
		}
		r, err := s.(*client).Range(ctx, &pb.RangeRequest{Key: []byte(want)})
		if err != nil || len(r.Kvs) != 1 {
			t.Errorf("prefix %q: %s is not there", prefix, want)
		}
		p, err := s.List(ctx, "", store.ListOptions{})
		if err != nil || len(p.Items) != 1 || p.Items[0].Key != "g/p/a" {
			t.Errorf("prefix %q: got %v, %v", prefix, p.Items, err)
		}
		s.Close()
	}
}

func TestReopen(t *testing.T) {
	ctx := context.Background()
	dir := t.TempDir()
	s := openTest(t, Config{DataDir: dir})
	var revs []int64
	for i := range 100 {
		rev, err := s.Create(ctx, fmt.Sprintf("g/p/%d", i), []byte("1"))
		if err != nil {
			t.Fatal(err)
		}
		revs = append(revs, rev)
	}
	_, err := Open(ctx, Config{DataDir: dir})
	if err == nil || !strings.Contains(err.Error(), "in use by another process") {
		t.Errorf("opened twice: got %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = openTest(t, Config{DataDir: dir})
	if rev, err := s.Revision(ctx); err != nil || rev != revs[99] {
		t.Errorf("revision after reopening: got %d, %v, want %d", rev, err, revs[99])
	}
	for i, rev := range revs {
		if it, err := s.Get(ctx, fmt.Sprintf("g/p/%d", i)); err != nil || it.Rev != rev {
			t.Fatalf("item %d: got %+v, %v", i, it, err)
		}
	}
	w, err := s.Watch(ctx, "", revs[97])
	if err != nil {
		t.Fatal(err)
	}
	if b, err := w.Next(ctx); err != nil || len(b.Events) != 2 {
		t.Errorf("watch of what happened before: got %v, %v", b, err)
	}
}

// TestNothingListens compares the sockets of the process before and after the start.
func TestNothingListens(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("reads /proc/self/fd")
	}
	sockets := func() (n int) {
		fds, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Skip(err)
		}
		for _, fd := range fds {
			if to, _ := os.Readlink("/proc/self/fd/" + fd.Name()); strings.HasPrefix(to, "socket:") {
				n++
			}
		}
		return n
	}
	before := sockets()
	s := openTest(t, Config{})
	if _, err := s.Create(context.Background(), "a", nil); err != nil {
		t.Fatal(err)
	}
	if after := sockets(); after > before {
		t.Errorf("open sockets: got %d, want %d as before", after, before)
	}
}

func TestCompactLoop(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for name, open := range map[string]func() store.Store{
		"embedded": func() store.Store { return openTest(t, Config{CompactInterval: 30 * time.Millisecond, Fast: true}) },
		"cluster": func() store.Store {
			e := openTest(t, Config{CompactInterval: -1, Fast: true})
			c := Config{Endpoints: []string{listen(t, e, nil)}, CompactInterval: 30 * time.Millisecond}
			openTest(t, c) // another one takes part
			return openTest(t, c)
		},
	} {
		s := open()
		first, err := s.Create(ctx, "g/p/a", nil)
		for rev := first; err == nil; time.Sleep(10 * time.Millisecond) {
			if rev, err = s.Update(ctx, "g/p/a", nil, rev); err != nil {
				break
			}
			_, err = s.List(ctx, "g/p/", store.ListOptions{Rev: first})
		}
		if !errors.Is(err, store.ErrCompacted) {
			t.Errorf("%s: got %v, want history to be compacted", name, err)
		}
		if _, err := s.Get(ctx, "g/p/a"); err != nil {
			t.Errorf("%s: after compaction: %v", name, err)
		}
	}
}

// TestSharedRevision holds that concurrent calls share one or two reads of the revision, and none
// gets an old answer.
func TestSharedRevision(t *testing.T) {
	ctx := context.Background()
	e := openTest(t, Config{Fast: true})
	s := openTest(t, Config{Endpoints: []string{listen(t, e, nil)}})
	cl := s.(*client).server.(*cluster)
	count := &countingKV{KVClient: cl.kv}
	cl.kv = count
	var wg sync.WaitGroup
	for i := range 64 {
		wg.Go(func() {
			for n := range 20 {
				rev, err := e.Create(ctx, fmt.Sprintf("g/p/%d-%d", i, n), nil)
				if err != nil {
					t.Error(err)
				}
				if got, err := s.Revision(ctx); err != nil || got < rev {
					t.Errorf("got revision %d, %v, want at least %d", got, err, rev)
				}
			}
		})
	}
	wg.Wait()
	if n := count.n.Load(); n > 64*20/2 {
		t.Errorf("round trips for %d calls: got %d", 64*20, n)
	}
}

type countingKV struct {
	pb.KVClient
	n atomic.Int64
}

func (c *countingKV) Range(ctx context.Context, r *pb.RangeRequest, o ...grpc.CallOption) (*pb.RangeResponse, error) {
	c.n.Add(1)
	return c.KVClient.Range(ctx, r, o...)
}

// TestServerRestarts stops the cluster for a while. The watch continues where it was.
func TestServerRestarts(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	e := openTest(t, Config{Fast: true})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := v3rpc.Server(e.(*client).server.(*embedded).EtcdServer, nil, nil)
	go g.Serve(l)
	quiet := slog.New(slog.DiscardHandler)
	s := openTest(t, Config{Endpoints: []string{"http://" + l.Addr().String()}, Logger: quiet})
	rev, err := s.Create(ctx, "g/p/a", nil)
	if err != nil {
		t.Fatal(err)
	}
	w, err := s.Watch(ctx, "", rev-1)
	if err != nil {
		t.Fatal(err)
	}
	if b, err := w.Next(ctx); err != nil || len(b.Events) != 1 {
		t.Fatalf("before: got %v, %v", b, err)
	}
	g.Stop()
	rev, err = e.Update(ctx, "g/p/a", nil, rev)
	if err != nil {
		t.Fatal(err)
	}
	if l, err = net.Listen("tcp", l.Addr().String()); err != nil {
		t.Skip(err)
	}
	g = v3rpc.Server(e.(*client).server.(*embedded).EtcdServer, nil, nil)
	go g.Serve(l)
	defer g.Stop()
	for got := int64(0); got < rev; {
		b, err := w.Next(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for _, ev := range b.Events {
			got = ev.Rev
		}
	}
	if _, err := s.Get(ctx, "g/p/a"); err != nil {
		t.Error(err)
	}
}
