// Package status is the one error type of the API: what went wrong, as the
// client will see it.
//
// An [Error] is a metav1.Status, with code, reason, message and details, and
// the Go error that caused it, if any. Every text that a client sees is
// upstream's, made by apimachinery's own constructors. Packages below the API
// return an Error where they know the answer; anything else becomes one at the
// edge, through [From].
//
// Errors are built on failure paths only, so they may cost something.
package status

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Error is a refusal or failure as the client sees it, and its cause.
type Error struct {
	metav1.Status
	Cause error // nil if the Status says it all
}

// Error is the message.
func (e *Error) Error() string { return e.Message }

// Unwrap is the cause.
func (e *Error) Unwrap() error { return e.Cause }

// wrap is an apimachinery error as an Error.
func wrap(err apierrors.APIStatus, cause error) *Error {
	s := err.Status()
	s.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	if s.Status == "" {
		s.Status = metav1.StatusFailure
	}
	if s.Code == 0 && s.Status == metav1.StatusFailure {
		s.Code = http.StatusInternalServerError
	}
	return &Error{Status: s, Cause: cause}
}

// plain is an Error without details.
func plain(code int, reason metav1.StatusReason, message string, cause error) *Error {
	return &Error{
		Status: metav1.Status{
			TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
			Status:   metav1.StatusFailure,
			Code:     int32(code),
			Reason:   reason,
			Message:  message,
		},
		Cause: cause,
	}
}

// From is err as an Error: itself if it is one or wraps one, the Status of an
// apimachinery error, 504 if the request's time was up or the client gone, and
// else 500 with the message only. From(nil) is nil.
func From(err error) *Error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	if s := apierrors.APIStatus(nil); errors.As(err, &s) {
		return wrap(s, err)
	}
	for _, over := range []error{context.DeadlineExceeded, context.Canceled} {
		if errors.Is(err, over) {
			e := Timeout("request did not complete within requested timeout - "+over.Error(), 0)
			e.Cause = err
			return e
		}
	}
	return plain(http.StatusInternalServerError, metav1.StatusReasonUnknown, err.Error(), err)
}

// NotFound is 404: there is no such object.
func NotFound(gr schema.GroupResource, name string) *Error {
	return wrap(apierrors.NewNotFound(gr, name), nil)
}

// AlreadyExists is 409: the name is taken.
func AlreadyExists(gr schema.GroupResource, name string) *Error {
	return wrap(apierrors.NewAlreadyExists(gr, name), nil)
}

// Conflict is 409: the object is not, or not any more, what the request says.
func Conflict(gr schema.GroupResource, name string, err error) *Error {
	return wrap(apierrors.NewConflict(gr, name, err), err)
}

// ErrModified is the cause of the Conflict of a stale resource version.
var ErrModified = errors.New("the object has been modified; please apply your changes to the latest version and try again")

// ApplyConflict is 409: others own fields that an apply would change.
func ApplyConflict(causes []metav1.StatusCause, message string) *Error {
	return wrap(apierrors.NewApplyConflict(causes, message), nil)
}

// GenerateNameConflict is 409: no free name was found.
func GenerateNameConflict(gr schema.GroupResource, name string) *Error {
	return wrap(apierrors.NewGenerateNameConflict(gr, name, 1), nil)
}

// Forbidden is 403.
func Forbidden(gr schema.GroupResource, name string, err error) *Error {
	return wrap(apierrors.NewForbidden(gr, name, err), err)
}

// Invalid is 422: the object breaks the rules that errs lists. Their values may
// borrow from a document, so the Error keeps their words only.
func Invalid(gk schema.GroupKind, name string, errs field.ErrorList) *Error {
	return wrap(apierrors.NewInvalid(gk, strings.Clone(name), errs), nil)
}

// Unprocessable is 422 with upstream's general text: the operations of a patch
// do not apply. The cause is for the log only.
func Unprocessable(err error) *Error {
	return wrap(apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "", schema.GroupResource{}, "", err.Error(), 0, false), err)
}

// BadRequest is 400.
func BadRequest(format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	return wrap(apierrors.NewBadRequest(err.Error()), errors.Unwrap(err))
}

// MethodNotAllowed is 405: the resource is not for that verb.
func MethodNotAllowed(gr schema.GroupResource, verb string) *Error {
	return wrap(apierrors.NewMethodNotSupported(gr, verb), nil)
}

// NotAcceptable is 406.
func NotAcceptable(msg string) *Error {
	return plain(http.StatusNotAcceptable, metav1.StatusReasonNotAcceptable, msg, nil)
}

// UnsupportedMediaType is 415.
func UnsupportedMediaType(msg string) *Error {
	return plain(http.StatusUnsupportedMediaType, metav1.StatusReasonUnsupportedMediaType, msg, nil)
}

// TooLarge is 413; msg goes on after "Request entity too large: ".
func TooLarge(msg string) *Error {
	return wrap(apierrors.NewRequestEntityTooLargeError(msg), nil)
}

// Expired is 410: the resource version is too old.
func Expired(msg string) *Error {
	return wrap(apierrors.NewResourceExpired(msg), nil)
}

// TooLargeRV is 504: the resource version asked for is not reached yet.
func TooLargeRV(min, current uint64) *Error {
	e := Timeout(fmt.Sprintf("Too large resource version: %d, current: %d", min, current), 1)
	e.Details.Causes = []metav1.StatusCause{{
		Type:    metav1.CauseTypeResourceVersionTooLarge,
		Message: "Too large resource version",
	}}
	return e
}

// Timeout is 504; msg goes on after "Timeout: ".
func Timeout(msg string, retryAfterSeconds int) *Error {
	return wrap(apierrors.NewTimeoutError(msg, retryAfterSeconds), nil)
}

// TooManyRequests is 429.
func TooManyRequests(msg string, retryAfterSeconds int) *Error {
	return wrap(apierrors.NewTooManyRequests(msg, retryAfterSeconds), nil)
}

// Internal is 500 with upstream's preamble.
func Internal(err error) *Error {
	return wrap(apierrors.NewInternalError(err), err)
}

// Unauthorized is 401; msg is "Unauthorized" if empty.
func Unauthorized(msg string) *Error {
	if msg == "" {
		msg = "Unauthorized"
	}
	return wrap(apierrors.NewUnauthorized(msg), nil)
}

// Unavailable is 503.
func Unavailable(msg string) *Error {
	return wrap(apierrors.NewServiceUnavailable(msg), nil)
}

// Plain500 is 500 with the message only, as upstream answers errors that it
// did not expect; some clients look for their texts.
func Plain500(msg string) *Error {
	return plain(http.StatusInternalServerError, metav1.StatusReasonUnknown, msg, nil)
}
