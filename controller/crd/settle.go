package crd

import (
	"context"
	"slices"
	"time"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/keelson-io/keelson/kind"
)

// This file decides about one definition: its names, its kind, its conditions.
// The Controller's lock is held throughout.

// note remembers what a definition is called.
func (c *Controller) note(crd *apiextv1.CustomResourceDefinition, rev int64) *definition {
	d := c.defs[crd.Name]
	if d == nil {
		d = &definition{name: crd.Name}
		c.defs[crd.Name] = d
	}
	if d.uid != string(crd.UID) {
		c.unserve(d) // another definition of the same name went before
		d.finishing = false
	}
	d.uid, d.group, d.rev = string(crd.UID), crd.Spec.Group, rev
	d.asked, d.granted = crd.Spec.Names, crd.Status.AcceptedNames
	d.leaving = !crd.DeletionTimestamp.IsZero() && slices.Contains(crd.Finalizers, kind.Cleanup)
	return d
}

// settle brings everything in line with a definition that note has seen, and
// then those of its group that were waiting for one of its names.
func (c *Controller) settle(ctx context.Context, stored *kind.Stored, raw []byte) {
	crd := stored.Definition
	d := c.defs[crd.Name]
	had := d.granted
	now := time.Now()
	changed := kind.OtherConditions(stored, now)
	changed = kind.NameConditions(crd, c.names(d.group), now) || changed
	d.granted = crd.Status.AcceptedNames

	if kind.HasCondition(crd, apiextv1.NamesAccepted) || kind.HasCondition(crd, apiextv1.Established) {
		c.serve(d, stored)
	}
	if changed {
		c.write(ctx, d, crd, raw)
	}
	c.finish(d)
	if !equality.Semantic.DeepEqual(had, d.granted) {
		c.revisit(ctx, d.group, d.name)
	}
}

// names are the names granted in a group.
func (c *Controller) names(group string) kind.Names {
	var used kind.Names
	for _, d := range c.defs {
		if d.group == group {
			used.Add(&d.granted)
		}
	}
	return used
}

// serve puts the kind of a definition into the registry, compiled anew only if
// it has to be.
func (c *Controller) serve(d *definition, stored *kind.Stored) {
	crd := stored.Definition
	established := kind.HasCondition(crd, apiextv1.Established)
	terminating := !crd.DeletionTimestamp.IsZero() || kind.HasCondition(crd, apiextv1.Terminating)
	k := d.kind
	switch {
	case k == nil || k.UID != d.uid || k.Generation != crd.Generation || !sameNames(k, &d.granted):
		compiled, err := kind.CompileStored(stored)
		if err != nil {
			c.logger().Error("definition cannot be served", "name", d.name, "error", err)
			return
		}
		k = compiled
		if k.Conversion != nil && c.Converter != nil {
			if k.Converter, err = c.Converter(d.name, k.Conversion); err != nil {
				k.Converter = unusable{err}
			}
		}
	case k.Established == established && k.Terminating == terminating:
		k.Rebase(stored)
		return
	default:
		k = k.With(established, terminating)
		k.Rebase(stored)
	}
	d.kind = k
	c.Kinds.Put(k)
}

// unusable is the converter of a definition whose webhook cannot be called.
type unusable struct{ err error }

// Convert implements kind.Converter.
func (u unusable) Convert(context.Context, string, [][]byte) ([][]byte, error) { return nil, u.err }

func sameNames(k *kind.Kind, n *apiextv1.CustomResourceDefinitionNames) bool {
	return k.Singular == n.Singular && k.Name == n.Kind && k.ListKind == n.ListKind &&
		slices.Equal(k.ShortNames, n.ShortNames) && slices.Equal(k.Categories, n.Categories)
}

// unserve takes the kind of a definition out of the registry and forgets its
// instances.
func (c *Controller) unserve(d *definition) {
	if d.kind == nil {
		return
	}
	c.Kinds.Remove(d.kind)
	c.Cache.Drop(d.kind.StoragePrefix)
	d.kind = nil
}

// write stores the status of a definition, raw being the definition as it is stored.
// If somebody else was faster, their change is an event that settles the
// definition again.
func (c *Controller) write(ctx context.Context, d *definition, crd *apiextv1.CustomResourceDefinition, raw []byte) {
	value, err := kind.UpdateDefinition(raw, crd, c.Note)
	if err != nil {
		c.logger().Error("definition cannot be written", "name", d.name, "error", err)
		return
	}
	rev, err := c.Store.Update(ctx, key(d.name), value, d.rev)
	switch {
	case err == nil:
		d.rev, d.retries = rev, 0
	case isGone(err) || ctx.Err() != nil:
	default:
		c.logger().Warn("status of a definition was not stored, trying again", "name", d.name, "error", err)
		d.retries++
		uid := d.uid
		time.AfterFunc(retryAfter(d.retries), func() { c.again(ctx, d.name, uid) })
	}
}

// again settles a definition in the state that the cache has of it.
func (c *Controller) again(ctx context.Context, name, uid string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if d := c.defs[name]; d != nil && d.uid == uid && ctx.Err() == nil {
		c.reread(ctx, name)
	}
}

func (c *Controller) reread(ctx context.Context, name string) {
	o, ok := c.Cache.Resource(kind.DefinitionsPrefix).Get(key(name))
	if !ok || o.Rev < c.defs[name].rev {
		return // a newer state, or the end, will be an event
	}
	stored := c.parse(o)
	if stored == nil {
		return
	}
	c.note(stored.Definition, o.Rev)
	c.settle(ctx, stored, o.Raw)
}

// revisit settles the definitions of a group that did not get all their names,
// after the names of one of them changed.
func (c *Controller) revisit(ctx context.Context, group, except string) {
	var waiting []string
	for _, d := range c.defs {
		if d.group == group && d.name != except && !equality.Semantic.DeepEqual(d.asked, d.granted) {
			waiting = append(waiting, d.name)
		}
	}
	slices.Sort(waiting)
	for _, name := range waiting {
		if c.defs[name] != nil {
			c.reread(ctx, name)
		}
	}
}

// gone forgets a definition that was removed.
func (c *Controller) gone(ctx context.Context, name string) {
	d := c.defs[name]
	if d == nil {
		return
	}
	c.unserve(d)
	delete(c.defs, name)
	c.revisit(ctx, d.group, name)
}
