package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/mergepatch"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-io/keelson/apply"
	"github.com/keelson-io/keelson/cache"
	"github.com/keelson-io/keelson/doc"
	"github.com/keelson-io/keelson/kind"
	"github.com/keelson-io/keelson/meta"
	"github.com/keelson-io/keelson/status"
)

// This file patches objects: by JSON patch, by merge patch, by apply.

func (q *request) patch() error {
	media := patchType(q.r)
	typed := typedObject(q.v)
	accept, err := q.negotiate()
	if err == nil {
		q.accept = accept // for errors, too
	}
	switch {
	case media == patchJSON, media == patchMerge, media == patchApply:
	case media == patchStrategic && typed != nil:
	case typed != nil:
		return q.unsupportedTyped()
	default:
		return unsupported(patchJSON, patchMerge, patchApply)
	}
	if err != nil {
		return err
	}
	body, err := q.readBody()
	if err != nil {
		return err
	}
	q.recordPatch(media, body)
	o, err := meta.ParsePatchOptions(q.query, media == patchApply)
	if err != nil {
		return err
	}
	if media == patchApply {
		return q.apply(body, o)
	}
	wrong, wrongErr := readPatch(media, body, o.FieldValidation)
	small := media == patchMerge && wrongErr == nil && len(wrong) == 0 && ofMetadata(body)
	return q.change(&change{
		options: o,
		scope:   q.part(),
		named:   true,
		track:   q.updates(o),
		missing: func() error {
			if !json.Valid(body) {
				return noJSON()
			}
			return status.NotFound(q.kind.GroupResource(), q.name)
		},
		build: func(next, live *doc.Doc, obj *cache.Object) error {
			if wrongErr != nil { // which is of interest where there is something to patch
				return wrongErr
			}
			if small && q.patchMetadata(next, live, body) {
				return q.checkWhere(meta.Object{Doc: next})
			}
			view, err := obj.View(q.v)
			if err != nil {
				return err
			}
			var patchedJSON []byte
			if media == patchStrategic {
				patchedJSON, err = strategic(view.JSON, body, typed)
			} else {
				patchedJSON, err = patched(media, view.JSON, body)
			}
			if err != nil {
				return err
			}
			return q.decodePatched(next, patchedJSON, o.FieldValidation, slices.Clone(wrong))
		},
	})
}

// unsupportedTyped is what is said of a patch of a type that there is not, where upstream's router says so.
func (q *request) unsupportedTyped() error {
	q.unrouted()
	return apierrors.NewGenericServerResponse(http.StatusUnsupportedMediaType, "", kschema.GroupResource{}, "", "415: Unsupported Media Type", 0, false)
}

// readPatch says what is wrong with a patch that is read nevertheless, or why it cannot be read.
func readPatch(media string, patch []byte, validation string) ([]string, error) {
	wrong, err := strictPatch(media, patch, validation)
	if err != nil || media != patchJSON {
		return wrong, err
	}
	if n, err := doc.JSONPatchLen(patch); err == nil && n > maxOperations {
		return nil, status.TooLarge(fmt.Sprintf("The allowed maximum operations in a JSON patch is %d, got %d", maxOperations, n))
	}
	return wrong, nil
}

// maxOperations is how many operations a JSON patch may have.
const maxOperations = 10000

// patched is an object after a patch.
func patched(media string, object, patch []byte) ([]byte, error) {
	if media == patchMerge {
		out, err := doc.MergePatch(object, patch)
		if err != nil && !json.Valid(patch) {
			return nil, noJSON()
		}
		if err != nil {
			return nil, status.BadRequest("Invalid JSON Patch")
		}
		return out, nil
	}
	out, err := doc.JSONPatch(object, patch)
	var format *doc.PatchFormatError
	switch {
	case err == nil:
		return out, nil
	case !json.Valid(patch):
		return nil, noJSON()
	case errors.As(err, &format):
		return nil, status.BadRequest("%v", err)
	}
	return nil, apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "", kschema.GroupResource{}, "", err.Error(), 0, false)
}

// typedObject is the Go type of a built-in kind, whose tags say how strategic
// merge patches treat its lists; nil for custom resources.
func typedObject(v *kind.Version) any {
	if b := v.Kind.Builtin; b != nil && b.New != nil {
		return b.New(v)
	}
	return nil
}

// strategic is an object of a built-in kind after a strategic merge patch.
func strategic(object, patch []byte, typed any) ([]byte, error) {
	out, err := strategicpatch.StrategicMergePatch(object, patch, typed)
	switch {
	case errors.Is(err, mergepatch.ErrBadJSONDoc), errors.Is(err, mergepatch.ErrBadPatchFormatForPrimitiveList),
		errors.Is(err, mergepatch.ErrBadPatchFormatForRetainKeys), errors.Is(err, mergepatch.ErrBadPatchFormatForSetElementOrderList),
		errors.Is(err, mergepatch.ErrUnsupportedStrategicMergePatchFormat):
		return nil, status.BadRequest("%v", err)
	case errors.Is(err, mergepatch.ErrNoListOfLists), errors.Is(err, mergepatch.ErrPatchContentNotMatchRetainKeys):
		return nil, apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "", kschema.GroupResource{}, "", err.Error(), 0, false)
	case err != nil: // upstream does not say whose mistake it is, either
		return nil, err
	}
	return out, nil
}

// strictPatch says what is wrong with a patch that is read nevertheless, or why
// it cannot be read.
func strictPatch(media string, patch []byte, validation string) ([]string, error) {
	if validation == metav1.FieldValidationIgnore {
		return nil, nil
	}
	check := doc.MergePatchStrict
	if media == patchJSON {
		check = doc.JSONPatchStrict
	}
	found, err := check(patch)
	if err != nil && !json.Valid(patch) {
		return nil, noJSON()
	}
	if err != nil {
		return nil, status.BadRequest("error decoding patch: %v", err)
	}
	return found, nil
}

// noJSON is the error for a patch that is no JSON at all.
func noJSON() error { return status.BadRequest("invalid JSON patch") }

// decodePatched reads what a patch made of the object.
func (q *request) decodePatched(next *doc.Doc, patched []byte, validation string, wrong []string) error {
	found, err := q.v.Decode(next, patched)
	if err != nil {
		var of metav1.TypeMeta
		if json.Unmarshal(patched, &of) == nil && of.Kind == "" { // which is looked at first
			err = runtime.NewMissingKindErr(string(patched))
		}
		return wrongPatch(patched, err.Error())
	}
	obj := meta.Object{Doc: next}
	if obj.Kind() == "" {
		return wrongPatch(patched, runtime.NewMissingKindErr(string(patched)).Error())
	}
	if found != 0 && validation != metav1.FieldValidationIgnore {
		strict := q.v.Strict(patched)
		if q.kind.Builtin == nil && obj.Kind() != q.kind.Name { // whose fields are nobody's
			strict = ofMetadataOnly(strict)
		}
		wrong = append(wrong, strict...)
	}
	if len(wrong) > 0 {
		if validation == metav1.FieldValidationStrict {
			return wrongPatch(patched, "strict decoding error: "+strings.Join(wrong, ", "))
		}
		q.warn(wrong...)
	}
	return q.checkWhere(obj)
}

// checkWhere refuses a patch that makes an object one of another namespace or name.
func (q *request) checkWhere(obj meta.Object) error {
	if err := q.checkNamespace(obj); err != nil {
		return err
	}
	return q.checkName(obj)
}

// wrongPatch is the error for a patch whose outcome is no object of the kind.
func wrongPatch(patched []byte, why string) error {
	return status.Invalid(kschema.GroupKind{}, "", field.ErrorList{field.Invalid(field.NewPath("patch"), string(patched), why)})
}

// apply merges the body into the object, or creates the object of it.
func (q *request) apply(body []byte, o *meta.WriteOptions) error {
	config, err := q.applyBody(body, o)
	if err != nil && (q.subresource == "" || noYAML(err)) {
		return err
	}
	wrong := err // of interest where there is something to apply it to
	if config != nil {
		defer config.release()
	}
	m, err := q.h.managers.get(q.h, q.v)
	if err != nil {
		return err
	}
	c := q.applied(m, config, o)
	if q.subresource == "" {
		c.missing = func() error { return q.applyNew(m, config, o) }
	} else if wrong != nil {
		c.build = func(_, _ *doc.Doc, _ *cache.Object) error { return wrong }
	}
	return q.change(c)
}

// applied is the change that an apply patch makes of an object.
func (q *request) applied(m *apply.Manager, c *configuration, o *meta.WriteOptions) *change {
	return &change{
		options: o,
		scope:   q.part(),
		named:   true,
		build: func(next, live *doc.Doc, _ *cache.Object) error {
			if !m.Confirm(live, c.said, c.decoded(q.v), next, q.writer(o)) {
				if err := q.merge(m, live, next, c, o); err != nil {
					return err
				}
			}
			if err := q.strictly(c, o); err != nil {
				return err
			}
			return q.checkWhere(meta.Object{Doc: next})
		},
	}
}

// merge makes next what an apply patch makes of live, which is nil if there is no object yet.
func (q *request) merge(m *apply.Manager, live, next *doc.Doc, c *configuration, o *meta.WriteOptions) error {
	merged := doc.Get()
	defer merged.Release()
	text, err := m.ApplyDoc(live, c.said, merged, q.writer(o))
	if err != nil {
		return err
	}
	if _, err := q.v.DecodeApplied(next, text); err != nil {
		if merged.Root().Exists() {
			text = merged.Root().AppendJSON(nil)
		}
		return q.undecodable(&object{sent: text, json: text}, err, o.FieldValidation)
	}
	if managed := merged.Root().At("metadata", "managedFields"); managed.Exists() {
		next.Set(next.Import(managed), "metadata", "managedFields")
	}
	return nil
}

// applyNew creates the object that an apply patch describes.
func (q *request) applyNew(m *apply.Manager, c *configuration, o *meta.WriteOptions) error {
	d := doc.Get()
	defer d.Release()
	if err := q.merge(m, nil, d, c, o); err != nil {
		return err
	}
	if err := q.strictly(c, o); err != nil {
		return err
	}
	obj := meta.Object{Doc: d}
	if uid := obj.UID(); uid != "" {
		return status.Conflict(q.kind.GroupResource(), q.name,
			fmt.Errorf("uid mismatch: the provided object specified uid %s, and no existing object was found", uid))
	}
	if err := q.checkWhere(obj); err != nil {
		return err
	}
	if err := q.checkTerminating(obj); err != nil { // whatever version it says
		return err
	}
	if rv := obj.ResourceVersion(); rv != "" {
		if _, err := strconv.ParseUint(rv, 10, 64); err != nil {
			return status.Plain500(err.Error())
		}
		if !o.DryRun { // which says it back
			d.Remove("metadata", "resourceVersion")
		}
	}
	create := *q.attributes()
	create.Verb = "create"
	if err := q.allowed(&create); err != nil {
		return err
	}
	return q.createDoc(d, o, nil)
}
