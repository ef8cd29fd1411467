package api

import (
	"net/http"

	"github.com/keelson-io/keelson/internal/meta"
	"github.com/keelson-io/keelson/internal/status"
	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/kind"
)

// This file serves what is created and not stored: virtual kinds, and
// subresources that have a kind of their own.

// action answers a create. d is what was sent, decoded by q.v. The answer is what the action returns,
// or what it made of d if it returns nil. For a subresource, q.name and q.namespace name its object.
type action func(q *request, d *jsondoc.Doc, o *meta.WriteOptions) (answer []byte, err error)

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
	if do == nil {
		return status.NotFound(q.kind.GroupResource(), q.name)
	}
	// The body is decoded and checked like that of a stored object.
	body, o, err := q.wholeObject(meta.ParseCreateOptions)
	if err != nil {
		return err
	}
	d := jsondoc.Get()
	defer d.Release()
	if err := q.decode(d, body, o.FieldValidation); err != nil {
		return err
	}
	ref := q.ref()
	if err := ref.CheckNamespace(meta.Object{Doc: d}); err != nil {
		return err
	}
	// The action authorizes what goes beyond the verb create on this resource, and runs admission.
	answer, err := do(q, d, o)
	if err != nil {
		return err
	}
	if answer != nil {
		q.send(http.StatusCreated, answer)
		return nil
	}
	return q.sendObject(http.StatusCreated, q.v.AppendJSON(nil, d))
}
