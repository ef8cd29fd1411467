// Package reload makes a chain of authorizers of a configuration, and another
// one when the configuration's file changes.
//
// # Model
//
// An [Authorizer] asks the chain that is in force. [Authorizer.Run] looks at
// the file when it may have changed and at least once a minute. A new chain
// comes into force when the file is valid, everything it needs can be built, and
// all its webhooks answer; until then the last good one decides.
//
// # Invariants
//
//   - A request is decided by one chain, whatever happens meanwhile.
//   - Node, RBAC and ABAC are what they were when the server started: reloading
//     orders them, it neither adds nor removes them.
//   - What failed is tried again, since the reason may be outside of the file:
//     soon at first, then at each look at the file.
//
// Source: KEP-3221.
package reload

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/keelson-io/keelson/authn"
	"github.com/keelson-io/keelson/authz"
	"github.com/keelson-io/keelson/authz/config"
	"github.com/keelson-io/keelson/authz/webhook"
	"github.com/keelson-io/keelson/internal/reloads"
	"github.com/keelson-io/keelson/internal/watchfile"
)

// Config is what chains are made of.
type Config struct {
	Configuration *config.AuthorizationConfiguration // the first one
	File          string                             // that it comes from; "": it never changes
	Text          []byte                             // what was read there

	// Authorizers that are the same in all chains; nil if the first
	// configuration does not have them.
	RBAC, Node, ABAC authz.Authorizer

	// Asker makes what a webhook is asked by; nil: a client of its kubeconfig.
	Asker func(a *config.AuthorizerConfiguration) (webhook.Asker, error)

	Interval time.Duration         // between looks at the file; 0: one minute
	Metrics  prometheus.Registerer // nil: none
	ServerID string                // for metrics, which show its hash
	Logger   *slog.Logger
}

// Authorizer decides by the newest good configuration.
type Authorizer struct {
	Config
	decisions *authz.Metrics
	webhooks  *webhook.Metrics
	metrics   *reloads.Metrics // nil: none
	required  []string

	current atomic.Pointer[authz.Chain]

	mu          sync.Mutex
	active      []byte            // the configuration in force, in one form
	read        []byte            // the last text that was read
	kubeconfigs map[string][]byte // of the configuration in force: what was in the files
	failure     string            // why the last text is not in force, "" if it is
	failed      int               // how often it was tried
	watcher     *watchfile.Watcher
}

// New makes the first chain.
func New(c Config) (*Authorizer, error) {
	z := &Authorizer{Config: c, active: canonical(c.Configuration), read: c.Text, kubeconfigs: contents(c.Configuration)}
	if c.Metrics != nil {
		z.decisions, z.webhooks = authz.NewMetrics(c.Metrics), webhook.NewMetrics(c.Metrics)
		if c.File != "" {
			z.metrics = reloads.New(c.Metrics, "authorization", c.ServerID)
			z.metrics.InForce(c.Text)
		}
	}
	for i := range c.Configuration.Authorizers {
		if t := c.Configuration.Authorizers[i].Type; t != config.Webhook {
			z.required = append(z.required, t)
		}
	}
	chain, _, err := z.build(c.Configuration)
	if err != nil {
		return nil, fmt.Errorf("invalid authorization config: %w", err)
	}
	z.current.Store(chain)
	return z, nil
}

// Authorize asks the chain in force.
func (z *Authorizer) Authorize(ctx context.Context, a *authz.Attributes) authz.Result {
	return z.current.Load().Authorize(ctx, a)
}

// RulesFor asks the chain in force.
func (z *Authorizer) RulesFor(ctx context.Context, user *authn.User, namespace string) authz.Rules {
	return z.current.Load().RulesFor(ctx, user, namespace)
}

// Links are the authorizers of the chain in force, in order.
func (z *Authorizer) Links() []authz.Named { return z.current.Load().Links() }

// canonical is a form in which equal configurations are equal.
func canonical(c *config.AuthorizationConfiguration) []byte {
	copied := *c
	copied.APIVersion, copied.Kind = "", ""
	text, err := json.Marshal(&copied)
	if err != nil {
		panic("BUG: configuration does not marshal: " + err.Error())
	}
	return text
}

// contents are the files that a configuration's webhooks are reached by, as far
// as they can be read.
func contents(c *config.AuthorizationConfiguration) map[string][]byte {
	found := map[string][]byte{}
	for _, path := range c.KubeConfigFiles() {
		if text, err := os.ReadFile(path); err == nil {
			found[path] = text
		}
	}
	return found
}

// build makes a chain, and lists its webhooks.
func (z *Authorizer) build(c *config.AuthorizationConfiguration) (*authz.Chain, []*webhook.Webhook, error) {
	var chain []authz.Named
	var hooks []*webhook.Webhook
	for i := range c.Authorizers {
		a := &c.Authorizers[i]
		n := authz.Named{Name: a.Name, Type: a.Type}
		switch a.Type {
		case config.AlwaysAllow:
			n.Authorizer = authz.AlwaysAllow{}
		case config.AlwaysDeny:
			n.Authorizer = authz.AlwaysDeny{}
		case config.RBAC:
			n.Authorizer = z.RBAC
		case config.Node:
			n.Authorizer = z.Node
		case config.ABAC:
			n.Authorizer = z.ABAC
		case config.Webhook:
			hook, err := z.webhook(a)
			if err != nil {
				return nil, nil, err
			}
			hooks = append(hooks, hook)
			n.Authorizer = hook
		}
		if n.Authorizer == nil {
			return nil, nil, fmt.Errorf("authorizer type %s is not allowed if it was not enabled at initial server startup", a.Type)
		}
		chain = append(chain, n)
	}
	return authz.NewChain(z.decisions, chain...), hooks, nil
}

func (z *Authorizer) webhook(a *config.AuthorizerConfiguration) (*webhook.Webhook, error) {
	w := a.Webhook
	ask := z.Asker
	if ask == nil {
		ask = z.client
	}
	asker, err := ask(a)
	if err != nil {
		return nil, err
	}
	onError := authz.NoOpinion
	if w.FailurePolicy == config.FailDeny {
		onError = authz.Deny
	}
	return webhook.New(webhook.Config{
		Name: a.Name, Asker: asker, Conditions: w.Conditions(), CacheAuthorized: w.CacheAuthorized(), CacheUnauthorized: w.CacheUnauthorized(),
		OnError: onError, Metrics: z.webhooks, Logger: z.Logger,
	}), nil
}

// client is a client of a webhook's kubeconfig.
func (z *Authorizer) client(a *config.AuthorizerConfiguration) (webhook.Asker, error) {
	w := a.Webhook
	return webhook.NewClient(webhook.ClientConfig{
		KubeConfigFile: *w.ConnectionInfo.KubeConfigFile, Version: w.SubjectAccessReviewVersion, Timeout: w.Timeout.Duration, Metrics: z.webhooks,
	})
}

// Run follows the file until ctx ends. Without a file it does nothing.
func (z *Authorizer) Run(ctx context.Context) {
	if z.File == "" {
		return
	}
	z.mu.Lock()
	z.watcher = watchfile.New(func() { z.Check(ctx) }, z.paths()...)
	z.watcher.Interval, z.watcher.Logger, z.watcher.What = z.Interval, z.Logger, "authorization config"
	z.mu.Unlock()
	z.Check(ctx)
	z.watcher.Run(ctx)
}

// paths are the files that matter: the configuration's, and the kubeconfigs'.
func (z *Authorizer) paths() []string {
	return append([]string{z.File}, slices.Sorted(maps.Keys(z.kubeconfigs))...)
}

// Check looks at the files and reloads if there is a reason to.
func (z *Authorizer) Check(ctx context.Context) {
	z.mu.Lock()
	defer z.mu.Unlock()
	text, err := os.ReadFile(z.File)
	if err != nil {
		z.fail(err)
		return
	}
	same := bytes.Equal(text, z.read)
	if same && z.failure == "" && !z.kubeconfigsChanged() {
		return
	}
	if !same {
		z.Logger.Info("found new authorization config data")
		z.read, z.failure, z.failed = text, "", 0
	}
	z.try(ctx, text, same)
}

// kubeconfigsChanged reports whether a file that a webhook in force is reached
// by has other contents. One that cannot be read at the moment has not: what
// was read from it is still good.
func (z *Authorizer) kubeconfigsChanged() bool {
	for path, was := range z.kubeconfigs {
		if text, err := os.ReadFile(path); err == nil && !bytes.Equal(text, was) {
			return true
		}
	}
	return false
}

// try brings a text into force; again says that it was read before.
func (z *Authorizer) try(ctx context.Context, text []byte, again bool) {
	c, err := config.Load(text, z.required...)
	if err != nil {
		z.fail(err)
		return
	}
	form := canonical(c)
	if bytes.Equal(form, z.active) && !z.kubeconfigsChanged() {
		z.failure = ""
		return
	}
	if !again {
		z.Logger.Info("found new authorization config")
	}
	files := contents(c)
	chain, hooks, err := z.build(c)
	if err == nil {
		if !again {
			z.Logger.Info("constructed new authorizer")
		}
		err = healthy(ctx, hooks)
	}
	if err != nil {
		z.fail(err)
		z.watch(files)
		return
	}
	z.current.Store(chain)
	z.active, z.kubeconfigs, z.failure, z.failed = form, files, "", 0
	z.Logger.Info("reloaded authz config")
	z.metrics.Succeeded(text)
	z.watch(nil)
}

// watch makes the files in force, and some more, those that are watched.
func (z *Authorizer) watch(more map[string][]byte) {
	if z.watcher != nil {
		paths := append(z.paths(), slices.Collect(maps.Keys(more))...)
		slices.Sort(paths)
		z.watcher.Set(slices.Compact(paths)...)
	}
}

// soon is when what failed for the first time is tried again; then after twice
// that, and so on.
const soon = time.Second

// fail keeps the last good configuration. The same failure again is not told
// again.
func (z *Authorizer) fail(err error) {
	if z.watcher != nil && z.failed < 6 {
		z.watcher.Again(soon << z.failed) // later, the looks in intervals will do
	}
	z.failed++
	if err.Error() == z.failure {
		return
	}
	z.failure = err.Error()
	z.Logger.Error("reloading authorization config", "err", err)
	z.metrics.Failed()
}

// healthy asks every webhook, all at the same time.
func healthy(ctx context.Context, hooks []*webhook.Webhook) error {
	errs := make([]error, len(hooks))
	var all sync.WaitGroup
	for i, w := range hooks {
		all.Go(func() {
			if err := w.Check(ctx); err != nil {
				errs[i] = fmt.Errorf("webhook %s is not healthy: %w", w.Name, err)
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}
