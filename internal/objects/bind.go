package objects

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kschema "k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-io/keelson/internal/cache"
	"github.com/keelson-io/keelson/internal/meta"
	"github.com/keelson-io/keelson/internal/status"
	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/kind"
)

// This file binds pods to nodes. A scheduler creates a Binding, which is not stored: it sets the
// node of the pod.

var podResource = kschema.GroupResource{Resource: "pods"}

// pod returns a reference to a pod.
func (v *Verbs) pod(ctx context.Context, namespace, name string) (Ref, error) {
	k := v.Kinds.Load().Lookup("", podResource.Resource)
	// A server without pods, or a Binding without a name: there is no such pod.
	if k == nil || name == "" {
		return Ref{}, status.NotFound(podResource, name)
	}
	// A pod that is not in the cache yet must not count as missing.
	if err := v.Cache.Resource(k.StoragePrefix).Ready(ctx); err != nil {
		return Ref{}, StoreError(err)
	}
	return RefTo(k, namespace, name), nil
}

// Bind binds a pod to the node that a Binding names. Admission is the caller's business.
func (v *Verbs) Bind(ctx context.Context, c Caller, namespace, name string, b *corev1.Binding, dryRun bool) error {
	ref, err := v.pod(ctx, namespace, name)
	if err != nil {
		return err
	}
	var refusal error // upstream's, which calls all of them conflicts
	out, err := v.rewrite(ctx, c, ref, dryRun, func(pod *jsondoc.Doc, obj *cache.Object) error {
		refusal = bind(pod, obj, b, dryRun)
		return refusal
	})
	out.Release()
	// The store's own conflicts have been retried: what is left are refusals of bind.
	if err != nil && refusal != nil && errors.Is(err, refusal) {
		return status.Conflict(kschema.GroupResource{Resource: "pods/binding"}, name, refusal)
	}
	return err
}

// bind writes a pod's node into it.
func bind(d *jsondoc.Doc, obj *cache.Object, b *corev1.Binding, dryRun bool) error {
	pod := meta.Object{Doc: d}
	// The metadata of a Binding may have preconditions: the pod that the scheduler has seen.
	if uid := string(b.UID); uid != "" && uid != pod.UID() {
		return uidMismatch(obj.Key, uid, pod.UID(), dryRun)
	}
	if have := strconv.FormatInt(obj.Rev, 10); b.ResourceVersion != "" && b.ResourceVersion != have {
		return preconditionFailed(obj.Key, "ResourceVersion in precondition: "+b.ResourceVersion+", ResourceVersion in object meta: "+have, dryRun)
	}
	spec := d.Root().Get("spec")
	// A pod is bound once. A pod with scheduling gates waits until a controller has removed them.
	switch node := spec.Get("nodeName").Text(); {
	case pod.DeletionTimestamp() != "":
		return fmt.Errorf("pod %s is being deleted, cannot be assigned to a host", pod.Name())
	case node != "":
		return fmt.Errorf("pod %s is already assigned to node %q", pod.Name(), node)
	case spec.Get("schedulingGates").Len() > 0:
		return fmt.Errorf("pod %s has non-empty .spec.schedulingGates", pod.Name())
	}
	d.Set(d.NewString(b.Target.Name), "spec", "nodeName")
	// The nomination was a reservation until the pod is bound.
	d.Remove("status", "nominatedNodeName")
	// Schedulers may pass annotations and labels on to the pod.
	for key, value := range b.Annotations {
		d.Set(d.NewString(value), "metadata", "annotations", key)
	}
	for key, value := range b.Labels {
		d.Set(d.NewString(value), "metadata", "labels", key)
	}
	return setCondition(d, corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionTrue})
}

// setCondition puts a condition into a pod's status, in place of the one of its
// type.
func setCondition(d *jsondoc.Doc, c corev1.PodCondition) error {
	var conditions []corev1.PodCondition
	if have := d.Root().At("status", "conditions"); have.Len() > 0 {
		if err := json.Unmarshal(have.AppendJSON(nil), &conditions); err != nil {
			return status.Internal(err)
		}
	}
	c.LastTransitionTime = metav1.Now()
	// The transition time stays the same unless the status of the condition changes.
	found := false
	for i := range conditions {
		if have := &conditions[i]; have.Type == c.Type {
			if found = true; have.Status == c.Status {
				c.LastTransitionTime = have.LastTransitionTime
			}
			*have = c
		}
	}
	if !found {
		conditions = append(conditions, c)
	}
	return setTyped(d, conditions, "status", "conditions")
}

// setTyped sets a member to a typed value.
func setTyped(d *jsondoc.Doc, value any, path ...string) error {
	// The Go type knows the names and the order of its members.
	text, err := json.Marshal(value)
	if err != nil {
		return status.Internal(err)
	}
	v := jsondoc.Get()
	defer v.Release()
	if err := jsondoc.Parse(v, text); err != nil {
		return status.Internal(err)
	}
	d.Set(d.Import(v.Root()), path...)
	return nil
}

// latest reads an object into its Go type, as it is in the store now.
func (v *Verbs) latest(ctx context.Context, ref Ref, into any) (rev int64, err error) {
	// Fresh waits until the cache has reached the store's revision.
	objects := v.Cache.Resource(ref.Kind.StoragePrefix)
	if err := objects.Fresh(ctx); err != nil {
		return 0, StoreError(err)
	}
	obj, ok := objects.Get(ref.Key())
	if !ok {
		return 0, ref.notFound()
	}
	return obj.Rev, typed(ref.Version, obj, into)
}

// typed reads an object into its Go type.
func typed(v *kind.Version, obj *cache.Object, into any) error {
	d := jsondoc.Get()
	defer d.Release()
	// Load fills in defaults, which the Go code relies on.
	if err := v.Load(d, obj.Raw, obj.Rev); err != nil {
		return err
	}
	if err := json.Unmarshal(d.AppendJSON(nil, d.Root().Node), into); err != nil {
		return status.Internal(err)
	}
	return nil
}
