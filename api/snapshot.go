package api

import (
	"context"
	"fmt"
	"io"
	"net/http"

	"github.com/keelson-io/keelson/status"
)

// This file answers /snapshot: everything that is stored, as one file. Kubernetes has no such path, because its etcd can be asked; the
// embedded one listens to nobody.

// Snapshot writes everything that is stored, as of one moment.
type Snapshot func(ctx context.Context, w io.Writer) error

// snapshotPath is long-running: it takes as long as the client takes to read.
const snapshotPath = "/snapshot"

func (q *request) snapshot() error {
	if q.r.Method != http.MethodGet {
		return methodNotAllowed()
	}
	q.w.Header().Set("Content-Type", "application/octet-stream")
	err := q.h.Snapshot(q.ctx, &recorder{ResponseWriter: q.w, q: q})
	if err == nil {
		return nil
	}
	if q.code == 0 {
		return status.Internal(fmt.Errorf("taking a snapshot: %w", err))
	}
	q.h.logger.Warn("snapshot was cut off", "error", err)
	panic(http.ErrAbortHandler) // or what was sent would look whole
}
