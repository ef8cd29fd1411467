package server

import (
	"context"
	"errors"
	"net/http"
	"path"
	"runtime"
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-io/keelson/authz"
	"github.com/keelson-io/keelson/internal/audit"
	"github.com/keelson-io/keelson/internal/authn"
	"github.com/keelson-io/keelson/internal/authz/rbac"
	"github.com/keelson-io/keelson/internal/controller/roles"
	"github.com/keelson-io/keelson/internal/objects"
	"github.com/keelson-io/keelson/internal/status"
)

// This file is who the server's own parts are, what they may do, and what is recorded of it.
//
// A controller is the service account that it is in a cluster, and has the permissions of the default role
// of that account, whatever the authorizers of requests say: it works before roles are stored, and on a
// server without RBAC. Somebody else with a token of the same account has only what the authorizers allow.

// ownParts implements objects.Own and, for admission, authz.Authorizer.
type ownParts struct {
	audit *audit.Auditor   // nil: nothing is recorded
	next  authz.Authorizer // is asked about all others

	roles func() *rbac.Index // the default roles

	mu    sync.RWMutex
	users map[*authn.User]bool // of controllers
}

// newOwnParts returns the permissions and the record of the server's parts. Its field next is to be set.
func newOwnParts(a *audit.Auditor) *ownParts {
	return &ownParts{audit: a, users: map[*authn.User]bool{}, roles: sync.OnceValue(func() *rbac.Index {
		ix := rbac.NewIndex()
		ix.Apply(roles.Changes()...)
		return ix
	})}
}

// Authorize implements authz.Authorizer for the steps of admission that ask what the user may do.
func (p *ownParts) Authorize(ctx context.Context, a *authz.Attributes) authz.Result {
	p.mu.RLock()
	own := p.users[a.User]
	p.mu.RUnlock()
	if own {
		if r := p.roles().Authorize(ctx, a); r.Decision == authz.Allow {
			return r
		}
	}
	return p.next.Authorize(ctx, a)
}

// controller returns a controller as a caller, by the name of its service account.
func (p *ownParts) controller(account string) objects.Caller {
	return p.known(objects.Controller(account))
}

// known returns a caller whose permissions are those of the default roles.
func (p *ownParts) known(c objects.Caller) objects.Caller {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.users[c.User()] = true
	return c
}

// Begin implements objects.Own.
func (p *ownParts) Begin(w *objects.OwnWrite) (objects.Entry, error) {
	ref := w.Ref
	a := &authz.Attributes{User: w.User, Verb: w.Verb, ResourceRequest: true, Group: ref.Kind.Group, Version: ref.Version.Name,
		Resource: ref.Kind.Plural, Subresource: ref.Subresource, Namespace: ref.Namespace, Name: nameIn(w.Verb, ref.Name)}
	decided := authz.Result{Decision: authz.Allow}
	if !slices.Contains(w.User.Groups, authn.Masters) {
		if decided = p.roles().Authorize(context.Background(), a); decided.Decision != authz.Allow {
			return nil, status.Forbidden(ref.Kind.GroupResource(), ref.Name, errors.New(a.Refusal()))
		}
	}
	e, err := p.record(a, ref.Name, w.Manager, decided.Reason)
	if e == nil {
		return nil, err // an Entry that is nil
	}
	return e, nil
}

// nameIn returns the name in the path of a request.
func nameIn(verb, name string) string {
	if verb == "create" {
		return "" // the name is in the body only
	}
	return name
}

// record begins the record of a permitted write to the object of a name. It returns nil if the write is
// not recorded.
func (p *ownParts) record(a *authz.Attributes, name, manager, reason string) (*ownEntry, error) {
	rec := p.audit.StartOwn(pathOf(a), ownAgent(manager), a)
	if rec == nil {
		return nil, nil
	}
	if !rec.Received() {
		return nil, status.Internal(errors.New("failed to store audit event"))
	}
	rec.Annotate("authorization.k8s.io/decision", "allow")
	rec.Annotate("authorization.k8s.io/reason", reason)
	return &ownEntry{Record: rec, verb: a.Verb, name: name, resource: schema.GroupResource{Group: a.Group, Resource: a.Resource}}, nil
}

// pathOf returns the path of a request with these attributes.
func pathOf(a *authz.Attributes) string {
	root, namespaces := "apis", ""
	if a.Group == "" {
		root = "api"
	}
	if a.Namespace != "" {
		namespaces = "namespaces"
	}
	return path.Join("/", root, a.Group, a.Version, namespaces, a.Namespace, a.Resource, a.Name, a.Subresource)
}

// ownAgent returns the user agent of a part of the server, which a field manager names.
func ownAgent(manager string) string {
	return "keelson/" + Version().GitVersion + " (" + runtime.GOOS + "/" + runtime.GOARCH + ") " + manager
}

// ownEntry is the record of one write.
type ownEntry struct {
	*audit.Record
	verb, name string
	resource   schema.GroupResource
}

// AnnotateRequest implements objects.Entry.
func (e *ownEntry) AnnotateRequest(key, value string) {
	if l := e.Level(); l == audit.Request || l == audit.RequestResponse {
		e.Annotate(key, value)
	}
}

// End implements objects.Entry.
func (e *ownEntry) End(out *objects.Outcome, sent func() []byte, err error) {
	result := func() []byte { return out.Doc.Root().AppendJSON(nil) }
	if sent == nil && out.Doc != nil { // the object was changed by a function
		sent = result
	}
	if sent != nil {
		e.RequestObject(audit.Object{Name: e.name}, sent)
	}
	if out.Doc != nil {
		e.ResponseObject(result)
	}
	e.answer(err)
}

// answer completes the record with what a client would be answered.
func (e *ownEntry) answer(err error) {
	if err != nil {
		st := status.From(err).Status
		if st.Code == 0 {
			st.Code = http.StatusInternalServerError
		}
		st.Status = metav1.StatusFailure
		e.ResponseStatus(&st)
		e.Code(int(st.Code))
	} else if e.verb == "create" {
		e.Code(http.StatusCreated)
	} else {
		e.Code(http.StatusOK)
	}
	e.Complete()
}
