package kind

import (
	"context"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/meta"
	"github.com/keelson-io/keelson/schema"
)

// This file is what writes do with a Version.

// Decode reads a request body into d: pruned, without nulls, defaulted. An
// object of a built-in kind need not say its kind and apiVersion.
func (v *Version) Decode(d *jsondoc.Doc, src []byte) (schema.Found, error) {
	decode := v.Kind.Behavior.Decode
	if decode == nil {
		return v.Schema.Decode(d, src)
	}
	found, err := decode(v, d, src)
	if err == nil {
		v.sayKind(meta.Object{Doc: d})
	}
	return found, err
}

// sayKind fills in the kind and the version that an object does not say.
func (v *Version) sayKind(o meta.Object) {
	if o.Kind() == "" {
		o.SetKind(v.Kind.Name)
	}
	said := o.APIVersion()
	if group, ok := strings.CutSuffix(said, "/"); said == "" || ok && (group == "" || group == v.Kind.Group) {
		o.SetAPIVersion(v.APIVersion())
	}
}

// DecodeApplied is Decode for what an apply made of an object: explicit nulls
// stay, and validation refuses those that the schema does not allow.
func (v *Version) DecodeApplied(d *jsondoc.Doc, src []byte) (schema.Found, error) {
	if decode := v.Kind.Behavior.Decode; decode != nil {
		return decode(v, d, src)
	}
	return v.Schema.DecodeApplied(d, src)
}

// Strict says in words what Decode found: unknown and duplicate fields.
func (v *Version) Strict(src []byte) []string {
	if strict := v.Kind.Behavior.Strict; strict != nil {
		return strict(v, src)
	}
	return v.Schema.Strict(src)
}

// PrepareCreate sets what is not the client's to set on create: there is no
// status yet if status is a subresource, and the generation is 1.
func (v *Version) PrepareCreate(d *jsondoc.Doc) {
	if prepare := v.Kind.Behavior.PrepareCreate; prepare != nil {
		prepare(d)
		return
	}
	if v.Status {
		d.Remove("status")
	}
	meta.Object{Doc: d}.SetGeneration(1)
}

// PrepareUpdate keeps of old what an update in the given scope may not change:
// an update of the status changes status and managedFields only, any other
// update leaves the status alone if it is a subresource. The generation goes
// up when anything but metadata changes.
func (v *Version) PrepareUpdate(new, old *jsondoc.Doc, scope schema.Scope) {
	if prepare := v.Kind.Behavior.PrepareUpdate; prepare != nil {
		prepare(new, old, scope)
		return
	}
	if scope == schema.Status {
		KeepAllBut(new, old, []string{"status"}, []string{"metadata", "managedFields"})
		return
	}
	if v.Status {
		Keep(new, old, "status")
	}
	BumpGeneration(new, old, func(name string) bool { return name != "metadata" })
}

// Keep gives new the member of old, or none if old has none.
func Keep(new, old *jsondoc.Doc, path ...string) {
	if was := old.Root().At(path...); was.Exists() {
		new.Set(new.Import(was), path...)
	} else {
		new.Remove(path...)
	}
}

// KeepAllBut makes new like old except for what stands at the given paths.
func KeepAllBut(new, old *jsondoc.Doc, paths ...[]string) {
	values := make([]jsondoc.Node, len(paths))
	for i, path := range paths {
		values[i] = new.Root().At(path...).Node
	}
	new.SetRoot(new.Import(old.Root()))
	for i, path := range paths {
		if values[i].Kind() == jsondoc.Absent {
			new.Remove(path...)
		} else {
			new.Set(values[i], path...)
		}
	}
}

// BumpGeneration sets the generation to that of old, plus one if a member for
// which counts holds differs.
func BumpGeneration(new, old *jsondoc.Doc, counts func(name string) bool) {
	generation := meta.Object{Doc: old}.Generation()
	if differ(new.Root(), old.Root(), counts) {
		generation++
	}
	meta.Object{Doc: new}.SetGeneration(generation)
}

// differ compares the members of two objects for which counts holds.
func differ(a, b jsondoc.Value, counts func(name string) bool) bool {
	n := 0
	for name, value := range a.Members() {
		if !counts(name) {
			continue
		}
		n++
		if !jsondoc.Equal(value, b.Get(name)) {
			return true
		}
	}
	for name := range b.Members() {
		if counts(name) {
			n--
		}
	}
	return n != 0
}

// Validate checks an object completely. old is nil on create.
func (v *Version) Validate(ctx context.Context, new, old *jsondoc.Doc, scope schema.Scope) schema.Result {
	return v.ValidateUpdate(ctx, new, old, scope, schema.Kept{})
}

// ValidateUpdate is Validate for an update of which kept is known.
func (v *Version) ValidateUpdate(ctx context.Context, new, old *jsondoc.Doc, scope schema.Scope, kept schema.Kept) schema.Result {
	b := &v.Kind.Behavior
	if errs := v.validateType(new); len(errs) > 0 {
		if b.IsBuiltin {
			return schema.Result{Errors: errs}
		}
		r := v.Schema.ValidateMistyped(ctx, new, old, scope, errs)
		if old != nil { // these are found before, and rules are evaluated all the same
			r.Errors = append(meta.ValidateCommonUpdate(meta.Object{Doc: new}, meta.Object{Doc: old}), r.Errors...)
		}
		return r
	}
	switch {
	case old == nil && b.Validate != nil:
		return b.Validate(ctx, v, new)
	case old != nil && b.ValidateUpdate != nil:
		return b.ValidateUpdate(ctx, v, new, old, scope)
	}
	var errs field.ErrorList
	if old == nil {
		errs = meta.ValidateObjectMeta(meta.Object{Doc: new}, v.Kind.Namespaced)
	} else {
		errs = meta.ValidateObjectMetaUpdate(meta.Object{Doc: new}, meta.Object{Doc: old})
	}
	var replicas field.ErrorList
	if v.Scale != nil {
		replicas = v.Scale.validate(new.Root(), scope)
	}
	r := v.Schema.ValidateAmong(ctx, new, old, scope, kept, errs, replicas)
	if old != nil {
		v.Schema.ObserveRatcheting(r.Compared)
	}
	return r
}

// validateType checks kind and apiVersion.
func (v *Version) validateType(d *jsondoc.Doc) field.ErrorList {
	var errs field.ErrorList
	root := d.Root()
	if kind := root.Get("kind").Text(); kind != v.Kind.Name {
		errs = append(errs, field.Invalid(field.NewPath("kind"), kind, "must be "+v.Kind.Name))
	}
	if got := root.Get("apiVersion").Text(); !v.isAPIVersion(got) {
		errs = append(errs, field.Invalid(field.NewPath("apiVersion"), got, "must be "+v.APIVersion()))
	}
	return errs
}

// isAPIVersion reports whether s is this version's apiVersion.
func (v *Version) isAPIVersion(s string) bool {
	group := v.Kind.Group
	if group == "" {
		return s == v.Name
	}
	return len(s) == len(group)+1+len(v.Name) && s[:len(group)] == group && s[len(group)] == '/' && s[len(group)+1:] == v.Name
}

// Encode appends the object as it is stored: in the storage version, sorted,
// without metadata.resourceVersion, with a newline at the end.
func (v *Version) Encode(d *jsondoc.Doc, b []byte) ([]byte, error) {
	if encode := v.Kind.Behavior.Encode; encode != nil {
		text, err := encode(d)
		return append(b, text...), err
	}
	storage := v.Kind.Storage
	if v == storage {
		return appendStored(d, b), nil
	}
	converted := jsondoc.Get()
	defer converted.Release()
	if err := storage.convert(converted, d); err != nil {
		return nil, err
	}
	return appendStored(converted, b), nil
}

// appendStored prints d without its resource version, which is put back.
func appendStored(d *jsondoc.Doc, b []byte) []byte {
	rev := d.Root().At("metadata", "resourceVersion")
	if rev.Exists() {
		d.Remove("metadata", "resourceVersion")
	}
	b = d.AppendJSON(b, d.Root().Node)
	if rev.Exists() {
		d.Set(rev.Node, "metadata", "resourceVersion")
	}
	return append(b, '\n')
}
