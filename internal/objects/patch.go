package objects

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-io/keelson/internal/apply"
	"github.com/keelson-io/keelson/internal/cache"
	"github.com/keelson-io/keelson/internal/fastpath"
	"github.com/keelson-io/keelson/internal/meta"
	"github.com/keelson-io/keelson/internal/status"
	"github.com/keelson-io/keelson/internal/store"
	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/kind"
	"github.com/keelson-io/keelson/schema"
)

// This file patches objects: by JSON patch, by merge patch, by apply.

// Patch is a change that a client describes. Type says how.
type Patch struct {
	Type    types.PatchType
	Body    []byte
	Options *meta.WriteOptions
}

// Patch is a change that a client describes, in the format of Type.
func (v *Verbs) Patch(ctx context.Context, c Caller, ref Ref, p Patch) (Outcome, error) {
	if p.Type == types.ApplyPatchType {
		return v.applyBody(ctx, c, ref, p.Body, p.Options)
	}
	wrong, wrongErr := readPatch(p.Type, p.Body, p.Options.FieldValidation)
	// Most patches of controllers change labels, annotations or finalizers only.
	small := p.Type == types.MergePatchType && wrongErr == nil && len(wrong) == 0 && fastpath.PatchMetadata.On() && ofMetadata(p.Body)
	return v.change(ctx, c, ref, &change{
		options: p.Options,
		scope:   ref.scope(),
		named:   true,
		track:   (*apply.Manager).Update,
		create: func(w *write) (Outcome, error) {
			if !json.Valid(p.Body) {
				return Outcome{}, noJSON()
			}
			// A patch of other types needs an object that it can change.
			return Outcome{}, w.ref.notFound()
		},
		build: func(w *write, next, live *jsondoc.Doc, obj *cache.Object) (built, error) {
			if wrongErr != nil { // which is of interest where there is something to patch
				return built{}, wrongErr
			}
			if small && w.ref.patchMetadata(next, live, p.Body) {
				return built{}, w.ref.checkIdentity(meta.Object{Doc: next})
			}
			// A patch applies to the object as clients read it: with defaults, in their version.
			view, err := obj.View(w.ref.Version)
			if err != nil {
				return built{}, err
			}
			// A strategic merge patch merges lists by the tags of the Go type.
			var patchedJSON []byte
			if p.Type == types.StrategicMergePatchType {
				patchedJSON, err = strategic(w.ctx, view.JSON, p.Body, typedObject(w.ref.Version))
			} else {
				patchedJSON, err = patched(w.ctx, p.Type, view.JSON, p.Body)
			}
			if err != nil {
				return built{}, err
			}
			return w.ref.decodePatched(next, &patchResult{patch: p, before: view.JSON, after: patchedJSON, wrong: slices.Clone(wrong)})
		},
	})
}

// readPatch returns the mistakes in a patch that is used nevertheless, or the error for one that
// cannot be read.
func readPatch(how types.PatchType, patch []byte, validation string) ([]string, error) {
	wrong, err := strictPatch(how, patch, validation)
	if err != nil || how != types.JSONPatchType {
		return wrong, err
	}
	if n, err := jsondoc.JSONPatchLen(patch); err == nil && n > maxOperations {
		return nil, status.TooLarge(fmt.Sprintf("The allowed maximum operations in a JSON patch is %d, got %d", maxOperations, n))
	}
	return wrong, nil
}

// maxOperations is how many operations a JSON patch may have.
const maxOperations = 10000

// patched is an object after a patch.
func patched(ctx context.Context, how types.PatchType, object, patch []byte) ([]byte, error) {
	if how == types.MergePatchType {
		out, err := jsondoc.MergePatch(object, patch)
		if err != nil && !json.Valid(patch) {
			return nil, noJSON()
		}
		if err != nil {
			return nil, status.BadRequest("Invalid JSON Patch")
		}
		return out, nil
	}
	out, err := jsondoc.JSONPatch(ctx, object, patch)
	var format *jsondoc.PatchFormatError
	switch {
	// The errors of JSON patches are 422, except those of a text that is no JSON patch at all.
	case err == nil:
		return out, nil
	// JSONPatch checks the context between operations.
	case ctx.Err() != nil:
		return nil, StoreError(ctx.Err())
	case !json.Valid(patch):
		return nil, noJSON()
	case errors.As(err, &format):
		return nil, status.BadRequest("%v", err)
	}
	return nil, status.Unprocessable(err)
}

// typedObject returns an empty object of the Go type of a built-in kind. The type's tags control
// how strategic merge patches merge its lists.
func typedObject(v *kind.Version) any { return v.NewTyped() }

// strictPatch returns the mistakes in a patch that is used nevertheless, or the error for one that
// cannot be read.
func strictPatch(how types.PatchType, patch []byte, validation string) ([]string, error) {
	if validation == metav1.FieldValidationIgnore {
		return nil, nil
	}
	// Decode cannot find these any more: unknown members of operations, and duplicate keys.
	check := jsondoc.MergePatchStrict
	if how == types.JSONPatchType {
		check = jsondoc.JSONPatchStrict
	}
	// The checks report unknown and duplicate members of the patch itself.
	found, err := check(patch)
	if err != nil && !json.Valid(patch) {
		return nil, noJSON()
	}
	if err != nil {
		return nil, status.BadRequest("error decoding patch: %v", err)
	}
	return found, nil
}

// noJSON returns the error for a patch that is no JSON at all.
func noJSON() error { return status.BadRequest("invalid JSON patch") }

// patchResult is what a patch made of an object.
type patchResult struct {
	patch         Patch
	before, after []byte   // the object as clients read it, and after the patch
	wrong         []string // what is known to be wrong with the patch
}

// decodePatched reads what a patch made of the object.
func (r *Ref) decodePatched(next *jsondoc.Doc, p *patchResult) (built, error) {
	found, err := r.Version.Decode(next, p.after)
	// Default values may make a small patch a large object.
	if errors.Is(err, schema.ErrManyDefaults) {
		return built{}, StoreError(store.ErrTooLarge)
	}
	if err != nil {
		var of metav1.TypeMeta
		if json.Unmarshal(p.after, &of) == nil && of.Kind == "" { // which is looked at first
			err = runtime.NewMissingKindErr(string(p.after))
		}
		return built{}, r.invalidPatch(p, err.Error())
	}
	r.keepReset(next, p.after)
	// A patch may remove the kind, which no schema would notice.
	obj := meta.Object{Doc: next}
	if obj.Kind() == "" {
		return built{}, r.invalidPatch(p, runtime.NewMissingKindErr(string(p.after)).Error())
	}
	// Strict walks the text once more to name the fields, so it runs only if some were dropped.
	validation, wrong := p.patch.Options.FieldValidation, p.wrong
	if found != 0 && validation != metav1.FieldValidationIgnore {
		strict := r.Version.Strict(p.after)
		if !r.behavior().DecodesIntoType() && obj.Kind() != r.Kind.Name { // whose fields are nobody's
			strict = ofMetadataOnly(strict)
		}
		wrong = append(wrong, jsondoc.StrictTexts(strict)...)
	}
	if len(wrong) > 0 && validation == metav1.FieldValidationStrict {
		return built{}, r.invalidPatch(p, "strict decoding error: "+strings.Join(wrong, ", "))
	}
	return built{warnings: wrong}, r.checkIdentity(obj)
}

// invalidPatch returns the error for a patch whose outcome is no object of the kind. For a strategic
// merge patch it shows the patch and what upstream's converter says, otherwise the outcome.
func (r *Ref) invalidPatch(p *patchResult, why string) error {
	if p.patch.Type == types.StrategicMergePatchType {
		return wrongStrategic(p.before, p.patch.Body, typedObject(r.Version), why)
	}
	return wrongPatch(p.after, why)
}

// wrongPatch returns the error for a patch whose outcome is no object of the kind.
func wrongPatch(patched []byte, why string) error {
	return status.Invalid(kschema.GroupKind{}, "", field.ErrorList{field.Invalid(field.NewPath("patch"), string(patched), why)})
}

// applyBody merges an apply patch into the object, or creates the object of it.
func (v *Verbs) applyBody(ctx context.Context, c Caller, ref Ref, body []byte, o *meta.WriteOptions) (Outcome, error) {
	// The configuration is read once, although the write may be tried several times.
	config, err := readConfiguration(ctx, body, o)
	if err != nil && (ref.Subresource == "" || isNotYAML(err)) {
		return Outcome{}, err
	}
	wrong := err // of interest where there is something to apply it to
	if config != nil {
		defer config.said.Release()
	}
	m, err := managerOf(ref.Version)
	if err != nil {
		return Outcome{}, err
	}
	// An apply to the object creates it if it is missing. An apply to a part needs the object.
	op := applied(m, config, ref.scope(), o)
	if ref.Subresource == "" {
		op.create = func(w *write) (Outcome, error) { return w.applyNew(m, config, o) }
		// A subresource needs an object: a missing one is reported before a malformed patch.
	} else if wrong != nil {
		op.build = func(_ *write, _, _ *jsondoc.Doc, _ *cache.Object) (built, error) { return built{}, wrong }
	}
	return v.change(ctx, c, ref, op)
}

// applied returns the change that an apply patch makes of an object.
func applied(m *apply.Manager, config *configuration, scope schema.Scope, o *meta.WriteOptions) *change {
	return &change{
		options: o,
		scope:   scope,
		named:   true,
		build: func(w *write, next, live *jsondoc.Doc, _ *cache.Object) (built, error) {
			if err := w.merge(m, live, next, config, o); err != nil {
				return built{}, err
			}
			// Duplicate keys are reported only if the merge succeeds, as upstream.
			warnings, err := config.strictly(o)
			if err != nil {
				return built{}, err
			}
			return built{warnings: warnings}, w.ref.checkIdentity(meta.Object{Doc: next})
		},
	}
}

// merge makes next what an apply patch makes of live, which is nil if there is no object yet.
func (w *write) merge(m *apply.Manager, live, next *jsondoc.Doc, config *configuration, o *meta.WriteOptions) error {
	merged := jsondoc.Get()
	// merged has the result of a fast path of the merge; it is empty if the plain path made text.
	defer merged.Release()
	// ApplyDoc merges the configuration into live, and removes what the manager applied before and
	// does not apply any more. Fields of other managers are conflicts, unless the options force it.
	text, err := m.ApplyDoc(live, config.said, merged, w.manager(o, nil))
	if err != nil {
		return err
	}
	if _, err := w.ref.Version.DecodeApplied(next, text); err != nil {
		if merged.Root().Exists() {
			text = merged.Root().AppendJSON(nil)
		}
		return w.ref.undecodable(&Body{Sent: text, JSON: text}, err, o.FieldValidation)
	}
	// Decode normalizes metadata. The managedFields that were just computed need not be decoded.
	if managed := merged.Root().At("metadata", "managedFields"); managed.Exists() {
		next.Set(next.Import(managed), "metadata", "managedFields")
	}
	return nil
}

// applyNew creates the object that an apply patch describes.
func (w *write) applyNew(m *apply.Manager, config *configuration, o *meta.WriteOptions) (out Outcome, err error) {
	d := jsondoc.Get()
	defer func() {
		if out.pooled = err == nil; !out.pooled {
			d.Release()
		}
	}()
	if err := w.merge(m, nil, d, config, o); err != nil {
		return out, err
	}
	warnings, err := config.strictly(o)
	if err != nil {
		return out, err
	}
	w.Warn(warnings...)
	obj := meta.Object{Doc: d}
	// A UID in the patch means that the client wants to change an existing object.
	if uid := obj.UID(); uid != "" {
		return out, status.Conflict(w.ref.Kind.GroupResource(), w.ref.Name,
			fmt.Errorf("uid mismatch: the provided object specified uid %s, and no existing object was found", uid))
	}
	if err := w.ref.checkIdentity(obj); err != nil {
		return out, err
	}
	if err := w.ref.checkTerminating(obj); err != nil { // whatever version it has
		return out, err
	}
	// Upstream ignores a well-formed resource version here, and answers 500 for a malformed one.
	if rv := obj.ResourceVersion(); rv != "" {
		if _, err := strconv.ParseUint(rv, 10, 64); err != nil {
			return out, status.Plain500(err.Error())
		}
		// The store refuses a resource version in a new object.
		if !o.DryRun { // which returns it
			d.Remove("metadata", "resourceVersion")
		}
	}
	// The request was authorized as a patch.
	if err := w.mayCreate(); err != nil {
		return out, err
	}
	return w.insert(d, o, nil)
}
