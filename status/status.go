package status

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const nb = "BUG: not built yet"

// Error is the one error type: a metav1.Status and what caused it.
type Error struct {
	metav1.Status
	Cause error
}

func (e *Error) Error() string                                              { return e.Message }
func (e *Error) Unwrap() error                                              { return e.Cause }
func From(err error) *Error                                                 { panic(nb) }
func NotFound(gr schema.GroupResource, name string) *Error                  { panic(nb) }
func AlreadyExists(gr schema.GroupResource, name string) *Error             { panic(nb) }
func Conflict(gr schema.GroupResource, name string, err error) *Error       { panic(nb) }
func Forbidden(gr schema.GroupResource, name string, err error) *Error      { panic(nb) }
func Invalid(gk schema.GroupKind, name string, errs field.ErrorList) *Error { panic(nb) }
func BadRequest(format string, args ...any) *Error                          { panic(nb) }
func MethodNotAllowed(gr schema.GroupResource, verb string) *Error          { panic(nb) }
func NotAcceptable(msg string) *Error                                       { panic(nb) }
func UnsupportedMediaType(msg string) *Error                                { panic(nb) }
func TooLarge(msg string) *Error                                            { panic(nb) }
func Expired(msg string) *Error                                             { panic(nb) }
func TooLargeRV(min, current uint64) *Error                                 { panic(nb) }
func Timeout(msg string, retryAfterSeconds int) *Error                      { panic(nb) }
func Internal(err error) *Error                                             { panic(nb) }
func Unauthorized(msg string) *Error                                        { panic(nb) }
func Unavailable(msg string) *Error                                         { panic(nb) }
func Plain500(msg string) *Error                                            { panic(nb) }
