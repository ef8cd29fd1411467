package api

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-io/keelson/internal/buffer"
	"github.com/keelson-io/keelson/internal/meta"
	"github.com/keelson-io/keelson/internal/objects"
	"github.com/keelson-io/keelson/internal/status"
	"github.com/keelson-io/keelson/kind"
	"github.com/keelson-io/keelson/schema"
)

// This file is how requests call the verbs on objects, and answer with what came of them.

// ref names the object, or the part of it, that the request is about.
func (q *request) ref() objects.Ref {
	return objects.Ref{Kind: q.kind, Version: q.v, Namespace: q.namespace, Name: q.name, Subresource: q.subresource}
}

// caller returns the identity of the request's user.
func (q *request) caller() objects.Caller {
	return objects.NewCaller(q.user, q.r.Header.Get("User-Agent"), q)
}

// MayCreate implements objects.Client.
func (q *request) MayCreate() error {
	create := *q.attributes()
	create.Verb = "create"
	return q.allowed(&create)
}

// Validated implements objects.Client.
func (*request) Validated(*kind.Version, schema.Validated) {}

// answer answers with the outcome of a verb with options that returned err, and frees it.
func (q *request) answer(out *objects.Outcome, o *meta.WriteOptions, err error) error {
	defer out.Release()
	q.warn(out.Warnings...)
	if err != nil {
		return withReasons(err, o.Explain, out.Reasons)
	}
	// An update or an apply may have created the object.
	code := http.StatusOK
	if out.Result == objects.Created {
		code = http.StatusCreated
	}
	return q.sendOutcome(code, out)
}

// sendOutcome answers with the object of an outcome.
func (q *request) sendOutcome(code int, out *objects.Outcome) error {
	// The cheapest form first: stored bytes, then a rendered view, then a document.
	switch {
	case out.Object != nil:
		return q.sendStored(code, out.Object)
	case out.View != nil:
		return q.sendObject(code, out.View.JSON)
	}
	b := buffer.Get()
	defer buffer.Put(b)
	*b = q.v.AppendJSON(*b, out.Doc)
	return q.sendObject(code, *b)
}

// withReasons adds a cause to a refusal for each reason: with the path of the value as its field, and the
// explanation, in the form that the client asked for, as its message.
func withReasons(err error, form string, reasons []schema.Reason) error {
	refusal, ok := errors.AsType[*status.Error](err)
	if !ok {
		return err
	}
	for i := range reasons {
		part := &reasons[i].Explanation
		text := strings.Join(part.Lines(), "\n")
		if form == meta.ExplainJSON {
			body, failed := json.Marshal(part)
			if failed != nil {
				continue
			}
			text = string(body)
		}
		refusal.AddCause(metav1.StatusCause{Type: status.CauseExplanation, Field: reasons[i].Field, Message: text})
	}
	return err
}
