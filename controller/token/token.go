// Package token gives Secrets of type kubernetes.io/service-account-token their token: one is created with an annotation that names
// a service account of its namespace, and gets the token, the namespace and the server's certificate authority as data.
//
// The [Controller] reads every change of the store from a tap of the cache. What is missing in such a Secret is filled in. One whose
// service account is gone, or is another one of the same name, is deleted; one that is deleted is taken off the list that its
// service account keeps.
//
// # Invariants
//
//   - A token that is there is not replaced: to have another one, take it away.
//   - A Secret is deleted only in the state in which its service account was looked for and not found.
//   - Several servers may do this at once.
//
// [Controller.Run] is the function to call.
package token

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"log/slog"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-io/keelson/cache"
	"github.com/keelson-io/keelson/doc"
	"github.com/keelson-io/keelson/kind"
	"github.com/keelson-io/keelson/meta"
	"github.com/keelson-io/keelson/status"
	"github.com/keelson-io/keelson/store"
)

// Name is what kube-controller-manager calls this controller.
const Name = "serviceaccount-token-controller"

const (
	retry    = time.Second
	pageSize = 500
)

// API is what the controller asks of the API, as a client would.
type API interface {
	// Modify changes an object; the errors of fn are its own.
	Modify(ctx context.Context, k *kind.Kind, namespace, name string, fn func(meta.Object) error) error
	// Remove deletes an object.
	Remove(ctx context.Context, k *kind.Kind, namespace, name string, o *meta.DeleteOptions) error
}

// Controller gives Secrets their tokens. Its fields are set before Run.
type Controller struct {
	Kinds  *kind.Registry
	Cache  *cache.Cache
	Store  store.Store
	API    API
	Logger *slog.Logger

	// Sign makes the token that a Secret keeps for a service account.
	Sign func(namespace, account, uid, secret string) (string, error)
	// CA is the certificate authority by which the server is known, PEM.
	CA []byte

	secrets, accounts *kind.Kind
	again             map[string]bool  // keys of Secrets, and of what is gone, that were not dealt with yet
	owners            map[string]owner // of the Secrets that were dealt with
}

// owner is the service account that a Secret is for.
type owner struct{ name, uid string }

// Run works until ctx ends.
func (c *Controller) Run(ctx context.Context) {
	now := c.Kinds.Load()
	c.secrets, c.accounts = now.Lookup("", "secrets"), now.Lookup("", "serviceaccounts")
	if c.secrets == nil || c.accounts == nil {
		return
	}
	c.owners = map[string]owner{}
	tap, err := c.Cache.Tap(ctx)
	if err != nil {
		return
	}
	defer tap.Close()
	for stale := true; ctx.Err() == nil; {
		if stale {
			c.again = map[string]bool{}
			stale = c.list(ctx, c.secrets.StoragePrefix+"/") != nil
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
			c.see(ctx, &events[i])
		}
	}
}

// keeps is a quick look for whether a stored object may be a Secret that keeps a token, in JSON or protobuf.
func keeps(value []byte) bool {
	return bytes.Contains(value, []byte(corev1.SecretTypeServiceAccountToken))
}

// list notes the Secrets below a prefix.
func (c *Controller) list(ctx context.Context, prefix string) error {
	o := store.ListOptions{Limit: pageSize}
	for {
		page, err := c.Store.List(ctx, prefix, o)
		if err != nil {
			return err
		}
		for _, it := range page.Items {
			if keeps(it.Value) {
				c.again[it.Key] = true
			}
		}
		if !page.More {
			return nil
		}
		o.From = page.Items[len(page.Items)-1].Key + "\x00"
	}
}

// see notes what a change asks for.
func (c *Controller) see(ctx context.Context, e *store.Event) {
	switch {
	case strings.HasPrefix(e.Key, c.secrets.StoragePrefix+"/"):
		if keeps(e.Value) {
			c.again[e.Key] = true
		} else if o, ok := c.owners[e.Key]; ok {
			delete(c.owners, e.Key)
			c.unlist(ctx, e.Key, o)
		}
	case e.Deleted && strings.HasPrefix(e.Key, c.accounts.StoragePrefix+"/"):
		namespace, _ := place(e.Key, c.accounts)
		if err := c.list(ctx, c.secrets.Key(namespace, "")); err != nil {
			c.again[e.Key] = true
		}
	}
}

// place is the namespace and name in a key.
func place(key string, k *kind.Kind) (namespace, name string) {
	namespace, name, _ = strings.Cut(strings.TrimPrefix(key, k.StoragePrefix+"/"), "/")
	return namespace, name
}

// work does what was noted; what fails stays noted, also if only because a Secret has just gone or changed: it is looked at again.
func (c *Controller) work(ctx context.Context) {
	for key := range c.again {
		if err := c.one(ctx, key); err != nil && ctx.Err() == nil {
			level := slog.LevelWarn
			if unlessGone(err) == nil {
				level = slog.LevelDebug
			}
			c.Logger.Log(ctx, level, "secret of a service account was not dealt with, trying again", "key", key, "error", err)
			continue
		}
		delete(c.again, key)
	}
}

// one deals with one Secret, or with all that a service account has left behind.
func (c *Controller) one(ctx context.Context, key string) error {
	if strings.HasPrefix(key, c.accounts.StoragePrefix+"/") {
		namespace, _ := place(key, c.accounts)
		return c.list(ctx, c.secrets.Key(namespace, ""))
	}
	namespace, name := place(key, c.secrets)
	secret, err := c.load(ctx, c.secrets, key)
	if err != nil || secret == nil {
		return err
	}
	defer secret.Doc.Release()
	if secret.Doc.Root().Get("type").Text() != string(corev1.SecretTypeServiceAccountToken) || secret.DeletionTimestamp() != "" {
		return nil
	}
	named, uid := secret.Annotation(corev1.ServiceAccountNameKey), secret.Annotation(corev1.ServiceAccountUIDKey)
	c.owners[key] = owner{strings.Clone(named), strings.Clone(uid)}
	account, err := c.load(ctx, c.accounts, c.accounts.Key(namespace, named))
	if err != nil {
		return err
	}
	if account != nil {
		defer account.Doc.Release()
	}
	if account == nil || uid != "" && uid != account.UID() {
		return c.API.Remove(ctx, c.secrets, namespace, name, &meta.DeleteOptions{UID: new(strings.Clone(secret.UID()))})
	}
	if !c.lacks(secret) {
		return nil
	}
	uid = strings.Clone(account.UID())
	return c.API.Modify(ctx, c.secrets, namespace, name, func(o meta.Object) error {
		return c.fill(o, namespace, named, uid, name)
	})
}

// load reads an object from the store, nil if it is not there. Who called releases its document.
func (c *Controller) load(ctx context.Context, k *kind.Kind, key string) (*meta.Object, error) {
	item, err := c.Store.Get(ctx, key)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	d := doc.Get()
	if err := k.Storage.Load(d, item.Value, item.Rev); err != nil {
		d.Release()
		return nil, err
	}
	return &meta.Object{Doc: d}, nil
}

// lacks reports whether something is missing in a Secret.
func (c *Controller) lacks(secret *meta.Object) bool {
	data := secret.Doc.Root().Get("data")
	return data.Get(corev1.ServiceAccountTokenKey).Text() == "" || data.Get(corev1.ServiceAccountNamespaceKey).Text() == "" ||
		data.Get(corev1.ServiceAccountRootCAKey).Text() != base64.StdEncoding.EncodeToString(c.CA)
}

// fill fills in what is missing in a Secret.
func (c *Controller) fill(o meta.Object, namespace, account, uid, name string) error {
	if o.DeletionTimestamp() != "" || !c.lacks(&o) {
		return nil
	}
	set := func(key, value string) {
		o.Doc.Set(o.Doc.NewString(base64.StdEncoding.EncodeToString([]byte(value))), "data", key)
	}
	data := o.Doc.Root().Get("data")
	hasToken, hasNamespace := data.Get(corev1.ServiceAccountTokenKey).Text() != "", data.Get(corev1.ServiceAccountNamespaceKey).Text() != ""
	set(corev1.ServiceAccountRootCAKey, string(c.CA))
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

// unlist takes a Secret that is gone off the list of its service account, if it is on it.
func (c *Controller) unlist(ctx context.Context, key string, of owner) {
	namespace, name := place(key, c.secrets)
	err := unlessGone(c.API.Modify(ctx, c.accounts, namespace, of.name, func(o meta.Object) error {
		if of.uid != "" && o.UID() != of.uid {
			return nil
		}
		var left []doc.Node
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
	}))
	if err != nil && ctx.Err() == nil {
		c.Logger.Warn("secret that is gone stays on the list of its service account", "namespace", namespace, "secret", name, "error", err)
	}
}

// unlessGone forgives that an object went in the meantime, or was replaced.
func unlessGone(err error) error {
	if err == nil {
		return nil
	}
	switch status.From(err).Reason {
	case metav1.StatusReasonNotFound, metav1.StatusReasonConflict:
		return nil
	}
	return err
}
