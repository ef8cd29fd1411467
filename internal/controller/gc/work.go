package gc

import (
	"context"
	"errors"
	"slices"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-io/keelson/internal/meta"
	"github.com/keelson-io/keelson/internal/status"
	"github.com/keelson-io/keelson/internal/store"
	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/kind"
)

// This file decides whether one object is deleted.

// work processes the queue until it is shut down.
func (c *Controller) work(ctx context.Context) {
	for {
		key, over := c.queue.Get()
		if over {
			return
		}
		if err := c.process(ctx, key); err != nil && ctx.Err() == nil {
			c.Logger.Debug("garbage collector tries again", "key", key, "error", err)
			c.queue.AddRateLimited(key)
		} else {
			c.queue.Forget(key)
		}
		c.queue.Done(key)
	}
}

// process processes one object.
func (c *Controller) process(ctx context.Context, key string) error {
	kinds := c.Kinds.Load()
	k, namespace, name := c.kindOf(key)
	if k == nil {
		c.remember(key, kinds)
		return nil
	}
	item, err := c.Store.Get(ctx, key)
	if errors.Is(err, store.ErrNotFound) {
		return nil // its removal is, or has been, a change
	}
	if err != nil {
		return err
	}
	n := c.read(key, item.Value, item.Rev)
	t := &target{c: c, node: n, kind: k, name: name, namespace: namespace}
	switch {
	case n == nil:
		return nil
	case n.deleting && n.orphan:
		return t.orphanDependents(ctx)
	case n.deleting && n.foreground:
		return t.awaitDependents(ctx)
	case n.deleting || len(n.refs) == 0:
		return nil
	}
	return t.judge(ctx)
}

// target is the object that is processed.
type target struct {
	*node
	c               *Controller
	kind            *kind.Kind
	namespace, name string
}

// dependents returns the object's dependents in the graph.
func (t *target) dependents() []dependent {
	t.c.mu.Lock()
	defer t.c.mu.Unlock()
	return t.c.graph.dependents(t.node)
}

// orphanDependents removes the references to an owner from its dependents, and then the owner's
// finalizer. One dependent that cannot be changed does not keep the references of others.
func (t *target) orphanDependents(ctx context.Context) error {
	if err := t.c.objects.CatchUp(ctx); err != nil {
		return err
	}
	var failed []error
	for _, dep := range t.dependents() {
		k, namespace, name := t.c.kindOf(dep.key)
		if k == nil {
			continue // the kind is not served any more
		}
		other := &target{c: t.c, node: &node{key: dep.key, uid: dep.uid}, kind: k, namespace: namespace, name: name}
		if err := other.release(ctx, map[string]bool{t.uid: true}); err != nil {
			failed = append(failed, err)
		}
	}
	if len(failed) > 0 {
		return errors.Join(failed...)
	}
	return t.finalize(ctx, metav1.FinalizerOrphanDependents)
}

// awaitDependents removes an owner's finalizer if nothing blocks the owner any more; otherwise it
// queues the dependents.
func (t *target) awaitDependents(ctx context.Context) error {
	blocked := func() (deps []dependent, blocked bool) {
		deps = t.dependents()
		return deps, slices.ContainsFunc(deps, func(d dependent) bool { return d.blocks })
	}
	deps, is := blocked()
	if !is {
		if err := t.c.objects.CatchUp(ctx); err != nil {
			return err
		}
		if deps, is = blocked(); !is {
			return t.finalize(ctx, metav1.FinalizerDeleteDependents)
		}
	}
	for _, dep := range deps {
		if !dep.deleting {
			t.c.queue.Add(dep.key)
		}
	}
	return nil
}

// judge reads an object's owners, and deletes the object if it has none left.
func (t *target) judge(ctx context.Context) error {
	kinds := t.c.Kinds.Load()
	lost, gone, waiting := t.c.lostOwners(t.key), map[string]bool{}, map[string]bool{}
	solid := 0
	for i := range t.refs {
		r := &t.refs[i]
		if lost[r.uid] {
			gone[r.uid] = true
			continue
		}
		state, err := t.owner(ctx, r)
		switch {
		case err != nil:
			return err
		case state == absent:
			t.report(ctx, r)
			gone[r.uid] = true
		case state == waits:
			waiting[r.uid] = true
		case state == unknown:
			t.c.remember(t.key, kinds)
			return nil
		case state == outOfReach:
			t.report(ctx, r)
			return nil
		default:
			solid++
		}
	}
	switch {
	case solid > 0 && len(gone)+len(waiting) == 0:
		return nil
	case solid > 0:
		for uid := range waiting {
			gone[uid] = true
		}
		return t.release(ctx, gone)
	case len(waiting) > 0:
		// The graph may not know a dependent yet, or not that it goes.
		if err := t.c.objects.CatchUp(ctx); err != nil {
			return err
		}
		if deps := t.dependents(); len(deps) > 0 {
			if slices.ContainsFunc(deps, func(d dependent) bool { return d.deleting && d.foreground }) {
				// Each waits for the other: the cycle is broken here.
				if err := t.unblock(ctx); err != nil {
					return err
				}
			}
			return t.remove(ctx, metav1.DeletePropagationForeground)
		}
	}
	policy := metav1.DeletePropagationBackground
	switch {
	case t.orphan:
		policy = metav1.DeletePropagationOrphan
	case t.foreground:
		policy = metav1.DeletePropagationForeground
	}
	return t.remove(ctx, policy)
}

// ownership is the state of a reference's owner.
type ownership uint8

const (
	there ownership = iota
	waits
	absent
	unknown
	outOfReach // it would be in a namespace, and the object is not
)

// owner reads the state of an owner.
func (t *target) owner(ctx context.Context, r *reference) (ownership, error) {
	c := t.c
	k := c.ownerKind(r)
	if k == nil || !r.isServed(k) {
		return unknown, nil
	}
	key, _ := c.ownerKey(r, t.node.namespace)
	if key == "" {
		return outOfReach, nil
	}
	item, err := c.Store.Get(ctx, key)
	if errors.Is(err, store.ErrNotFound) {
		return absent, nil
	}
	if err != nil {
		return unknown, err
	}
	n := c.read(key, item.Value, item.Rev)
	switch {
	case n == nil:
		return unknown, nil
	case n.uid != r.uid:
		return absent, nil
	case n.deleting && n.foreground:
		return waits, nil
	}
	return there, nil
}

// remove deletes the object if it has not changed since it was read.
func (t *target) remove(ctx context.Context, policy metav1.DeletionPropagation) error {
	rev := revisionText(t.rev)
	err := t.c.API.Remove(ctx, t.kind, t.namespace, t.name, &meta.DeleteOptions{UID: &t.uid, ResourceVersion: &rev, PropagationPolicy: string(policy)})
	if isReason(err, metav1.StatusReasonNotFound) {
		return nil
	}
	return err
}

// errOther ends a change if the object was replaced by another one.
var errOther = errors.New("it is another object by now")

// modify changes the object if it has not been replaced.
func (t *target) modify(ctx context.Context, fn func(meta.Object)) error {
	err := t.c.API.Modify(ctx, t.kind, t.namespace, t.name, func(o meta.Object) error {
		if o.UID() != t.uid {
			return errOther
		}
		fn(o)
		return nil
	})
	if errors.Is(err, errOther) || isReason(err, metav1.StatusReasonNotFound) {
		return nil
	}
	return err
}

// finalize removes a finalizer from the object.
func (t *target) finalize(ctx context.Context, finalizer string) error {
	return t.modify(ctx, func(o meta.Object) {
		var left []string
		for f := range o.Finalizers() {
			if f != finalizer {
				left = append(left, f)
			}
		}
		if len(left) == 0 {
			o.Doc.Remove("metadata", "finalizers")
		} else {
			o.SetFinalizers(left)
		}
	})
}

// release removes the references to the owners with some uids from the object.
func (t *target) release(ctx context.Context, uids map[string]bool) error {
	return t.modify(ctx, func(o meta.Object) {
		var left []jsondoc.Node
		for _, r := range o.Meta().Get("ownerReferences").Items() {
			if !uids[r.Get("uid").Text()] {
				left = append(left, r.Node)
			}
		}
		if len(left) == 0 {
			o.Doc.Remove("metadata", "ownerReferences")
		} else {
			o.Doc.Set(o.Doc.NewArray(left), "metadata", "ownerReferences")
		}
	})
}

// unblock changes the object's references so that no owner waits for it.
func (t *target) unblock(ctx context.Context) error {
	return t.modify(ctx, func(o meta.Object) {
		var all []jsondoc.Node
		for _, r := range o.Meta().Get("ownerReferences").Items() {
			one := jsondoc.Get()
			one.SetRoot(one.Import(r))
			one.Set(jsondoc.BoolNode(false), "blockOwnerDeletion")
			all = append(all, o.Doc.Import(one.Root()))
			one.Release()
		}
		o.Doc.Set(o.Doc.NewArray(all), "metadata", "ownerReferences")
	})
}

func revisionText(rev int64) string { return strconv.FormatInt(rev, 10) }

func isReason(err error, reason metav1.StatusReason) bool {
	return err != nil && status.From(err).Reason == reason
}
