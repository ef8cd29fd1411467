package kind

import (
	"context"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-io/keelson/internal/meta"
	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/schema"
)

// This file has the steps of a write: decode, prepare, validate, encode.

// Decode reads a request body into d. It prunes, drops nulls and fills in defaults. A body of a
// built-in kind may omit kind and apiVersion.
func (v *Version) Decode(d *jsondoc.Doc, src []byte) (schema.Found, error) {
	decode := v.Kind.Behavior.Decode
	if decode == nil {
		return v.Schema.Decode(d, src)
	}
	found, err := decode(v, d, src)
	if err == nil {
		v.setMissingType(meta.Object{Doc: d})
	}
	return found, err
}

// setMissingType sets kind and apiVersion if the object has none. Upstream accepts an apiVersion
// that ends with a slash, too, and one that starts with a slash, for the group without a name.
func (v *Version) setMissingType(o meta.Object) {
	if o.Kind() == "" {
		o.SetKind(v.Kind.Name)
	}
	apiVersion := o.APIVersion()
	if group, ok := strings.CutSuffix(apiVersion, "/"); apiVersion == "" || ok && (group == "" || group == v.Kind.Group) {
		o.SetAPIVersion(v.APIVersion())
	} else if version, ok := strings.CutPrefix(apiVersion, "/"); ok && v.Kind.Group == "" && version == v.Name {
		o.SetAPIVersion(v.APIVersion())
	}
}

// DecodeApplied is Decode for the result of a server-side apply: explicit nulls stay, and
// validation refuses those that the schema does not allow.
func (v *Version) DecodeApplied(d *jsondoc.Doc, src []byte) (schema.Found, error) {
	if v.Kind.Behavior.Decode != nil {
		return v.Decode(d, src)
	}
	return v.Schema.DecodeApplied(d, src)
}

// Strict returns an error for each unknown or duplicate field that Decode dropped.
func (v *Version) Strict(src []byte) []jsondoc.StrictError {
	if strict := v.Kind.Behavior.Strict; strict != nil {
		return strict(v, src)
	}
	return v.Schema.Strict(src)
}

// PrepareCreate sets the fields of a new object that clients cannot choose: the generation is 1,
// and there is no status if status is a subresource.
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

// PrepareUpdate undoes the changes that an update with the given scope must not make. An update of
// the status changes only status and managedFields. Other updates do not change the status if it is
// a subresource. The generation is incremented if anything but metadata changes.
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

// Keep sets the member at path of new to its value in old, or removes it if old does not have it.
func Keep(new, old *jsondoc.Doc, path ...string) {
	if was := old.Root().At(path...); was.Exists() {
		new.Set(new.Import(was), path...)
	} else {
		new.Remove(path...)
	}
}

// KeepAllBut replaces all of new by old, except for the members at the given paths.
func KeepAllBut(new, old *jsondoc.Doc, paths ...[]string) {
	values := make([]jsondoc.Node, len(paths))
	for i, path := range paths {
		values[i] = new.Root().At(path...).Node
	}
	new.SetRoot(new.Import(old.Root()))
	// The values are still in new's arena, although its root has changed.
	for i, path := range paths {
		if values[i].Kind() == jsondoc.Absent {
			new.Remove(path...)
		} else {
			new.Set(values[i], path...)
		}
	}
}

// BumpGeneration sets the generation of new to that of old, plus one if a top-level member differs
// for which counts returns true.
func BumpGeneration(new, old *jsondoc.Doc, counts func(name string) bool) {
	generation := meta.Object{Doc: old}.Generation()
	if differ(new.Root(), old.Root(), counts) {
		generation++
	}
	meta.Object{Doc: new}.SetGeneration(generation)
}

// differ reports whether a and b differ in a member for which counts returns true.
func differ(a, b jsondoc.Value, counts func(name string) bool) bool {
	n := 0 // members that only a has, so far
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

// Validate checks an object completely. old is the live object, nil on create.
func (v *Version) Validate(ctx context.Context, new, old *jsondoc.Doc, scope schema.Scope) schema.Result {
	return v.ValidateUpdate(ctx, new, old, scope, schema.Kept{})
}

// ValidateUpdate is Validate for an update. kept says which parts are known valid and unchanged.
func (v *Version) ValidateUpdate(ctx context.Context, new, old *jsondoc.Doc, scope schema.Scope, kept schema.Kept) schema.Result {
	b := &v.Kind.Behavior
	if errs := v.validateType(new); len(errs) > 0 {
		// Upstream validates built-in kinds as Go types, which cannot have another kind. For custom
		// resources it reports the wrong type together with other errors.
		if b.IsBuiltin {
			return schema.Result{Errors: errs}
		}
		r := v.Schema.ValidateMistyped(ctx, new, old, scope, errs)
		if old != nil { // upstream checks the metadata first, and evaluates rules nevertheless
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
	// Upstream's order: metadata, schema, replicas, rules.
	r := v.Schema.ValidateAmong(ctx, new, old, scope, kept, errs, replicas)
	if old != nil {
		v.Schema.ObserveRatcheting(r.Compared)
	}
	return r
}

// Reasons explains the errors of rules that ValidateUpdate returned for the same objects. With hideOld,
// the explanations show nothing of old.
func (v *Version) Reasons(ctx context.Context, new, old *jsondoc.Doc, hideOld bool) []schema.Reason {
	if b := &v.Kind.Behavior; b.Validate != nil || b.ValidateUpdate != nil {
		return nil // validated in Go
	}
	return v.Schema.Reasons(ctx, new, old, hideOld)
}

// validateType returns errors if kind or apiVersion are not those of v.
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

// isAPIVersion reports whether s is the apiVersion of v. It does not allocate.
func (v *Version) isAPIVersion(s string) bool {
	group := v.Kind.Group
	if group == "" {
		return s == v.Name
	}
	return len(s) == len(group)+1+len(v.Name) && s[:len(group)] == group && s[len(group)] == '/' && s[len(group)+1:] == v.Name
}

// Encode appends the stored form of the object: JSON in the storage version with sorted members,
// without metadata.resourceVersion, and with a newline at the end.
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

// appendStored prints d without its resource version. d is unchanged when it returns.
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
