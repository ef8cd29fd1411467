package api

import (
	"encoding/json"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-io/keelson/admission"
	"github.com/keelson-io/keelson/audit"
	"github.com/keelson-io/keelson/doc"
	"github.com/keelson-io/keelson/kind"
	"github.com/keelson-io/keelson/meta"
)

// This file is a request as the steps of admission see it.

// steps are those that writes go through.
func (h *Handler) steps() *admission.Chain {
	if h.Config.Admission != nil {
		return h.Config.Admission(h)
	}
	c := admission.NewChain(nil)
	c.Mutates("NamespaceLifecycle", admission.NamespaceLifecycle(h))
	return c
}

// Warn implements admission.Client.
func (q *request) Warn(warnings ...string) { q.warn(warnings...) }

// Annotate implements admission.Client.
func (q *request) Annotate(key, value string) { q.audit.Annotate(key, value) }

// AnnotateRequest implements admission.Client.
func (q *request) AnnotateRequest(key, value string) {
	if l := q.audit.Level(); l == audit.Request || l == audit.RequestResponse {
		q.audit.Annotate(key, value)
	}
}

// Overlay implements admission.Host.
func (h *Handler) Overlay(v *kind.Version, live *doc.Doc, config []byte) ([]byte, error) {
	m, err := h.managers.get(h, v)
	if err != nil {
		return nil, err
	}
	return m.Overlay(live, config)
}

// scaleForm is how a Scale stands for the object that is scaled.
func (q *request) scaleForm() *admission.Foreign {
	return &admission.Foreign{
		Kind: scaleKind.WithVersion("v1"),
		Text: func(d *doc.Doc) ([]byte, error) {
			s, _, err := q.scaleOf(d, 0)
			if err != nil {
				return nil, err
			}
			s.ResourceVersion = strings.Clone(meta.Object{Doc: d}.ResourceVersion())
			return json.Marshal(s)
		},
		Take: func(d *doc.Doc, text []byte) error {
			s, err := q.readScale(text, &meta.WriteOptions{FieldValidation: metav1.FieldValidationIgnore})
			if err != nil {
				return err
			}
			d.Set(doc.IntNode(int64(s.Spec.Replicas)), q.v.Scale.SpecPath...)
			return nil
		},
	}
}
