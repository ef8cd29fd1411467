package server

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/prometheus/client_golang/prometheus"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/keelson-io/keelson/admission/plugins"
	"github.com/keelson-io/keelson/api/impersonation"
	"github.com/keelson-io/keelson/authn"
	"github.com/keelson-io/keelson/authz"
	"github.com/keelson-io/keelson/authz/config"
	"github.com/keelson-io/keelson/crd"
	"github.com/keelson-io/keelson/kind"
	"github.com/keelson-io/keelson/objects"
	"github.com/keelson-io/keelson/status"
	"github.com/keelson-io/keelson/store"
)

// This file has the server for use within a process: without HTTP, credentials and controllers.

// Local is a server for use within this process. Its verbs, admission and kinds are those of New. It
// has no port and no background work: writes take effect with Settle. It makes no network calls:
// admission and conversion webhooks are not called, so that writes should be dry runs.
type Local struct {
	server *Server
	store  store.Store
	guard  guard
	users  *impersonation.Impersonator
}

// LocalConfig configures a Local server. Store is required.
type LocalConfig struct {
	Store  store.Store // the server closes it
	Logger *slog.Logger
}

// OpenLocal opens a Local server.
func OpenLocal(ctx context.Context, c LocalConfig) (*Local, error) {
	s := &Server{config: Config{Store: c.Store, Logger: c.Logger, MaxRequestsInFlight: -1, MaxMutatingRequestsInFlight: -1}.withDefaults()}
	s.logger, s.metrics = s.config.Logger, prometheus.NewRegistry()
	s.opened = append(s.opened, c.Store)
	l := &Local{server: s, store: c.Store}
	if err := l.open(ctx); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

// administrator is the user of writes that name none.
var administrator = &authn.User{Name: adminUser, Groups: []string{authn.Masters, authn.Authenticated}}

// open builds the parts of the server.
func (l *Local) open(ctx context.Context) error {
	s := l.server
	// Permissions come from roles only, because webhooks would be network calls.
	chain, _, err := (&config.Flags{}).Load()
	if err != nil {
		return err
	}
	// There are no controllers to create service accounts, and classes need not be part of what is checked.
	on, err := plugins.Choose(nil, []string{plugins.ServiceAccount, plugins.Priority, plugins.RuntimeClass, plugins.MutatingWebhook, plugins.ValidatingWebhook}, false)
	if err != nil {
		return err
	}
	if s.network, err = newNetwork(&Config{EndpointReconciler: "none"}); err != nil {
		return err
	}
	s.authn = authn.Func(func(*http.Request, []string) (*authn.Response, error) {
		return &authn.Response{User: administrator}, nil
	})
	l.users = impersonation.New(impersonation.Config{Authz: requestGuard{&l.guard}, Forbidden: (*authz.Attributes).Forbidden, Metrics: prometheus.NewRegistry()})
	p := &parts{store: l.store, plugins: on, pluginConfigs: new(plugins.Configs), authorization: chain, converter: newEcho}
	p.guards = func(chain authz.Authorizer) (authz.Authorizer, authz.Authorizer) {
		l.guard.chain = chain
		return requestGuard{&l.guard}, policyGuard{&l.guard}
	}
	return s.assemble(ctx, p)
}

// Verbs returns the verbs on objects.
func (l *Local) Verbs() *objects.Verbs { return l.server.objects }

// Caller returns the identity of a write by a user, an administrator if that is nil. The user gets the groups
// that all users have or that follow from the name.
func (l *Local) Caller(ctx context.Context, user *authn.User, client objects.Client) (objects.Caller, error) {
	if user == nil {
		return objects.NewCaller(administrator, localAgent, client), nil
	}
	got, err := l.users.Impersonate(ctx, user, &authz.Attributes{User: administrator})
	if err != nil {
		return objects.Caller{}, err
	}
	return objects.NewCaller(got.User, localAgent, client), nil
}

// localAgent is the name of the client, which names the field manager.
const localAgent = "keelson"

// Authorize returns an error unless a request is allowed.
func (l *Local) Authorize(ctx context.Context, a *authz.Attributes) error {
	r := requestGuard{&l.guard}.Authorize(ctx, a)
	switch {
	case r.Decision == authz.Allow:
		return nil
	case r.Err != nil:
		return status.Internal(r.Err)
	}
	return a.Forbidden(r.Reason)
}

// Kinds returns the kinds that are served.
func (l *Local) Kinds() *kind.Snapshot { return l.server.kinds.Load() }

// EnsureNamespace creates a namespace unless it exists.
func (l *Local) EnsureNamespace(ctx context.Context, name string) error {
	return l.server.writer(objects.ServerManager).EnsureNamespace(ctx, name)
}

// Settle waits until writes of the given kinds have their effect: definitions are served, roles
// decide, and requests see all other objects.
func (l *Local) Settle(ctx context.Context, changed ...*kind.Kind) error {
	s := l.server
	definitions, roles := false, false
	for _, k := range changed {
		definitions = definitions || k.StoragePrefix == crd.Prefix
		roles = roles || k.Group == rbacv1.GroupName
		if err := s.cache.Resource(k.StoragePrefix).Fresh(ctx); err != nil {
			return err
		}
	}
	if definitions {
		if err := s.crds.Sync(ctx); err != nil {
			return err
		}
	}
	if !roles {
		return nil
	}
	if err := s.authz.aggregator.Sync(ctx); err != nil {
		return err
	}
	return s.authz.follower.Sync(ctx)
}

// ByRoles switches the decisions by roles and bindings on or off. At first they are off: every
// request is allowed, and permissions that expressions of policies check are [Unknown].
func (l *Local) ByRoles(on bool) { l.guard.byRoles.Store(on) }

// Unknown is the last user whose permissions were asked for although they are not known.
type Unknown struct{ user atomic.Pointer[string] }

// User returns the user, "" if there is none.
func (u *Unknown) User() string {
	if name := u.user.Load(); name != nil {
		return *name
	}
	return ""
}

// unknownKey is the key of the Unknown of a context.
type unknownKey struct{}

// Context returns a context whose requests note in u what is not known.
func (u *Unknown) Context(ctx context.Context) context.Context {
	return context.WithValue(ctx, unknownKey{}, u)
}

// Close closes the server and its store.
func (l *Local) Close() error { return l.server.closeAll() }

// echo replaces the webhook of a definition, which must not be called. A dry run discards what it
// converts for storage, so that echo returns an object with metadata only, and returns the original
// when that object is converted back. Objects that requests are to find must be stored in the
// version of the requests.
type echo struct {
	mu   sync.Mutex
	last []byte // the object that was converted last
}

// newEcho returns a converter that converts nothing, in place of a webhook.
func newEcho(string, *apiextv1.WebhookConversion) (kind.Converter, error) { return new(echo), nil }

// Convert implements kind.Converter.
func (e *echo) Convert(_ context.Context, to string, objects [][]byte) ([][]byte, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	out := make([][]byte, len(objects))
	for i, object := range objects {
		var last struct{ APIVersion string }
		if e.last != nil && json.Unmarshal(e.last, &last) == nil && last.APIVersion == to {
			out[i] = e.last
			continue
		}
		var head struct {
			APIVersion string          `json:"apiVersion"`
			Kind       string          `json:"kind"`
			Metadata   json.RawMessage `json:"metadata"`
		}
		err := json.Unmarshal(object, &head)
		if err == nil {
			head.APIVersion, e.last = to, bytes.Clone(object)
			out[i], err = json.Marshal(head)
		}
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// guard decides in place of the chain of authorizers.
type guard struct {
	chain   authz.Authorizer
	byRoles atomic.Bool
}

// requestGuard decides about requests.
type requestGuard struct{ *guard }

// Authorize implements authz.Authorizer.
func (g requestGuard) Authorize(ctx context.Context, a *authz.Attributes) authz.Result {
	if !g.byRoles.Load() {
		return authz.Result{Decision: authz.Allow}
	}
	return g.chain.Authorize(ctx, a)
}

// policyGuard decides for expressions of policies.
type policyGuard struct{ *guard }

// Authorize implements authz.Authorizer.
func (g policyGuard) Authorize(ctx context.Context, a *authz.Attributes) authz.Result {
	if g.byRoles.Load() || slices.Contains(a.User.Groups, authn.Masters) {
		return g.chain.Authorize(ctx, a)
	}
	name := a.User.Name
	if u, ok := ctx.Value(unknownKey{}).(*Unknown); ok {
		u.user.Store(&name)
	}
	return authz.Result{Err: fmt.Errorf("what %s may do is not known without roles and bindings", name)}
}
