package etcd

import (
	"context"
	"log/slog"
	"path/filepath"
	"testing"
)

// This file looks at how the embedded server starts.

// TestStartKeepsTheLog holds that the log cannot be cut before the server leads: a first start
// makes a snapshot, and all later entries stay in memory until the server is ready.
func TestStartKeepsTheLog(t *testing.T) {
	dir := t.TempDir()
	for range 2 {
		e, err := startEmbedded(context.Background(), Config{DataDir: dir, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		if files, err := filepath.Glob(filepath.Join(dir, memberDir, snapDir, "*.snap")); len(files) == 0 || err != nil {
			t.Errorf("no snapshot after a start: %v", err)
		}
		if got := e.Cfg.SnapshotCatchUpEntries; got != 1 {
			t.Errorf("entries kept while the server runs: got %d, want 1", got)
		}
		if err := e.close(); err != nil {
			t.Fatal(err)
		}
	}
	if got := serverConfig(Config{}, nil).SnapshotCatchUpEntries; got < 1<<32 {
		t.Errorf("entries kept while the server starts: got %d, want all", got)
	}
}
