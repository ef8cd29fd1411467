package objects

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	kschema "k8s.io/apimachinery/pkg/runtime/schema"
	serializer "k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/types"
	kjson "sigs.k8s.io/json"

	"github.com/keelson-io/keelson/internal/apply"
	"github.com/keelson-io/keelson/internal/cache"
	"github.com/keelson-io/keelson/internal/meta"
	"github.com/keelson-io/keelson/internal/status"
	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/kind"
	"github.com/keelson-io/keelson/schema"
)

// This file reads and changes objects through their scale subresource: three values of an object in
// the shape of an autoscaling/v1 Scale. A Scale is computed from an object, and never stored. So a
// write of a Scale is a write of its object: only the replicas are copied, and the object passes
// admission and validation as in any update.

// ScaleKind is the kind of what the scale subresource shows.
var ScaleKind = kschema.GroupKind{Group: "autoscaling", Kind: "Scale"}

// Scale reads an object of a version as a Scale. found reports whether the object has replicas.
func Scale(v *kind.Version, d *jsondoc.Doc, rev int64) (s *autoscalingv1.Scale, found bool, err error) {
	s = &autoscalingv1.Scale{}
	// A Scale has the identity of its object, but not its labels and annotations.
	s.Kind, s.APIVersion = ScaleKind.Kind, "autoscaling/v1"
	o, root := meta.Object{Doc: d}, d.Root()
	s.Name, s.Namespace = strings.Clone(o.Name()), strings.Clone(o.Namespace())
	s.UID = types.UID(strings.Clone(o.UID()))
	s.ResourceVersion = strconv.FormatInt(rev, 10)
	if err := s.CreationTimestamp.UnmarshalQueryParameter(o.CreationTimestamp()); err != nil {
		return nil, false, err
	}
	// A definition may declare a path to a value of another type: upstream answers 500, too.
	at := root.At(v.Scale.SpecPath...)
	// An integer that is too large for a Scale is cut by the conversion below, as upstream.
	if at.Exists() && at.Kind() != jsondoc.Int {
		return nil, false, status.Internal(fmt.Errorf("%s: got %s, want integer", v.Scale.SpecReplicas, at.Kind()))
	}
	if found = at.Exists(); found {
		s.Spec.Replicas = int32(at.Node.Int())
	}
	// The status may lack replicas, for example until a controller has counted them.
	if at := root.At(v.Scale.StatusPath...); at.Kind() == jsondoc.Int {
		s.Status.Replicas = int32(at.Node.Int())
	}
	if len(v.Scale.SelectorPath) > 0 {
		s.Status.Selector = selectorText(root.At(v.Scale.SelectorPath...))
	}
	// The caller decides what a missing number of replicas means: reading refuses it, a write may set it.
	return s, found, nil
}

// selectorText returns a selector as text: that of custom resources is one, those of
// built-in kinds are objects.
func selectorText(v jsondoc.Value) string {
	if v.Kind() != jsondoc.Object {
		return strings.Clone(v.Text())
	}
	// An empty object may be of either type: both select everything.
	if !v.Get("matchLabels").Exists() && !v.Get("matchExpressions").Exists() {
		// Such an object is a map of labels, as in a ReplicationController.
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
	// Clients of a Scale, such as an autoscaler, want the selector as a list option.
	selector, err := metav1.LabelSelectorAsSelector(&s)
	if err != nil {
		return ""
	}
	return selector.String()
}

// UpdateScale sets the replicas of an object to those of a Scale.
func (v *Verbs) UpdateScale(ctx context.Context, c Caller, ref Ref, s *autoscalingv1.Scale, o *meta.WriteOptions) (Outcome, error) {
	return v.changeScale(ctx, c, ref, o, (*apply.Manager).UpdateScale,
		func(w *write, now *autoscalingv1.Scale, _, _ *jsondoc.Doc) (*autoscalingv1.Scale, []string, error) {
			// The Scale must be of the object that the client read.
			if s.UID != "" && s.UID != now.UID { // which patches do not look at
				return nil, nil, status.Conflict(w.ref.Kind.GroupResource(), w.ref.Name, uidMismatch(w.ref.Key(), string(s.UID), string(now.UID), o.DryRun))
			}
			return s, nil, nil
		})
}

// PatchScale changes the replicas of an object by a patch of its Scale.
func (v *Verbs) PatchScale(ctx context.Context, c Caller, ref Ref, p Patch) (Outcome, error) {
	m, err := managerOf(ref.Version)
	if err != nil {
		return Outcome{}, err
	}
	if p.Type == types.ApplyPatchType {
		return v.applyScale(ctx, c, ref, m, p.Body, p.Options)
	}
	if !json.Valid(p.Body) {
		return Outcome{}, noJSON()
	}
	// The patch is read once, although the write may be tried several times.
	wrong, wrongErr := readPatch(p.Type, p.Body, p.Options.FieldValidation)
	return v.changeScale(ctx, c, ref, p.Options, (*apply.Manager).UpdateScale,
		func(w *write, now *autoscalingv1.Scale, live, _ *jsondoc.Doc) (s *autoscalingv1.Scale, warnings []string, err error) {
			if wrongErr != nil {
				return nil, nil, wrongErr
			}
			// Clients see the entries of managedFields that own the replicas, so a patch may change them.
			if now.ManagedFields, err = m.ScaleEntries(live); err != nil {
				return nil, nil, err
			}
			// The patch applies to the Scale as clients read it.
			before, err := json.Marshal(now)
			if err != nil {
				return nil, nil, err
			}
			var after []byte
			if p.Type == types.StrategicMergePatchType {
				after, err = strategic(w.ctx, before, p.Body, now)
			} else {
				after, err = patched(w.ctx, p.Type, before, p.Body)
			}
			if err != nil {
				return nil, nil, err
			}
			return w.ref.patchedScale(after, p.Options, wrong)
		})
}

// patchedScale reads a Scale that a patch made. wrong is what is known to be wrong with the patch.
func (r *Ref) patchedScale(after []byte, o *meta.WriteOptions, wrong []string) (s *autoscalingv1.Scale, warnings []string, err error) {
	// The patch may have changed the kind. As in upstream, the kind is checked before the fields.
	gvk, err := serializer.DefaultMetaFactory.Interpret(after)
	if err != nil {
		return nil, nil, wrongPatch(after, err.Error())
	}
	if !r.behavior().DecodesIntoType() && !isScale(*gvk) {
		return nil, nil, wrongPatch(after, fmt.Sprintf("no kind %q is registered for version %q in scheme %q", gvk.Kind, gvk.GroupVersion(), "pkg/runtime/scheme.go:111"))
	}
	strict, err := kjson.UnmarshalStrict(after, new(autoscalingv1.Scale))
	if err != nil {
		return nil, nil, wrongPatch(after, err.Error())
	}
	wrong = slices.Clone(wrong)
	// Unknown and duplicate fields, in the order in which they stand in the body.
	for _, e := range strict {
		wrong = append(wrong, e.Error())
	}
	switch {
	case len(wrong) == 0 || o.FieldValidation == metav1.FieldValidationIgnore:
	case o.FieldValidation == metav1.FieldValidationStrict:
		return nil, nil, wrongPatch(after, "strict decoding error: "+strings.Join(wrong, ", "))
	default:
		warnings = wrong
	}
	// Unknown fields have been reported above, and must not be reported twice.
	lenient := *o
	lenient.FieldValidation = metav1.FieldValidationIgnore
	s, _, err = r.readScale(after, &lenient)
	if err != nil {
		return nil, warnings, err
	}
	more, err := scaleOwners(s, afterMutation)
	return s, append(warnings, more...), err
}

// isScale reports whether the apiVersion and kind of an object may be those of a Scale.
func isScale(gvk kschema.GroupVersionKind) bool {
	return (gvk.Kind == "" || gvk.Kind == ScaleKind.Kind) && (gvk.GroupVersion().Empty() || gvk.GroupVersion() == autoscalingv1.SchemeGroupVersion)
}

// scaleOwners returns warnings of owners that a Scale names twice, which changes nothing: only its
// replicas are written.
func scaleOwners(s *autoscalingv1.Scale, when string) (warnings []string, err error) {
	// One owner, or none, cannot be there twice.
	if len(s.OwnerReferences) < 2 {
		return nil, nil
	}
	text, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	d := new(jsondoc.Doc)
	if err := jsondoc.Parse(d, text); err != nil {
		return nil, err
	}
	return meta.DedupOwners(meta.Object{Doc: d}, when), nil
}

// applyScale merges an apply patch into the object's Scale. The owners of the replicas there own
// those of the object.
func (v *Verbs) applyScale(ctx context.Context, c Caller, ref Ref, m *apply.Manager, body []byte, o *meta.WriteOptions) (Outcome, error) {
	config, wrong := readConfiguration(ctx, body, o)
	if wrong != nil && isNotYAML(wrong) {
		return Outcome{}, wrong
	}
	if config != nil {
		defer config.said.Release()
	}
	// ApplyScale records the ownership itself.
	tracked := func(_ *apply.Manager, _, _ *jsondoc.Doc, _ apply.Options) error { return nil } // by ApplyScale
	return v.changeScale(ctx, c, ref, o, tracked,
		func(w *write, now *autoscalingv1.Scale, live, next *jsondoc.Doc) (*autoscalingv1.Scale, []string, error) {
			if wrong != nil {
				return nil, nil, wrong
			}
			before, err := json.Marshal(now)
			if err != nil {
				return nil, nil, err
			}
			after, err := m.ApplyScale(live, next, before, config.text, w.manager(o, nil))
			if err != nil {
				return nil, nil, err
			}
			warnings, err := config.strictly(o)
			if err != nil {
				return nil, nil, err
			}
			s, more, err := w.ref.readScale(after, o)
			warnings = append(warnings, more...)
			if err != nil {
				return nil, warnings, err
			}
			more, err = scaleOwners(s, afterMutation)
			return s, append(warnings, more...), err
		})
}

// noReplicas stands in a Scale for replicas that its object has not got.
const noReplicas = math.MinInt32

// DecodeScale reads the Scale that an update sends.
func (r *Ref) DecodeScale(body []byte, o *meta.WriteOptions) (s *autoscalingv1.Scale, warnings []string, err error) {
	s, warnings, err = r.readScale(body, o)
	if err != nil {
		return nil, warnings, err
	}
	more, err := scaleOwners(s, "")
	return s, append(warnings, more...), err
}

// readScale reads a Scale and checks that it is one, of this object.
func (r *Ref) readScale(body []byte, o *meta.WriteOptions) (s *autoscalingv1.Scale, warnings []string, err error) {
	s = &autoscalingv1.Scale{}
	const refused = "Scale in version \"v1\" cannot be handled as a Scale: "
	strict, err := kjson.UnmarshalStrict(body, s)
	if err != nil {
		return nil, warnings, status.BadRequest(refused+"%v", err)
	}
	if r.behavior().DecodesIntoType() && s.Kind == r.Kind.Name && s.APIVersion == r.Version.APIVersion() {
		return nil, warnings, status.BadRequest("%s in version %q cannot be handled as a Scale: converting (%s.%s) to (autoscaling.Scale): unknown conversion", s.Kind, r.Version.Name, r.Version.Name, s.Kind)
	}
	// A Scale need not name its kind, but it must not name another one.
	if s.Kind != "" && s.Kind != ScaleKind.Kind || s.APIVersion != "" && s.APIVersion != "autoscaling/v1" {
		return nil, warnings, status.BadRequest("wrong object passed to Scale update: %s, Kind=%s", s.APIVersion, s.Kind)
	}
	for _, e := range strict {
		switch o.FieldValidation {
		case metav1.FieldValidationIgnore:
		case metav1.FieldValidationStrict:
			return nil, warnings, status.BadRequest(refused+"strict decoding error: %w", errors.Join(strict...))
		default:
			warnings = append(warnings, e.Error())
		}
	}
	// The texts are those for objects of any kind.
	if s.Name == "" {
		return nil, warnings, status.BadRequest("the name of the object (%s based on URL) was undeterminable: name must be provided", r.Name)
	}
	if s.Name != r.Name {
		return nil, warnings, status.BadRequest("the name of the object (%s) does not match the name on the URL (%s)", s.Name, r.Name)
	}
	if s.Namespace != "" && s.Namespace != r.Namespace {
		return nil, warnings, status.BadRequest("the namespace of the provided object does not match the namespace sent on the request")
	}
	return s, warnings, nil
}

// changeScale writes the replicas of the Scale that build makes of the present one. build may change
// the new object as well. track records who changed what.
func (v *Verbs) changeScale(ctx context.Context, c Caller, ref Ref, o *meta.WriteOptions, track tracker,
	build func(w *write, now *autoscalingv1.Scale, live, next *jsondoc.Doc) (s *autoscalingv1.Scale, warnings []string, err error)) (Outcome, error) {
	return v.change(ctx, c, ref, &change{
		options: o,
		scope:   schema.Whole,
		named:   true,
		track:   track,
		build: func(w *write, next, live *jsondoc.Doc, obj *cache.Object) (made built, err error) {
			version := w.ref.Version
			// The definition was accepted only with a path that has at least two steps, such as spec.replicas.
			path := version.Scale.SpecPath
			// The Scale of the live object, as a client would read it now.
			now, found, err := Scale(version, live, obj.Rev)
			if err != nil {
				return made, err
			}
			if !found {
				// A patch that leaves the replicas as they are is refused below.
				now.Spec.Replicas = noReplicas
			}
			// All but the replicas stays as it is.
			if err := version.Load(next, obj.Raw, obj.Rev); err != nil {
				return made, err
			}
			s, warnings, err := build(w, now, live, next)
			made.warnings = warnings
			if err != nil {
				return made, err
			}
			made.scale = s
			// The resource version of a Scale is that of its object, so it is a precondition of the write.
			if s.ResourceVersion != "" {
				meta.Object{Doc: next}.SetResourceVersion(s.ResourceVersion)
			}
			// If the parent is new, its defaults are filled in when the object is read.
			made.grown = !next.Root().At(path[:len(path)-1]...).Exists()
			next.Set(jsondoc.IntNode(int64(s.Spec.Replicas)), path...)
			return made, nil
		},
	})
}

// scaleResource returns the resource of the Scale in an error, such as deployments/scale.
func (r *Ref) scaleResource() kschema.GroupResource {
	resource := r.Kind.GroupResource()
	resource.Resource += "/scale"
	return resource
}
