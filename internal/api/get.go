package api

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"strconv"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/keelson-io/keelson/internal/api/encoding"
	"github.com/keelson-io/keelson/internal/api/table"
	"github.com/keelson-io/keelson/internal/buffer"
	"github.com/keelson-io/keelson/internal/cache"
	"github.com/keelson-io/keelson/internal/objects"
	"github.com/keelson-io/keelson/internal/status"
	"github.com/keelson-io/keelson/internal/store"
)

// This file reads single objects: the cache's bytes, proven current.

// get answers with one object.
func (q *request) get() error {
	obj, err := q.find()
	if err != nil {
		return err
	}
	return q.sendStored(http.StatusOK, obj)
}

// refuseExport refuses the parameter export, by which older servers left out what belongs to the
// server: a client that relies on it must not get the whole object.
func refuseExport(query url.Values) error {
	texts, export := query["export"], false
	if len(texts) == 0 {
		return nil
	}
	if err := runtime.Convert_Slice_string_To_bool(&texts, &export, nil); err != nil {
		return status.BadRequest("the export parameter cannot be parsed: %v", err)
	}
	if export {
		return status.BadRequest("the export parameter, deprecated since v1.14, is no longer supported")
	}
	return nil
}

// find returns the request's object, as new as the request wants it.
func (q *request) find() (*cache.Object, error) {
	var err error
	if q.accept, err = q.negotiate(); err != nil {
		return nil, err
	}
	// A name such as a..b is fine; one with a slash would be another object's path.
	ref := q.ref()
	if err := ref.CheckPathName(); err != nil {
		return nil, err
	}
	if err := refuseExport(q.query); err != nil {
		return nil, err
	}
	if err := q.awaitVersion(q.wantedVersion(q.query.Get("resourceVersion"))); err != nil {
		return nil, err
	}
	obj, ok := q.res.Get(ref.Key())
	if !ok {
		return nil, status.NotFound(q.kind.GroupResource(), q.name)
	}
	return obj, nil
}

// wantedVersion returns the resource version that a read asks for. If all reads are fresh, 0 is as none.
func (q *request) wantedVersion(version string) string {
	if version == "0" && q.h.FreshReads {
		return ""
	}
	return version
}

// awaitVersion waits until the cache is as new as a resource version asks for: not
// given means as new as now, "0" means any.
func (q *request) awaitVersion(version string) error {
	switch version {
	case "":
		return objects.StoreError(q.res.Fresh(q.ctx))
	case "0":
		return objects.StoreError(q.res.Ready(q.ctx))
	}
	rev, err := revision(version)
	if err != nil {
		return err
	}
	return q.waitFor(rev)
}

// revision is the number of a resource version, which may be one that there can never be.
func revision(version string) (uint64, error) {
	rev, err := strconv.ParseUint(version, 10, 64)
	if err != nil {
		return 0, status.Plain500(fmt.Sprintf("resourceVersion: Invalid value: %q: %v", version, err))
	}
	return rev, nil
}

// waitFor waits until the cache is not older than rev.
func (q *request) waitFor(rev uint64) error {
	wait := func() error {
		err := q.res.WaitFor(q.ctx, int64(min(rev, math.MaxInt64)))
		var future *store.FutureError
		if errors.As(err, &future) {
			return status.TooLargeRV(rev, uint64(future.Current))
		}
		return objects.StoreError(err)
	}
	if uint64(q.res.Snapshot().Rev()) >= rev {
		return wait()
	}
	return q.holds.Wait(q.ctx, wait) // for writes of others
}

// sendStored answers with an object as the cache has it.
func (q *request) sendStored(code int, obj *cache.Object) error {
	if q.accept.Protobuf && q.accept.Form == encoding.Object {
		message, err := q.message(obj)
		if err != nil {
			return err
		}
		return q.sendMessage(code, message)
	}
	view, err := obj.View(q.v)
	if err != nil {
		return err
	}
	return q.sendObject(code, view.JSON)
}

// sendObject answers with an object in the form asked for.
func (q *request) sendObject(code int, object []byte) error {
	switch q.accept.Form {
	case encoding.Table:
		t, err := q.newTable(table.New(q.v))
		if err != nil {
			return err
		}
		return q.sendTable(code, t, object)
	case encoding.Partial:
		b := buffer.Get()
		defer buffer.Put(b)
		*b = table.AppendPartial(*b, object, q.accept.Meta)
		q.send(code, *b)
		return nil
	case encoding.PartialList:
		if of := q.goName(); of != "" {
			return noList("*" + of)
		}
		return status.Plain500("content is not a list")
	}
	q.send(code, object)
	return nil
}
