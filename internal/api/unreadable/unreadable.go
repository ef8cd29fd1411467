// Package unreadable reports the objects that a list cannot read (KEP-3926).
package unreadable

import (
	"errors"
	"fmt"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-io/keelson/internal/cache"
	"github.com/keelson-io/keelson/internal/status"
	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/kind"
)

// most is the number of objects that one error names, as upstream.
const most = 100

// Is reports whether an error says that an object cannot be read.
func Is(err error) bool {
	_, is := errors.AsType[*kind.UnreadableError](err)
	return is
}

// Report names the objects of a list that cannot be read.
type Report struct {
	version *kind.Version
	causes  []metav1.StatusCause
}

// New returns the report about a list of a version, which names no object yet.
func New(v *kind.Version) *Report { return &Report{version: v} }

// Full reports whether the report names as many objects as it may.
func (r *Report) Full() bool { return len(r.causes) == most }

// Add names an object if it cannot be read. It reports whether it can.
func (r *Report) Add(obj *cache.Object) bool {
	if obj.Known(r.version) != nil {
		return true
	}
	d := jsondoc.Get()
	defer d.Release()
	cause, is := errors.AsType[*kind.UnreadableError](r.version.Kind.Storage.Load(d, obj.Raw, obj.Rev))
	if !is {
		return true
	}
	key := "/registry/" + obj.Key
	r.causes = append(r.causes, metav1.StatusCause{Type: metav1.CauseTypeUnexpectedServerResponse, Field: key,
		Message: fmt.Sprintf("StorageError: corrupt object, Code: 7, Key: %s, ResourceVersion: 0, AdditionalErrorMsg: object not decodable revision=%d: %v", key, obj.Rev, cause)})
	return false
}

// Error returns the error that names the objects, for a list that failed with err. It is err if there are none: they can be read by now.
func (r *Report) Error(err error) error {
	if len(r.causes) == 0 {
		return err
	}
	group := r.version.Kind.GroupResource()
	message := fmt.Sprintf("failed to read one or more %s from the storage: %s", group, r.causes[0].Message)
	if n := len(r.causes) - 1; n > 0 {
		message += fmt.Sprintf(" (and %d more)", n)
	}
	causes := r.causes
	if r.Full() {
		causes = append(causes, metav1.StatusCause{Type: metav1.CauseTypeTooMany, Message: "too many errors, the list is truncated"})
	}
	return &status.Error{Cause: err, Status: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Reason: metav1.StatusReasonStoreReadError, Message: message,
		Details: &metav1.StatusDetails{Group: group.Group, Kind: group.Resource, Name: "list", Causes: causes},
	}}
}
