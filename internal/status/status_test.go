package status

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-io/keelson/internal/texts"
)

var (
	widgets = schema.GroupResource{Group: "demo.io", Resource: "widgets"}
	widget  = schema.GroupKind{Group: "demo.io", Kind: "Widget"}
)

// The bodies are what an API server answers.
func TestBodies(t *testing.T) {
	for _, tt := range []struct {
		err  *Error
		want string
	}{
		{NotFound(widgets, "x"), `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"widgets.demo.io \"x\" not found","reason":"NotFound","details":{"name":"x","group":"demo.io","kind":"widgets"},"code":404}`},
		{NotFound(schema.GroupResource{Resource: "namespaces"}, "x"), `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"namespaces \"x\" not found","reason":"NotFound","details":{"name":"x","kind":"namespaces"},"code":404}`},
		{AlreadyExists(widgets, "x"), `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"widgets.demo.io \"x\" already exists","reason":"AlreadyExists","details":{"name":"x","group":"demo.io","kind":"widgets"},"code":409}`},
		{Conflict(widgets, "a", ErrModified), `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"Operation cannot be fulfilled on widgets.demo.io \"a\": the object has been modified; please apply your changes to the latest version and try again","reason":"Conflict","details":{"name":"a","group":"demo.io","kind":"widgets"},"code":409}`},
		{Forbidden(widgets, "a", errors.New("no")), `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"widgets.demo.io \"a\" is forbidden: no","reason":"Forbidden","details":{"name":"a","group":"demo.io","kind":"widgets"},"code":403}`},
		{Invalid(widget, "b", field.ErrorList{field.Invalid(field.NewPath("kind"), "Foo", "must be Widget"), field.Required(field.NewPath("spec", "x"), "")}), `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"Widget.demo.io \"b\" is invalid: [kind: Invalid value: \"Foo\": must be Widget, spec.x: Required value]","reason":"Invalid","details":{"name":"b","group":"demo.io","kind":"Widget","causes":[{"reason":"FieldValueInvalid","message":"Invalid value: \"Foo\": must be Widget","field":"kind"},{"reason":"FieldValueRequired","message":"Required value","field":"spec.x"}]},"code":422}`},
		{BadRequest("error decoding patch: %v", "x"), `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"error decoding patch: x","reason":"BadRequest","code":400}`},
		{MethodNotAllowed(widgets, "create"), `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"create is not supported on resources of kind \"widgets.demo.io\"","reason":"MethodNotAllowed","details":{"group":"demo.io","kind":"widgets"},"code":405}`},
		{NotAcceptable("x"), `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"x","reason":"NotAcceptable","code":406}`},
		{UnsupportedMediaType("x"), `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"x","reason":"UnsupportedMediaType","code":415}`},
		{TooLarge("limit is 3145728"), `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"Request entity too large: limit is 3145728","reason":"RequestEntityTooLarge","code":413}`},
		{Expired("old"), `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"old","reason":"Expired","code":410}`},
		{TooLargeRV(9, 3), `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"Timeout: Too large resource version: 9, current: 3","reason":"Timeout","details":{"causes":[{"reason":"ResourceVersionTooLarge","message":"Too large resource version"}],"retryAfterSeconds":1},"code":504}`},
		{Internal(errors.New("x")), `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"Internal error occurred: x","reason":"InternalError","details":{"causes":[{"message":"x"}]},"code":500}`},
		{Unauthorized(""), `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"Unauthorized","reason":"Unauthorized","code":401}`},
		{Unavailable("x"), `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"x","reason":"ServiceUnavailable","code":503}`},
		{Plain500("x"), `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"x","code":500}`},
		{UnknownRoute(), `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"the server could not find the requested resource","reason":"NotFound","details":{},"code":404}`},
		{UnknownMethod(), `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"the server does not allow this method on the requested resource","reason":"MethodNotAllowed","details":{},"code":405}`},
		{UnacceptableRoute("x"), `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"x","reason":"NotAcceptable","details":{},"code":406}`},
		{UnsupportedRoute(), `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"415: Unsupported Media Type","reason":"UnsupportedMediaType","details":{},"code":415}`},
		{Unprocessable(errors.New("x")), `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"the server rejected our request due to an error in our request","reason":"Invalid","details":{},"code":422}`},
	} {
		got, err := json.Marshal(tt.err.Status)
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != tt.want {
			t.Errorf("got\n%s, want\n%s", got, tt.want)
		}
		if tt.err.Error() != tt.err.Message {
			t.Errorf("Error: got %q, want %q", tt.err.Error(), tt.err.Message)
		}
	}
}

// TestCauses holds that errors.Is and errors.As find the cause of an Error, however often it was
// wrapped and converted.
func TestSuccesses(t *testing.T) {
	for _, tt := range []struct {
		status *metav1.Status
		want   string
	}{
		{Done(), `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success","code":201}`},
		{Deleted(widgets, "x", "u-1"), `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success","details":{"name":"x","group":"demo.io","kind":"widgets","uid":"u-1"}}`},
	} {
		if got, err := json.Marshal(tt.status); err != nil || string(got) != tt.want {
			t.Errorf("got\n%s, %v, want\n%s", got, err, tt.want)
		}
	}
}

func TestCauses(t *testing.T) {
	cause := &causeError{"the disk is full"}
	for _, tt := range []struct {
		name string
		err  error
	}{
		{"a plain error", cause},
		{"a wrapped error", fmt.Errorf("writing: %w", cause)},
		{"an Error with a cause", Internal(cause)},
		{"a wrapped Error", fmt.Errorf("creating: %w", Conflict(widgets, "a", cause))},
		{"an Error wrapped together with the cause", fmt.Errorf("%w: %w", NotFound(widgets, "a"), cause)},
		{"a wrapped error of apimachinery", errors.Join(apierrors.NewBadRequest("x"), cause)},
		{"the end of a context", fmt.Errorf("%w: %w", context.Canceled, cause)},
		{"BadRequest", BadRequest("decoding: %w", cause)},
		{"BadRequest with two errors", BadRequest("%w, after %w", errors.New("first"), cause)},
	} {
		got := From(fmt.Errorf("more: %w", From(fmt.Errorf("outer: %w", From(tt.err)))))
		if !errors.Is(got, cause) {
			t.Errorf("%s: errors.Is does not find the cause", tt.name)
		}
		if as, ok := errors.AsType[*causeError](got); !ok || as != cause {
			t.Errorf("%s: errors.As does not find the cause", tt.name)
		}
		if want := From(tt.err); got.Message != want.Message || got.Code != want.Code || got.Reason != want.Reason {
			t.Errorf("%s: wrapping changed the Status: got %+v, want %+v", tt.name, got.Status, want.Status)
		}
	}
	if e := BadRequest("decoding: %v", cause); errors.Is(e, cause) || e.Cause != nil {
		t.Errorf("BadRequest without %%w: got cause %v, want none", e.Cause)
	}
	if e := NotFound(widgets, "x"); From(e) != e {
		t.Error("From copies an Error that is not wrapped")
	}
}

// causeError is an error with an identity and a type of its own.
type causeError struct{ text string }

func (e *causeError) Error() string { return e.text }

func TestFrom(t *testing.T) {
	notFound := NotFound(widgets, "x")
	odd := errors.New("odd")
	for _, tt := range []struct {
		name    string
		err     error
		code    int32
		message string
	}{
		{"itself", notFound, 404, notFound.Message},
		{"wrapped", fmt.Errorf("reading: %w", notFound), 404, notFound.Message},
		{"apimachinery", fmt.Errorf("x: %w", apierrors.NewResourceExpired("gone")), 410, "gone"},
		{"deadline", fmt.Errorf("x: %w", context.DeadlineExceeded), 504, "Timeout: request did not complete within requested timeout - context deadline exceeded"},
		{"canceled", context.Canceled, 504, "Timeout: request did not complete within requested timeout - context canceled"},
		{"odd", odd, 500, "odd"},
	} {
		got := From(tt.err)
		if got.Code != tt.code || got.Message != tt.message || got.Kind != "Status" || got.Status.Status != "Failure" {
			t.Errorf("%s: got %d %q, want %d %q", tt.name, got.Code, got.Message, tt.code, tt.message)
		}
	}
	if From(nil) != nil {
		t.Error("From(nil) is an error")
	}
	if !errors.Is(From(fmt.Errorf("a: %w", odd)), odd) {
		t.Error("From loses the cause")
	}
	if !errors.Is(Conflict(widgets, "a", ErrModified), ErrModified) {
		t.Error("Conflict loses the cause")
	}
}

// TestInvalidIsNewInvalid compares with upstream's function.
func TestInvalidIsNewInvalid(t *testing.T) {
	path := field.NewPath("spec", "x")
	for _, errs := range []field.ErrorList{
		nil,
		{field.Required(path, "say it")},
		{field.Required(path, ""), field.Required(path, "")},
		{field.Required(path, ""), field.Invalid(nil, 3, "is odd"), field.Required(path, ""), field.TooLong(path, "", 2), field.NotSupported(path, "c", []string{"a", "b"})},
	} {
		want := apierrors.NewInvalid(widget, "a", errs).Status()
		got := Invalid(widget, "a", errs).Status
		want.TypeMeta = got.TypeMeta
		wantText, _ := json.Marshal(want)
		if text, _ := json.Marshal(got); string(text) != string(wantText) {
			t.Errorf("got %s\nwant %s", text, wantText)
		}
	}
}

// TestManyErrors holds that the work for an answer grows no faster than the list of errors, and that the list ends.
//
// Ledger: error-lists.
func TestManyErrors(t *testing.T) {
	var errs field.ErrorList
	for i := range 100_000 {
		errs = append(errs, field.Required(field.NewPath("spec", "containers").Index(i).Child("name"), ""))
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	e := Invalid(widget, "a", errs[:20_000])
	runtime.ReadMemStats(&after)
	if n := (after.TotalAlloc - before.TotalAlloc) >> 20; n > 64 {
		t.Errorf("20,000 errors: got %d MiB allocated, want at most 64", n)
	}
	if n := len(e.Details.Causes); n != 20_000 {
		t.Errorf("20,000 errors: got %d causes", n)
	}
	e = Invalid(widget, "a", errs)
	causes := e.Details.Causes
	if last := causes[len(causes)-1].Message; len(e.Message) > texts.Most*5/4 || last != "Invalid value: there are more errors than are listed" {
		t.Errorf("100,000 errors: got a message of %d bytes, and %q at last", len(e.Message), last)
	}
}
