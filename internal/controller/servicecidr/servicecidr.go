// Package servicecidr keeps ServiceCIDRs from being deleted while addresses of Services need them,
// and sets their condition Ready.
//
// # Model
//
// The [Controller] gives each ServiceCIDR a finalizer and the condition Ready. A ServiceCIDR that
// gets a deletionTimestamp stays as long as an allocated IPAddress is in no other ServiceCIDR; its
// condition says so. Without such an address it stays for [Grace], in which every server learns that
// it must not allocate from it any more. Then the finalizer goes, unless an address was allocated
// meanwhile.
//
// # Invariants
//
//   - A finalizer is removed only from an object with a deletionTimestamp.
//   - Any number of servers may do this at once.
//
// [Controller.Run] is the function to call.
package servicecidr

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-io/keelson/internal/allocator"
	"github.com/keelson-io/keelson/internal/cache"
	"github.com/keelson-io/keelson/internal/controller/loop"
	"github.com/keelson-io/keelson/internal/meta"
	"github.com/keelson-io/keelson/internal/store"
	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/kind"
)

// Name is the name of the controller for the flag --controllers, and the field manager of the
// condition.
const Name = "service-cidr-controller"

// Account is the service account that the controller is in a cluster.
const Account = "service-cidrs-controller"

// Finalizer is the finalizer that ServiceCIDRs get.
const Finalizer = "networking.k8s.io/service-cidr-finalizer"

// Grace is how long a deleted ServiceCIDR stays after its deletionTimestamp.
const Grace = 10 * time.Second

// API is the part of the API that the controller calls, as a client would.
type API interface {
	// Modify changes an object. It returns the errors of fn unchanged.
	Modify(ctx context.Context, k *kind.Kind, namespace, name string, fn func(meta.Object) error) error
	// Apply applies a configuration to a subresource, and takes over fields of other managers.
	Apply(ctx context.Context, k *kind.Kind, namespace, name, subresource string, body []byte) error
}

// Controller sets conditions and finalizers. Its fields are set before Run.
type Controller struct {
	Kinds  *kind.Registry
	Cache  *cache.Cache
	Store  store.Store
	API    API // for finalizers
	Status API // for conditions; its field manager is Name
	Logger *slog.Logger

	loop      loop.Loop // due are ServiceCIDRs
	ranges    *kind.Kind
	addresses *kind.Kind
	deleted   map[string]bool // keys of ServiceCIDRs with a deletionTimestamp
}

// Run works until ctx ends.
func (c *Controller) Run(ctx context.Context) {
	now := c.Kinds.Load()
	c.ranges, c.addresses = now.Lookup(networkingv1.GroupName, "servicecidrs"), now.Lookup(networkingv1.GroupName, "ipaddresses")
	if c.ranges == nil || c.addresses == nil {
		return
	}
	prefix := c.ranges.StoragePrefix + "/"
	c.loop = loop.Loop{Cache: c.Cache, Store: c.Store, Logger: c.Logger, Name: Name, List: []string{prefix}, Wants: c.wants, See: c.see, Work: c.work,
		Begin: func() { c.deleted = map[string]bool{} }}
	c.loop.Run(ctx)
}

// isOf reports whether a key is of a kind.
func isOf(k *kind.Kind, key string) bool { return strings.HasPrefix(key, k.StoragePrefix+"/") }

// wants reports whether a change is of a ServiceCIDR or an IPAddress.
func (c *Controller) wants(e *store.Event) bool {
	return isOf(c.ranges, e.Key) || isOf(c.addresses, e.Key)
}

// see schedules a changed ServiceCIDR, and the deleted ones, which may wait for any change.
func (c *Controller) see(e *loop.Change) {
	if isOf(c.ranges, e.Key) {
		if e.Deleted {
			delete(c.deleted, e.Key)
			c.loop.Drop(e.Key)
		} else {
			c.loop.Add(e.Key)
		}
	}
	for key := range c.deleted {
		c.loop.Add(key)
	}
}

// work sets the finalizer and the condition of a ServiceCIDR, or removes the finalizer.
func (c *Controller) work(ctx context.Context, key string) error {
	object, err := loop.Load(ctx, c.Store, c.ranges, key)
	if err != nil || object == nil {
		return err
	}
	defer object.Doc.Release()
	name := strings.TrimPrefix(key, c.ranges.StoragePrefix+"/")
	guarded := slices.Contains(slices.Collect(object.Finalizers()), Finalizer)
	if stamp := object.DeletionTimestamp(); stamp != "" {
		c.deleted[key] = true
		return c.release(ctx, key, name, stamp, guarded, object)
	}
	if !guarded {
		err := c.API.Modify(ctx, c.ranges, "", name, func(o meta.Object) error {
			if o.DeletionTimestamp() == "" {
				o.SetFinalizers(append(slices.Collect(o.Finalizers()), Finalizer))
			}
			return nil
		})
		if err != nil {
			return loop.UnlessGone(err)
		}
	}
	return c.setReady(ctx, name, object, metav1.Condition{Status: metav1.ConditionTrue, Message: "Kubernetes Service CIDR is ready"})
}

// release removes the finalizer of a deleted ServiceCIDR if no address needs it any more and its
// grace period is over.
func (c *Controller) release(ctx context.Context, key, name, stamp string, guarded bool, object *meta.Object) error {
	if !guarded {
		return nil
	}
	if c.isNeeded(key, object.Doc) {
		return c.setReady(ctx, name, object, metav1.Condition{Status: metav1.ConditionFalse, Reason: networkingv1.ServiceCIDRReasonTerminating,
			Message: "There are still IPAddresses referencing the ServiceCIDR, please remove them or create a new ServiceCIDR"})
	}
	deleted, err := time.Parse(time.RFC3339, stamp)
	if err != nil {
		return err
	}
	if end := deleted.Add(Grace); time.Now().Before(end) {
		c.loop.At(key, end)
		return nil
	}
	return loop.UnlessGone(c.API.Modify(ctx, c.ranges, "", name, func(o meta.Object) error {
		o.SetFinalizers(slices.DeleteFunc(slices.Collect(o.Finalizers()), func(f string) bool { return f == Finalizer }))
		return nil
	}))
}

// isNeeded reports whether an allocated address is in a ServiceCIDR and in no other.
func (c *Controller) isNeeded(key string, d *jsondoc.Doc) bool {
	own, others := prefixes(d), []netip.Prefix(nil)
	isOther := func(name string) bool { return c.ranges.StoragePrefix+"/"+name != key }
	c.ascend(c.ranges, isOther, func(d *jsondoc.Doc) bool {
		others = append(others, prefixes(d)...)
		return true
	})
	needed := false
	c.ascend(c.addresses, func(name string) bool { return isOnlyIn(name, own, others) }, func(d *jsondoc.Doc) bool {
		needed = d.Root().At("metadata", "labels", networkingv1.LabelManagedBy).Text() == allocator.ManagedBy
		return !needed
	})
	return needed
}

// isOnlyIn reports whether the address that an IPAddress has as its name is in a range of own and in none of others.
func isOnlyIn(name string, own, others []netip.Prefix) bool {
	address, err := netip.ParseAddr(name)
	contains := func(p netip.Prefix) bool { return p.Contains(address) }
	return err == nil && slices.ContainsFunc(own, contains) && !slices.ContainsFunc(others, contains)
}

// prefixes returns the ranges of a ServiceCIDR.
func prefixes(d *jsondoc.Doc) []netip.Prefix {
	var all []netip.Prefix
	for _, c := range d.Root().At("spec", "cidrs").Items() {
		if p, err := netip.ParsePrefix(c.Text()); err == nil {
			all = append(all, p.Masked())
		}
	}
	return all
}

// ascend calls fn for the objects of a kind whose names are wanted, until it returns false. It decodes
// no others, because there can be many thousands of addresses. d is valid during the call.
func (c *Controller) ascend(k *kind.Kind, wanted func(name string) bool, fn func(d *jsondoc.Doc) bool) {
	prefix := k.StoragePrefix + "/"
	c.Cache.Resource(k.StoragePrefix).Snapshot().Ascend(prefix, func(o *cache.Object) bool {
		if !strings.HasPrefix(o.Key, prefix) {
			return false
		}
		if !wanted(strings.TrimPrefix(o.Key, prefix)) {
			return true
		}
		d := jsondoc.Get()
		defer d.Release()
		return k.Storage.Load(d, o.Raw, o.Rev) != nil || fn(d)
	})
}

// setReady sets the condition Ready, unless the object has it.
func (c *Controller) setReady(ctx context.Context, name string, object *meta.Object, want metav1.Condition) error {
	want.Type, want.LastTransitionTime = networkingv1.ServiceCIDRConditionReady, metav1.Now()
	for _, have := range object.Doc.Root().At("status", "conditions").Items() {
		if have.Get("type").Text() == want.Type && have.Get("status").Text() == string(want.Status) && have.Get("reason").Text() == want.Reason &&
			have.Get("message").Text() == want.Message {
			return nil
		}
	}
	body, err := json.Marshal(map[string]any{
		"apiVersion": networkingv1.SchemeGroupVersion.String(), "kind": c.ranges.Name, "metadata": map[string]any{"name": name},
		"status": map[string]any{"conditions": []metav1.Condition{want}},
	})
	if err != nil {
		return err
	}
	return loop.UnlessGone(c.Status.Apply(ctx, c.ranges, "", name, "status", body))
}
