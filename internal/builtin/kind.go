package builtin

import (
	"context"
	"encoding/json"
	"strings"
	"sync"

	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-io/keelson/internal/builtin/describe"
	"github.com/keelson-io/keelson/internal/meta"
	"github.com/keelson-io/keelson/internal/texts"
	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/kind"
	"github.com/keelson-io/keelson/schema"
	"github.com/keelson-io/keelson/schema/structural"
)

// This file builds a kind.Kind from a Description.

// builtin is a kind with its description. Its methods are the hooks of the kind's Behavior.
type builtin struct {
	describe.Description
	lib  *library
	made *kind.Kind
	by   map[*kind.Version]*describe.Version
	// fresh returns the initial status of a new object as JSON, by apiVersion.
	fresh func() map[string][]byte
	// gates returns the places of gated members, by apiVersion.
	gates map[string]func() *gate
}

// definitionOf returns the name of the definition of a kind.
func definitionOf(group, version, name string) string {
	first, _, _ := strings.Cut(group, ".")
	if first == "" {
		first = "core"
	}
	return apiPrefix + first + "." + version + "." + name
}

// newKind returns the kind that a description describes.
func newKind(lib *library, desc describe.Description) *builtin {
	b := &builtin{Description: desc, lib: lib, by: map[*kind.Version]*describe.Version{}, gates: map[string]func() *gate{}}
	k := &kind.Kind{
		Group: desc.Group, Plural: desc.Plural, Singular: desc.Singular, Name: desc.Kind, ListKind: desc.Kind + "List",
		ShortNames: desc.ShortNames, Categories: desc.Categories, Namespaced: !desc.ClusterScoped,
		Established: true, StoragePrefix: desc.StoragePrefix,
	}
	if k.Singular == "" {
		k.Singular = strings.ToLower(desc.Kind)
	}
	if k.StoragePrefix == "" {
		k.StoragePrefix = desc.Plural
	}
	for i := range desc.Versions {
		k.All = append(k.All, b.version(k, &desc.Versions[i]))
	}
	k.Versions, k.Storage = k.All, k.All[0]
	k.Storage.IsStorage = true
	k.SetBehavior(kind.Behavior{
		Traits:         desc.Traits,
		Subresources:   b.subresources(),
		GoType:         func(v *kind.Version) *kind.GoType { return b.by[v].GoType },
		Decode:         b.decode,
		Strict:         b.strict,
		Load:           b.load,
		PrepareCreate:  b.prepareCreate,
		PrepareUpdate:  b.prepareUpdate,
		Validate:       b.validate,
		ValidateUpdate: b.validateUpdate,
	})
	b.made = k
	b.fresh = sync.OnceValue(b.freshStatus)
	return b
}

// subresources returns the subresources of the kind besides status and scale.
func (b *builtin) subresources() []kind.Subresource {
	var all []kind.Subresource
	for _, sub := range b.Subresources {
		made := kind.Subresource{Name: sub.Name, Verbs: []string{"get", "patch", "update"}, Scope: sub.Scope}
		switch {
		case sub.Body == nil && b.UpdatePart == nil:
			panic("BUG: " + b.Kind + "/" + sub.Name + " has no UpdatePart: a write of it would change all of the object")
		case sub.Body != nil && !sub.Body.Virtual:
			panic("BUG: " + b.Kind + "/" + sub.Name + " has a body that is not Virtual")
		case sub.Body != nil:
			made.Verbs, made.Version = []string{"create"}, newKind(b.lib, *sub.Body).made.Storage
		}
		all = append(all, made)
	}
	return all
}

// version returns a version whose schema is read on first use.
func (b *builtin) version(k *kind.Kind, desc *describe.Version) *kind.Version {
	name := definitionOf(k.Group, desc.Name, k.Name)
	roots := []string{name}
	if !b.Virtual {
		roots = append(roots, name+"List")
	}
	v := &kind.Version{
		Kind: k, Name: desc.Name, Served: true, Status: b.Status, Scale: b.Scale,
		Columns: b.Columns, SelectableFields: b.Fields, Deprecated: b.Deprecated != "", Warning: b.Deprecated,
		Structural: sync.OnceValue(func() *structural.Schema { return b.lib.object(name, true) }),
		Definition: name, Ended: b.Ended, Attachments: new(kind.Attachments),
		Published: func() (map[string]json.RawMessage, error) { return published(roots...) },
	}
	v.Schema = schema.Lazy(func() (*structural.Schema, error) { return b.lib.object(name, false), nil }, schema.Options{Resource: true})
	if v.Columns == nil {
		v.Columns = []kind.Column{describe.AgeColumn()}
	}
	b.by[v] = desc
	b.gates[v.APIVersion()] = sync.OnceValue(func() *gate { return b.lib.gates(name) })
	return v
}

// freshStatus returns the status that the schema of each version gives an empty object.
func (b *builtin) freshStatus() map[string][]byte {
	out := map[string][]byte{}
	for v, desc := range b.by {
		text, err := json.Marshal(desc.GoType.New())
		if err != nil {
			panic("BUG: " + err.Error()) // a Go type of the API
		}
		d := jsondoc.Get()
		if _, err := v.Schema.Decode(d, text); err != nil {
			panic("BUG: " + err.Error())
		}
		if s := d.Root().Get("status"); s.Exists() {
			out[v.APIVersion()] = s.AppendJSON(nil)
		}
		d.Release()
	}
	return out
}

// prepareCreate resets the fields of a new object that clients cannot set.
func (b *builtin) prepareCreate(d *jsondoc.Doc) {
	b.dropGated(d, nil)
	if b.Status && !b.KeepStatus {
		describe.SetJSON(d, b.fresh()[d.Root().Get("apiVersion").Text()], "status")
	}
	if b.Generation {
		meta.Object{Doc: d}.SetGeneration(1)
	} else {
		d.Remove("metadata", "generation")
	}
	if b.Create != nil {
		b.Create(d)
	}
}

func (b *builtin) prepareUpdate(new, old *jsondoc.Doc, scope schema.Scope) {
	b.dropGated(new, old)
	switch {
	case scope == schema.Status, scope == schema.Approval:
		// All fields but the status; metadata is compared elsewhere.
		for name := range old.Root().Members() {
			if name != "status" && name != "metadata" {
				kind.Keep(new, old, name)
			}
		}
		for _, name := range b.StatusKeeps {
			kind.Keep(new, old, "metadata", name)
		}
		if !b.made.Behavior.StatusWritesMetadata() {
			kind.Keep(new, old, "metadata", "deletionTimestamp")
		}
		if scope == schema.Approval {
			b.UpdatePart(new, old, scope)
		} else if b.UpdateStatus != nil {
			b.UpdateStatus(new, old)
		}
		return
	case b.Status:
		kind.Keep(new, old, "status")
	}
	if b.UpdatePart != nil && scope != schema.Whole {
		b.UpdatePart(new, old, scope)
		return
	}
	if b.Update != nil && scope == schema.Whole {
		b.Update(new, old)
	}
}

func (b *builtin) validate(ctx context.Context, v *kind.Version, d *jsondoc.Doc) schema.Result {
	name := b.ValidName
	if name == nil {
		name = apivalidation.NameIsDNSSubdomain
	}
	o := meta.Object{Doc: d}
	errs := meta.ValidateObjectMetaWithName(o, b.made.Namespaced, name)
	if !b.AnyFinalizer {
		errs = append(errs, describe.CheckFinalizers(d)...)
	}
	return b.checked(ctx, v, d, nil, schema.Whole, errs)
}

func (b *builtin) validateUpdate(ctx context.Context, v *kind.Version, new, old *jsondoc.Doc, scope schema.Scope) schema.Result {
	errs := meta.ValidateObjectMetaUpdate(meta.Object{Doc: new}, meta.Object{Doc: old})
	if !b.AnyFinalizer {
		errs = append(errs, describe.CheckFinalizers(new)...)
	}
	return b.checked(ctx, v, new, old, scope, errs)
}

// checked adds the errors and warnings of the schema and of the hooks to errs.
func (b *builtin) checked(ctx context.Context, v *kind.Version, new, old *jsondoc.Doc, scope schema.Scope, errs field.ErrorList) schema.Result {
	r := schema.Result{Errors: errs}
	if !b.Complete {
		r = v.Schema.ValidateAmong(ctx, new, old, scope, schema.Kept{}, errs, nil)
	}
	if b.Check != nil {
		r.Errors = append(r.Errors, b.Check(v, new, old, scope)...)
	}
	r.Errors = texts.Once(r.Errors)
	switch {
	case len(r.Errors) > 0:
	case scope == schema.Status && b.StatusWarnings != nil:
		r.Warnings = append(r.Warnings, b.StatusWarnings(new)...)
	case scope != schema.Status && b.Warnings != nil:
		r.Warnings = append(r.Warnings, b.Warnings(new, old)...)
	}
	return r
}
