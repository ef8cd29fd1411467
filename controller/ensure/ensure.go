// Package ensure keeps objects in being that everybody may rely on: the system's namespaces, and in every namespace the service
// account "default" and the config map kube-root-ca.crt, with which programs in the namespace know the server.
//
// The [Controller] reads every change of the store from a tap of the cache. A namespace that appears gets its objects; an object that
// was deleted is made anew, unless its namespace is going; a config map that was changed is put right.
//
// [Controller.Run] is the function to call.
package ensure

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-io/keelson/cache"
	"github.com/keelson-io/keelson/doc"
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
	account  = "default"
	rootCA   = "kube-root-ca.crt"
	caKey    = "ca.crt"
	retry    = time.Second
	pageSize = 500
)

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

	Accounts bool   // every namespace has a service account
	CA       []byte // PEM, for every namespace; nil: none of them gets it

	spaces, accounts, maps *kind.Kind
	again                  map[string]bool // what was not done yet: keys of objects, "<prefix>/" + …
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
	if c.CA == nil {
		c.maps = nil
	}
	tap, err := c.Cache.Tap(ctx)
	if err != nil {
		return
	}
	defer tap.Close()
	for stale := true; ctx.Err() == nil; {
		if stale {
			c.again = map[string]bool{}
			stale = c.list(ctx) != nil
		}
		c.work(ctx)
		wait, cancel := ctx, context.CancelFunc(func() {})
		if stale || len(c.again) > 0 {
			wait, cancel = context.WithTimeout(ctx, retry)
		}
		events, _, err := tap.Next(wait)
		cancel()
		switch {
		case errors.Is(err, cache.ErrExpired):
			stale = true
		case err != nil && wait.Err() == nil:
			return
		}
		for i := range events {
			c.see(&events[i])
		}
	}
}

// list notes everything that is to be there.
func (c *Controller) list(ctx context.Context) error {
	for _, name := range SystemNamespaces {
		c.again[c.spaces.Key("", name)] = true
	}
	prefix := c.spaces.StoragePrefix + "/"
	o := store.ListOptions{Limit: pageSize}
	for {
		page, err := c.Store.List(ctx, prefix, o)
		if err != nil {
			return err
		}
		for _, it := range page.Items {
			c.furnish(strings.TrimPrefix(it.Key, prefix))
		}
		if !page.More {
			return nil
		}
		o.From = page.Items[len(page.Items)-1].Key + "\x00"
	}
}

// furnish notes what a namespace is to have.
func (c *Controller) furnish(namespace string) {
	if c.accounts != nil {
		c.again[c.accounts.Key(namespace, account)] = true
	}
	if c.maps != nil {
		c.again[c.maps.Key(namespace, rootCA)] = true
	}
}

// see notes what a change asks for.
func (c *Controller) see(e *store.Event) {
	if name, ok := strings.CutPrefix(e.Key, c.spaces.StoragePrefix+"/"); ok {
		if !e.Deleted {
			c.furnish(name)
			return
		}
		for _, s := range SystemNamespaces {
			if s == name {
				c.again[e.Key] = true
			}
		}
		return
	}
	if e.Deleted && c.accounts != nil && strings.HasPrefix(e.Key, c.accounts.StoragePrefix+"/") && strings.HasSuffix(e.Key, "/"+account) ||
		c.maps != nil && strings.HasPrefix(e.Key, c.maps.StoragePrefix+"/") && strings.HasSuffix(e.Key, "/"+rootCA) {
		c.again[e.Key] = true
	}
}

// work does what was noted; what fails stays noted.
func (c *Controller) work(ctx context.Context) {
	for key := range c.again {
		if err := c.one(ctx, key); err != nil && ctx.Err() == nil {
			c.Logger.Warn("object that is always to be there was not created, trying again", "key", key, "error", err)
			continue
		}
		delete(c.again, key)
	}
}

// one makes sure of one object.
func (c *Controller) one(ctx context.Context, key string) error {
	if name, ok := strings.CutPrefix(key, c.spaces.StoragePrefix+"/"); ok {
		return c.API.Ensure(ctx, c.spaces, "", name, object("Namespace", name, nil, nil))
	}
	_, place, _ := strings.Cut(key, "/")
	namespace, name, _ := strings.Cut(place, "/")
	going, err := c.going(ctx, namespace)
	if going || err != nil {
		return err
	}
	if c.accounts != nil && strings.HasPrefix(key, c.accounts.StoragePrefix+"/") {
		return unlessGone(c.API.Ensure(ctx, c.accounts, namespace, name, object("ServiceAccount", name, nil, nil)))
	}
	note := map[string]string{"kubernetes.io/description": caComment}
	item, err := c.Store.Get(ctx, key)
	if errors.Is(err, store.ErrNotFound) {
		return unlessGone(c.API.Ensure(ctx, c.maps, namespace, name, object("ConfigMap", name, note, map[string]string{caKey: string(c.CA)})))
	}
	if err != nil {
		return err
	}
	d := doc.Get()
	defer d.Release()
	if err := c.maps.Storage.Load(d, item.Value, item.Rev); err != nil {
		return err
	}
	if data := d.Root().Get("data"); data.Len() == 1 && data.Get(caKey).Text() == string(c.CA) {
		return nil
	}
	return unlessGone(c.API.Modify(ctx, c.maps, namespace, name, func(o meta.Object) error {
		o.Doc.Remove("data")
		o.Doc.Set(o.Doc.NewString(string(c.CA)), "data", caKey)
		return nil
	}))
}

// going reports whether a namespace is not there, or not for long.
func (c *Controller) going(ctx context.Context, name string) (bool, error) {
	item, err := c.Store.Get(ctx, c.spaces.Key("", name))
	if errors.Is(err, store.ErrNotFound) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	d := doc.Get()
	defer d.Release()
	if err := c.spaces.Storage.Load(d, item.Value, item.Rev); err != nil {
		return false, err
	}
	return meta.Object{Doc: d}.DeletionTimestamp() != "", nil
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
