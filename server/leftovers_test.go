package server

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/keelson-io/keelson/internal/store"
	"github.com/keelson-io/keelson/internal/store/etcd"
	"github.com/keelson-io/keelson/internal/store/mem"
)

// This file tests what becomes of addresses and ports that were reserved for a service that was not
// stored, because the server ended between the two writes.

// failingServices is a store in which creates of services fail while fails is set. Their outcome is
// not known to the server, as if it had been killed.
type failingServices struct {
	store.Store
	fails *atomic.Bool
}

func (s failingServices) Create(ctx context.Context, key string, value []byte) (int64, error) {
	if s.fails.Load() && strings.HasPrefix(key, "services/specs/") {
		return 0, store.ErrUnavailable
	}
	return s.Store.Create(ctx, key, value)
}

// failingDatabase is etcd as a failingServices.
type failingDatabase struct {
	etcd.Database
	fails *atomic.Bool
}

func (d failingDatabase) Open(ctx context.Context, at store.Location) (store.Store, error) {
	st, err := d.Database.Open(ctx, at)
	return failingServices{st, d.fails}, err
}

// logBuffer is a log in memory.
type logBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// TestReservationsOfAServerThatEnded holds that addresses and ports that a server reserved for
// services that it did not store are free at the next start.
func TestReservationsOfAServerThatEnded(t *testing.T) {
	fails := new(atomic.Bool)
	fails.Store(true)
	c := Config{DataDir: t.TempDir(), ServiceClusterIPRange: "10.9.8.0/29", ServiceNodePortRange: "31000-31001", EndpointReconciler: "none"}
	c.Database = failingDatabase{fails: fails}
	r := start(t, c)
	const spec = `"type":"NodePort","clusterIP":"10.9.8.2","ports":[{"port":80,"nodePort":31000}],`
	if code, text := r.call(r.client, "POST", servicesPath, serviceText("lost", spec)); code < 500 {
		t.Fatalf("got %d %s, want an unknown outcome", code, text)
	}
	const left = "10.9.8.1 default/kubernetes, 10.9.8.2 default/lost"
	r.until("the addresses are reserved", func() bool { return r.addresses() == left })
	if code, text := r.call(r.client, "POST", servicesPath, serviceText("other", `"clusterIP":"10.9.8.2",`)); code != 422 || !strings.Contains(text, "provided IP is already allocated") {
		t.Errorf("a reserved address: got %d %s", code, text)
	}
	r.end()

	fails.Store(false)
	log := new(logBuffer)
	c.Logger = slog.New(slog.NewTextHandler(log, nil))
	r = start(t, c)
	r.until("the server's own service is there", func() bool {
		code, _ := r.call(r.client, "GET", servicePath, "")
		return code == 200
	})
	got := r.service("POST", servicesPath, serviceText("other", spec))
	if got.Spec.ClusterIP != "10.9.8.2" || got.Spec.Ports[0].NodePort != 31000 {
		t.Errorf("got %+v", got.Spec)
	}
	if got, want := r.addresses(), "10.9.8.1 default/kubernetes, 10.9.8.2 default/other"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if text := log.String(); strings.Contains(text, "allocate") {
		t.Errorf("the log has an error of the allocation:\n%s", text)
	}
}

// TestReservationOfTheSameService holds that a service that was not stored gets the address that was
// reserved for it at once, although other servers use the store.
func TestReservationOfTheSameService(t *testing.T) {
	fails := new(atomic.Bool)
	fails.Store(true)
	r := start(t, Config{Store: failingServices{mem.New(mem.Options{}), fails}, ServiceClusterIPRange: "10.9.8.0/29", EndpointReconciler: "none"})
	const address = `"clusterIP":"10.9.8.2",`
	for range 2 {
		if code, text := r.call(r.client, "POST", servicesPath, serviceText("lost", address)); code < 500 {
			t.Fatalf("got %d %s, want an unknown outcome", code, text)
		}
	}
	fails.Store(false)
	if code, text := r.call(r.client, "POST", servicesPath, serviceText("other", address)); code != 422 || !strings.Contains(text, "provided IP is already allocated") {
		t.Errorf("another service: got %d %s", code, text)
	}
	if got := r.service("POST", servicesPath, serviceText("lost", address)); got.Spec.ClusterIP != "10.9.8.2" {
		t.Errorf("got %+v", got.Spec)
	}
	if code, text := r.call(r.client, "POST", servicesPath, serviceText("lost", address)); code != 422 && code != 409 {
		t.Errorf("once more: got %d %s", code, text)
	}
	r.until("every service has its address", func() bool {
		return r.addresses() == "10.9.8.1 default/kubernetes, 10.9.8.2 default/lost"
	})
}
