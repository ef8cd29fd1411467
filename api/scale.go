package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	kschema "k8s.io/apimachinery/pkg/runtime/schema"
	serializer "k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"

	"github.com/keelson-io/keelson/api/table"
	"github.com/keelson-io/keelson/apply"
	"github.com/keelson-io/keelson/audit"
	"github.com/keelson-io/keelson/cache"
	"github.com/keelson-io/keelson/doc"
	"github.com/keelson-io/keelson/meta"
	"github.com/keelson-io/keelson/schema"
	"github.com/keelson-io/keelson/status"
)

// This file serves the scale subresource: three values of an object in the
// shape of an autoscaling/v1 Scale.

var scaleKind = kschema.GroupKind{Group: "autoscaling", Kind: "Scale"}

func (q *request) serveScale() error {
	switch q.verb {
	case "get":
		return q.getScale()
	case "update":
		return q.updateScale()
	case "patch":
		return q.patchScale()
	}
	return status.MethodNotAllowed(q.kind.GroupResource(), q.verb)
}

func (q *request) getScale() error {
	obj, err := q.find()
	if err != nil {
		return err
	}
	d := doc.Get()
	defer d.Release()
	if err := q.v.Load(d, obj.Raw, obj.Rev); err != nil {
		return err
	}
	s, found, err := q.scaleOf(d, obj.Rev)
	if err != nil {
		return err
	}
	if !found {
		return status.Internal(fmt.Errorf("the spec replicas field %q does not exist", q.v.Scale.SpecReplicas))
	}
	return q.sendScale(http.StatusOK, s)
}

// scaleOf reads an object as a Scale; found says whether it has replicas.
func (q *request) scaleOf(d *doc.Doc, rev int64) (s *autoscalingv1.Scale, found bool, err error) {
	s = &autoscalingv1.Scale{}
	s.Kind, s.APIVersion = scaleKind.Kind, "autoscaling/v1"
	o, root := meta.Object{Doc: d}, d.Root()
	s.Name, s.Namespace = strings.Clone(o.Name()), strings.Clone(o.Namespace())
	s.UID = uidOf(o.UID())
	s.ResourceVersion = strconv.FormatInt(rev, 10)
	if err := s.CreationTimestamp.UnmarshalQueryParameter(o.CreationTimestamp()); err != nil {
		return nil, false, err
	}
	at := root.At(q.v.Scale.SpecPath...)
	if at.Exists() && at.Kind() != doc.Int {
		return nil, false, status.Internal(fmt.Errorf("%s: got %s, want integer", q.v.Scale.SpecReplicas, at.Kind()))
	}
	if found = at.Exists(); found {
		s.Spec.Replicas = int32(at.Node.Int())
	}
	if at := root.At(q.v.Scale.StatusPath...); at.Kind() == doc.Int {
		s.Status.Replicas = int32(at.Node.Int())
	}
	if len(q.v.Scale.SelectorPath) > 0 {
		s.Status.Selector = selectorText(root.At(q.v.Scale.SelectorPath...))
	}
	return s, found, nil
}

// selectorText is a selector as text: that of custom resources is one, those of
// built-in kinds are objects.
func selectorText(v doc.Value) string {
	if v.Kind() != doc.Object {
		return strings.Clone(v.Text())
	}
	if !v.Get("matchLabels").Exists() && !v.Get("matchExpressions").Exists() {
		set := labels.Set{}
		for key, value := range v.Members() {
			set[strings.Clone(key)] = strings.Clone(value.Text())
		}
		return set.String()
	}
	var s metav1.LabelSelector
	if err := json.Unmarshal(v.AppendJSON(nil), &s); err != nil {
		return ""
	}
	selector, err := metav1.LabelSelectorAsSelector(&s)
	if err != nil {
		return ""
	}
	return selector.String()
}

func (q *request) sendScale(code int, s *autoscalingv1.Scale) error {
	body, err := json.Marshal(s)
	if err != nil {
		return err
	}
	if q.accept.form == formTable {
		t, err := q.newTable()
		if err != nil {
			return err
		}
		t.use(table.NewScale(q.v))
		return t.sendOne(code, body)
	}
	switch q.accept.form {
	case formPartial:
		body = appendPartial(nil, body, q.accept.meta)
	case formPartialList:
		return noList("*v1.Scale")
	}
	q.send(code, body)
	return nil
}

func (q *request) updateScale() error {
	body, o, err := q.wholeObject(meta.ParseUpdateOptions)
	if err != nil {
		return err
	}
	s, err := q.readScale(body.json, o)
	if err != nil {
		return err
	}
	if err := q.warnOfOwners(s, ""); err != nil {
		return err
	}
	if q.audit != nil {
		q.audit.RequestObject(audit.Object{Name: s.Name, Namespace: s.Namespace, UID: string(s.UID), ResourceVersion: s.ResourceVersion},
			func() []byte { return body.json })
	}
	return q.changeScale(o, nil, func(now *autoscalingv1.Scale, _, _ *doc.Doc) (*autoscalingv1.Scale, error) {
		if s.UID != "" && s.UID != now.UID { // which patches do not look at
			return nil, status.Conflict(q.kind.GroupResource(), q.name, uidMismatch(q.key(), string(s.UID), string(now.UID), o.DryRun))
		}
		return s, nil
	})
}

func (q *request) patchScale() error {
	media := patchType(q.r)
	builtin := q.kind.Builtin != nil
	if media != patchJSON && media != patchMerge && media != patchApply && !(builtin && media == patchStrategic) {
		if builtin {
			return q.unsupportedTyped()
		}
		return unsupported(patchJSON, patchMerge, patchApply)
	}
	var err error
	if q.accept, err = q.negotiate(); err != nil {
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
		return q.applyScale(body, o)
	}
	m, err := q.h.managers.get(q.h, q.v)
	if err != nil {
		return err
	}
	if !json.Valid(body) {
		return noJSON()
	}
	wrong, wrongErr := readPatch(media, body, o.FieldValidation)
	return q.changeScale(o, nil, func(now *autoscalingv1.Scale, live, _ *doc.Doc) (*autoscalingv1.Scale, error) {
		if wrongErr != nil {
			return nil, wrongErr
		}
		if now.ManagedFields, err = m.ScaleEntries(live); err != nil {
			return nil, err
		}
		before, err := json.Marshal(now)
		if err != nil {
			return nil, err
		}
		var after []byte
		if media == patchStrategic {
			after, err = strategic(before, body, now)
		} else {
			after, err = patched(media, before, body)
		}
		if err != nil {
			return nil, err
		}
		return q.patchedScale(after, o, wrong)
	})
}

// patchedScale reads a Scale that a patch made, of which wrong is known to be wrong.
func (q *request) patchedScale(after []byte, o *meta.WriteOptions, wrong []string) (*autoscalingv1.Scale, error) {
	gvk, err := serializer.DefaultMetaFactory.Interpret(after)
	if err != nil {
		return nil, wrongPatch(after, err.Error())
	}
	if q.kind.Builtin == nil && !isScale(*gvk) {
		return nil, wrongPatch(after, fmt.Sprintf("no kind %q is registered for version %q in scheme %q", gvk.Kind, gvk.GroupVersion(), "pkg/runtime/scheme.go:111"))
	}
	strict, err := kjson.UnmarshalStrict(after, new(autoscalingv1.Scale))
	if err != nil {
		return nil, wrongPatch(after, err.Error())
	}
	wrong = slices.Clone(wrong)
	for _, e := range strict {
		wrong = append(wrong, e.Error())
	}
	switch {
	case len(wrong) == 0 || o.FieldValidation == metav1.FieldValidationIgnore:
	case o.FieldValidation == metav1.FieldValidationStrict:
		return nil, wrongPatch(after, "strict decoding error: "+strings.Join(wrong, ", "))
	default:
		q.warn(wrong...)
	}
	lenient := *o
	lenient.FieldValidation = metav1.FieldValidationIgnore
	s, err := q.readScale(after, &lenient)
	if err != nil {
		return nil, err
	}
	return s, q.warnOfOwners(s, afterMutation)
}

// isScale reports whether what an object says it is does not contradict its being a Scale.
func isScale(gvk kschema.GroupVersionKind) bool {
	return (gvk.Kind == "" || gvk.Kind == scaleKind.Kind) && (gvk.GroupVersion().Empty() || gvk.GroupVersion() == autoscalingv1.SchemeGroupVersion)
}

// warnOfOwners warns of owners that a Scale names twice, which changes nothing: only its replicas are written.
func (q *request) warnOfOwners(s *autoscalingv1.Scale, when string) error {
	if len(s.OwnerReferences) < 2 {
		return nil
	}
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	d := new(doc.Doc)
	if err := doc.Parse(d, text); err != nil {
		return err
	}
	q.warn(meta.DedupOwners(meta.Object{Doc: d}, when)...)
	return nil
}

// applyScale merges the body into the object's Scale: who owns the replicas there owns those of the object.
func (q *request) applyScale(body []byte, o *meta.WriteOptions) error {
	config, wrong := q.applyBody(body, o)
	if wrong != nil && noYAML(wrong) {
		return wrong
	}
	if config != nil {
		defer config.release()
	}
	m, err := q.h.managers.get(q.h, q.v)
	if err != nil {
		return err
	}
	settled := func(_ *apply.Manager, _, _ *doc.Doc) error { return nil } // what is built says who changed what
	return q.changeScale(o, settled, func(now *autoscalingv1.Scale, live, next *doc.Doc) (*autoscalingv1.Scale, error) {
		if wrong != nil {
			return nil, wrong
		}
		before, err := json.Marshal(now)
		if err != nil {
			return nil, err
		}
		after, err := m.ApplyScale(live, next, before, config.text, q.writer(o))
		if err != nil {
			return nil, err
		}
		if err := q.strictly(config, o); err != nil {
			return nil, err
		}
		s, err := q.readScale(after, o)
		if err != nil {
			return nil, err
		}
		return s, q.warnOfOwners(s, afterMutation)
	})
}

// noReplicas stands in a Scale for replicas that its object has not got.
const noReplicas = math.MinInt32

// readScale reads a Scale and checks that it is one, of this object.
func (q *request) readScale(body []byte, o *meta.WriteOptions) (*autoscalingv1.Scale, error) {
	s := &autoscalingv1.Scale{}
	const refused = "Scale in version \"v1\" cannot be handled as a Scale: "
	strict, err := kjson.UnmarshalStrict(body, s)
	if err != nil {
		return nil, status.BadRequest(refused+"%v", err)
	}
	if q.kind.Builtin != nil && s.Kind == q.kind.Name && s.APIVersion == q.v.APIVersion() {
		return nil, status.BadRequest("%s in version %q cannot be handled as a Scale: converting (%s.%s) to (autoscaling.Scale): unknown conversion", s.Kind, q.v.Name, q.v.Name, s.Kind)
	}
	if s.Kind != "" && s.Kind != scaleKind.Kind || s.APIVersion != "" && s.APIVersion != "autoscaling/v1" {
		return nil, status.BadRequest("wrong object passed to Scale update: %s, Kind=%s", s.APIVersion, s.Kind)
	}
	for _, e := range strict {
		switch o.FieldValidation {
		case metav1.FieldValidationIgnore:
		case metav1.FieldValidationStrict:
			return nil, status.BadRequest(refused+"strict decoding error: %w", errors.Join(strict...))
		default:
			q.warn(e.Error())
		}
	}
	if s.Name == "" {
		return nil, status.BadRequest("the name of the object (%s based on URL) was undeterminable: name must be provided", q.name)
	}
	if s.Name != q.name {
		return nil, status.BadRequest("the name of the object (%s) does not match the name on the URL (%s)", s.Name, q.name)
	}
	if s.Namespace != "" && s.Namespace != q.namespace {
		return nil, status.BadRequest("the namespace of the provided object does not match the namespace sent on the request")
	}
	return s, nil
}

// changeScale writes the replicas of the Scale that next makes of the present
// one; it may change the new object as well. track says who changed what, nil
// that it was an update.
func (q *request) changeScale(o *meta.WriteOptions, track func(m *apply.Manager, live, next *doc.Doc) error,
	next func(now *autoscalingv1.Scale, live, new *doc.Doc) (*autoscalingv1.Scale, error)) error {
	path := q.v.Scale.SpecPath
	if track == nil {
		track = func(m *apply.Manager, live, next *doc.Doc) error { return m.UpdateScale(live, next, q.writer(o)) }
	}
	return q.change(&change{
		options: o,
		scope:   schema.Whole,
		named:   true,
		scale:   true,
		build: func(d, live *doc.Doc, obj *cache.Object) error {
			now, found, err := q.scaleOf(live, obj.Rev)
			if err != nil {
				return err
			}
			if !found {
				now.Spec.Replicas = noReplicas
			}
			if err := q.v.Load(d, obj.Raw, obj.Rev); err != nil {
				return err
			}
			s, err := next(now, live, d)
			if err != nil {
				return err
			}
			if s.Spec.Replicas == noReplicas {
				return status.BadRequest("the spec replicas field %q cannot be empty", q.v.Scale.SpecReplicas)
			}
			if s.Spec.Replicas < 0 && q.kind.Builtin != nil {
				return status.Invalid(scaleKind, q.name, field.ErrorList{field.Invalid(field.NewPath("spec", "replicas"), s.Spec.Replicas, "must be greater than or equal to 0")})
			}
			if s.ResourceVersion != "" {
				meta.Object{Doc: d}.SetResourceVersion(s.ResourceVersion)
			}
			q.grown = !d.Root().At(path[:len(path)-1]...).Exists()
			d.Set(doc.IntNode(int64(s.Spec.Replicas)), path...)
			return nil
		},
		track: track,
	})
}

// sendScaleOf answers with a changed object as a Scale.
func (q *request) sendScaleOf(d *doc.Doc, rev int64) error {
	s, _, err := q.scaleOf(d, rev)
	if err != nil {
		return err
	}
	return q.sendScale(http.StatusOK, s)
}
