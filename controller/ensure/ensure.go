// Package ensure keeps objects in being that everybody may rely on: the system's namespaces, and in every namespace the service
// account "default" and the config map kube-root-ca.crt, with which programs in the namespace know the server.
//
// The [Controller] reads every change of the store from a tap of the cache. A namespace that appears gets its objects; an object that
// was deleted is made anew, unless its namespace is going; a config map that was changed is put right. When the authorities of the
// servers change, all config maps follow.
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

	"github.com/keelson-io/keelson/cache"
	"github.com/keelson-io/keelson/controller/loop"
	"github.com/keelson-io/keelson/controller/trust"
	"github.com/keelson-io/keelson/kind"
	"github.com/keelson-io/keelson/meta"
	"github.com/keelson-io/keelson/status"
	"github.com/keelson-io/keelson/store"
)

// What kube-controller-manager calls the two controllers that this one is.
const (
	ServiceAccounts = "serviceaccount-controller"
	RootCA          = "root-ca-certificate-publisher-controller"
)

// SystemNamespaces are always there.
var SystemNamespaces = []string{"default", "kube-node-lease", "kube-public", "kube-system"}

const (
	account = "default"
	rootCA  = "kube-root-ca.crt"
	caKey   = "ca.crt"
)

// description is the annotation of the config map that says what it is.
const description = "kubernetes.io/description"

// caComment is what upstream writes on the config map.
const caComment = "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the internal service IP or " +
	"kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes clusters."

// API is what the controller asks of the API, as a client would.
type API interface {
	// Ensure creates an object of a body unless it exists.
	Ensure(ctx context.Context, k *kind.Kind, namespace, name string, body []byte) error
	// Modify changes an object; the errors of fn are its own.
	Modify(ctx context.Context, k *kind.Kind, namespace, name string, fn func(meta.Object) error) error
}

// Controller keeps objects in being. Its fields are set before Run.
type Controller struct {
	Kinds  *kind.Registry
	Cache  *cache.Cache
	Store  store.Store
	API    API
	Logger *slog.Logger

	// EnsureNamespace creates a namespace unless it exists.
	EnsureNamespace func(ctx context.Context, name string) error

	// Authorities are what config maps say; the controller keeps them in being, too.
	Authorities *trust.Bundle

	Accounts bool // every namespace has a service account
	Maps     bool // every namespace has a config map

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
	if !c.Accounts {
		c.accounts = nil
	}
	if !c.Maps {
		c.maps = nil
	}
	c.loop = loop.Loop{Cache: c.Cache, Store: c.Store, Logger: c.Logger, Name: ServiceAccounts + ", " + RootCA, List: []string{trust.Prefix, c.spaces.StoragePrefix + "/"},
		Wants: c.wants, Begin: c.begin, See: c.see, Work: c.work}
	c.loop.Run(ctx)
}

// begin notes the authorities and the namespaces that are to be there.
func (c *Controller) begin() {
	c.learn()
	for _, name := range SystemNamespaces {
		c.loop.Add(c.spaces.Key("", name))
	}
}

// learn notes that the authorities may have changed.
func (c *Controller) learn() {
	c.ca = ""
	c.loop.Add(trust.Key)
}

// wants reports whether a change is of a namespace, or of what every namespace has.
func (c *Controller) wants(e *store.Event) bool {
	return strings.HasPrefix(e.Key, c.spaces.StoragePrefix+"/") || e.Key == trust.Key || is(c.accounts, account, e.Key) || is(c.maps, rootCA, e.Key)
}

// is reports whether a key is that of an object of a name, in any namespace, of a kind; of nil there are none.
func is(k *kind.Kind, name, key string) bool {
	return k != nil && strings.HasPrefix(key, k.StoragePrefix+"/") && strings.HasSuffix(key, "/"+name)
}

// furnish notes what a namespace is to have.
func (c *Controller) furnish(namespace string) {
	if c.accounts != nil {
		c.loop.Add(c.accounts.Key(namespace, account))
	}
	if c.maps != nil {
		c.loop.Add(c.maps.Key(namespace, rootCA))
	}
}

// see notes what a change asks for.
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

// work makes sure of one object.
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

// admit makes sure of a namespace's service account.
func (c *Controller) admit(ctx context.Context, namespace, name string) error {
	return c.API.Ensure(ctx, c.accounts, namespace, name, object("ServiceAccount", name, nil, nil))
}

// bundle is what config maps shall say.
func (c *Controller) bundle(ctx context.Context) (string, error) {
	var err error
	if c.ca == "" {
		c.ca, err = c.Authorities.Load(ctx)
	}
	return c.ca, err
}

// spread makes sure of the authorities, and notes all config maps.
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

// publish makes sure of a namespace's config map.
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
		return c.API.Ensure(ctx, c.maps, namespace, name, object("ConfigMap", name, map[string]string{description: caComment}, map[string]string{caKey: ca}))
	}
	defer have.Doc.Release()
	if data := have.Doc.Root().Get("data"); data.Len() == 1 && data.Get(caKey).Text() == ca && have.Annotation(description) != "" {
		return nil
	}
	return c.API.Modify(ctx, c.maps, namespace, name, func(o meta.Object) error {
		// Read after what it replaces: so no server takes away again what a faster one has published.
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

// going reports whether a namespace is not there, or not for long.
func (c *Controller) going(ctx context.Context, name string) (bool, error) {
	space, err := loop.Load(ctx, c.Store, c.spaces, c.spaces.Key("", name))
	if space == nil {
		return err == nil, err
	}
	defer space.Doc.Release()
	return space.DeletionTimestamp() != "", nil
}

// unlessGone forgives that a namespace began to go, or an object went, in the meantime.
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

// object is the body of a new object.
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
