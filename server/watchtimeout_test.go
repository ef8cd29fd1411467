package server

import (
	"io"
	"testing"
	"time"

	"github.com/keelson-io/keelson/internal/store/mem"
)

// TestMinRequestTimeout holds that a watch that names no duration ends after the configured one,
// and that one which names a longer duration goes on.
func TestMinRequestTimeout(t *testing.T) {
	const least = 50 * time.Millisecond
	r := start(t, Config{Store: mem.New(mem.Options{}), MinRequestTimeout: least})
	watch := func(query string) (io.ReadCloser, time.Time) {
		t.Helper()
		began := time.Now()
		resp, err := r.client.Get("https://" + r.Addr() + "/api/v1/namespaces?watch=true" + query)
		if err != nil {
			t.Fatal(err)
		}
		return resp.Body, began
	}
	longer, _ := watch("&timeoutSeconds=3600")
	defer longer.Close()
	ended := make(chan struct{})
	go func() {
		io.Copy(io.Discard, longer)
		close(ended)
	}()
	body, began := watch("")
	defer body.Close()
	if _, err := io.Copy(io.Discard, body); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took < least {
		t.Errorf("the watch ended after %v, want at least %v", took, least)
	}
	select {
	case <-ended:
		t.Error("the watch that named a duration ended, too")
	default:
	}
}
