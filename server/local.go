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

	"github.com/keelson-io/keelson/audit"
	"github.com/keelson-io/keelson/authn"
	"github.com/keelson-io/keelson/authz"
	"github.com/keelson-io/keelson/authz/config"
	"github.com/keelson-io/keelson/kind"
	"github.com/keelson-io/keelson/store"
)

// This file is the server for those who ask it in their own process: without a
// port, credentials and controllers.

// Local is a server in this process alone. It is the server of New as far as
// requests are concerned: the same API, admission and kinds. It has no port,
// and nothing happens in it by itself: what was written to its store, or by a
// request, takes effect with Settle. It calls nobody: no webhook is asked, for
// admission or for conversion, so that requests are to be dry runs.
//
// Requests are from an administrator, a member of system:masters, unless their
// headers ask for another user (as kubectl --as does).
type Local struct {
	server *Server
	store  store.Store
	guard  guard
}

// LocalConfig says what a Local server works with. Store is required.
type LocalConfig struct {
	Store  store.Store // the server closes it
	Logger *slog.Logger
	// Record is told of every request that has been answered; nil: nobody is.
	Record func(e *audit.Event)
}

// OpenLocal opens a Local server over a store.
func OpenLocal(ctx context.Context, c LocalConfig) (*Local, error) {
	s := &Server{config: Config{Store: c.Store, Logger: c.Logger, MaxRequestsInFlight: -1, MaxMutatingRequestsInFlight: -1}.withDefaults()}
	s.logger, s.metrics = s.config.Logger, prometheus.NewRegistry()
	s.opened = append(s.opened, c.Store)
	l := &Local{server: s, store: c.Store}
	if err := l.open(ctx, c.Record); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

// administrator is who asks.
var administrator = &authn.Response{User: &authn.User{Name: adminUser, Groups: []string{authn.Masters, authn.Authenticated}}}

func (l *Local) open(ctx context.Context, record func(*audit.Event)) error {
	s := l.server
	// Who may do what is known by roles; webhooks would be calls.
	chain, _, err := (&config.Flags{}).Load()
	if err != nil {
		return err
	}
	on, err := choosePlugins(nil, []string{mutatingWebhook, validatingWebhook})
	if err != nil {
		return err
	}
	if s.network, err = newNetwork(&Config{EndpointReconciler: "none"}); err != nil {
		return err
	}
	s.authn = authn.Func(func(*http.Request, []string) (*authn.Response, error) { return administrator, nil })
	p := &parts{store: l.store, plugins: on, authorization: chain, converter: newEcho}
	if record != nil {
		everything := &audit.Policy{Rules: []audit.PolicyRule{{Level: audit.Metadata, OmitStages: []audit.Stage{audit.RequestReceived}}}}
		p.recorder = audit.NewAuditor(everything, recorder(record), audit.NewMetrics(s.metrics), s.logger)
	}
	p.guards = func(chain authz.Authorizer) (authz.Authorizer, authz.Authorizer) {
		l.guard.chain = chain
		return requestGuard{&l.guard}, policyGuard{&l.guard}
	}
	return s.assemble(ctx, p)
}

// ServeHTTP answers a request.
func (l *Local) ServeHTTP(w http.ResponseWriter, r *http.Request) { l.server.handler.ServeHTTP(w, r) }

// Kinds are those that are served.
func (l *Local) Kinds() *kind.Snapshot { return l.server.kinds.Load() }

// EnsureNamespace creates a namespace unless it exists.
func (l *Local) EnsureNamespace(ctx context.Context, name string) error {
	return l.server.handler.EnsureNamespace(ctx, name)
}

// Settle returns when what has been written of the given kinds is in effect:
// definitions are served, roles decide, everything else is seen by requests.
func (l *Local) Settle(ctx context.Context, changed ...*kind.Kind) error {
	s := l.server
	definitions, roles := false, false
	for _, k := range changed {
		definitions = definitions || k.StoragePrefix == kind.DefinitionsPrefix
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
	if err := s.authz.gather.Sync(ctx); err != nil {
		return err
	}
	for i := range s.authz.follower.Sources {
		if err := s.authz.follower.Sources[i].Objects.Fresh(ctx); err != nil {
			return err
		}
	}
	return s.authz.follower.Sync(ctx)
}

// ByRoles says whether roles and bindings decide what users may do. If not,
// which is how it begins, every request is allowed, and nobody can tell a policy
// what a user may do: see Asked.
func (l *Local) ByRoles(on bool) { l.guard.byRoles.Store(on) }

// Asked is the user about whom a policy has asked what nobody could tell it,
// "" if none has, since Asked was last called.
func (l *Local) Asked() string {
	if u := l.guard.asked.Swap(nil); u != nil {
		return *u
	}
	return ""
}

// Close closes the server and its store.
func (l *Local) Close() error { return l.server.closeAll() }

// echo stands for the webhook of a definition, which is not called: what a dry run would store is forgotten, so that it need not be
// converted. It answers with an object that has nothing but metadata, and with the original when the stored form is converted back.
// Who stores objects for requests to find stores them in the version of the requests.
type echo struct {
	mu   sync.Mutex
	last []byte // that was converted
}

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

// recorder makes a function a backend of audit events.
type recorder func(e *audit.Event)

// Process implements audit.Backend.
func (r recorder) Process(e *audit.Event) bool {
	r(e)
	return true
}

// Close implements audit.Backend.
func (recorder) Close() error { return nil }

// guard is what decides in place of the chain of authorizers.
type guard struct {
	chain   authz.Authorizer
	byRoles atomic.Bool
	asked   atomic.Pointer[string]
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

// policyGuard answers policies.
type policyGuard struct{ *guard }

// Authorize implements authz.Authorizer.
func (g policyGuard) Authorize(ctx context.Context, a *authz.Attributes) authz.Result {
	if g.byRoles.Load() || slices.Contains(a.User.Groups, authn.Masters) {
		return g.chain.Authorize(ctx, a)
	}
	name := a.User.Name
	g.asked.Store(&name)
	return authz.Result{Err: fmt.Errorf("what %s may do is not known without roles and bindings", name)}
}
