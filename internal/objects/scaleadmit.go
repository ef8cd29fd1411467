package objects

import (
	"encoding/json"
	"fmt"
	"strings"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-io/keelson/internal/admission"
	"github.com/keelson-io/keelson/internal/meta"
	"github.com/keelson-io/keelson/internal/status"
	"github.com/keelson-io/keelson/jsondoc"
)

// This file shows a Scale to admission. Webhooks and policies see the Scale of the request, not the object that is scaled: their
// selectors look at the labels of the Scale. A label of the object must not switch off a check of the subresource.
//
// As in upstream, the steps that change objects see the Scale as the client sent it. Those that validate see the Scale as a client
// would read it after the write.

// scaleDocs has the documents of the old and the new Scale of a request.
type scaleDocs struct{ next, old *jsondoc.Doc }

// release frees the documents. Admission is over.
func (s *scaleDocs) release() {
	s.next.Release()
	s.old.Release()
}

// showScale makes r a request for the Scale that the client sent. The caller releases the documents when admission is over.
func (w *write) showScale(r *admission.Request, p *pending) (*scaleDocs, error) {
	old, found, err := Scale(w.ref.Version, p.old, 0)
	if err != nil {
		return nil, err
	}
	if !found {
		old.Spec.Replicas = noReplicas
	}
	m, err := managerOf(w.ref.Version)
	if err != nil {
		return nil, err
	}
	if old.ManagedFields, err = m.ScaleEntries(p.old); err != nil {
		return nil, err
	}
	next := *p.scale
	next.Kind, next.APIVersion = old.Kind, old.APIVersion
	if next.ManagedFields, err = m.ScaleEntries(p.next); err != nil {
		return nil, err
	}
	old.ResourceVersion = strings.Clone(meta.Object{Doc: p.old}.ResourceVersion())
	docs := &scaleDocs{jsondoc.Get(), jsondoc.Get()}
	for d, s := range map[*jsondoc.Doc]*autoscalingv1.Scale{docs.next: &next, docs.old: old} {
		if err := parseScale(d, s); err != nil {
			docs.release()
			return nil, err
		}
	}
	r.New, r.Old = docs.next, docs.old
	r.Foreign = &admission.Foreign{
		Kind: ScaleKind.WithVersion("v1"),
		Take: func(d *jsondoc.Doc, text []byte) error {
			s := new(autoscalingv1.Scale)
			if err := json.Unmarshal(text, s); err != nil {
				return status.BadRequest("Scale in version \"v1\" cannot be handled as a Scale: %v", err)
			}
			return parseScale(d, s)
		},
	}
	return docs, nil
}

// parseScale makes d the document of a Scale.
func parseScale(d *jsondoc.Doc, s *autoscalingv1.Scale) error {
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	d.Reset(nil)
	return jsondoc.Parse(d, text)
}

// takeScale validates the Scale as admission left it, and sets the replicas of the object to those of the Scale.
func (w *write) takeScale(r *admission.Request, p *pending) error {
	s := p.scale
	if r.Mutated() {
		s = new(autoscalingv1.Scale)
		if err := json.Unmarshal(r.New.AppendJSON(nil, r.New.Root().Node), s); err != nil {
			return status.Internal(err)
		}
	}
	version := w.ref.Version
	if w.ref.behavior().ValidatesScales() {
		if s.Spec.Replicas < 0 {
			return status.Invalid(ScaleKind, w.ref.Name, field.ErrorList{field.Invalid(field.NewPath("spec", "replicas"), s.Spec.Replicas, "must be greater than or equal to 0")})
		}
		if have := (meta.Object{Doc: p.old}).UID(); s.UID != "" && string(s.UID) != have { // a patch of a Scale
			return status.Conflict(w.ref.scaleResource(), w.ref.Name, fmt.Errorf("Precondition failed: UID in precondition: %v, UID in object meta: %v", s.UID, have))
		}
	} else if s.Spec.Replicas == noReplicas {
		return status.BadRequest("the spec replicas field %q cannot be empty", version.Scale.SpecReplicas)
	}
	p.next.Set(jsondoc.IntNode(int64(s.Spec.Replicas)), version.Scale.SpecPath...)
	return nil
}

// showStoredScale makes r a request for the Scale as a client would read it after the write.
func (r *Ref) showStoredScale(a *admission.Request, p *pending) error {
	for from, to := range map[*jsondoc.Doc]*jsondoc.Doc{p.next: a.New, p.old: a.Old} {
		s, _, err := Scale(r.Version, from, 0)
		if err != nil {
			return err
		}
		s.ResourceVersion = strings.Clone(meta.Object{Doc: from}.ResourceVersion())
		if err := parseScale(to, s); err != nil {
			return err
		}
	}
	return nil
}
