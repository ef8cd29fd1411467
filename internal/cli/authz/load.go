package authz

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"os"
	"slices"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/keelson-io/keelson/authz"
	"github.com/keelson-io/keelson/internal/audit"
	"github.com/keelson-io/keelson/internal/authn"
	"github.com/keelson-io/keelson/internal/authz/abac"
	"github.com/keelson-io/keelson/internal/authz/config"
	"github.com/keelson-io/keelson/internal/authz/node"
	"github.com/keelson-io/keelson/internal/authz/partial"
	"github.com/keelson-io/keelson/internal/authz/rbac"
	"github.com/keelson-io/keelson/internal/authz/reload"
	"github.com/keelson-io/keelson/internal/authz/webhook"
	"github.com/keelson-io/keelson/internal/cli/command"
	"github.com/keelson-io/keelson/internal/controller/roles"
	"github.com/keelson-io/keelson/internal/kubehook"
	"github.com/keelson-io/keelson/internal/manifest"
)

// This file reads the requests and the configuration for "authz".

// decider decides one request.
type decider func(context.Context, *authz.Attributes) ruling

// decider returns the decider of a configuration.
func (o *options) decider(flags config.Flags, index *rbac.Index) (decider, error) {
	chain, err := o.chain(flags, index)
	if err != nil {
		return nil, err
	}
	if len(o.unknown) == 0 {
		return func(ctx context.Context, a *authz.Attributes) ruling { return decide(ctx, chain, a) }, nil
	}
	return func(ctx context.Context, a *authz.Attributes) ruling {
		return decidePartly(ctx, chain, &partial.Request{Attributes: a, Unknown: o.unknownParts()})
	}, nil
}

// unknownParts returns the unknown parts as a set.
func (o *options) unknownParts() map[string]bool {
	parts := map[string]bool{}
	for _, p := range o.unknown {
		parts[p] = true
	}
	return parts
}

// inquiry is a request to decide.
type inquiry struct {
	attributes *authz.Attributes
	count      int // occurrences in the audit log; 0 for a review
}

// questions returns the requests to decide.
func (o *options) questions(in io.Reader) ([]inquiry, error) {
	docs, err := manifest.Read(o.requests, in)
	if err != nil {
		return nil, err
	}
	var all []inquiry
	for _, d := range docs {
		a, err := request(d)
		if err != nil {
			return nil, err
		}
		all = append(all, inquiry{attributes: a})
	}
	recorded := map[string]int{}
	for _, path := range o.audit {
		if all, err = readAudit(path, all, recorded); err != nil {
			return nil, err
		}
	}
	return all, o.checkParts(all)
}

// checkParts refuses unknown parts that a request cannot have.
func (o *options) checkParts(all []inquiry) error {
	other := []string{"group", "version", "resource", "subresource", "namespace", "name", "fieldSelector", "labelSelector"}
	for _, p := range o.unknown {
		if !slices.Contains(partial.Parts, p) {
			return command.UsageError(fmt.Errorf("--unknown: got %q, want some of %q", p, partial.Parts))
		}
		for _, q := range all {
			if a := q.attributes; a.ResourceRequest && p == "path" || !a.ResourceRequest && slices.Contains(other, p) {
				return command.UsageError(fmt.Errorf("--unknown: %s: the request has no %s", describeRequest(a, nil), p))
			}
		}
	}
	return nil
}

// maxEvent is the longest line of an audit log, in bytes.
const maxEvent = 64 << 20

// readAudit adds the different requests of an audit log at the stage ResponseComplete. recorded
// maps requests to their index in all.
func readAudit(path string, all []inquiry, recorded map[string]int) ([]inquiry, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, maxEvent)
	for n := 1; lines.Scan(); n++ {
		if len(lines.Bytes()) == 0 {
			continue
		}
		var e audit.Event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", path, n, err)
		}
		if e.Kind != "Event" {
			return nil, fmt.Errorf("%s:%d: got kind %q, want Event", path, n, e.Kind)
		}
		if e.Stage != audit.ResponseComplete || e.User.Username == "" {
			continue
		}
		a := recordedRequest(&e)
		key, err := json.Marshal(webhook.Spec(a))
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", path, n, err)
		}
		i, known := recorded[string(key)]
		if !known {
			i = len(all)
			recorded[string(key)] = i
			all = append(all, inquiry{attributes: a})
		}
		all[i].count++
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return all, nil
}

// recordedRequest returns the attributes by which the request of an event was authorized.
func recordedRequest(e *audit.Event) *authz.Attributes {
	who := &e.User
	if e.ImpersonatedUser != nil {
		who = e.ImpersonatedUser
	}
	a := &authz.Attributes{User: userOf(who), Verb: e.Verb, Trace: &authz.Trace{Full: true}}
	asked, err := url.Parse(e.RequestURI)
	if err != nil {
		asked = &url.URL{Path: e.RequestURI}
	}
	ref := e.ObjectRef
	if ref == nil {
		a.Path = asked.Path
		return a
	}
	a.ResourceRequest, a.Group, a.Version, a.Resource, a.Subresource = true, ref.APIGroup, ref.APIVersion, ref.Resource, ref.Subresource
	a.Namespace, a.Name = ref.Namespace, ref.Name
	if a.Verb == "create" && a.Subresource == "" {
		a.Name = "" // it was taken from the answer, and was unknown to authorization
	}
	if a.Verb == "list" || a.Verb == "watch" || a.Verb == "deletecollection" {
		a.FieldSelector, a.LabelSelector = asked.Query().Get("fieldSelector"), asked.Query().Get("labelSelector")
	}
	return a
}

// userOf converts the user of an audit event.
func userOf(u *authenticationv1.UserInfo) *authn.User {
	out := &authn.User{Name: u.Username, UID: u.UID, Groups: u.Groups}
	for k, v := range u.Extra {
		if out.Extra == nil {
			out.Extra = map[string][]string{}
		}
		out.Extra[k] = v
	}
	return out
}

// chain builds the authorizers, with fixed answers in place of webhooks.
func (o *options) chain(flags config.Flags, index *rbac.Index) (*reload.Authorizer, error) {
	flags.Elsewhere = true // webhooks are not called
	c, text, err := flags.Load()
	if err != nil {
		return nil, err
	}
	for i := range c.Authorizers {
		if c.Authorizers[i].Type == config.Webhook {
			o.webhooks = append(o.webhooks, c.Authorizers[i].Name)
		}
	}
	made := reload.Config{
		Configuration: c, Text: text, RBAC: index, Node: &node.Authorizer{}, Logger: slog.New(slog.DiscardHandler),
		Asker: func(a *config.AuthorizerConfiguration) (webhook.Asker, error) {
			return answerOf(a.Name, o.answers[a.Name])
		},
	}
	if c.Has(config.ABAC) {
		if made.ABAC, err = abac.Load(o.flags.PolicyFile, made.Logger); err != nil {
			return nil, err
		}
	}
	return reload.New(made)
}

// checkAnswers refuses answers for webhooks that do not exist.
func (o *options) checkAnswers() error {
	for name := range o.answers {
		if !slices.Contains(o.webhooks, name) {
			return command.UsageError(fmt.Errorf("--answer: the configuration has no webhook %q", name))
		}
	}
	return nil
}

// readRoles returns the default roles and those of files.
func readRoles(files []string, in io.Reader) (*rbac.Index, error) {
	docs, err := manifest.Read(files, in)
	if err != nil {
		return nil, err
	}
	return indexOf(docs)
}

// indexOf returns the default roles and those in documents, aggregated.
func indexOf(docs []manifest.Document) (*rbac.Index, error) {
	changes := roles.Changes()
	for _, d := range docs {
		c, err := roleChange(d)
		if err != nil {
			return nil, err
		}
		changes = append(changes, c)
	}
	if err := roles.Aggregate(changes); err != nil {
		return nil, err
	}
	index := rbac.NewIndex()
	index.Apply(changes...)
	return index, nil
}

// roleChange returns the role or binding in a document.
func roleChange(d manifest.Document) (c rbac.Change, err error) {
	var what struct{ Kind string }
	if d.Err == nil {
		d.Err = json.Unmarshal(d.JSON, &what)
	}
	if d.Err != nil {
		return c, fmt.Errorf("%s: %w", d, d.Err)
	}
	namespace := func(ns *string) {
		if *ns == "" {
			*ns = "default"
		}
	}
	switch what.Kind {
	case "Role":
		c.Role = new(rbacv1.Role)
		err = json.Unmarshal(d.JSON, c.Role)
		namespace(&c.Role.Namespace)
	case "ClusterRole":
		c.ClusterRole = new(rbacv1.ClusterRole)
		err = json.Unmarshal(d.JSON, c.ClusterRole)
	case "RoleBinding":
		c.RoleBinding = new(rbacv1.RoleBinding)
		err = json.Unmarshal(d.JSON, c.RoleBinding)
		namespace(&c.RoleBinding.Namespace)
	case "ClusterRoleBinding":
		c.ClusterRoleBinding = new(rbacv1.ClusterRoleBinding)
		err = json.Unmarshal(d.JSON, c.ClusterRoleBinding)
	default:
		err = fmt.Errorf("got kind %q, want Role, ClusterRole, RoleBinding or ClusterRoleBinding", what.Kind)
	}
	if err != nil {
		return c, fmt.Errorf("%s: %w", d, err)
	}
	return c, nil
}

// request returns the request in a review.
func request(d manifest.Document) (*authz.Attributes, error) {
	var review authorizationv1.SubjectAccessReview
	if d.Err != nil {
		return nil, d.Err
	}
	if err := json.Unmarshal(d.JSON, &review); err != nil {
		return nil, fmt.Errorf("%s: %w", d, manifest.Explain(err))
	}
	switch s := &review.Spec; {
	case review.Kind != "SubjectAccessReview":
		return nil, fmt.Errorf("%s: got kind %q, want SubjectAccessReview", d, review.Kind)
	case (s.ResourceAttributes == nil) == (s.NonResourceAttributes == nil):
		return nil, fmt.Errorf("%s: spec: exactly one of nonResourceAttributes or resourceAttributes must be specified", d)
	}
	s := &review.Spec
	user := &authn.User{Name: s.User, UID: s.UID, Groups: s.Groups}
	for k, v := range s.Extra {
		if user.Extra == nil {
			user.Extra = map[string][]string{}
		}
		user.Extra[k] = v
	}
	a := &authz.Attributes{User: user, Trace: &authz.Trace{Full: true}}
	if p := s.NonResourceAttributes; p != nil {
		a.Verb, a.Path = p.Verb, p.Path
		return a, nil
	}
	r := s.ResourceAttributes
	a.ResourceRequest, a.Verb, a.Group, a.Version, a.Resource = true, r.Verb, r.Group, r.Version, r.Resource
	a.Subresource, a.Namespace, a.Name = r.Subresource, r.Namespace, r.Name
	if a.Version == "" {
		a.Version = "*"
	}
	if f := r.FieldSelector; f != nil {
		a.FieldSelector = f.RawSelector
		if len(f.Requirements) > 0 {
			a.SetFieldRequirements(f.Requirements)
		}
	}
	if l := r.LabelSelector; l != nil {
		a.LabelSelector = l.RawSelector
		if len(l.Requirements) > 0 {
			a.SetLabelRequirements(l.Requirements)
		}
	}
	return a, nil
}

// answer replaces a webhook by a fixed answer.
type answer struct {
	status authorizationv1.SubjectAccessReviewStatus
	err    error
}

// notAsked is the reason of a webhook without an answer. It has no opinion, so that later
// authorizers are asked.
const notAsked = "not asked; --answer says what it would say"

// answerOf returns the fixed answer of a webhook, given the value of --answer.
func answerOf(name, text string) (webhook.Asker, error) {
	switch text {
	case "":
		return answer{status: authorizationv1.SubjectAccessReviewStatus{Reason: notAsked}}, nil
	case "allow":
		return answer{status: authorizationv1.SubjectAccessReviewStatus{Allowed: true}}, nil
	case "deny":
		return answer{status: authorizationv1.SubjectAccessReviewStatus{Denied: true}}, nil
	case "no-opinion":
		return answer{}, nil
	case "error":
		return answer{err: errors.New("error, as --answer says")}, nil
	}
	return nil, command.UsageError(fmt.Errorf("--answer %s: got %q, want allow, deny, no-opinion or error", name, text))
}

// Ask returns the fixed answer.
func (a answer) Ask(context.Context, *authorizationv1.SubjectAccessReview, kubehook.Call) (authorizationv1.SubjectAccessReviewStatus, error) {
	return a.status, a.err
}
