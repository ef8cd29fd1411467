package api

import (
	"errors"
	"fmt"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-io/keelson/api/selection"
	"github.com/keelson-io/keelson/cache"
	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/kind"
	"github.com/keelson-io/keelson/meta"
	"github.com/keelson-io/keelson/status"
)

// This file reports the objects that a list cannot read (KEP-3926).

// maxUnreadable is the number of objects that one error names, as upstream.
const maxUnreadable = 100

// nameUnreadable returns an error that names all objects of the list that cannot be read, if err says
// that one of them cannot. Otherwise it returns err.
func (q *request) nameUnreadable(err error, o *meta.ListOptions, f *selection.Filter) error {
	if _, is := errors.AsType[*kind.UnreadableError](err); !is {
		return err
	}
	src, failed := q.source(o, f)
	if failed != nil {
		return err
	}
	causes, failed := q.unreadable(src, o.Limit)
	if failed != nil || len(causes) == 0 {
		return err // it can be read by now
	}
	group := q.kind.GroupResource()
	message := fmt.Sprintf("failed to read one or more %s from the storage: %s", group, causes[0].Message)
	if n := len(causes) - 1; n > 0 {
		message += fmt.Sprintf(" (and %d more)", n)
	}
	if len(causes) == maxUnreadable {
		causes = append(causes, metav1.StatusCause{Type: metav1.CauseTypeTooMany, Message: "too many errors, the list is truncated"})
	}
	return &status.Error{Cause: err, Status: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Reason: metav1.StatusReasonStoreReadError, Message: message,
		Details: &metav1.StatusDetails{Group: group.Group, Kind: group.Resource, Name: "list", Causes: causes},
	}}
}

// unreadable returns a cause for each object that cannot be read, up to maxUnreadable. If limit is
// above 0, it looks no further than the last object of the page.
func (q *request) unreadable(src *source, limit int64) (causes []metav1.StatusCause, err error) {
	d := jsondoc.Get()
	defer func() { d.Release() }()
	looked, readable := 0, int64(0)
	src.ascend(func(obj *cache.Object) bool {
		if err = q.ended(&looked); err != nil || limit > 0 && readable == limit {
			return false
		}
		if obj.Known(q.v) != nil {
			readable++
			return true
		}
		d.Release()
		d = jsondoc.Get()
		cause, is := errors.AsType[*kind.UnreadableError](q.kind.Storage.Load(d, obj.Raw, obj.Rev))
		if !is {
			readable++
			return true
		}
		key := "/registry/" + obj.Key
		causes = append(causes, metav1.StatusCause{Type: metav1.CauseTypeUnexpectedServerResponse, Field: key,
			Message: fmt.Sprintf("StorageError: corrupt object, Code: 7, Key: %s, ResourceVersion: 0, AdditionalErrorMsg: object not decodable revision=%d: %v", key, obj.Rev, cause)})
		return len(causes) < maxUnreadable
	})
	return causes, err
}
