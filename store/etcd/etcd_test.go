package etcd

import (
	"context"
	"testing"

	"github.com/keelson-io/keelson/store"
	"github.com/keelson-io/keelson/store/storetest"
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

func TestEmbedded(t *testing.T) {
	storetest.Run(t, func(t *testing.T) store.Store { return openTest(t, Config{}) })
}
