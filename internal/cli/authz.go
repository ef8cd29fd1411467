package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"

	"github.com/spf13/cobra"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/keelson-io/keelson/authn"
	"github.com/keelson-io/keelson/authz"
	"github.com/keelson-io/keelson/authz/abac"
	"github.com/keelson-io/keelson/authz/config"
	"github.com/keelson-io/keelson/authz/node"
	"github.com/keelson-io/keelson/authz/rbac"
	"github.com/keelson-io/keelson/authz/reload"
	"github.com/keelson-io/keelson/authz/webhook"
	"github.com/keelson-io/keelson/controller/roles"
	"github.com/keelson-io/keelson/internal/kubehook"
	"github.com/keelson-io/keelson/internal/manifest"
)

// This file is keelson authz: what a chain of authorizers would decide, without
// a server and without asking webhooks.

// authzOptions are what keelson authz check and explain share.
type authzOptions struct {
	flags    config.Flags
	rbac     []string
	requests []string
	answers  map[string]string
	output   string
	explain  bool
}

func newAuthzCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "authz",
		Short: "Say what a chain of authorizers would decide, and why",
	}
	cmd.AddCommand(newAuthzVerb(false), newAuthzVerb(true))
	return cmd
}

func newAuthzVerb(explain bool) *cobra.Command {
	o := authzOptions{explain: explain}
	cmd := &cobra.Command{
		Use:   "check --request FILE…",
		Short: "Decide about requests as a server would",
		Args:  cobra.NoArgs,
		Example: `  # May they, by an AuthorizationConfiguration and roles in files?
  keelson authz check --config authz.yaml --rbac roles/ --request review.yaml

  # If the webhook named policy allows it?
  keelson authz check --config authz.yaml --request review.yaml --answer policy=allow`,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd) },
	}
	if explain {
		cmd.Use, cmd.Short = "explain --request FILE…", "Decide about requests, and show what every authorizer did"
		cmd.Example = strings.ReplaceAll(cmd.Example, "authz check", "authz explain")
	}
	cmd.Long = cmd.Short + `.

Requests are SubjectAccessReviews. Webhooks are not asked: --answer says what
one would say, and where that matters and is not said, the verdict is that it
depends. The default roles count as they do in a server.

The exit code is 0 if everything asked for is allowed, else 1.`
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&o.flags.File, "config", "", "AuthorizationConfiguration `file`; without it, RBAC decides")
	f.StringVar(&o.flags.PolicyFile, "policy-file", "", "`file` of policies for ABAC")
	f.StringArrayVar(&o.rbac, "rbac", nil, "`files` or folders of roles and bindings")
	f.StringArrayVar(&o.requests, "request", nil, "`files` or folders of SubjectAccessReviews; - for standard input")
	f.StringToStringVar(&o.answers, "answer", nil, "what webhooks say: `NAME=ANSWER`, allow, deny, no-opinion or error")
	f.StringVarP(&o.output, "output", "o", "text", "text or json")
	return cmd
}

func (o *authzOptions) run(cmd *cobra.Command) error {
	if o.output != "text" && o.output != "json" {
		return &usageError{fmt.Errorf("--output: got %q, want text or json", o.output)}
	}
	if len(o.requests) == 0 {
		return &usageError{errors.New("--request: nothing is asked")}
	}
	chain, err := o.chain(cmd.InOrStdin())
	if err != nil {
		return err
	}
	docs, err := manifest.Read(o.requests, cmd.InOrStdin())
	if err != nil {
		return err
	}
	all := true
	var rulings []ruling
	for _, d := range docs {
		a, err := request(d)
		if err != nil {
			return err
		}
		v := decide(cmd.Context(), chain, a)
		all = all && v.Decision == "allow"
		rulings = append(rulings, v)
	}
	if o.output == "json" {
		enc := json.NewEncoder(cmd.OutOrStdout())
		enc.SetIndent("", "  ")
		if !o.explain {
			for i := range rulings {
				rulings[i].Steps = nil
			}
		}
		if err := enc.Encode(rulings); err != nil {
			return err
		}
	} else {
		for i := range rulings {
			rulings[i].print(cmd.OutOrStdout(), o.explain)
		}
	}
	if !all {
		return errors.New("")
	}
	return nil
}

// chain makes the authorizers, with answers in place of webhooks.
func (o *authzOptions) chain(in io.Reader) (*reload.Authorizer, error) {
	c, text, err := o.flags.Load()
	if err != nil {
		return nil, err
	}
	for name := range o.answers {
		if !hasWebhook(c, name) {
			return nil, &usageError{fmt.Errorf("--answer: there is no webhook %q", name)}
		}
	}
	index, err := o.index(in)
	if err != nil {
		return nil, err
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

func hasWebhook(c *config.AuthorizationConfiguration, name string) bool {
	for _, a := range c.Authorizers {
		if a.Type == config.Webhook && a.Name == name {
			return true
		}
	}
	return false
}

// index holds the default roles and those of the files.
func (o *authzOptions) index(in io.Reader) (*rbac.Index, error) {
	docs, err := manifest.Read(o.rbac, in)
	if err != nil {
		return nil, err
	}
	changes := roles.Changes()
	for _, d := range docs {
		c, err := roleChange(d)
		if err != nil {
			return nil, err
		}
		changes = append(changes, c)
	}
	index := rbac.NewIndex()
	index.Apply(changes...)
	return index, nil
}

// roleChange is a role or binding of a document.
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

// request is what a review asks about.
func request(d manifest.Document) (*authz.Attributes, error) {
	var review authorizationv1.SubjectAccessReview
	if d.Err == nil {
		d.Err = json.Unmarshal(d.JSON, &review)
	}
	switch s := &review.Spec; {
	case d.Err != nil:
		return nil, fmt.Errorf("%s: %w", d, d.Err)
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

// answer stands for a webhook.
type answer struct {
	status authorizationv1.SubjectAccessReviewStatus
	err    error
}

// notAsked is the reason of a webhook of which nobody said what it says. It has
// no opinion, so that what comes after it is seen.
const notAsked = "not asked; --answer says what it would say"

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
	return nil, &usageError{fmt.Errorf("--answer %s: got %q, want allow, deny, no-opinion or error", name, text)}
}

// Ask answers.
func (a answer) Ask(context.Context, *authorizationv1.SubjectAccessReview, kubehook.Call) (authorizationv1.SubjectAccessReviewStatus, error) {
	return a.status, a.err
}
