package offline

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-io/keelson/authz"
	"github.com/keelson-io/keelson/internal/api/review"
	"github.com/keelson-io/keelson/internal/authn"
	"github.com/keelson-io/keelson/internal/meta"
	"github.com/keelson-io/keelson/internal/objects"
	"github.com/keelson-io/keelson/internal/status"
	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/kind"
	"github.com/keelson-io/keelson/schema"
)

// This file makes requests: by the verbs that a server calls for a client.

// maxBody is the length in bytes of the largest object that a server reads.
const maxBody = 3 << 20

// send makes the request.
func (s *Server) send(ctx context.Context, q *call) error {
	var unknown unknown
	err := s.attempt(unknown.context(ctx), q)
	if user := unknown.name(); user != "" {
		return fmt.Errorf("what %s may do decides about this (a policy asks the authorizer, or a role is written), "+
			"and only roles and bindings say so: there are none among the files", user)
	}
	if err != nil {
		q.answer.refuse(err)
	}
	q.answer.Warnings = distinct(q.answer.Warnings)
	return nil
}

// attempt makes the request. The error is the refusal.
func (s *Server) attempt(ctx context.Context, q *call) (err error) {
	defer func() {
		if p := recover(); p != nil { // as a server answers
			err = status.Internal(fmt.Errorf("this request caused the server to panic: %v\n%s", p, debug.Stack()))
		}
	}()
	caller, err := s.caller(ctx, q)
	if err != nil {
		return err
	}
	v := q.answer.Version
	ref := objects.Ref{Kind: v.Kind, Version: v, Namespace: q.answer.Namespace, Subresource: q.Subresource}
	if q.operation != Create {
		ref.Name = q.answer.Name
	}
	asked := attributes(&ref, caller.User(), verbs[q.operation])
	if err := s.parts.authorize(ctx, asked); err != nil {
		return err
	}
	if v.Deprecated {
		q.Warn(v.Warning)
	}
	if v.Kind.Behavior.Listed != nil {
		return status.MethodNotAllowed(v.Kind.GroupResource(), asked.Verb)
	}
	if q.operation == Delete {
		return s.remove(ctx, q, caller, ref)
	}
	o := &meta.WriteOptions{DryRun: true, FieldValidation: q.fieldValidation()}
	if q.Explain {
		asked.Verb, o.Explain = "get", meta.ExplainJSON
		o.ExplainOld = s.parts.authorize(ctx, asked) == nil
	}
	return s.change(ctx, q, caller, ref, o)
}

// verbs are the names of the operations in rules.
var verbs = map[string]string{Create: "create", Update: "update", Delete: "delete"}

// attributes are what a request is authorized by.
func attributes(ref *objects.Ref, user *authn.User, verb string) *authz.Attributes {
	a := &authz.Attributes{
		User: user, Verb: verb, ResourceRequest: true, Group: ref.Kind.Group, Version: ref.Version.Name, Resource: ref.Kind.Plural,
		Subresource: ref.Subresource, Namespace: ref.Namespace, Name: ref.Name,
	}
	if ref.Kind.IsNamespaces() {
		a.Namespace = ref.Name // as for requests to its path
	}
	return a
}

// caller returns the identity of the request.
func (s *Server) caller(ctx context.Context, q *call) (objects.Caller, error) {
	u := q.User
	if u == nil {
		return s.parts.caller(ctx, nil, q)
	}
	user := &authn.User{Name: u.Name, UID: u.UID, Groups: slices.Clone(u.Groups)}
	for key, values := range u.Extra {
		if user.Extra == nil {
			user.Extra = map[string][]string{}
		}
		user.Extra[strings.ToLower(key)] = values // as in a header, by which a client names them
	}
	if u.Name == "" {
		return objects.Caller{}, status.BadRequest("the user has no name")
	}
	return s.parts.caller(ctx, user, q)
}

// change creates or updates the object.
func (s *Server) change(ctx context.Context, q *call, caller objects.Caller, ref objects.Ref, o *meta.WriteOptions) error {
	b := &objects.Body{Sent: q.Object.JSON, JSON: q.Object.JSON, Revision: q.revision}
	if len(b.JSON) > maxBody {
		return status.TooLarge(fmt.Sprintf("limit is %d", maxBody))
	}
	if len(q.Object.Duplicates) > 0 && q.FieldValidation != metav1.FieldValidationIgnore {
		b.Duplicates = repeated(q.Object.Duplicates)
	}
	d := jsondoc.Get()
	defer d.Release()
	warnings, err := ref.Decode(d, b, o.FieldValidation)
	q.Warn(warnings...)
	if err != nil {
		return err
	}
	var out objects.Outcome
	switch {
	case ref.Kind.Behavior.Virtual:
		return q.review(&ref, d)
	case q.operation == Create:
		out, err = s.parts.verbs.Create(ctx, caller, ref, d, o)
	default:
		out, err = s.parts.verbs.Update(ctx, caller, ref, d, b, o)
	}
	defer out.Release()
	return q.take(&ref, &out, err)
}

// review checks an object that a server answers and does not store.
func (q *call) review(ref *objects.Ref, d *jsondoc.Doc) error {
	if err := ref.CheckNamespace(meta.Object{Doc: d}); err != nil {
		return err
	}
	text := ref.Version.AppendJSON(nil, d)
	known, err := review.Check(ref.Kind.Name, text, ref.Namespace)
	switch {
	case err != nil:
		return err
	case !known:
		return status.BadRequest("a %s binds an object that only the server stores: it cannot be checked offline", ref.Kind.Name)
	}
	q.show(text)
	return nil
}

// remove deletes the object.
func (s *Server) remove(ctx context.Context, q *call, caller objects.Caller, ref objects.Ref) error {
	if text := ref.Kind.Behavior.OrphanWarning; text != "" {
		q.Warn(text)
	}
	out, err := s.parts.verbs.Delete(ctx, caller, ref, &meta.DeleteOptions{DryRun: true})
	defer out.Release()
	q.Warn(out.Warnings...)
	return err
}

// take takes over what came of a verb that returned err.
func (q *call) take(ref *objects.Ref, out *objects.Outcome, err error) error {
	q.Warn(out.Warnings...)
	for _, m := range out.UnusedMessages {
		q.Warn(fmt.Sprintf("%s: the messageExpression %q has no effect on this object: %s", m.Field, m.Expression, m.Reason))
	}
	q.answer.Reasons = out.Reasons
	switch {
	case err != nil || q.VerdictOnly:
		return err
	case out.Object != nil:
		view, err := out.Object.View(ref.Version)
		if err != nil {
			return err
		}
		q.show(view.JSON)
	case out.View != nil:
		q.show(out.View.JSON)
	default:
		q.show(ref.Version.AppendJSON(make([]byte, 0, len(q.Object.JSON)+addedRoom), out.Doc))
	}
	return nil
}

// addedRoom is the length in bytes of what a create adds to a small object, mostly managedFields.
const addedRoom = 1 << 10

// show makes a text the object of the answer.
func (q *call) show(object []byte) {
	if !q.VerdictOnly {
		q.answer.Object = append(object[:len(object):len(object)], '\n')
	}
}

// refuse makes an error the refusal of the answer.
func (a *Answer) refuse(err error) {
	st := status.From(err).Status
	st.Kind, st.APIVersion, st.Status = "Status", "v1", metav1.StatusFailure
	if st.Code == 0 {
		st.Code = http.StatusInternalServerError
	}
	a.Object, a.Refusal = nil, &st
}

// distinct returns texts without those that are there already.
func distinct(texts []string) []string {
	var out []string
	for _, text := range texts {
		if text != "" && !slices.Contains(out, text) {
			out = append(out, text)
		}
	}
	return out
}

// repeated is the keys that a YAML text has more than once.
type repeated []string

// Error implements error.
func (r repeated) Error() string { return strings.Join(r, ", ") }

// Unwrap returns an error for each key.
func (r repeated) Unwrap() []error {
	var out []error
	for _, text := range r {
		out = append(out, errors.New(text))
	}
	return out
}

// A call is the client of its verb. It implements objects.Client.

// Warn adds warnings to the answer.
func (q *call) Warn(texts ...string) { q.answer.Warnings = append(q.answer.Warnings, texts...) }

// Annotate adds an audit annotation. Of two for one key, the first counts.
func (q *call) Annotate(key, value string) {
	if q.answer.Annotations == nil {
		q.answer.Annotations = map[string]string{}
	}
	if _, ok := q.answer.Annotations[key]; !ok {
		q.answer.Annotations[key] = value
	}
}

// AnnotateRequest does nothing: what it adds repeats the request.
func (*call) AnnotateRequest(string, string) {}

// MayCreate permits an update to create the object. The old object is there, so that none does.
func (*call) MayCreate() error { return nil }

// Work permits all work.
func (*call) Work(int) error { return nil }

// Validated passes the object on.
func (q *call) Validated(v *kind.Version, o schema.Validated) {
	if q.Request.Validated != nil {
		q.Request.Validated(v, o)
	}
}

// setRevision sets the resource version of an update: that of the text stands for that of the stored object.
func (q *call) setRevision() error {
	old, err := headOf(*q.Old)
	if err == nil && (q.head.ResourceVersion == "" || q.head.ResourceVersion == old.ResourceVersion) {
		q.revision = strconv.FormatInt(q.stored.rev, 10)
	}
	return err
}
