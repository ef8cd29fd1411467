// Package token sets the tokens in Secrets of type kubernetes.io/service-account-token. Such a
// Secret is created with an annotation that names a service account of its namespace, and gets the
// token, the namespace and the server's certificate authority as data.
//
// The [Controller] reads every change of the store from a tap of the cache. It sets missing data in
// such Secrets. It deletes a Secret whose service account is gone, or was replaced by another one
// of the same name. It removes a deleted Secret from the list in its service account. When the
// authorities of the servers change, all Secrets follow.
//
// # Invariants
//
//   - An existing token is not replaced: delete it to get another one.
//   - A Secret is deleted only in the state in which its service account was searched and not
//     found.
//   - Several servers may do this at the same time.
//
// [Controller.Run] is the function to call.
package token

import (
	"bytes"
	"context"
	"encoding/base64"
	"log/slog"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-io/keelson/internal/cache"
	"github.com/keelson-io/keelson/internal/controller/loop"
	"github.com/keelson-io/keelson/internal/controller/trust"
	"github.com/keelson-io/keelson/internal/meta"
	"github.com/keelson-io/keelson/internal/store"
	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/kind"
)

// Name is kube-controller-manager's name of this controller.
const Name = "serviceaccount-token-controller"

// API is the part of the API that the controller calls, as a client would.
type API interface {
	// Modify changes an object. It returns the errors of fn unchanged.
	Modify(ctx context.Context, k *kind.Kind, namespace, name string, fn func(meta.Object) error) error
	// Remove deletes an object.
	Remove(ctx context.Context, k *kind.Kind, namespace, name string, o *meta.DeleteOptions) error
}

// Controller sets the tokens in Secrets. Its fields are set before Run.
type Controller struct {
	Kinds  *kind.Registry
	Cache  *cache.Cache
	Store  store.Store
	API    API
	Logger *slog.Logger

	// Sign makes the token in a Secret for a service account.
	Sign func(namespace, account, uid, secret string) (string, error)
	// Authorities has the certificates that Secrets contain.
	Authorities *trust.Bundle

	loop              loop.Loop // due are Secrets, service accounts that are gone, and the authorities
	secrets, accounts *kind.Kind
	owners            map[string]owner // of the Secrets that the controller has seen
	ca                string           // the authorities, "" if they may have changed
}

// owner is the service account of a Secret.
type owner struct{ name, uid string }

// Run works until ctx ends.
func (c *Controller) Run(ctx context.Context) {
	now := c.Kinds.Load()
	c.secrets, c.accounts = now.Lookup("", "secrets"), now.Lookup("", "serviceaccounts")
	if c.secrets == nil || c.accounts == nil {
		return
	}
	c.owners = map[string]owner{}
	c.loop = loop.Loop{Cache: c.Cache, Store: c.Store, Logger: c.Logger, Name: Name, List: []string{trust.Prefix, c.secrets.StoragePrefix + "/"},
		Wants: c.wants, Begin: func() { c.ca = "" }, See: c.see, Work: c.work}
	c.loop.Run(ctx)
}

// wants reports whether a change may be of a Secret with a token, a deletion of a service account,
// or a change of the authorities.
func (c *Controller) wants(e *store.Event) bool {
	return e.Key == trust.Key || strings.HasPrefix(e.Key, c.secrets.StoragePrefix+"/") || e.Deleted && strings.HasPrefix(e.Key, c.accounts.StoragePrefix+"/")
}

// keeps reports, from the bytes only, whether a stored object may be a Secret with a token. It
// accepts JSON and protobuf.
func keeps(value []byte) bool {
	return bytes.Contains(value, []byte(corev1.SecretTypeServiceAccountToken))
}

// see schedules the work after a change.
func (c *Controller) see(e *loop.Change) {
	if e.Key == trust.Key {
		c.ca = ""
		c.loop.Add(e.Key)
	} else if keeps(e.Value) || e.Deleted && !c.isSecret(e.Key) {
		c.loop.Add(e.Key)
	} else if _, ok := c.owners[e.Key]; ok {
		c.loop.Add(e.Key)
	}
}

func (c *Controller) isSecret(key string) bool {
	return strings.HasPrefix(key, c.secrets.StoragePrefix+"/")
}

// work does the work for one Secret, for the Secrets of a deleted service account, or for all after
// a change of the authorities.
func (c *Controller) work(ctx context.Context, key string) error {
	if key == trust.Key {
		for key := range c.owners {
			c.loop.Add(key)
		}
		return nil
	}
	if !c.isSecret(key) {
		namespace, _ := loop.Place(c.accounts, key)
		_, err := store.Each(ctx, c.Store, c.secrets.Key(namespace, ""), 0, func(it *store.Item) error {
			if keeps(it.Value) {
				c.loop.Add(it.Key)
			}
			return nil
		})
		return err
	}
	namespace, name := loop.Place(c.secrets, key)
	secret, err := loop.Load(ctx, c.Store, c.secrets, key)
	if err != nil {
		return err
	}
	if secret == nil {
		return c.unlist(ctx, key)
	}
	defer secret.Doc.Release()
	if secret.Doc.Root().Get("type").Text() != string(corev1.SecretTypeServiceAccountToken) {
		return c.unlist(ctx, key) // the service account was replaced by another one
	}
	if secret.DeletionTimestamp() != "" {
		return nil
	}
	named, uid := secret.Annotation(corev1.ServiceAccountNameKey), secret.Annotation(corev1.ServiceAccountUIDKey)
	c.owners[key] = owner{strings.Clone(named), strings.Clone(uid)}
	account, err := loop.Load(ctx, c.Store, c.accounts, c.accounts.Key(namespace, named))
	if err != nil {
		return err
	}
	if account != nil {
		defer account.Doc.Release()
	}
	if account == nil || uid != "" && uid != account.UID() {
		return c.API.Remove(ctx, c.secrets, namespace, name, &meta.DeleteOptions{UID: new(strings.Clone(secret.UID()))})
	}
	if c.ca == "" {
		if c.ca, err = c.Authorities.Load(ctx); err != nil {
			return err
		}
	}
	if !c.lacks(secret) {
		return nil
	}
	uid = strings.Clone(account.UID())
	return c.API.Modify(ctx, c.secrets, namespace, name, func(o meta.Object) error {
		// Load comes after the read of the Secret, so that no server overwrites a newer list that a
		// faster one has published.
		if c.ca, err = c.Authorities.Load(ctx); err != nil {
			return err
		}
		return c.fill(o, namespace, named, uid, name)
	})
}

// lacks reports whether a Secret lacks any data.
func (c *Controller) lacks(secret *meta.Object) bool {
	data := secret.Doc.Root().Get("data")
	return data.Get(corev1.ServiceAccountTokenKey).Text() == "" || data.Get(corev1.ServiceAccountNamespaceKey).Text() == "" ||
		data.Get(corev1.ServiceAccountRootCAKey).Text() != base64.StdEncoding.EncodeToString([]byte(c.ca))
}

// fill sets the missing data of a Secret.
func (c *Controller) fill(o meta.Object, namespace, account, uid, name string) error {
	if o.DeletionTimestamp() != "" || !c.lacks(&o) {
		return nil
	}
	set := func(key, value string) {
		o.Doc.Set(o.Doc.NewString(base64.StdEncoding.EncodeToString([]byte(value))), "data", key)
	}
	data := o.Doc.Root().Get("data")
	hasToken, hasNamespace := data.Get(corev1.ServiceAccountTokenKey).Text() != "", data.Get(corev1.ServiceAccountNamespaceKey).Text() != ""
	set(corev1.ServiceAccountRootCAKey, c.ca)
	if !hasNamespace {
		set(corev1.ServiceAccountNamespaceKey, namespace)
	}
	if !hasToken {
		token, err := c.Sign(namespace, account, uid, name)
		if err != nil {
			return err
		}
		set(corev1.ServiceAccountTokenKey, token)
	}
	o.Doc.Set(o.Doc.NewString(account), "metadata", "annotations", corev1.ServiceAccountNameKey)
	o.Doc.Set(o.Doc.NewString(uid), "metadata", "annotations", corev1.ServiceAccountUIDKey)
	return nil
}

// unlist removes a deleted Secret from the list in its service account.
func (c *Controller) unlist(ctx context.Context, key string) error {
	of, known := c.owners[key]
	if !known {
		return nil
	}
	namespace, name := loop.Place(c.secrets, key)
	err := c.API.Modify(ctx, c.accounts, namespace, of.name, func(o meta.Object) error {
		if of.uid != "" && o.UID() != of.uid {
			return nil
		}
		var left []jsondoc.Node
		listed := false
		for _, s := range o.Doc.Root().Get("secrets").Items() {
			if s.Get("name").Text() == name {
				listed = true
				continue
			}
			left = append(left, s.Node)
		}
		switch {
		case listed && len(left) > 0:
			o.Doc.Set(o.Doc.NewArray(left), "secrets")
		case listed:
			o.Doc.Remove("secrets")
		}
		return nil
	})
	if err = loop.UnlessGone(err); err == nil {
		delete(c.owners, key)
	}
	return err
}
