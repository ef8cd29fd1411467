// Package protection lets go of storage objects that were deleted while they were in use. Admission
// gives each claim, volume and volume attributes class a finalizer (package internal/admission/storage). The
// [Controller] removes it from a deleted object when nothing uses the object any more:
//
//   - a claim is used by the pods of its namespace that have a node and have not ended,
//   - a volume is used while it is bound,
//   - a volume attributes class is used by the claims and volumes that name it.
//
// The Controller reads every change of these objects and of pods. A deleted object that is in use
// waits for a change of what may use it.
//
// # Invariants
//
//   - A finalizer is removed only from an object with a deletionTimestamp.
//   - Any number of servers may do this at once.
//
// [Controller.Run] is the function to call.
package protection

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-io/keelson/internal/admission/storage"
	"github.com/keelson-io/keelson/internal/cache"
	"github.com/keelson-io/keelson/internal/controller/loop"
	"github.com/keelson-io/keelson/internal/meta"
	"github.com/keelson-io/keelson/internal/store"
	"github.com/keelson-io/keelson/kind"
)

// kube-controller-manager's names of the three controllers that this one replaces.
const (
	Claims     = "persistentvolumeclaim-protection-controller"
	Volumes    = "persistentvolume-protection-controller"
	Attributes = "volumeattributesclass-protection-controller"
)

// The service accounts that the three are in a cluster.
const (
	AccountOfClaims     = "pvc-protection-controller"
	AccountOfVolumes    = "pv-protection-controller"
	AccountOfAttributes = "volumeattributesclass-protection-controller"
)

// API is the part of the API that the controller calls, as a client would.
type API interface {
	// Modify changes an object. It returns the errors of fn unchanged.
	Modify(ctx context.Context, k *kind.Kind, namespace, name string, fn func(meta.Object) error) error
}

// Controller removes finalizers. Its fields are set before Run.
type Controller struct {
	Kinds  *kind.Registry
	Cache  *cache.Cache
	Store  store.Store
	Logger *slog.Logger

	// Claims, Volumes and Attributes change the objects that the controller is for; nil: it is not for
	// these.
	Claims, Volumes, Attributes API

	loop                              loop.Loop // due are deleted objects
	claims, volumes, attributes, pods *kind.Kind
	waiting                           map[string]*kind.Kind // keys of deleted objects that were in use
}

// Run works until ctx ends.
func (c *Controller) Run(ctx context.Context) {
	now := c.Kinds.Load()
	c.claims, c.volumes, c.pods = now.Lookup("", "persistentvolumeclaims"), now.Lookup("", "persistentvolumes"), now.Lookup("", "pods")
	c.attributes = now.Lookup("storage.k8s.io", "volumeattributesclasses")
	if c.claims == nil || c.volumes == nil || c.pods == nil || c.attributes == nil {
		return
	}
	var list []string
	for _, k := range c.own() {
		list = append(list, k.StoragePrefix+"/")
	}
	c.waiting = map[string]*kind.Kind{}
	c.loop = loop.Loop{Cache: c.Cache, Store: c.Store, Logger: c.Logger, Name: "storage protection", List: list, Wants: c.wants, See: c.see, Work: c.work}
	c.loop.Run(ctx)
}

// own returns the kinds whose finalizers the controller removes.
func (c *Controller) own() []*kind.Kind {
	var list []*kind.Kind
	for _, k := range []*kind.Kind{c.claims, c.volumes, c.attributes} {
		if c.apiOf(k) != nil {
			list = append(list, k)
		}
	}
	return list
}

// apiOf returns what changes the objects of a kind, nil if the controller is not for them.
func (c *Controller) apiOf(k *kind.Kind) API {
	switch k {
	case c.claims:
		return c.Claims
	case c.volumes:
		return c.Volumes
	}
	return c.Attributes
}

func isOf(k *kind.Kind, key string) bool { return strings.HasPrefix(key, k.StoragePrefix+"/") }

// wants reports whether a change is of an object that the controller is for, or that may use one.
func (c *Controller) wants(e *store.Event) bool {
	return isOf(c.claims, e.Key) || isOf(c.volumes, e.Key) || isOf(c.attributes, e.Key) || isOf(c.pods, e.Key)
}

// see schedules deleted objects, and those that wait for the change.
func (c *Controller) see(e *loop.Change) {
	for _, k := range c.own() {
		if !isOf(k, e.Key) {
			continue
		}
		if e.Deleted {
			delete(c.waiting, e.Key)
		} else {
			c.loop.Add(e.Key)
		}
	}
	for key, k := range c.waiting {
		switch {
		case k == c.claims && isOf(c.pods, e.Key):
			ofPod, _ := loop.Place(c.pods, e.Key)
			if ofClaim, _ := loop.Place(c.claims, key); ofPod == ofClaim {
				c.loop.Add(key)
			}
		case k == c.attributes && (isOf(c.claims, e.Key) || isOf(c.volumes, e.Key)):
			c.loop.Add(key)
		}
	}
}

// work removes the finalizer of an object if it was deleted and nothing uses it.
func (c *Controller) work(ctx context.Context, key string) error {
	k, namespace, name := c.kindOf(key)
	object, err := loop.Load(ctx, c.Store, k, key)
	if err != nil || object == nil {
		return err
	}
	defer object.Doc.Release()
	finalizer := storage.Finalizer(k.GroupResource())
	if object.DeletionTimestamp() == "" || !slices.Contains(slices.Collect(object.Finalizers()), finalizer) {
		delete(c.waiting, key)
		return nil
	}
	used, err := c.isUsed(k, object, namespace, name)
	if err != nil {
		return err
	}
	if used {
		c.waiting[key] = k
		return nil
	}
	delete(c.waiting, key)
	return loop.UnlessGone(c.apiOf(k).Modify(ctx, k, namespace, name, func(o meta.Object) error {
		o.SetFinalizers(slices.DeleteFunc(slices.Collect(o.Finalizers()), func(f string) bool { return f == finalizer }))
		return nil
	}))
}

// kindOf returns the kind, the namespace and the name of a key.
func (c *Controller) kindOf(key string) (k *kind.Kind, namespace, name string) {
	switch {
	case isOf(c.claims, key):
		namespace, name = loop.Place(c.claims, key)
		return c.claims, namespace, name
	case isOf(c.volumes, key):
		return c.volumes, "", strings.TrimPrefix(key, c.volumes.StoragePrefix+"/")
	}
	return c.attributes, "", strings.TrimPrefix(key, c.attributes.StoragePrefix+"/")
}

// isUsed reports whether something uses an object.
func (c *Controller) isUsed(k *kind.Kind, object *meta.Object, namespace, name string) (bool, error) {
	switch k {
	case c.volumes:
		return object.Doc.Root().At("status", "phase").Text() == string(corev1.VolumeBound), nil
	case c.claims:
		return anyOf(c, c.pods, namespace, func(pod *corev1.Pod) bool { return uses(pod, name) })
	}
	used, err := anyOf(c, c.claims, "", func(claim *corev1.PersistentVolumeClaim) bool {
		m := claim.Status.ModifyVolumeStatus
		return names(claim.Spec.VolumeAttributesClassName, name) || names(claim.Status.CurrentVolumeAttributesClassName, name) ||
			m != nil && m.TargetVolumeAttributesClassName == name
	})
	if err != nil || used {
		return used, err
	}
	return anyOf(c, c.volumes, "", func(v *corev1.PersistentVolume) bool { return names(v.Spec.VolumeAttributesClassName, name) })
}

func names(s *string, name string) bool { return s != nil && *s == name }

// uses reports whether a pod uses a claim. A pod without a node will not be started with a deleted
// claim, and one that has ended needs none.
func uses(pod *corev1.Pod, claim string) bool {
	if pod.Spec.NodeName == "" || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return false
	}
	return slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
		return v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == claim || v.Ephemeral != nil && pod.Name+"-"+v.Name == claim
	})
}

// anyOf reports whether fn holds for any object of a kind, in a namespace or, without one, anywhere.
func anyOf[T any](c *Controller, k *kind.Kind, namespace string, fn func(*T) bool) (found bool, err error) {
	prefix := k.StoragePrefix + "/"
	if namespace != "" {
		prefix += namespace + "/"
	}
	c.Cache.Resource(k.StoragePrefix).Snapshot().Ascend(prefix, func(o *cache.Object) bool {
		if !strings.HasPrefix(o.Key, prefix) {
			return false
		}
		var view *meta.View
		if view, err = o.View(k.Storage); err != nil {
			return false
		}
		v := new(T)
		if err = json.Unmarshal(view.JSON, v); err != nil {
			return false
		}
		found = fn(v)
		return !found
	})
	return found, err
}
