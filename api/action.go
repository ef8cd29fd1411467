package api

import (
	"net/http"

	"github.com/keelson-io/keelson/doc"
	"github.com/keelson-io/keelson/kind"
	"github.com/keelson-io/keelson/meta"
	"github.com/keelson-io/keelson/status"
)

// This file serves what is created and not stored: virtual kinds, and
// subresources that have a kind of their own.

// action answers a create. d is what was sent, decoded by q.v; it is changed
// into the answer, unless q.written is that. Of a subresource q.name and q.namespace say of which object.
type action func(q *request, d *doc.Doc, o *meta.WriteOptions) error

// actions are by group, plural and subresource: authorization.k8s.io/subjectaccessreviews,
// /serviceaccounts/token.
var actions = map[string]action{
	"authentication.k8s.io/selfsubjectreviews":       selfSubjectReview,
	"authentication.k8s.io/tokenreviews":             tokenReview,
	"authorization.k8s.io/localsubjectaccessreviews": localSubjectAccessReview,
	"authorization.k8s.io/selfsubjectaccessreviews":  selfSubjectAccessReview,
	"authorization.k8s.io/selfsubjectrulesreviews":   selfSubjectRulesReview,
	"authorization.k8s.io/subjectaccessreviews":      subjectAccessReview,
	"/bindings":              legacyBinding,
	"/pods/binding":          podBinding,
	"/pods/eviction":         evict,
	"/serviceaccounts/token": tokenRequest,
}

// act serves a virtual kind, or a subresource of any kind.
func (q *request) act(sub *kind.Subresource) error {
	key := q.kind.Group + "/" + q.kind.Plural
	if sub != nil {
		key += "/" + sub.Name
		q.v = sub.Version
	}
	do := actions[key]
	switch {
	case do == nil:
		return status.NotFound(q.kind.GroupResource(), q.name)
	case q.verb != "create" || sub == nil && q.name != "":
		return methodNotAllowed()
	}
	body, o, err := q.wholeObject(meta.ParseCreateOptions)
	if err != nil {
		return err
	}
	d := doc.Get()
	defer d.Release()
	if err := q.decode(d, body, o.FieldValidation); err != nil {
		return err
	}
	if err := q.checkNamespace(meta.Object{Doc: d}); err != nil {
		return err
	}
	if err := do(q, d, o); err != nil {
		return err
	}
	if q.written != nil {
		q.send(http.StatusCreated, q.written)
		return nil
	}
	return q.sendObject(http.StatusCreated, d.AppendJSON(nil, d.Root().Node))
}
