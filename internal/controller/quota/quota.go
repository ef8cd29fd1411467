// Package quota computes the use in the status of ResourceQuotas.
//
// # Model
//
// Admission charges a quota before an object is stored (package internal/admission/quota). It does not see
// deleted objects, pods that end, and objects that were charged and not stored in the end. The
// [Controller] counts the objects of a namespace again after such a change, and after a change of
// the quota's limits, and writes the status: the limits and the use.
//
// # Invariants
//
//   - A status is written only if the quota has not changed since the objects were counted, so that
//     no charge is lost that was made meanwhile.
//   - A quota whose status changed is counted once more, after some seconds, which corrects charges
//     for objects that were not stored. Every quota is counted every five minutes, because some use
//     ends with time alone.
//   - In a namespace without quotas a change costs only a comparison of its key.
//
// [Controller.Run] is the function to call.
package quota

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-io/keelson/internal/admission/quota"
	"github.com/keelson-io/keelson/internal/cache"
	"github.com/keelson-io/keelson/internal/controller/loop"
	"github.com/keelson-io/keelson/internal/meta"
	"github.com/keelson-io/keelson/internal/store"
	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/kind"
)

// Name is kube-controller-manager's name of this controller.
const Name = "resourcequota-controller"

const (
	// settle is the time from a charge to the next count of the objects.
	settle = 5 * time.Second
	// gather is the time for which changes are gathered before the objects are counted.
	gather = 50 * time.Millisecond
	// resync is the time after which a quota is counted although nothing has changed, as in
	// kube-controller-manager (--resource-quota-sync-period).
	resync = 5 * time.Minute
)

// API is the part of the API that the controller calls, as a client would.
type API interface {
	// ModifyPart changes a subresource of an object. It returns the errors of fn unchanged.
	ModifyPart(ctx context.Context, k *kind.Kind, namespace, name, subresource string, fn func(meta.Object) error) error
}

// Controller writes the status of quotas. Its fields are set before Run.
type Controller struct {
	Kinds  *kind.Registry
	Cache  *cache.Cache
	Store  store.Store
	API    API
	Logger *slog.Logger

	loop    loop.Loop // due are quotas
	quotas  *kind.Kind
	weighed []weighed
	spaces  map[string]map[string]scopes // by namespace, by the key of a quota
}

// scopes are those of a quota.
type scopes = []corev1.ScopedResourceSelectorRequirement

// weighed is a resource of which more than the number counts.
type weighed struct {
	kind    *kind.Kind
	measure *quota.Measure
}

// Run works until ctx ends.
func (c *Controller) Run(ctx context.Context) {
	if c.quotas = c.Kinds.Load().Lookup("", "resourcequotas"); c.quotas == nil {
		return
	}
	for _, gr := range quota.Weighed() {
		if k := c.Kinds.Load().Lookup(gr.Group, gr.Resource); k != nil {
			c.weighed = append(c.weighed, weighed{k, quota.MeasureOf(gr)})
		}
	}
	c.loop = loop.Loop{Cache: c.Cache, Store: c.Store, Logger: c.Logger, Name: Name, List: []string{c.quotas.StoragePrefix + "/"},
		Wants: c.wants, Begin: func() { c.spaces = map[string]map[string]scopes{} }, See: c.see, Work: c.work}
	c.loop.Run(ctx)
}

// wants reports whether a change is of a quota, or may free something: a deletion, or an update of a
// resource of which more than the number counts.
func (c *Controller) wants(e *store.Event) bool {
	return e.Deleted || isOf(c.quotas, e.Key) || !e.Created && c.weighedOf(e.Key) != nil
}

// isOf reports whether a key is that of an object of a kind.
func isOf(k *kind.Kind, key string) bool {
	rest, ok := strings.CutPrefix(key, k.StoragePrefix)
	return ok && strings.HasPrefix(rest, "/")
}

// weighedOf returns the resource of an object, nil if only the number of its objects counts.
func (c *Controller) weighedOf(key string) *weighed {
	for i := range c.weighed {
		if isOf(c.weighed[i].kind, key) {
			return &c.weighed[i]
		}
	}
	return nil
}

// see schedules the quotas that a change concerns.
func (c *Controller) see(e *loop.Change) {
	if !isOf(c.quotas, e.Key) {
		c.seeObject(e)
		return
	}
	namespace, _ := loop.Place(c.quotas, e.Key)
	if e.Deleted {
		delete(c.spaces[namespace], e.Key)
		if len(c.spaces[namespace]) == 0 {
			delete(c.spaces, namespace)
		}
		c.loop.Drop(e.Key)
		return
	}
	if c.spaces[namespace] == nil {
		c.spaces[namespace] = map[string]scopes{}
	}
	_, known := c.spaces[namespace][e.Key]
	for other := range c.spaces[namespace] { // quotas are objects that quotas count
		if other != e.Key && !known {
			c.loop.By(other, time.Now().Add(gather))
		}
	}
	q, err := c.decode(e.Value, e.Rev)
	if err != nil {
		c.spaces[namespace][e.Key] = nil
		c.loop.Add(e.Key) // the work reports the error
		return
	}
	c.spaces[namespace][e.Key] = quota.ScopesOf(q)
	if known && quota.Equal(q.Spec.Hard, q.Status.Hard) {
		c.loop.By(e.Key, time.Now().Add(settle))
		return
	}
	c.loop.Add(e.Key)
}

// seeObject schedules the quotas of the namespace for which an object that was deleted or updated
// counts differently now.
func (c *Controller) seeObject(e *loop.Change) {
	quotas := c.spaces[namespaceOf(e.Key)]
	if len(quotas) == 0 {
		return
	}
	differs := func(scopes) bool { return true }
	if w := c.weighedOf(e.Key); w != nil && !e.Deleted {
		is, was := w.read(e.Value, e.Rev), w.read(e.Prev, e.PrevRev)
		if is != nil && was != nil && quota.Equal(w.measure.Use(is), w.measure.Use(was)) {
			differs = func(s scopes) bool { return w.counts(s, is) != w.counts(s, was) }
		}
	}
	for key, s := range quotas {
		if differs(s) {
			c.loop.By(key, time.Now().Add(gather))
		}
	}
}

// read decodes a stored object for the measure. It returns nil if it cannot, also because the store
// does not have the value any more.
func (w *weighed) read(raw []byte, rev int64) any {
	if len(raw) == 0 {
		return nil
	}
	d := jsondoc.Get()
	defer d.Release()
	if w.kind.Storage.Load(d, raw, rev) != nil {
		return nil
	}
	object, err := w.measure.Read(d)
	if err != nil {
		return nil
	}
	return object
}

// counts reports whether a quota with those scopes counts an object.
func (w *weighed) counts(s scopes, object any) bool {
	in, err := w.measure.InScopes(s, object)
	return err == nil && len(in) == len(s)
}

// namespaceOf returns the segment of a key that is the namespace if the object is in one.
func namespaceOf(key string) string {
	parts := strings.Split(key, "/")
	if len(parts) < 2 {
		return ""
	}
	return parts[len(parts)-2]
}

// decode reads a stored quota.
func (c *Controller) decode(raw []byte, rev int64) (*corev1.ResourceQuota, error) {
	d := jsondoc.Get()
	defer d.Release()
	if err := c.quotas.Storage.Load(d, raw, rev); err != nil {
		return nil, err
	}
	q := new(corev1.ResourceQuota)
	return q, kind.UnmarshalStored(d.AppendJSON(nil, d.Root().Node), q)
}

var errChanged = errors.New("the quota changed while objects were counted")

// work writes the status of a quota, which is due again after some minutes.
func (c *Controller) work(ctx context.Context, key string) error {
	err := c.count(ctx, key)
	if namespace, _ := loop.Place(c.quotas, key); err == nil {
		if _, ok := c.spaces[namespace][key]; ok {
			c.loop.By(key, time.Now().Add(resync))
		}
	}
	return err
}

// count writes the status of a quota.
func (c *Controller) count(ctx context.Context, key string) error {
	item, err := c.Store.Get(ctx, key)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	q, err := c.decode(item.Value, item.Rev)
	if err != nil {
		return err
	}
	used, err := c.used(ctx, q)
	if err != nil {
		return err
	}
	if quota.Equal(q.Spec.Hard, q.Status.Hard) && quota.Equal(used, q.Status.Used) {
		return nil
	}
	return loop.UnlessGone(c.API.ModifyPart(ctx, c.quotas, q.Namespace, q.Name, "status", quota.On(func(live *corev1.ResourceQuota) error {
		if live.ResourceVersion != q.ResourceVersion {
			return errChanged
		}
		live.Status.Hard, live.Status.Used = q.Spec.Hard, used
		return nil
	})))
}

// used returns the use of a quota's limits by the objects of its namespace.
func (c *Controller) used(ctx context.Context, q *corev1.ResourceQuota) (corev1.ResourceList, error) {
	names, total := quota.Names(q.Spec.Hard), corev1.ResourceList{}
	for _, gr := range quota.Measured(names) {
		use, err := c.usedBy(ctx, gr, q)
		if err != nil {
			return nil, err
		}
		m := quota.MeasureOf(gr)
		for _, name := range names {
			if _, ok := use[name]; !ok && m.Tracks(name) {
				use = quota.Add(use, quota.None(name))
			}
		}
		total = quota.Add(total, use)
	}
	return quota.Mask(total, names), nil
}

// usedBy returns the use by the objects of one resource.
func (c *Controller) usedBy(ctx context.Context, gr schema.GroupResource, q *corev1.ResourceQuota) (corev1.ResourceList, error) {
	k, m, scopes := c.Kinds.Load().Lookup(gr.Group, gr.Resource), quota.MeasureOf(gr), quota.ScopesOf(q)
	if k == nil || !k.Namespaced {
		return nil, nil
	}
	objects, prefix := c.Cache.Resource(k.StoragePrefix), k.Key(q.Namespace, "")
	if !strings.HasSuffix(prefix, "/") {
		prefix += "/"
	}
	if err := objects.Ready(ctx); err != nil {
		return nil, err
	}
	now := objects.Snapshot()
	if m.Parse == nil {
		if len(scopes) > 0 {
			return nil, nil // such objects have no scope
		}
		return quota.Times(m.Use(nil), now.Count(prefix)), nil
	}
	total := corev1.ResourceList{}
	var failed error
	now.Ascend(prefix, func(o *cache.Object) bool {
		if !strings.HasPrefix(o.Key, prefix) {
			return false
		}
		var view *meta.View
		var object any
		var in []corev1.ScopedResourceSelectorRequirement
		if view, failed = o.View(k.Storage); failed != nil {
			return false
		}
		if object, failed = m.Parse(view.JSON); failed != nil {
			return false
		}
		if in, failed = m.InScopes(scopes, object); failed != nil {
			return false
		}
		if len(in) == len(scopes) {
			total = quota.Add(total, m.Use(object))
		}
		return ctx.Err() == nil
	})
	if failed == nil {
		failed = ctx.Err()
	}
	return total, failed
}
