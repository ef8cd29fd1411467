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

	"github.com/keelson-io/keelson/crd"
	"github.com/keelson-io/keelson/internal/status"
	"github.com/keelson-io/keelson/kind"
)

// This file loads objects that decide about others.

// Refused is a document that the server refused.
type Refused struct {
	Document Document
	Answer   *Answer
}

// stage orders the documents to be added: those that others need come first, those that could
// refuse others last.
type stage uint8

const (
	stageOthers stage = iota // objects that decide nothing
	stageNamespaces
	stageDefinitions
	stageRoles
	stageParameters
	stagePolicies
	stages
)

// stageOf returns the stage in which objects of a kind are added.
func stageOf(gk schema.GroupKind) stage {
	switch {
	case gk == schema.GroupKind{Kind: "Namespace"}:
		return stageNamespaces
	case gk.Group == apiextv1.GroupName && gk.Kind == "CustomResourceDefinition":
		return stageDefinitions
	case gk.Group == rbacv1.GroupName:
		return stageRoles
	case gk.Group == admissionv1.GroupName:
		switch gk.Kind {
		case "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding", "MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding":
			return stagePolicies
		}
	}
	return stageOthers
}

// Add loads the documents that decide about objects: definitions, policies and bindings, roles and
// bindings, namespaces, and parameters of these policies. It ignores other documents. It returns
// the documents that the server refused, and the number of those that it accepted. Two documents
// that describe an object differently are an error, a [Conflict].
func (s *Server) Add(ctx context.Context, docs []Document) (refused []Refused, added int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var by [stages][]Document
	params := map[schema.GroupKind]bool{}
	for _, d := range docs {
		if d.Err != nil {
			return nil, 0, d.Err
		}
		if h, err := headOf(d); err == nil {
			at := stageOf(h.GroupVersionKind().GroupKind())
			by[at] = append(by[at], d)
			if at == stagePolicies {
				noteParams(d, params)
			}
		}
	}
	for _, d := range by[stageOthers] {
		if h, err := headOf(d); err == nil && params[h.GroupVersionKind().GroupKind()] {
			by[stageParameters] = append(by[stageParameters], d)
		}
	}
	for at := stageNamespaces; at < stages; at++ {
		distinct, conflicts := Distinct(by[at])
		for _, c := range conflicts {
			if !c.Outside {
				return nil, 0, c
			}
		}
		by[at] = distinct
		bad, err := s.add(ctx, by[at])
		if err != nil {
			return nil, 0, err
		}
		refused, added = append(refused, bad...), added+len(by[at])-len(bad)
		if at == stageRoles && len(by[at]) > 0 {
			s.roles = true
			s.parts.guard.byRoles.Store(true)
		}
	}
	return refused, added, nil
}

// noteParams adds the parameter kind of a policy to params.
func noteParams(d Document, params map[schema.GroupKind]bool) {
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

// add creates documents by requests and stores those that the server accepts.
func (s *Server) add(ctx context.Context, docs []Document) (refused []Refused, err error) {
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
	if err := s.parts.settle(ctx, changed...); err != nil {
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

// keep stores the object of an answer. It replaces an object with the same name.
func (s *Server) keep(ctx context.Context, a *Answer) error {
	_, err := s.put(ctx, Document{JSON: a.Object}, "")
	if err == nil && a.Version.Kind.IsNamespaces() {
		s.ensured[a.Name] = true
	}
	return err
}

// Assume loads the namespaces among documents that are to be checked themselves, because others of
// these documents may be in them.
func (s *Server) Assume(ctx context.Context, docs []Document) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, d := range docs {
		h, err := headOf(d)
		if err != nil || stageOf(h.GroupVersionKind().GroupKind()) != stageNamespaces || s.ensured[h.Name] {
			continue
		}
		// A namespace that cannot be stored is refused when it is checked.
		if p, err := s.put(ctx, d, ""); err == nil {
			s.ensured[h.Name] = true
			if err := s.parts.settle(ctx, p.version.Kind); err != nil {
				return err
			}
		}
	}
	return nil
}

// served returns why the kinds of a definition are not served, nil if they are.
func (s *Server) served(ctx context.Context, a *Answer) error {
	if a.Version.Kind.StoragePrefix != crd.Prefix {
		return nil
	}
	item, err := s.store.Get(ctx, a.Version.Kind.Key("", a.Name))
	if err != nil {
		return err
	}
	var definition apiextv1.CustomResourceDefinition
	if err := json.Unmarshal(item.Value, &definition); err != nil {
		return err
	}
	for _, c := range definition.Status.Conditions {
		if c.Type == apiextv1.Established && c.Status == apiextv1.ConditionTrue {
			return nil
		}
	}
	for _, c := range definition.Status.Conditions {
		if c.Status == apiextv1.ConditionFalse && c.Type != apiextv1.Established {
			return fmt.Errorf("not served: %s: %s", c.Type, c.Message)
		}
	}
	return errors.New("not served")
}
