// Package reload builds a chain of authorizers from a configuration, and replaces it when the
// configuration file changes.
//
// # Model
//
// An [Authorizer] uses the chain in force. [Authorizer.Run] reads the file when the file system
// reports a change, and at least once a minute. A new chain comes into force if the file is valid,
// all its parts can be built, and all its webhooks answer. Until then the last good chain decides.
//
// # Invariants
//
//   - One chain decides each request, even if it is replaced meanwhile.
//   - The types of authorizers that the server started with, other than webhooks, stay: a reload
//     that leaves one out fails. It may change their order.
//   - A reload cannot add RBAC, Node or ABAC. It can add AlwaysAllow and AlwaysDeny, and remove
//     them again, as in kube-apiserver. KEP-3221 would allow this only for webhooks.
//   - A failed reload is tried again, because its reason may lie outside of the
//     file: first after a second, later with each check of the file.
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

	"github.com/keelson-io/keelson/authz"
	"github.com/keelson-io/keelson/internal/authn"
	"github.com/keelson-io/keelson/internal/authz/config"
	"github.com/keelson-io/keelson/internal/authz/webhook"
	"github.com/keelson-io/keelson/internal/kubehook"
	"github.com/keelson-io/keelson/internal/reloads"
	"github.com/keelson-io/keelson/internal/watchfile"
	"github.com/keelson-io/keelson/internal/weakcert"
)

// Config has everything that chains are built from.
type Config struct {
	Configuration *config.AuthorizationConfiguration // the one to start with
	File          string                             // that it comes from; "": it never changes
	Text          []byte                             // of File, when Configuration was read

	// Authorizers that all chains share; nil if the first configuration does not have them.
	RBAC, Node, ABAC authz.Authorizer

	// Asker returns the connection to a webhook; nil means a client of its kubeconfig.
	Asker func(a *config.AuthorizerConfiguration) (webhook.Asker, error)

	Interval time.Duration         // between checks of the file; 0 means one minute
	Metrics  prometheus.Registerer // nil: none
	// Certificates counts the certificates of webhooks. Nil means that they are not counted.
	Certificates *weakcert.Counters
	ServerID     string // for metrics, which show its hash
	Logger       *slog.Logger
}

// Authorizer decides by the last good configuration.
type Authorizer struct {
	Config
	decisions *authz.Metrics
	webhooks  *webhook.Metrics
	metrics   *reloads.Metrics // nil: none
	required  []string

	current atomic.Pointer[authz.Chain]

	mu          sync.Mutex
	active      []byte            // canonical form of the configuration in force
	read        []byte            // text of the last read
	kubeconfigs map[string][]byte // file -> contents, for the configuration in force; also the files that kubeconfigs name
	failed      int               // how often the last text was refused since it was read; 0 if it is in force
	reported    string            // the message of the last failure that was logged, "" since the last success
	watcher     *watchfile.Watcher
}

// New builds the first chain.
func New(c Config) (*Authorizer, error) {
	z := &Authorizer{Config: c, active: canonical(c.Configuration), read: c.Text, kubeconfigs: contents(c.Configuration)}
	if c.Metrics != nil {
		z.decisions, z.webhooks = authz.NewMetrics(c.Metrics), webhook.NewMetrics(c.Metrics)
		if c.File != "" || len(z.kubeconfigs) > 0 {
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

// Authorize decides by the chain in force.
func (z *Authorizer) Authorize(ctx context.Context, a *authz.Attributes) authz.Result {
	return z.current.Load().Authorize(ctx, a)
}

// RulesFor lists rules by the chain in force.
func (z *Authorizer) RulesFor(ctx context.Context, user *authn.User, namespace string) authz.Rules {
	return z.current.Load().RulesFor(ctx, user, namespace)
}

// Links returns the authorizers of the chain in force, in order.
func (z *Authorizer) Links() []authz.Named { return z.current.Load().Links() }

// canonical returns a form in which equal configurations are equal.
func canonical(c *config.AuthorizationConfiguration) []byte {
	copied := *c
	copied.APIVersion, copied.Kind = "", ""
	text, err := json.Marshal(&copied)
	if err != nil {
		panic("BUG: configuration does not marshal: " + err.Error())
	}
	return text
}

// contents returns the kubeconfig files of a configuration's webhooks, and the certificates, keys and authorities that these name, as far
// as they can be read.
func contents(c *config.AuthorizationConfiguration) map[string][]byte {
	found := map[string][]byte{}
	for _, kubeconfig := range c.KubeConfigFiles() {
		for _, path := range kubehook.Files(kubeconfig) {
			if text, err := os.ReadFile(path); err == nil {
				found[path] = text
			}
		}
	}
	return found
}

// build builds a chain, and returns its webhooks as well.
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

// webhook builds a webhook authorizer.
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

// client returns a client for the kubeconfig of a webhook.
func (z *Authorizer) client(a *config.AuthorizerConfiguration) (webhook.Asker, error) {
	w := a.Webhook
	return webhook.NewClient(webhook.ClientConfig{
		KubeConfigFile: *w.ConnectionInfo.KubeConfigFile, Version: w.SubjectAccessReviewVersion, Timeout: w.Timeout.Duration, Certificates: z.Certificates,
	})
}

// Run checks the file and the kubeconfigs until ctx ends. Without any it returns at once.
func (z *Authorizer) Run(ctx context.Context) {
	if z.File == "" && len(z.kubeconfigs) == 0 {
		return
	}
	z.mu.Lock()
	z.watcher = watchfile.New(func() { z.Check(ctx) }, z.paths()...)
	z.watcher.Interval, z.watcher.Logger, z.watcher.What = z.Interval, z.Logger, "authorization config"
	z.mu.Unlock()
	z.Check(ctx)
	z.watcher.Run(ctx)
}

// paths returns the files to watch: the configuration and the kubeconfigs in force.
func (z *Authorizer) paths() []string {
	paths := slices.Sorted(maps.Keys(z.kubeconfigs))
	if z.File != "" {
		paths = append([]string{z.File}, paths...)
	}
	return paths
}

// Check reads the files and reloads if they changed or the last reload failed.
func (z *Authorizer) Check(ctx context.Context) {
	z.mu.Lock()
	defer z.mu.Unlock()
	text := z.read
	if z.File != "" {
		var err error
		if text, err = os.ReadFile(z.File); err != nil {
			z.fail(err)
			return
		}
	}
	same := bytes.Equal(text, z.read)
	changed, err := z.kubeconfigsChanged()
	switch {
	case same && err != nil && !changed && z.failed == 0:
		z.retry() // somebody may be replacing the file: only a file that is still missing then is reported
		return
	case same && err != nil && !changed:
		z.fail(err)
		return
	case same && z.failed == 0 && !changed:
		return
	}
	if !same {
		z.Logger.Info("found new authorization config data")
		z.read, z.reported, z.failed = text, "", 0
	}
	z.try(ctx, text, same)
}

// kubeconfigsChanged reports whether a kubeconfig in force, or a file that it names, has other
// contents. A file that cannot be read counts as unchanged, because its last contents are still in
// use; the error says why.
func (z *Authorizer) kubeconfigsChanged() (changed bool, err error) {
	for _, path := range slices.Sorted(maps.Keys(z.kubeconfigs)) {
		text, failure := os.ReadFile(path)
		changed = changed || failure == nil && !bytes.Equal(text, z.kubeconfigs[path])
		err = errors.Join(err, failure)
	}
	return changed, err
}

// try puts the configuration in text into force. again means that the same text was tried before.
func (z *Authorizer) try(ctx context.Context, text []byte, again bool) {
	c, err := z.Configuration, error(nil)
	if z.File != "" {
		c, err = config.Load(text, z.required...)
	}
	if err != nil {
		z.fail(err)
		return
	}
	form := canonical(c)
	if changed, _ := z.kubeconfigsChanged(); !changed && bytes.Equal(form, z.active) {
		z.reported, z.failed = "", 0
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
	z.active, z.kubeconfigs, z.reported, z.failed = form, files, "", 0
	z.Logger.Info("reloaded authz config")
	z.metrics.Succeeded(text)
	z.watch(nil)
}

// watch watches the files in force, and more.
func (z *Authorizer) watch(more map[string][]byte) {
	if z.watcher != nil {
		paths := append(z.paths(), slices.Collect(maps.Keys(more))...)
		slices.Sort(paths)
		z.watcher.Set(slices.Compact(paths)...)
	}
}

// soon is the delay of the first retry. It doubles with each failure.
const soon = time.Second

// fail keeps the last good configuration and schedules a retry. It logs and counts a failure once for
// each message: the operator need not read the same line every second. The message decides nothing
// else; whether a retry is due follows from z.failed.
func (z *Authorizer) fail(err error) {
	z.retry()
	message := err.Error()
	if message == z.reported {
		return
	}
	z.reported = message
	z.Logger.Error("reloading authorization config", "err", err)
	z.metrics.Failed()
}

// retry schedules a retry.
func (z *Authorizer) retry() {
	if z.watcher != nil && z.failed < 6 {
		z.watcher.Again(soon << z.failed) // later retries are left to the regular checks
	}
	z.failed++
}

// healthy sends every webhook a review, all at the same time, and returns an error for each that does
// not answer.
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
