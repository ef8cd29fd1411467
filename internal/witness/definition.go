package witness

import (
	"context"
	"fmt"
	"strings"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/keelson-io/keelson/cel"
	"github.com/keelson-io/keelson/schema/structural"
)

// This file makes searches for the versions of a definition.

// Version is a version of a definition with the search for its objects.
type Version struct {
	Name           string
	Served, Stored bool
	// StatusSubresource: the status is written through a subresource of its own.
	StatusSubresource bool
	Search            *Search
}

// Versions returns the versions of a definition that have a schema, in the order of the definition.
func Versions(def *apiextv1.CustomResourceDefinition, o Options) ([]Version, error) {
	var out []Version
	for i := range def.Spec.Versions {
		v := &def.Spec.Versions[i]
		if v.Schema == nil || v.Schema.OpenAPIV3Schema == nil {
			continue
		}
		s, errs := structural.Parse(v.Schema.OpenAPIV3Schema, nil)
		if len(errs) > 0 {
			return nil, fmt.Errorf("version %s: %w", v.Name, errs.ToAggregate())
		}
		o.Resource, o.APIVersion, o.Kind = true, def.Spec.Group+"/"+v.Name, def.Spec.Names.Kind
		o.Namespaced = def.Spec.Scope == apiextv1.NamespaceScoped
		search, err := New(s, o)
		if err != nil {
			return nil, fmt.Errorf("version %s: %w", v.Name, err)
		}
		out = append(out, Version{Name: v.Name, Served: v.Served, Stored: v.Storage, Search: search,
			StatusSubresource: v.Subresources != nil && v.Subresources.Status != nil})
	}
	return out, nil
}

// NewOptions returns options with an environment for the rules of stored definitions, and new
// Operations. It takes milliseconds: share the result.
func NewOptions() (Options, error) {
	env, err := cel.NewEnv(cel.EnvOptions{Stored: true})
	if err != nil {
		return Options{}, err
	}
	operations, err := NewOperations()
	return Options{Env: env, Operations: operations}, err
}

// Pair has the results of a search for both witnesses of a rule.
type Pair struct {
	Rule              Rule
	Accepted, Refused Result
	// Fails: the refused object is one for which the rule fails, because it is never false.
	Fails bool
}

// Missing returns why there is no witness that should exist, "" if both were found or it is proved
// that there is none.
func (p *Pair) Missing() string {
	switch {
	case p.Accepted.Object == nil && !p.Accepted.Constant:
		return "accepted: " + p.Accepted.Reason
	case p.Refused.Object == nil && !p.Refused.Constant:
		return "refused: " + p.Refused.Reason
	}
	return ""
}

// Both looks for both witnesses of a rule. The refused object is one for which the rule is false,
// or, if there is none, one for which it fails.
func (s *Search) Both(ctx context.Context, rule Rule) Pair {
	out := Pair{Rule: rule, Accepted: s.Find(ctx, rule, Accept), Refused: s.Find(ctx, rule, Refuse)}
	if out.Refused.Object != nil {
		return out
	}
	fails := s.Find(ctx, rule, Fail)
	switch {
	case fails.Object != nil:
		out.Refused, out.Fails = fails, true
	case !fails.Constant: // it is not proved that the rule never fails
		out.Refused.Constant = false
		out.Refused.Reason = strings.TrimSuffix(out.Refused.Reason+"; for failures: "+fails.Reason, "; for failures: ")
	}
	return out
}
