package api

import (
	"encoding/json"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-io/keelson/internal/api/admit"
	"github.com/keelson-io/keelson/internal/api/encoding"
	"github.com/keelson-io/keelson/internal/api/table"
	"github.com/keelson-io/keelson/internal/meta"
	"github.com/keelson-io/keelson/internal/objects"
	"github.com/keelson-io/keelson/internal/status"
)

// This file deletes single objects.

// delete deletes one object.
func (q *request) delete() error {
	var err error
	if q.accept, err = q.negotiate(); err != nil {
		return err
	}
	o, err := q.deleteOptions()
	if err != nil {
		return err
	}
	if o.Unreadable {
		return q.deleteUnreadable(o.DryRun)
	}
	out, err := q.h.Objects.Delete(q.ctx, q.caller(), q.ref(), o)
	defer out.Release()
	q.warn(out.Warnings...)
	if err != nil {
		return err
	}
	return q.answerDelete(&out, o)
}

// answerDelete answers with the outcome of a deletion: the object, if it is still there or its kind
// shows deleted objects, else a Status.
func (q *request) answerDelete(out *objects.Outcome, o *meta.DeleteOptions) error {
	if out.Result == objects.Deleted && out.Doc == nil {
		return q.sendDeleted(status.Deleted(q.kind.GroupResource(), q.name, out.UID))
	}
	// 202: the client asked for the deletion of dependents, which is not done yet.
	code := http.StatusOK
	if out.Result != objects.Deleted && o.OrphanDependents != nil && !*o.OrphanDependents {
		code = http.StatusAccepted
	}
	if out.Object != nil {
		// The object was being deleted already, and nothing was written.
		view, err := out.Object.View(q.v)
		if err != nil {
			return err
		}
		return q.sendObject(code, view.JSON)
	}
	return q.sendOutcome(code, out)
}

// deleteOptions reads the options of the body, or else of the query.
func (q *request) deleteOptions() (*meta.DeleteOptions, error) {
	o, err := q.readDeleteOptions()
	if b := &q.kind.Behavior; err == nil && b.OrphanWarning != "" && o.PropagationPolicy == "" && o.OrphanDependents == nil {
		q.warn(b.OrphanWarning)
	}
	return o, err
}

// readDeleteOptions reads the options of a delete from the body or else from the query.
func (q *request) readDeleteOptions() (*meta.DeleteOptions, error) {
	if admit.Bodyless(q.r) {
		return meta.ParseDeleteOptions(q.ctx, nil, "", q.query)
	}
	// As in upstream, the query is not read if there is a body.
	media := encoding.ContentType(q.r)
	if media != encoding.JSON && media != encoding.YAML && media != encoding.Protobuf {
		return nil, encoding.Unsupported(encoding.JSON, encoding.YAML, encoding.Protobuf)
	}
	body, err := q.holds.ReadBody(q.ctx)
	if err != nil {
		return nil, err
	}
	if media == encoding.Protobuf && len(body) > 0 {
		if body, err = deleteOptionsFromProtobuf(body); err != nil {
			return nil, status.BadRequest("%v", err)
		}
		media = encoding.JSON
	}
	q.recordOptions(media, body)
	return meta.ParseDeleteOptions(q.ctx, body, media, q.query)
}

// sendDeleted answers that an object is gone.
func (q *request) sendDeleted(st *metav1.Status) error {
	if q.accept.Form == encoding.Table { // which this is not made, but what tables are to show is looked at
		if _, err := q.newTable(table.New(q.v)); err != nil {
			return err
		}
	}
	body, err := json.Marshal(st)
	if err != nil {
		return err
	}
	q.send(http.StatusOK, body)
	return nil
}
