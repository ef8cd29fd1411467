package lint

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apischema "k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-io/keelson/crd"
	"github.com/keelson-io/keelson/internal/builtin"
	"github.com/keelson-io/keelson/internal/meta"
	"github.com/keelson-io/keelson/internal/yamljson"
	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/kind"
	"github.com/keelson-io/keelson/kubernetes"
	"github.com/keelson-io/keelson/schema"
)

// This file decodes admission policies and bindings, and runs a server's checks on them.

// Policy is an admission policy or binding, with its position.
type Policy struct {
	Source Source
	JSON   []byte
	Kind   string // ValidatingAdmissionPolicy, …
	Name   string

	text *text
	gvk  apischema.GroupVersionKind
	// The decoded parts. The server's verdict covers the rest.
	policy  *common
	binding *bound
}

// common has the fields that validating and mutating policies share.
type common struct {
	params      *admissionv1.ParamKind
	constraints *admissionv1.MatchResources
	ignores     bool // failurePolicy is Ignore
	variables   []admissionv1.Variable
	expressions []expression // all expressions but variables, in the order of the text
	validating  *admissionv1.ValidatingAdmissionPolicy
}

// bound has the fields of bindings.
type bound struct {
	policy string
	ref    *admissionv1.ParamRef
}

// kindsOfPolicies are those that lint checks.
var kindsOfPolicies = []string{"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding", "MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding"}

// IsPolicy reports whether objects of a kind are admission policies, or bindings of them.
func IsPolicy(gk apischema.GroupKind) bool {
	return gk.Group == admissionv1.GroupName && slices.Contains(kindsOfPolicies, gk.Kind)
}

// Identity names an object.
type Identity struct {
	apischema.GroupKind
	Namespace, Name string
}

// LoadPolicy decodes a policy or binding. It fails only if the text is neither; mistakes in a
// policy are findings.
func LoadPolicy(src Source) (*Policy, error) {
	if src.Line == 0 {
		src.Line = 1
	}
	body, _, err := yamljson.JSON(context.Background(), src.Text, false)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", src.Name, err)
	}
	var head metav1.TypeMeta
	if err := json.Unmarshal(body, &head); err != nil || !IsPolicy(head.GroupVersionKind().GroupKind()) {
		return nil, fmt.Errorf("%s:%d: kind: got %q, want one of %s", src.Name, src.Line, head.Kind, strings.Join(kindsOfPolicies, ", "))
	}
	p := &Policy{Source: src, JSON: body, Kind: head.Kind, text: readText(src), gvk: head.GroupVersionKind()}
	var named struct{ Metadata struct{ Name string } }
	if json.Unmarshal(body, &named) == nil {
		p.Name = named.Metadata.Name
	}
	p.read()
	return p, nil
}

// read decodes what there is.
func (p *Policy) read() {
	switch p.Kind {
	case "ValidatingAdmissionPolicy":
		var v admissionv1.ValidatingAdmissionPolicy
		if json.Unmarshal(p.JSON, &v) == nil {
			s := &v.Spec
			p.policy = &common{params: s.ParamKind, constraints: s.MatchConstraints, variables: s.Variables, validating: &v,
				ignores: s.FailurePolicy != nil && *s.FailurePolicy == admissionv1.Ignore}
			p.policy.conditions(s.MatchConditions)
			p.policy.validations(s)
		}
	case "MutatingAdmissionPolicy":
		var m admissionv1.MutatingAdmissionPolicy
		if json.Unmarshal(p.JSON, &m) == nil {
			s := &m.Spec
			p.policy = &common{params: s.ParamKind, constraints: s.MatchConstraints, variables: s.Variables,
				ignores: s.FailurePolicy != nil && *s.FailurePolicy == admissionv1.Ignore}
			p.policy.conditions(s.MatchConditions)
			p.policy.mutations(s.Mutations)
		}
	case "ValidatingAdmissionPolicyBinding":
		var b admissionv1.ValidatingAdmissionPolicyBinding
		if json.Unmarshal(p.JSON, &b) == nil {
			p.binding = &bound{b.Spec.PolicyName, b.Spec.ParamRef}
		}
	case "MutatingAdmissionPolicyBinding":
		var b admissionv1.MutatingAdmissionPolicyBinding
		if json.Unmarshal(p.JSON, &b) == nil {
			p.binding = &bound{b.Spec.PolicyName, b.Spec.ParamRef}
		}
	}
}

// PolicySet has policies and the objects to which they refer.
type PolicySet struct {
	Policies    []*Policy     // bindings, too
	Definitions []*Definition // of the kinds of objects and parameters; built-in kinds are known
	Objects     []Identity    // other existing objects: parameters

	// Checked is called after the check of each policy and binding, to show progress. It may be nil.
	Checked func()
}

// CheckPolicies checks each policy and binding of a set, by the rules of the newest release.
func CheckPolicies(ctx context.Context, set PolicySet) []*Report {
	return CheckPolicyReleases(ctx, set, nil)
}

// CheckPolicyReleases is CheckPolicies with the verdicts of the given releases, instead of that of the
// newest one alone.
func CheckPolicyReleases(ctx context.Context, set PolicySet, releases []kubernetes.Release) []*Report {
	known := kind.NewRegistry(builtin.All(nil)...)
	set.Definitions = slices.DeleteFunc(slices.Clone(set.Definitions), func(d *Definition) bool {
		k, err := crd.Compile(d.CRD)
		if err == nil && len(crd.Validate(d.CRD)) == 0 {
			err = known.Put(k.With(true, false))
		}
		return err != nil // a server does not serve it
	})
	s := &policySet{PolicySet: set, kinds: known.Load(), releases: releases}
	var out []*Report
	for _, p := range set.Policies {
		out = append(out, s.check(ctx, p))
		if set.Checked != nil {
			set.Checked()
		}
	}
	return out
}

// policySet is a set while it is checked.
type policySet struct {
	PolicySet
	kinds    *kind.Snapshot
	releases []kubernetes.Release
}

// check runs all checks of one policy or binding.
func (s *policySet) check(ctx context.Context, p *Policy) *Report {
	r := &Report{Kind: p.Kind, Name: p.Name, File: p.Source.Name, Line: p.Source.Line, Findings: []Finding{}}
	r.Findings = append(r.Findings, p.verdict(ctx, s.kinds)...)
	if p.binding != nil {
		r.Findings = append(r.Findings, s.uses(p)...)
	}
	if p.policy != nil && Worst(r.Findings) != Error {
		r.Findings = append(r.Findings, s.unused(p)...)
		r.Findings = append(r.Findings, s.types(ctx, p)...)
		r.Findings = append(r.Findings, p.policy.logic(ctx)...)
		r.Schemas = s.costs(p)
	}
	s.since(ctx, p, r)
	for i, f := range r.Findings {
		r.Findings[i] = identify(p.text.place(f))
	}
	slices.SortStableFunc(r.Findings, func(a, b Finding) int { return a.Line - b.Line })
	return r
}

// verdict returns the errors and warnings of a server for p as a new object.
func (p *Policy) verdict(ctx context.Context, kinds *kind.Snapshot) []Finding {
	var v *kind.Version
	for k := range kinds.InGroup(p.gvk.Group) {
		if k.Name == p.Kind {
			v = k.Version(p.gvk.Version)
		}
	}
	if v == nil {
		return []Finding{{Severity: Error, Check: "server", ID: "server/unknown-kind", Path: "apiVersion", Message: fmt.Sprintf("no kind %s in version %q", p.Kind, p.gvk.GroupVersion())}}
	}
	object := new(jsondoc.Doc)
	out := duplicates(p.Source)
	found, err := v.Decode(object, p.JSON)
	if err != nil {
		var wrong []Finding
		wrong, p.JSON = mistypes(v, p.JSON, p.text)
		p.read()
		out = append(out, wrong...)
		found, err = v.Decode(object, p.JSON)
	}
	if err != nil {
		return append(out, Finding{Severity: Error, Check: "server", Message: err.Error()})
	}
	if found != 0 {
		for _, e := range v.Strict(p.JSON) {
			if len(out) == 0 || e.Kind != jsondoc.DuplicateField {
				out = append(out, strictly(v, e))
			}
		}
	}
	v.PrepareCreate(object)
	meta.FillCreate(meta.Object{Doc: object}, time.Now())
	result := v.Validate(ctx, object, nil, schema.Whole)
	for _, e := range result.Errors {
		f := Finding{Severity: Error, Check: "server", ID: serverID(e), Path: e.Field, Message: e.ErrorBody()}
		out = append(out, p.text.pointed(f, e.Detail, "")...)
	}
	for _, w := range result.Warnings {
		out = append(out, Finding{Severity: Warning, Check: "server", Message: w})
	}
	return out
}
