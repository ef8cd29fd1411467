package api

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-io/keelson/internal/api/encoding"
	"github.com/keelson-io/keelson/internal/meta"
	"github.com/keelson-io/keelson/internal/objects"
	"github.com/keelson-io/keelson/internal/status"
)

// This file patches objects: by JSON patch, by merge patch, by apply.

// patch patches one object, or creates it if the patch is an apply configuration.
func (q *request) patch() error {
	media, typed := encoding.PatchType(q.r), q.kind.Behavior.HasGoType()
	accept, err := q.negotiate()
	if err == nil {
		q.accept = accept // for errors, too
	}
	switch {
	case media == encoding.JSONPatch, media == encoding.MergePatch, media == encoding.ApplyPatch:
	case media == encoding.StrategicPatch && typed:
	case typed:
		return q.unsupportedTyped()
	default:
		return encoding.Unsupported(encoding.JSONPatch, encoding.MergePatch, encoding.ApplyPatch)
	}
	if err != nil {
		return err
	}
	p, err := q.readPatch(media)
	if err != nil {
		return err
	}
	out, err := q.h.Objects.Patch(q.ctx, q.caller(), q.ref(), p)
	return q.answer(&out, p.Options, err)
}

// readPatch reads the patch in the body, and its options.
func (q *request) readPatch(media string) (objects.Patch, error) {
	body, err := q.holds.ReadBody(q.ctx)
	if err != nil {
		return objects.Patch{}, err
	}
	if err := q.workOnValue(q.ref().Version.PatchedBytes(body, media == encoding.ApplyPatch)); err != nil {
		return objects.Patch{}, err
	}
	q.recordPatch(media, body)
	o, err := meta.ParsePatchOptions(q.query, media == encoding.ApplyPatch)
	if err == nil {
		q.mayExplain(o)
	}
	return objects.Patch{Type: types.PatchType(media), Body: body, Options: o}, err
}

// unsupportedTyped returns the error of upstream's router for a patch of an unknown type.
func (q *request) unsupportedTyped() error {
	q.unrouted()
	return status.UnsupportedRoute()
}
