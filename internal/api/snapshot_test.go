package api

import (
	"context"
	"errors"
	"io"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestSnapshot holds that a snapshot is whole or recognizably not.
func TestSnapshot(t *testing.T) {
	s := newTestServer(t)
	s.must(404, "GET", snapshotPath, "")
	s.h.Snapshot = func(_ context.Context, w io.Writer) error {
		_, err := io.WriteString(w, "everything")
		return err
	}
	get := func(method, path string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		s.h.ServeHTTP(w, httptest.NewRequest(method, path, nil))
		return w
	}
	if w := get("GET", snapshotPath); w.Code != 200 || w.Body.String() != "everything" || w.Header().Get("Content-Type") != "application/octet-stream" {
		t.Errorf("got %d %q %v", w.Code, w.Body, w.Header())
	}
	if w := get("POST", snapshotPath); w.Code != 405 {
		t.Errorf("POST: got %d", w.Code)
	}
	if w := get("GET", snapshotPath+"/x"); w.Code != 404 {
		t.Errorf("below it: got %d", w.Code)
	}
	s.h.Snapshot = func(context.Context, io.Writer) error { return errors.New("disk on fire") }
	if w := get("GET", snapshotPath); w.Code != 500 || !strings.Contains(w.Body.String(), "taking a snapshot: disk on fire") {
		t.Errorf("got %d %q", w.Code, w.Body)
	}
	s.h.Snapshot = func(_ context.Context, w io.Writer) error {
		_, err := io.WriteString(w, "every")
		return errors.Join(err, errors.New("disk on fire"))
	}
	defer func() {
		if recover() == nil {
			t.Error("an answer that was cut off looks whole")
		}
	}()
	get("GET", snapshotPath)
}
