// Package status has the one error type of the API.
//
// An [Error] is a metav1.Status (code, reason, message and details), which the client sees, and the
// Go error that caused it, if there is one. The texts are upstream's: apimachinery's constructors
// make them. A package that knows the answer to the client returns an Error. Package api converts
// all other errors with [From].
//
// Errors are built on failure paths only, so that they may allocate.
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
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-io/keelson/internal/texts"
)

// Error is the answer to a request that was refused or failed. The client sees the Status; the log,
// errors.Is and errors.As also see the cause.
type Error struct {
	metav1.Status
	Cause error // nil if the Status has all information
}

// Error returns the message.
func (e *Error) Error() string { return e.Message }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }

// wrap converts an apimachinery error to an Error with a cause.
func wrap(err apierrors.APIStatus, cause error) *Error {
	s := err.Status()
	s.TypeMeta = typeMeta()
	if s.Status == "" {
		s.Status = metav1.StatusFailure
	}
	if s.Code == 0 && s.Status == metav1.StatusFailure {
		s.Code = http.StatusInternalServerError
	}
	return &Error{Status: s, Cause: cause}
}

// plain returns an Error without details.
func plain(code int, reason metav1.StatusReason, message string, cause error) *Error {
	return &Error{
		Status: metav1.Status{
			TypeMeta: typeMeta(),
			Status:   metav1.StatusFailure,
			Code:     int32(code),
			Reason:   reason,
			Message:  message,
		},
		Cause: cause,
	}
}

// FromStatus returns the error that another program reported as a Status.
func FromStatus(s metav1.Status) *Error { return &Error{Status: s} }

// From converts err to an Error:
//
//   - an Error stays itself;
//   - an error that wraps an Error or an apimachinery error gets the wrapped Status;
//   - the end of a context, because of the deadline or the client, becomes 504;
//   - any other error becomes 500 with its message.
//
// Except for the first case, err is the cause of the result, so that errors.Is and errors.As find
// in the result what they find in err. From(nil) is nil.
func From(err error) *Error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*Error](err); ok {
		if error(e) == err {
			return e
		}
		return &Error{Status: e.Status, Cause: err}
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

// Conflict is 409: a precondition of the request does not hold.
func Conflict(gr schema.GroupResource, name string, err error) *Error {
	return wrap(apierrors.NewConflict(gr, name, err), err)
}

// ErrModified is the cause of a Conflict because of a stale resource version.
var ErrModified = errors.New("the object has been modified; please apply your changes to the latest version and try again")

// GenerateNameConflict is 409: no free name was found.
func GenerateNameConflict(gr schema.GroupResource, name string) *Error {
	return wrap(apierrors.NewGenerateNameConflict(gr, name, 1), nil)
}

// Forbidden is 403.
func Forbidden(gr schema.GroupResource, name string, err error) *Error {
	return wrap(apierrors.NewForbidden(gr, name, err), err)
}

// harmless escapes texts so that no browser interprets them as HTML.
var harmless = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

// Harmless returns a text in which no browser finds HTML. Upstream escapes what clients chose so in texts
// about their requests.
func Harmless(text string) string { return harmless.Replace(text) }

// Invalid is 422: the object is invalid for the reasons in errs. The Error keeps the texts of errs,
// not their values, which may point into a document that is released before the Error is used. The
// texts are those of upstream's NewInvalid, which takes quadratic time for the message: it copies
// the message for each error. A body of 3 MB may have a million bad items, and the work would go on
// after the client has gone. So the texts are joined once here, and the list of causes ends when it
// has texts.Most bytes.
func Invalid(gk schema.GroupKind, name string, errs field.ErrorList) *Error {
	e := apierrors.NewInvalid(gk, strings.Clone(name), nil)
	causes := make([]metav1.StatusCause, 0, min(len(errs), 1000))
	said, lines, size := map[string]bool{}, []string(nil), 0
	for i := 0; i < len(errs); i++ {
		err := errs[i]
		// The list of a custom resource has this end already, as its last error.
		if size > texts.Most && i < len(errs)-1 {
			err = texts.More()
		}
		if texts.IsMore(err) {
			i = len(errs)
		}
		cause := metav1.StatusCause{Type: metav1.CauseType(err.Type), Message: err.ErrorBody(), Field: err.Field}
		causes = append(causes, cause)
		text := cause.Field + ": " + cause.Message
		size += len(text)
		// The message names an error once, the causes as often as it was found.
		if !said[text] {
			said[text] = true
			lines = append(lines, text)
		}
	}
	e.ErrStatus.Details.Causes = causes
	switch len(lines) {
	case 0:
	case 1:
		e.ErrStatus.Message += ": " + lines[0]
	default:
		e.ErrStatus.Message += ": [" + strings.Join(lines, ", ") + "]"
	}
	return wrap(e, nil)
}

// CauseExplanation is the type of a cause that explains another one: why a rule refused a value. Only
// clients that ask for explanations get it.
const CauseExplanation metav1.CauseType = "Explanation"

// AddCause adds a cause to the details.
func (e *Error) AddCause(c metav1.StatusCause) {
	if e.Status.Details == nil {
		e.Status.Details = &metav1.StatusDetails{}
	}
	e.Status.Details.Causes = append(e.Status.Details.Causes, c)
}

// Unprocessable is 422 with upstream's general text: the operations of a patch do not apply to the
// object. The client does not see the cause.
func Unprocessable(err error) *Error {
	return wrap(apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "", schema.GroupResource{}, "", err.Error(), 0, false), err)
}

// BadRequest is 400. If the format has the verb %w, the error that it formats is part of the cause.
func BadRequest(format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	e := wrap(apierrors.NewBadRequest(err.Error()), nil)
	switch err.(type) {
	case interface{ Unwrap() error }, interface{ Unwrap() []error }:
		e.Cause = err
	}
	return e
}

// MethodNotAllowed is 405: the resource does not support the verb.
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

// TooLarge is 413; "Request entity too large: " precedes msg.
func TooLarge(msg string) *Error {
	return wrap(apierrors.NewRequestEntityTooLargeError(msg), nil)
}

// Expired is 410: the resource version is too old.
func Expired(msg string) *Error {
	return wrap(apierrors.NewResourceExpired(msg), nil)
}

// TooLargeRV is 504: the cache has not reached the requested resource version.
func TooLargeRV(min, current uint64) *Error {
	e := Timeout(fmt.Sprintf("Too large resource version: %d, current: %d", min, current), 1)
	e.Details.Causes = []metav1.StatusCause{{
		Type:    metav1.CauseTypeResourceVersionTooLarge,
		Message: "Too large resource version",
	}}
	return e
}

// Timeout is 504; "Timeout: " precedes msg.
func Timeout(msg string, retryAfterSeconds int) *Error {
	return wrap(apierrors.NewTimeoutError(msg, retryAfterSeconds), nil)
}

// TooManyRequests is 429.
func TooManyRequests(msg string, retryAfterSeconds int) *Error {
	return wrap(apierrors.NewTooManyRequests(msg, retryAfterSeconds), nil)
}

// Internal is 500; "Internal error occurred: " precedes the text of err.
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

// Plain500 is 500 without a reason. Upstream answers unexpected errors in this form, and some
// clients compare the texts.
func Plain500(msg string) *Error {
	return plain(http.StatusInternalServerError, metav1.StatusReasonUnknown, msg, nil)
}

// The errors of a router. Upstream's router refuses paths, methods and media types before anything
// knows which object is meant, so that the details are empty.

// UnknownRoute is the 404 for a path.
func UnknownRoute() *Error {
	return route(http.StatusNotFound, metav1.StatusReasonNotFound, "the server could not find the requested resource")
}

// UnknownMethod is the 405 for a method of a path.
func UnknownMethod() *Error {
	return route(http.StatusMethodNotAllowed, metav1.StatusReasonMethodNotAllowed, "the server does not allow this method on the requested resource")
}

// UnacceptableRoute is the 406 for an Accept header.
func UnacceptableRoute(msg string) *Error {
	return route(http.StatusNotAcceptable, metav1.StatusReasonNotAcceptable, msg)
}

// UnsupportedRoute is the 415 for a Content-Type header.
func UnsupportedRoute() *Error {
	return wrap(apierrors.NewGenericServerResponse(http.StatusUnsupportedMediaType, "", schema.GroupResource{}, "", "415: Unsupported Media Type", 0, false), nil)
}

// route returns an Error with empty details.
func route(code int, reason metav1.StatusReason, msg string) *Error {
	e := plain(code, reason, msg, nil)
	e.Details = &metav1.StatusDetails{}
	return e
}

// Done returns the Status of an action that creates no object to answer with.
func Done() *metav1.Status {
	return &metav1.Status{TypeMeta: typeMeta(), Status: metav1.StatusSuccess, Code: http.StatusCreated}
}

// Deleted returns the Status of the deletion of an object. uid may be empty.
func Deleted(gr schema.GroupResource, name, uid string) *metav1.Status {
	return &metav1.Status{
		TypeMeta: typeMeta(),
		Status:   metav1.StatusSuccess,
		Details:  &metav1.StatusDetails{Name: name, Group: gr.Group, Kind: gr.Resource, UID: types.UID(uid)},
	}
}

func typeMeta() metav1.TypeMeta { return metav1.TypeMeta{Kind: "Status", APIVersion: "v1"} }
