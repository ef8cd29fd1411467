package api

import (
	"encoding/json"
	"fmt"
	"net/http"

	autoscalingv1 "k8s.io/api/autoscaling/v1"

	"github.com/keelson-io/keelson/internal/api/encoding"
	"github.com/keelson-io/keelson/internal/api/table"
	"github.com/keelson-io/keelson/internal/audit"
	"github.com/keelson-io/keelson/internal/meta"
	"github.com/keelson-io/keelson/internal/objects"
	"github.com/keelson-io/keelson/internal/status"
	"github.com/keelson-io/keelson/jsondoc"
)

// This file serves the scale subresource.

// serveScale serves the subresource scale.
func (q *request) serveScale() error {
	if q.row == nil || q.row.scale == nil {
		return status.MethodNotAllowed(q.kind.GroupResource(), q.verb)
	}
	return q.row.scale(q)
}

// getScale answers with the scale of an object.
func (q *request) getScale() error {
	obj, err := q.find()
	if err != nil {
		return err
	}
	d := jsondoc.Get()
	defer d.Release()
	if err := q.v.Load(d, obj.Raw, obj.Rev); err != nil {
		return err
	}
	s, found, err := objects.Scale(q.v, d, obj.Rev)
	if err != nil {
		return err
	}
	if !found {
		return status.Internal(fmt.Errorf("the spec replicas field %q does not exist", q.v.Scale.SpecReplicas))
	}
	return q.sendScale(http.StatusOK, s)
}

// sendScale answers with a Scale.
func (q *request) sendScale(code int, s *autoscalingv1.Scale) error {
	body, err := json.Marshal(s)
	if err != nil {
		return err
	}
	if q.accept.Form == encoding.Table {
		t, err := q.newTable(table.NewScale(q.v))
		if err != nil {
			return err
		}
		return q.sendTable(code, t, body)
	}
	switch q.accept.Form {
	case encoding.Partial:
		body = table.AppendPartial(nil, body, q.accept.Meta)
	case encoding.PartialList:
		return noList("*v1.Scale")
	}
	q.send(code, body)
	return nil
}

// updateScale replaces the scale of an object.
func (q *request) updateScale() error {
	body, o, err := q.wholeObject(meta.ParseUpdateOptions)
	if err != nil {
		return err
	}
	ref := q.ref()
	s, warnings, err := ref.DecodeScale(body.JSON, o)
	q.warn(warnings...)
	if err != nil {
		return err
	}
	if q.audit != nil {
		q.audit.RequestObject(audit.Object{Name: s.Name, Namespace: s.Namespace, UID: string(s.UID), ResourceVersion: s.ResourceVersion},
			func() []byte { return body.JSON })
	}
	out, err := q.h.Objects.UpdateScale(q.ctx, q.caller(), ref, s, o)
	return q.answerScale(&out, o, err)
}

// patchScale patches the scale of an object.
func (q *request) patchScale() error {
	media := encoding.PatchType(q.r)
	typed := q.kind.Behavior.HasGoType()
	// The media types are those of patches of the object itself.
	if media != encoding.JSONPatch && media != encoding.MergePatch && media != encoding.ApplyPatch && !(typed && media == encoding.StrategicPatch) {
		if typed {
			return q.unsupportedTyped()
		}
		return encoding.Unsupported(encoding.JSONPatch, encoding.MergePatch, encoding.ApplyPatch)
	}
	var err error
	if q.accept, err = q.negotiate(); err != nil {
		return err
	}
	p, err := q.readPatch(media)
	if err != nil {
		return err
	}
	out, err := q.h.Objects.PatchScale(q.ctx, q.caller(), q.ref(), p)
	return q.answerScale(&out, p.Options, err)
}

// answerScale answers with the Scale of the object in an outcome of a verb that returned err, and
// frees it.
func (q *request) answerScale(out *objects.Outcome, o *meta.WriteOptions, err error) error {
	defer out.Release()
	q.warn(out.Warnings...)
	if err != nil {
		return withReasons(err, o.Explain, out.Reasons)
	}
	// An outcome without a document left the object unchanged.
	d := out.Doc
	if d == nil {
		d = jsondoc.Get()
		defer d.Release()
		if err := q.v.Load(d, out.Object.Raw, out.Object.Rev); err != nil {
			return err
		}
	}
	s, _, err := objects.Scale(q.v, d, out.Revision)
	if err != nil {
		return err
	}
	return q.sendScale(http.StatusOK, s)
}
