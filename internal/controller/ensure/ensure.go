// Package ensure creates the objects that every cluster has: the system's namespaces, and in every
// namespace the service account "default" and the config map kube-root-ca.crt, with which programs
// in the namespace verify the server.
//
// The [Controller] reads every change of the store from a tap of the cache. A new namespace gets
// its objects. An object that was deleted is created again, unless its namespace is being deleted.
// A config map that was changed gets its content back. When the authorities of the servers change,
// all config maps follow.
//
// [Controller.Run] is the function to call.
package ensure

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-io/keelson/internal/cache"
	"github.com/keelson-io/keelson/internal/controller/loop"
	"github.com/keelson-io/keelson/internal/controller/trust"
	"github.com/keelson-io/keelson/internal/meta"
	"github.com/keelson-io/keelson/internal/status"
	"github.com/keelson-io/keelson/internal/store"
	"github.com/keelson-io/keelson/kind"
)

// kube-controller-manager's names of the two controllers that this one replaces.
const (
	ServiceAccounts = "serviceaccount-controller"
	RootCA          = "root-ca-certificate-publisher-controller"
)

// The service accounts that the two are in a cluster.
const (
	AccountOfAccounts = "service-account-controller"
	AccountOfRootCA   = "root-ca-cert-publisher"
)

// SystemNamespaces are the namespaces that always exist.
var SystemNamespaces = []string{"default", "kube-node-lease", "kube-public", "kube-system"}

const (
	account = "default"
	rootCA  = "kube-root-ca.crt"
	caKey   = "ca.crt"
)

// description is the annotation with a description of the config map.
const description = "kubernetes.io/description"

// caComment is upstream's description of the config map.
const caComment = "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the internal service IP or " +
	"kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes clusters."

// API is the part of the API that the controller calls, as a client would.
type API interface {
	// Ensure creates an object from its JSON unless it exists.
	Ensure(ctx context.Context, k *kind.Kind, namespace, name string, body []byte) error
	// Modify changes an object. It returns the errors of fn unchanged.
	Modify(ctx context.Context, k *kind.Kind, namespace, name string, fn func(meta.Object) error) error
}

// Controller creates the objects. Its fields are set before Run.
type Controller struct {
	Kinds  *kind.Registry
	Cache  *cache.Cache
	Store  store.Store
	Logger *slog.Logger

	// Accounts gives every namespace its service account, Maps its config map. If nil, nobody does.
	Accounts, Maps API

	// EnsureNamespace creates a namespace unless it exists.
	EnsureNamespace func(ctx context.Context, name string) error

	// Authorities is the content of the config maps. The controller also keeps it stored.
	Authorities *trust.Bundle

	loop                   loop.Loop // due are the objects that are to be there
	spaces, accounts, maps *kind.Kind
	ca                     string // the authorities, "" if they may have changed
}

// Run works until ctx ends.
func (c *Controller) Run(ctx context.Context) {
	now := c.Kinds.Load()
	c.spaces, c.accounts, c.maps = now.Lookup("", "namespaces"), now.Lookup("", "serviceaccounts"), now.Lookup("", "configmaps")
	if c.spaces == nil {
		return
	}
	if c.Accounts == nil {
		c.accounts = nil
	}
	if c.Maps == nil {
		c.maps = nil
	}
	c.loop = loop.Loop{Cache: c.Cache, Store: c.Store, Logger: c.Logger, Name: ServiceAccounts + ", " + RootCA, List: []string{trust.Prefix, c.spaces.StoragePrefix + "/"},
		Wants: c.wants, Begin: c.begin, See: c.see, Work: c.work}
	c.loop.Run(ctx)
}

// begin schedules the authorities and the system's namespaces.
func (c *Controller) begin() {
	c.learn()
	for _, name := range SystemNamespaces {
		c.loop.Add(c.spaces.Key("", name))
	}
}

// learn forgets the authorities, which may have changed, and schedules their config maps.
func (c *Controller) learn() {
	c.ca = ""
	c.loop.Add(trust.Key)
}

// wants reports whether a change is of a namespace, or of an object that every namespace has.
func (c *Controller) wants(e *store.Event) bool {
	return strings.HasPrefix(e.Key, c.spaces.StoragePrefix+"/") || e.Key == trust.Key || is(c.accounts, account, e.Key) || is(c.maps, rootCA, e.Key)
}

// is reports whether a key is that of an object of a kind with a name, in any namespace. A nil kind
// has no objects.
func is(k *kind.Kind, name, key string) bool {
	return k != nil && strings.HasPrefix(key, k.StoragePrefix+"/") && strings.HasSuffix(key, "/"+name)
}

// furnish schedules the objects of a namespace.
func (c *Controller) furnish(namespace string) {
	if c.accounts != nil {
		c.loop.Add(c.accounts.Key(namespace, account))
	}
	if c.maps != nil {
		c.loop.Add(c.maps.Key(namespace, rootCA))
	}
}

// see schedules the work after a change.
func (c *Controller) see(e *loop.Change) {
	name, space := strings.CutPrefix(e.Key, c.spaces.StoragePrefix+"/")
	switch {
	case e.Key == trust.Key:
		c.learn()
	case space && !e.Deleted:
		c.furnish(name)
	case space && slices.Contains(SystemNamespaces, name), !space && (e.Deleted || is(c.maps, rootCA, e.Key)):
		c.loop.Add(e.Key)
	}
}

// work makes sure that one object is as it should be.
func (c *Controller) work(ctx context.Context, key string) error {
	if name, ok := strings.CutPrefix(key, c.spaces.StoragePrefix+"/"); ok {
		return c.EnsureNamespace(ctx, name)
	}
	if key == trust.Key {
		return c.spread(ctx)
	}
	k, settle := c.maps, c.publish
	if is(c.accounts, account, key) {
		k, settle = c.accounts, c.admit
	}
	namespace, name := loop.Place(k, key)
	if going, err := c.going(ctx, namespace); going || err != nil {
		return err
	}
	return unlessGone(settle(ctx, namespace, name))
}

// admit makes sure that a namespace has its service account.
func (c *Controller) admit(ctx context.Context, namespace, name string) error {
	return c.Accounts.Ensure(ctx, c.accounts, namespace, name, object("ServiceAccount", name, nil, nil))
}

// bundle returns the content of the config maps.
func (c *Controller) bundle(ctx context.Context) (string, error) {
	var err error
	if c.ca == "" {
		c.ca, err = c.Authorities.Load(ctx)
	}
	return c.ca, err
}

// spread makes sure that the authorities are stored, and schedules all config maps.
func (c *Controller) spread(ctx context.Context) error {
	if _, err := c.bundle(ctx); err != nil || c.maps == nil {
		return err
	}
	_, err := store.Each(ctx, c.Store, c.spaces.StoragePrefix+"/", 0, func(it *store.Item) error {
		c.loop.Add(c.maps.Key(strings.TrimPrefix(it.Key, c.spaces.StoragePrefix+"/"), rootCA))
		return nil
	})
	return err
}

// publish makes sure that a namespace has its config map.
func (c *Controller) publish(ctx context.Context, namespace, name string) error {
	ca, err := c.bundle(ctx)
	if err != nil {
		return err
	}
	have, err := loop.Load(ctx, c.Store, c.maps, c.maps.Key(namespace, name))
	if err != nil {
		return err
	}
	if have == nil {
		return c.Maps.Ensure(ctx, c.maps, namespace, name, object("ConfigMap", name, map[string]string{description: caComment}, map[string]string{caKey: ca}))
	}
	defer have.Doc.Release()
	if data := have.Doc.Root().Get("data"); data.Len() == 1 && data.Get(caKey).Text() == ca && have.Annotation(description) != "" {
		return nil
	}
	return c.Maps.Modify(ctx, c.maps, namespace, name, func(o meta.Object) error {
		// Load comes after the read of the config map, so that no server overwrites a newer list
		// that a faster one has published.
		ca, err := c.Authorities.Load(ctx)
		if err != nil {
			return err
		}
		o.Doc.Remove("data")
		o.Doc.Set(o.Doc.NewString(ca), "data", caKey)
		o.Doc.Set(o.Doc.NewString(caComment), "metadata", "annotations", description)
		return nil
	})
}

// going reports whether a namespace is gone or being deleted.
func (c *Controller) going(ctx context.Context, name string) (bool, error) {
	space, err := loop.Load(ctx, c.Store, c.spaces, c.spaces.Key("", name))
	if space == nil {
		return err == nil, err
	}
	defer space.Doc.Release()
	return space.DeletionTimestamp() != "", nil
}

// unlessGone returns nil for errors which mean that a namespace is being deleted or an object is
// gone.
func unlessGone(err error) error {
	if err == nil {
		return nil
	}
	switch status.From(err).Reason {
	case metav1.StatusReasonNotFound, metav1.StatusReasonForbidden:
		return nil
	}
	return err
}

// object returns the JSON of a new object.
func object(kindName, name string, annotations, data map[string]string) []byte {
	metadata := map[string]any{"name": name}
	if annotations != nil {
		metadata["annotations"] = annotations
	}
	o := map[string]any{"apiVersion": "v1", "kind": kindName, "metadata": metadata}
	if data != nil {
		o["data"] = data
	}
	text, err := json.Marshal(o)
	if err != nil {
		panic("BUG: strings do not marshal: " + err.Error())
	}
	return text
}
