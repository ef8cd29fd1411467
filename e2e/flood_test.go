package e2e

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/keelson-io/keelson/internal/testkit"
)

// TestConnectionFloods opens connections from one address as fast as it can, on which nothing arrives but the begin of a handshake. Health checks
// and users of another address go on to be served, with new connections for each request, and so does the address for health checks alone.
func TestConnectionFloods(t *testing.T) {
	t.Parallel()
	health := net.JoinHostPort("127.0.0.1", strconv.Itoa(freePort(t)))
	s := besiege(t, 0, "--health-bind-address", health)
	from := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 9)}, Timeout: 5 * time.Second}
	if conn, err := from.Dial("tcp", s.addr()); err != nil {
		t.Skipf("this system has one address for itself: %v", err)
	} else {
		conn.Close()
	}
	ctx, stop := context.WithCancel(t.Context())
	var opened atomic.Int64
	var flood sync.WaitGroup
	defer flood.Wait()
	defer stop()
	for range 4 {
		flood.Go(func() {
			var held [1000]net.Conn // the oldest is closed for the next one
			for i := 0; ctx.Err() == nil; i++ {
				conn, err := from.DialContext(ctx, "tcp", s.addr())
				if err != nil {
					continue
				}
				opened.Add(1)
				conn.Write([]byte{0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc})
				if old := held[i%len(held)]; old != nil {
					old.Close()
				}
				held[i%len(held)] = conn
			}
			for _, conn := range held {
				if conn != nil {
					conn.Close()
				}
			}
		})
	}
	testkit.Eventually(t, "more connections than a server keeps", func() bool { return opened.Load() > 3000 })
	// The flood from one address made others wait for four seconds once, and for longer the longer it was.
	client := &http.Client{Timeout: 3 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}}
	for range 15 {
		for path, token := range map[string]string{"https://" + s.addr() + "/livez": "", "https://" + s.addr() + "/api": janeToken, "http://" + health + "/livez": "", "http://" + health + "/readyz": ""} {
			req, err := http.NewRequest("GET", path, nil)
			if err != nil {
				t.Fatal(err)
			}
			if token != "" {
				req.Header.Set("Authorization", "Bearer "+token)
			}
			resp, err := client.Do(req)
			if err != nil {
				t.Fatalf("%s: %v", path, err)
			}
			if resp.Body.Close(); resp.StatusCode != 200 {
				t.Errorf("%s: got %d", path, resp.StatusCode)
			}
		}
	}
	for path, want := range map[string]int{"/healthz": 200, "/metrics": 404, "/api": 404, "/livez/ping": 404} {
		resp, err := client.Get("http://" + health + path)
		if err != nil {
			t.Fatal(err)
		}
		if resp.Body.Close(); resp.StatusCode != want {
			t.Errorf("%s: got %d, want %d", path, resp.StatusCode, want)
		}
	}
}
