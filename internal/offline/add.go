package offline

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-io/keelson/internal/manifest"
	"github.com/keelson-io/keelson/kind"
	"github.com/keelson-io/keelson/status"
)

// This file tells the server what there is.

// Refused is a document that the server does not take.
type Refused struct {
	Document manifest.Document
	Answer   *Answer
}

// stage is when documents are added: those that others need come first, and those that could refuse others last.
type stage uint8

const (
	others stage = iota // they decide nothing
	namespaces
	definitions
	roles
	parameters
	policies
	stages
)

func stageOf(gk schema.GroupKind) stage {
	switch {
	case gk == schema.GroupKind{Kind: "Namespace"}:
		return namespaces
	case gk.Group == apiextv1.GroupName && gk.Kind == "CustomResourceDefinition":
		return definitions
	case gk.Group == rbacv1.GroupName:
		return roles
	case gk.Group == admissionv1.GroupName:
		switch gk.Kind {
		case "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding", "MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding":
			return policies
		}
	}
	return others
}

// Add tells the server of everything among documents that decides about objects: definitions, policies and their bindings, roles and
// their bindings, namespaces, and objects of the kinds that are parameters of these policies. Other documents are passed over. Those
// that the server refuses come back; added counts the others. An error says that a document is none.
func (s *Server) Add(ctx context.Context, docs []manifest.Document) (refused []Refused, added int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var by [stages][]manifest.Document
	params := map[schema.GroupKind]bool{}
	for _, d := range docs {
		if d.Err != nil {
			return nil, 0, d.Err
		}
		if h, err := headOf(d); err == nil {
			at := stageOf(h.GroupVersionKind().GroupKind())
			by[at] = append(by[at], d)
			if at == policies {
				noteParams(d, params)
			}
		}
	}
	for _, d := range by[others] {
		if h, err := headOf(d); err == nil && params[h.GroupVersionKind().GroupKind()] {
			by[parameters] = append(by[parameters], d)
		}
	}
	for at := namespaces; at < stages; at++ {
		bad, err := s.add(ctx, by[at])
		if err != nil {
			return nil, 0, err
		}
		refused, added = append(refused, bad...), added+len(by[at])-len(bad)
		if at == roles && len(by[at]) > 0 {
			s.roles = true
			s.local.ByRoles(true)
		}
	}
	return refused, added, nil
}

// noteParams notes the kind of a policy's parameters.
func noteParams(d manifest.Document, params map[schema.GroupKind]bool) {
	var policy struct {
		Spec struct{ ParamKind *admissionv1.ParamKind }
	}
	if json.Unmarshal(d.JSON, &policy) != nil || policy.Spec.ParamKind == nil {
		return
	}
	if gv, err := schema.ParseGroupVersion(policy.Spec.ParamKind.APIVersion); err == nil {
		params[gv.WithKind(policy.Spec.ParamKind.Kind).GroupKind()] = true
	}
}

// add has the server check documents and stores those that it takes.
func (s *Server) add(ctx context.Context, docs []manifest.Document) (refused []Refused, err error) {
	var changed []*kind.Kind
	var taken []Refused
	for i := range docs {
		a, err := s.do(ctx, &Request{Operation: Create, Object: &docs[i], FieldValidation: "Warn"})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", docs[i], err)
		}
		if a.Refusal != nil {
			refused = append(refused, Refused{docs[i], a})
			continue
		}
		if err := s.keep(ctx, a); err != nil {
			return nil, fmt.Errorf("%s: %w", docs[i], err)
		}
		changed, taken = append(changed, a.Version.Kind), append(taken, Refused{docs[i], a})
	}
	if err := s.local.Settle(ctx, changed...); err != nil {
		return nil, err
	}
	for _, t := range taken {
		if err := s.served(ctx, t.Answer); err != nil {
			t.Answer.Object, t.Answer.Refusal = nil, &status.BadRequest("%s", err).Status
			refused = append(refused, t)
		}
	}
	return refused, nil
}

// keep stores what the server made of an object. One of the same name that is there already is replaced: the last counts.
func (s *Server) keep(ctx context.Context, a *Answer) error {
	_, err := s.put(ctx, manifest.Document{JSON: a.Object}, "")
	if err == nil && a.Version.Kind.IsNamespaces() {
		s.ensured[a.Name] = true
	}
	return err
}

// Assume tells the server of namespaces among documents that are to be checked themselves: others of them are in these.
func (s *Server) Assume(ctx context.Context, docs []manifest.Document) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, d := range docs {
		h, err := headOf(d)
		if err != nil || stageOf(h.GroupVersionKind().GroupKind()) != namespaces || s.ensured[h.Name] {
			continue
		}
		// One that cannot be stored is refused when it is checked.
		if p, err := s.put(ctx, d, ""); err == nil {
			s.ensured[h.Name] = true
			if err := s.local.Settle(ctx, p.version.Kind); err != nil {
				return err
			}
		}
	}
	return nil
}

// served says why the kinds of a definition are not served.
func (s *Server) served(ctx context.Context, a *Answer) error {
	if a.Version.Kind.StoragePrefix != kind.DefinitionsPrefix {
		return nil
	}
	item, err := s.store.Get(ctx, a.Version.Kind.Key("", a.Name))
	if err != nil {
		return err
	}
	var crd apiextv1.CustomResourceDefinition
	if err := json.Unmarshal(item.Value, &crd); err != nil {
		return err
	}
	for _, c := range crd.Status.Conditions {
		if c.Type == apiextv1.Established && c.Status == apiextv1.ConditionTrue {
			return nil
		}
	}
	for _, c := range crd.Status.Conditions {
		if c.Status == apiextv1.ConditionFalse && c.Type != apiextv1.Established {
			return fmt.Errorf("not served: %s: %s", c.Type, c.Message)
		}
	}
	return errors.New("not served")
}
