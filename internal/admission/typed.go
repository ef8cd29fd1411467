package admission

import (
	"bytes"
	"encoding/json"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-io/keelson/internal/status"
	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/kind"
)

// This file gives steps the objects of a request as Go values. All steps that ask for an object share
// one value, so that a chain with many steps for pods decodes a pod once. It also has the plans: the
// steps that run for a resource.

// typedObjects has the decoded objects of a request.
type typedObjects struct{ next, old any }

// NewObject returns the new object of a request as a Go value. A step that changes the value also
// writes the change to the document, with Request.Edit.
func NewObject[T any](r *Request) (*T, error) {
	if v, ok := r.decoded().next.(*T); ok {
		return v, nil
	}
	v, err := decodeDoc[T](r.New)
	if err == nil {
		r.typed.next = v
	}
	return v, err
}

// OldObject returns the old object of a request as a Go value, which steps do not change.
func OldObject[T any](r *Request) (*T, error) {
	if v, ok := r.decoded().old.(*T); ok {
		return v, nil
	}
	v, err := decodeDoc[T](r.Old)
	if err == nil {
		r.typed.old = v
	}
	return v, err
}

// decoded returns the cache of decoded objects of a request.
func (r *Request) decoded() *typedObjects {
	if r.typed == nil {
		r.typed = new(typedObjects)
	}
	return r.typed
}

// decodeDoc decodes a document, which fits its schema.
func decodeDoc[T any](d *jsondoc.Doc) (*T, error) {
	v := new(T)
	if err := kind.UnmarshalStored(d.AppendJSON(nil, d.Root().Node), v); err != nil {
		return nil, status.BadRequest("%v", err)
	}
	return v, nil
}

// Edit sets a member of the new object to a Go value, and removes the member if the value is nil. It
// does not default or prune, so that the value is complete.
func (r *Request) Edit(value any, path ...string) error {
	text, err := json.Marshal(value)
	if err != nil {
		return status.Internal(err)
	}
	r.saveOriginal()
	if bytes.Equal(text, []byte("null")) {
		r.New.Remove(path...)
		return nil
	}
	v := jsondoc.Get()
	defer v.Release()
	if err := jsondoc.Parse(v, text); err != nil {
		return status.Internal(err)
	}
	r.New.Set(r.New.Import(v.Root()), path...)
	return nil
}

// Forget drops the decoded objects, because a document has changed and its Go
// value has not.
func (r *Request) Forget() { r.typed = nil }

// plan has the steps of a resource that some steps are for alone.
type plan struct {
	mutate   []timed[Mutator]
	validate []timed[Validator]
}

// MutatesOnly is Mutates for a mutator that only the given resources pass. Requests for custom
// resources do not even look for it.
func (c *Chain) MutatesOnly(plugin string, s Mutator, resources ...schema.GroupResource) {
	step := newTimed(c, plugin, admit, s)
	for _, gr := range resources {
		p := c.planFor(gr)
		p.mutate = append(p.mutate, step)
	}
}

// ValidatesOnly is Validates for a validator that only the given resources pass.
func (c *Chain) ValidatesOnly(plugin string, s Validator, resources ...schema.GroupResource) {
	step := newTimed(c, plugin, validate, s)
	for _, gr := range resources {
		p := c.planFor(gr)
		p.validate = append(p.validate, step)
	}
}

// planFor returns the plan of a resource, which begins with the steps for all resources so far.
func (c *Chain) planFor(gr schema.GroupResource) *plan {
	p := c.plans[gr]
	if p == nil {
		p = &plan{append([]timed[Mutator](nil), c.mutate...), append([]timed[Validator](nil), c.validate...)}
		if c.plans == nil {
			c.plans = map[schema.GroupResource]*plan{}
		}
		c.plans[gr] = p
	}
	return p
}

// plan returns the steps that a request passes; nil means those for all resources. No step is for
// custom resources alone.
func (c *Chain) plan(r *Request) *plan {
	if c.plans == nil {
		return nil
	}
	if k := r.Version.Kind; k.Behavior.MayHavePlugins() {
		return c.plans[k.GroupResource()]
	}
	return nil
}
