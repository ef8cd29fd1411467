package flows

import (
	"context"
	"encoding/json"
	"strconv"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-io/keelson/internal/flow/bootstrap"
	"github.com/keelson-io/keelson/internal/meta"
	"github.com/keelson-io/keelson/internal/status"
	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/kind"
)

// This file keeps the default objects.

// maintain creates missing default objects, restores those that belong to the server, and deletes
// default objects of earlier versions that this version does not have.
func (c *Controller) maintain(ctx context.Context) error {
	wanted := map[string]bool{}
	for _, want := range bootstrap.Levels(false) {
		wanted[want.Name] = true
		have := c.levels.byName[want.Name]
		if have == nil {
			if err := c.create(ctx, c.levels.kind, want.Name, want); err != nil {
				return err
			}
			continue
		}
		if e := want.Spec.Exempt; e != nil && have.Spec.Exempt != nil { // these fields belong to the operator
			want.Spec.Exempt = have.Spec.Exempt
		}
		if err := c.revise(ctx, c.levels.kind, &have.ObjectMeta, want.Spec, equality.Semantic.DeepEqual(want.Spec, have.Spec)); err != nil {
			return err
		}
	}
	for name, have := range c.levels.byName {
		if err := c.remove(ctx, c.levels.kind, wanted[name], &have.ObjectMeta); err != nil {
			return err
		}
	}
	clear(wanted)
	for _, want := range bootstrap.Schemas(false) {
		wanted[want.Name] = true
		have := c.schemas.byName[want.Name]
		if have == nil {
			if err := c.create(ctx, c.schemas.kind, want.Name, want); err != nil {
				return err
			}
			continue
		}
		if err := c.revise(ctx, c.schemas.kind, &have.ObjectMeta, want.Spec, equality.Semantic.DeepEqual(want.Spec, have.Spec)); err != nil {
			return err
		}
	}
	for name, have := range c.schemas.byName {
		if err := c.remove(ctx, c.schemas.kind, wanted[name], &have.ObjectMeta); err != nil {
			return err
		}
	}
	return nil
}

// create creates an object.
func (c *Controller) create(ctx context.Context, k *kind.Kind, name string, object any) error {
	body, err := json.Marshal(object)
	if err != nil {
		return err
	}
	d := jsondoc.Get()
	defer d.Release()
	if err := jsondoc.Parse(d, body); err != nil {
		return err
	}
	d.Set(d.NewString(flowcontrolv1.SchemeGroupVersion.String()), "apiVersion")
	d.Set(d.NewString(k.Name), "kind")
	d.Remove("status")
	return c.Producer.Ensure(ctx, k, "", name, d.Root().AppendJSON(nil))
}

// updates reports whether the server owns the specification of an object: the object is mandatory,
// or its annotation is true, or it has none and the specification was never changed.
func updates(m *metav1.ObjectMeta) bool {
	if bootstrap.IsMandatory(m.Name) {
		return true
	}
	if on, err := strconv.ParseBool(m.Annotations[bootstrap.AutoUpdate]); err == nil {
		return on
	}
	return m.Generation == 1
}

// revise restores the specification and the annotation of an object.
func (c *Controller) revise(ctx context.Context, k *kind.Kind, m *metav1.ObjectMeta, spec any, equal bool) error {
	auto := updates(m)
	said, err := strconv.ParseBool(m.Annotations[bootstrap.AutoUpdate])
	if err == nil && said == auto && (equal || !auto) {
		return nil
	}
	text, err := json.Marshal(spec)
	if err != nil {
		return err
	}
	err = c.Producer.Modify(ctx, k, "", m.Name, func(o meta.Object) error {
		if o.ResourceVersion() != m.ResourceVersion {
			return status.Conflict(k.GroupResource(), m.Name, status.ErrModified)
		}
		if auto && !equal {
			d := jsondoc.Get()
			defer d.Release()
			if err := jsondoc.Parse(d, text); err != nil {
				return err
			}
			o.Doc.Set(o.Doc.Import(d.Root()), "spec")
		}
		o.Doc.Set(o.Doc.NewString(strconv.FormatBool(auto)), "metadata", "annotations", bootstrap.AutoUpdate)
		return nil
	})
	return unlessOvertaken(err)
}

// remove deletes an object of the server, unless this version has it.
func (c *Controller) remove(ctx context.Context, k *kind.Kind, wanted bool, m *metav1.ObjectMeta) error {
	if on, err := strconv.ParseBool(m.Annotations[bootstrap.AutoUpdate]); wanted || err != nil || !on {
		return nil
	}
	return c.Producer.Delete(ctx, k, "", m.Name)
}

// unlessOvertaken returns nil if an object changed or went meanwhile: that change is an event.
func unlessOvertaken(err error) error {
	if err != nil {
		switch status.From(err).Reason {
		case metav1.StatusReasonConflict, metav1.StatusReasonNotFound:
			return nil
		}
	}
	return err
}
