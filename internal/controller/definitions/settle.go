package definitions

import (
	"context"
	"slices"
	"time"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/keelson-io/keelson/crd"
	"github.com/keelson-io/keelson/kind"
)

// This file reconciles one definition: its names, its kind, its conditions. The lock of the
// Controller is held throughout.

// track makes or returns the entry of a definition, for its present names.
func (c *Controller) track(def *apiextv1.CustomResourceDefinition, rev int64) *definition {
	d := c.defs[def.Name]
	if d == nil {
		d = &definition{name: def.Name}
		c.defs[def.Name] = d
	}
	if d.uid != string(def.UID) {
		c.unserve(d) // another definition of the same name went before
		d.finishing = false
	}
	d.uid, d.group, d.rev = string(def.UID), def.Spec.Group, rev
	d.asked = def.Spec.Names
	if d.refusal = c.Kinds.Refuses(def.Name, def.Spec.Group, def.Spec.Names.Plural); d.refusal != nil {
		c.grant(d, apiextv1.CustomResourceDefinitionNames{}) // others may have them
		c.unserve(d)
	} else {
		c.grant(d, def.Status.AcceptedNames)
	}
	d.leaving = !def.DeletionTimestamp.IsZero() && slices.Contains(def.Finalizers, crd.Cleanup)
	return d
}

// reconcile makes everything follow from a definition that track has seen, and then reconciles
// those of its group that wait for one of its names.
func (c *Controller) reconcile(ctx context.Context, stored *crd.Stored, raw []byte) {
	def := stored.Definition
	d := c.defs[def.Name]
	had := d.granted
	now := time.Now()
	changed := c.Compiler.OtherConditions(stored, now)
	if d.refusal != nil {
		if crd.SetRefused(def, d.refusal, now) || changed {
			c.write(ctx, d, def, raw)
		}
		c.finish(d)
		return
	}
	changed = crd.NameConditions(def, c.names(d.group), now) || changed
	c.grant(d, def.Status.AcceptedNames)

	if crd.HasCondition(def, apiextv1.NamesAccepted) || crd.HasCondition(def, apiextv1.Established) {
		c.serve(d, stored)
	}
	if changed {
		c.write(ctx, d, def, raw)
	}
	c.finish(d)
	if !equality.Semantic.DeepEqual(had, d.granted) {
		c.revisit(ctx, d.group, d.name)
	}
}

// grant sets the names that a definition has been granted.
func (c *Controller) grant(d *definition, names apiextv1.CustomResourceDefinitionNames) {
	had := d.granted
	if equality.Semantic.DeepEqual(had, names) {
		return
	}
	d.granted = names
	used, known := c.used[d.group]
	switch {
	case !known:
	case equality.Semantic.DeepEqual(had, apiextv1.CustomResourceDefinitionNames{}):
		used.Add(&names)
		c.used[d.group] = used
	default: // some names may be free now
		delete(c.used, d.group)
	}
}

// names returns the names granted in a group. They are gathered again only after one of them has
// become free, because that takes time linear in the definitions and names.
func (c *Controller) names(group string) crd.Names {
	if used, ok := c.used[group]; ok {
		return used
	}
	used := c.gatherNames(group)
	if c.used == nil {
		c.used = map[string]crd.Names{}
	}
	c.used[group] = used
	return used
}

// gatherNames returns the names granted in a group.
func (c *Controller) gatherNames(group string) crd.Names {
	var used crd.Names
	for _, d := range c.defs {
		if d.group == group {
			used.Add(&d.granted)
		}
	}
	return used
}

// serve puts the kind of a definition into the registry. The kind is compiled again only if the
// definition has changed in a way that needs it.
func (c *Controller) serve(d *definition, stored *crd.Stored) {
	def := stored.Definition
	established := crd.HasCondition(def, apiextv1.Established)
	terminating := !def.DeletionTimestamp.IsZero() || crd.HasCondition(def, apiextv1.Terminating)
	k := d.kind
	switch {
	case k == nil || k.UID != d.uid || k.Generation != def.Generation || !sameNames(k, &d.granted):
		compiled, err := c.Compiler.CompileStored(stored)
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
		crd.Rebase(k, stored)
		return
	default:
		k = k.With(established, terminating)
		crd.Rebase(k, stored)
	}
	if err := c.Kinds.Put(k); err != nil {
		c.logger().Error("definition cannot be served", "name", d.name, "error", err)
		return
	}
	d.kind = k
}

// unusable is the converter of a definition whose webhook cannot be called. It always fails.
type unusable struct{ err error }

// Convert implements kind.Converter.
func (u unusable) Convert(context.Context, string, [][]byte) ([][]byte, error) { return nil, u.err }

// sameNames reports whether a kind has the given names.
func sameNames(k *kind.Kind, n *apiextv1.CustomResourceDefinitionNames) bool {
	return k.Singular == n.Singular && k.Name == n.Kind && k.ListKind == n.ListKind &&
		slices.Equal(k.ShortNames, n.ShortNames) && slices.Equal(k.Categories, n.Categories)
}

// unserve removes the kind of a definition from the registry and forgets its instances.
func (c *Controller) unserve(d *definition) {
	if d.kind == nil {
		return
	}
	c.Kinds.Remove(d.kind)
	c.Cache.Drop(d.kind.StoragePrefix)
	d.kind = nil
}

// write stores the status of a definition. raw is the stored definition. If another writer was
// faster, its change is an event, and the definition is reconciled again.
func (c *Controller) write(ctx context.Context, d *definition, def *apiextv1.CustomResourceDefinition, raw []byte) {
	value, err := crd.Update(raw, def, c.Note)
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

// again reconciles a definition in the state that is in the cache.
func (c *Controller) again(ctx context.Context, name, uid string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if d := c.defs[name]; d != nil && d.uid == uid && ctx.Err() == nil {
		c.reread(ctx, name)
	}
}

// reread reconciles a definition in the newest state of the cache.
func (c *Controller) reread(ctx context.Context, name string) {
	o, ok := c.Cache.Resource(crd.Prefix).Get(key(name))
	if !ok || o.Rev < c.defs[name].rev {
		return // a newer state, or the end, will be an event
	}
	stored := c.parse(o)
	if stored == nil {
		return
	}
	c.track(stored.Definition, o.Rev)
	c.reconcile(ctx, stored, o.Raw)
}

// revisit reconciles the definitions of a group that did not get all their names, after the names
// of one of them changed.
func (c *Controller) revisit(ctx context.Context, group, except string) {
	var waiting []string
	for _, d := range c.defs {
		if d.group == group && d.name != except && d.refusal == nil && !equality.Semantic.DeepEqual(d.asked, d.granted) {
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
	delete(c.used, d.group)
	c.revisit(ctx, d.group, name)
}
