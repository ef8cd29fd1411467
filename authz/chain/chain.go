// Package chain builds the authorizers of an API server: from an AuthorizationConfiguration, and from roles and bindings.
//
// # Model
//
// [New] takes a [Config] and returns a [Chain], which is an [authz.Authorizer]. Its authorizers decide in the order of the
// configuration, and the default roles of Kubernetes count. A Chain does not change: for other roles, make another one.
//
// # Invariants
//
//   - The decisions, reasons and errors are those of a Keelson server with this configuration and these objects.
//   - With Config.Webhook, nothing is read from disk but Config.PolicyFile, and nothing is sent.
package chain

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/keelson-io/keelson/authz"
	"github.com/keelson-io/keelson/internal/authz/abac"
	"github.com/keelson-io/keelson/internal/authz/config"
	"github.com/keelson-io/keelson/internal/authz/node"
	"github.com/keelson-io/keelson/internal/authz/rbac"
	"github.com/keelson-io/keelson/internal/authz/reload"
	"github.com/keelson-io/keelson/internal/authz/webhook"
	"github.com/keelson-io/keelson/internal/controller/roles"
	"github.com/keelson-io/keelson/internal/kubehook"
)

// Config is what a chain decides by. The zero value is RBAC with the default roles.
type Config struct {
	// Configuration is an AuthorizationConfiguration of apiserver.config.k8s.io, in YAML or JSON; nil means RBAC alone. The
	// authorizer Node allows nothing, because there are no pods.
	Configuration []byte

	// Objects are Roles, ClusterRoles, RoleBindings and ClusterRoleBindings of rbac.authorization.k8s.io/v1. An object with the name
	// of a default one takes its place. Rules of aggregated ClusterRoles are computed.
	Objects []runtime.Object

	// PolicyFile is the file with the policies of the authorizer ABAC.
	PolicyFile string

	// Webhook answers in place of the webhook with this name. Nil means that webhooks are called, with the kubeconfigs that the
	// configuration names.
	Webhook func(ctx context.Context, name string, review *authorizationv1.SubjectAccessReview) (authorizationv1.SubjectAccessReviewStatus, error)

	Logger *slog.Logger // nil: nothing is logged
}

// Chain decides by a Config. Its methods can be called at the same time.
type Chain struct{ all *reload.Authorizer }

// New returns the chain of a Config. Errors name the field of the configuration or the object that is wrong.
func New(c Config) (*Chain, error) {
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	chosen, err := c.configuration()
	if err != nil {
		return nil, err
	}
	index, err := indexOf(c.Objects)
	if err != nil {
		return nil, err
	}
	made := reload.Config{Configuration: chosen, RBAC: index, Node: &node.Authorizer{}, Logger: c.Logger}
	if c.Webhook != nil {
		made.Asker = func(a *config.AuthorizerConfiguration) (webhook.Asker, error) { return asker{a.Name, c.Webhook}, nil }
	}
	if chosen.Has(config.ABAC) {
		if made.ABAC, err = abac.Load(c.PolicyFile, c.Logger); err != nil {
			return nil, err
		}
	}
	all, err := reload.New(made)
	if err != nil {
		return nil, err
	}
	return &Chain{all}, nil
}

// Authorize implements [authz.Authorizer].
func (c *Chain) Authorize(ctx context.Context, a *authz.Attributes) authz.Result {
	return c.all.Authorize(ctx, a)
}

// RulesFor implements [authz.RuleResolver].
func (c *Chain) RulesFor(ctx context.Context, user *authz.User, namespace string) authz.Rules {
	return c.all.RulesFor(ctx, user, namespace)
}

// configuration returns the configuration, or that of RBAC alone.
func (c *Config) configuration() (*config.AuthorizationConfiguration, error) {
	if c.Configuration == nil {
		chosen, _, err := new(config.Flags).Load()
		return chosen, err
	}
	if c.Webhook != nil {
		return config.LoadElsewhere(c.Configuration)
	}
	return config.Load(c.Configuration)
}

// indexOf returns the index of the default roles and of objects.
func indexOf(objects []runtime.Object) (*rbac.Index, error) {
	changes := roles.Changes()
	for _, o := range objects {
		var c rbac.Change
		switch o := o.(type) {
		case *rbacv1.Role:
			c.Role = o.DeepCopy()
		case *rbacv1.ClusterRole:
			c.ClusterRole = o.DeepCopy()
		case *rbacv1.RoleBinding:
			c.RoleBinding = o.DeepCopy()
		case *rbacv1.ClusterRoleBinding:
			c.ClusterRoleBinding = o.DeepCopy()
		default:
			return nil, fmt.Errorf("objects: got %T, want Role, ClusterRole, RoleBinding or ClusterRoleBinding of k8s.io/api/rbac/v1", o)
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

// asker answers by a function.
type asker struct {
	name   string
	answer func(context.Context, string, *authorizationv1.SubjectAccessReview) (authorizationv1.SubjectAccessReviewStatus, error)
}

// Ask implements webhook.Asker.
func (a asker) Ask(ctx context.Context, review *authorizationv1.SubjectAccessReview, _ kubehook.Call) (authorizationv1.SubjectAccessReviewStatus, error) {
	return a.answer(ctx, a.name, review)
}
