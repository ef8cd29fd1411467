package api

import (
	"context"
	"fmt"
	"io"
	"net/http"

	"github.com/keelson-io/keelson/authz"
	"github.com/keelson-io/keelson/internal/status"
)

// This file answers /snapshot: everything that is stored, as one file. Kubernetes needs no such path,
// because its etcd answers requests for snapshots. The embedded etcd has no port.
//
// A snapshot holds every Secret. So it is not authorized as the path that it is: roles that allow all paths, for monitoring or
// debugging, must not allow it.

// Snapshot writes everything that is stored, as of one moment.
type Snapshot func(ctx context.Context, w io.Writer) error

// snapshotPath is the path of snapshots. Its requests are long-running: the client decides how fast
// it reads.
const snapshotPath = "/snapshot"

// snapshotAttributes returns what a request for a snapshot is authorized by: the verb create on the resource snapshots of the API
// group keelson.io.
func (q *request) snapshotAttributes() *authz.Attributes {
	a := &q.attrs
	a.Verb, a.Path = "create", ""
	a.ResourceRequest, a.Group, a.Version, a.Resource = true, "keelson.io", "v1", "snapshots"
	return a
}

// snapshot sends a snapshot of the store.
func (q *request) snapshot() error {
	if q.r.Method != http.MethodGet {
		return status.UnknownMethod()
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
