package api

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-io/keelson/authz"
	"github.com/keelson-io/keelson/internal/api/review"
	"github.com/keelson-io/keelson/internal/audit"
	"github.com/keelson-io/keelson/internal/authn"
	"github.com/keelson-io/keelson/internal/meta"
	"github.com/keelson-io/keelson/internal/status"
	"github.com/keelson-io/keelson/jsondoc"
)

// This file answers reviews: requests that ask about a user's identity or permissions.

// reviewed reads the body of a review, as typed clients know it, lets answer
// change it, and makes it the answer.
func reviewed[T any](q *request, d *jsondoc.Doc, o *meta.WriteOptions, answer func(*T) error) ([]byte, error) {
	if o != nil {
		if err := q.recordSender(d, o); err != nil {
			return nil, err
		}
	}
	q.recordObject(d)
	review := new(T)
	if err := json.Unmarshal(d.AppendJSON(nil, d.Root().Node), review); err != nil {
		return nil, status.BadRequest("%v", err)
	}
	if err := answer(review); err != nil {
		return nil, err
	}
	return nil, replace(d, review)
}

// replace makes a document that of a typed object.
func replace(d *jsondoc.Doc, object any) error {
	text, err := json.Marshal(object)
	if err != nil {
		return err
	}
	d.Reset(nil)
	return jsondoc.Parse(d, text)
}

// recordSender adds the sender of a review to its managedFields, as upstream does, although reviews
// are not stored.
func (q *request) recordSender(d *jsondoc.Doc, o *meta.WriteOptions) error {
	ref := q.ref()
	return ref.RecordUpdate(q.caller(), nil, d, o)
}

// subjectAccessReview answers a SubjectAccessReview: whether a user may send a request.
func subjectAccessReview(q *request, d *jsondoc.Doc, o *meta.WriteOptions) ([]byte, error) {
	return reviewed(q, d, o, func(r *authorizationv1.SubjectAccessReview) error {
		if err := review.SubjectAccess(r); err != nil {
			return err
		}
		r.Status = q.access(subjectOf(&r.Spec), r.Spec.ResourceAttributes, r.Spec.NonResourceAttributes)
		return nil
	})
}

// localSubjectAccessReview answers a LocalSubjectAccessReview: whether a user may send a request in
// its namespace.
func localSubjectAccessReview(q *request, d *jsondoc.Doc, o *meta.WriteOptions) ([]byte, error) {
	return reviewed(q, d, o, func(r *authorizationv1.LocalSubjectAccessReview) error {
		if err := review.LocalSubjectAccess(r, q.namespace); err != nil {
			return err
		}
		r.Status = q.access(subjectOf(&r.Spec), r.Spec.ResourceAttributes, r.Spec.NonResourceAttributes)
		return nil
	})
}

// selfSubjectAccessReview answers whether the sender may do something.
func selfSubjectAccessReview(q *request, d *jsondoc.Doc, o *meta.WriteOptions) ([]byte, error) {
	return reviewed(q, d, o, func(r *authorizationv1.SelfSubjectAccessReview) error {
		if err := review.SelfSubjectAccess(r); err != nil {
			return err
		}
		r.Status = q.access(q.user, r.Spec.ResourceAttributes, r.Spec.NonResourceAttributes)
		return nil
	})
}

// subjectOf returns the user that a review is about. The groups are those of the review.
func subjectOf(s *authorizationv1.SubjectAccessReviewSpec) *authn.User {
	u := &authn.User{Name: s.User, UID: s.UID, Groups: s.Groups}
	for key, values := range s.Extra {
		if u.Extra == nil {
			u.Extra = map[string][]string{}
		}
		u.Extra[key] = values
	}
	return u
}

// access asks the authorizer the question of a review. Errors are a part of the answer.
func (q *request) access(user *authn.User, resource *authorizationv1.ResourceAttributes, other *authorizationv1.NonResourceAttributes) authorizationv1.SubjectAccessReviewStatus {
	a := &authz.Attributes{User: user}
	if resource != nil {
		a.ResourceRequest, a.Verb, a.Namespace, a.Group, a.Version = true, resource.Verb, resource.Namespace, resource.Group, resource.Version
		a.Resource, a.Subresource, a.Name = resource.Resource, resource.Subresource, resource.Name
		if a.Version == "" {
			a.Version = "*"
		}
		if s := resource.FieldSelector; s != nil && len(s.Requirements) > 0 {
			a.SetFieldRequirements(s.Requirements)
		} else if s != nil {
			a.FieldSelector = s.RawSelector
		}
		if s := resource.LabelSelector; s != nil && len(s.Requirements) > 0 {
			a.SetLabelRequirements(s.Requirements)
		} else if s != nil {
			a.LabelSelector = s.RawSelector
		}
	} else {
		a.Verb, a.Path = other.Verb, other.Path
	}
	r := q.h.Authz.Authorize(q.ctx, a)
	return authorizationv1.SubjectAccessReviewStatus{
		Allowed:         r.Decision == authz.Allow,
		Denied:          r.Decision == authz.Deny,
		Reason:          r.Reason,
		EvaluationError: evaluationError(a, r.Err),
	}
}

// evaluationError returns the text for errors of the authorizer.
func evaluationError(a *authz.Attributes, err error) string {
	var texts []string
	if err != nil {
		texts = append(texts, err.Error())
	}
	ignored := func(selector string, left int, err error) {
		switch {
		case err == nil:
		case left > 0:
			texts = append(texts, "spec.resourceAttributes."+selector+" partially ignored due to parse error")
		default:
			texts = append(texts, "spec.resourceAttributes."+selector+" ignored due to parse error")
		}
	}
	fields, err := a.FieldRequirements()
	ignored("fieldSelector", len(fields), err)
	labels, err := a.LabelRequirements()
	ignored("labelSelector", len(labels), err)
	return strings.Join(texts, "; ")
}

// selfSubjectRulesReview lists what the sender may do in a namespace.
func selfSubjectRulesReview(q *request, d *jsondoc.Doc, _ *meta.WriteOptions) ([]byte, error) {
	return reviewed(q, d, nil, func(r *authorizationv1.SelfSubjectRulesReview) error {
		if err := review.SelfSubjectRules(r); err != nil {
			return err
		}
		rules := authz.Rules{Incomplete: true, Err: errors.New("the authorizer cannot list rules")}
		if resolver, ok := q.h.Authz.(authz.RuleResolver); ok {
			rules = resolver.RulesFor(q.ctx, q.user, r.Spec.Namespace)
		}
		*r = authorizationv1.SelfSubjectRulesReview{TypeMeta: r.TypeMeta, Status: authorizationv1.SubjectRulesReviewStatus{
			ResourceRules: rules.Resource, NonResourceRules: rules.NonResource, Incomplete: rules.Incomplete}}
		if r.Status.ResourceRules == nil {
			r.Status.ResourceRules = []authorizationv1.ResourceRule{}
		}
		if r.Status.NonResourceRules == nil {
			r.Status.NonResourceRules = []authorizationv1.NonResourceRule{}
		}
		if rules.Err != nil {
			r.Status.EvaluationError = rules.Err.Error()
		}
		return nil
	})
}

// selfSubjectReview answers with the user of the request.
func selfSubjectReview(q *request, d *jsondoc.Doc, _ *meta.WriteOptions) ([]byte, error) {
	return reviewed(q, d, nil, func(r *authenticationv1.SelfSubjectReview) error {
		*r = authenticationv1.SelfSubjectReview{TypeMeta: r.TypeMeta, ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.Now()},
			Status: authenticationv1.SelfSubjectReviewStatus{UserInfo: audit.UserInfo(q.user)}}
		return nil
	})
}

// tokenReview answers with the user of a token.
func tokenReview(q *request, d *jsondoc.Doc, o *meta.WriteOptions) ([]byte, error) {
	return reviewed(q, d, o, func(r *authenticationv1.TokenReview) error {
		if err := review.Token(r); err != nil {
			return err
		}
		audiences := r.Spec.Audiences
		if len(audiences) == 0 {
			audiences = q.h.Audiences
		}
		probe := (&http.Request{Method: http.MethodGet, URL: &url.URL{}, Header: http.Header{"Authorization": {"Bearer " + r.Spec.Token}}}).WithContext(q.ctx)
		response, err := q.h.Authn.Authenticate(probe, audiences)
		r.Status = authenticationv1.TokenReviewStatus{}
		if err != nil {
			r.Status.Error = err.Error()
			q.h.refusals.Outages(authn.Reasons(err), r.Spec.Token)
		}
		if err != nil || response == nil {
			return nil
		}
		if len(audiences) > 0 && len(authn.Intersect(audiences, response.Audiences)) == 0 {
			q.h.logger.Warn("error validating audience", "want", audiences, "got", response.Audiences)
			return status.Internal(errors.New("error validating audiences"))
		}
		for key, value := range response.Annotations {
			q.audit.Annotate(key, value)
		}
		r.Status.Authenticated, r.Status.Audiences, r.Status.User = true, response.Audiences, audit.UserInfo(response.User)
		return nil
	})
}
