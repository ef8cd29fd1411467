package lint

import (
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apischema "k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-io/keelson/cel"
)

// This file finds references to policies, bindings, parameters and variables that do not exist or
// do not match.

// typeOf returns the type of the objects of a version of a definition.
func typeOf(d *Definition, version int) (*cel.Type, error) {
	v := &d.CRD.Spec.Versions[version]
	if v.Schema == nil || v.Schema.OpenAPIV3Schema == nil {
		return nil, fmt.Errorf("version %s has no schema", v.Name)
	}
	raw, err := json.Marshal(v.Schema.OpenAPIV3Schema)
	if err != nil {
		return nil, err
	}
	return cel.TypeOfSchema(raw, true)
}

// paramType returns the type of parameters, nil if the set does not define their kind.
func (s *policySet) paramType(k *admissionv1.ParamKind) *cel.Type {
	for _, d := range s.Definitions {
		for i, v := range d.CRD.Spec.Versions {
			if d.CRD.Spec.Names.Kind == k.Kind && d.CRD.Spec.Group+"/"+v.Name == k.APIVersion {
				if t, err := typeOf(d, i); err == nil {
					return t
				}
			}
		}
	}
	return nil
}

// binds reports whether p, a binding, binds q.
func (p *Policy) binds(q *Policy) bool {
	return p.Kind == q.Kind+"Binding" && p.binding.policy == q.Name
}

// uses finds references of a binding to absent objects.
func (s *policySet) uses(p *Policy) []Finding {
	b := p.binding
	if b.policy == "" {
		return nil // the server's verdict covers it
	}
	at := slices.IndexFunc(s.Policies, func(q *Policy) bool { return q.policy != nil && p.binds(q) })
	if at < 0 {
		return []Finding{{Severity: Warning, Check: "binding", Path: "spec.policyName",
			Message: fmt.Sprintf("no %s %q is among the files: the binding has no effect before there is one", strings.TrimSuffix(p.Kind, "Binding"), b.policy)}}
	}
	params := s.Policies[at].policy.params
	switch {
	case params == nil && b.ref != nil:
		return []Finding{{Severity: Warning, Check: "binding", Path: "spec.paramRef",
			Message: fmt.Sprintf("policy %q has no paramKind: the parameter is never read", b.policy)}}
	case params == nil:
		return nil
	case b.ref == nil:
		return []Finding{{Severity: Warning, Check: "binding", ID: "binding/parameter", Path: "spec",
			Message: fmt.Sprintf("policy %q has parameters of kind %s and the binding names none: params is null", b.policy, params.Kind),
			Hint:    "name one with paramRef"}}
	}
	return s.missing(p, params)
}

// missing finds absent parameter objects.
func (s *policySet) missing(p *Policy, params *admissionv1.ParamKind) []Finding {
	ref := p.binding.ref
	if ref.Name == "" {
		return nil
	}
	gv, err := apischema.ParseGroupVersion(params.APIVersion)
	if err != nil {
		return nil
	}
	want := gv.WithKind(params.Kind).GroupKind()
	there := slices.ContainsFunc(s.Objects, func(o Identity) bool {
		return o.GroupKind == want && o.Name == ref.Name && (ref.Namespace == "" || ref.Namespace == cmp.Or(o.Namespace, metav1.NamespaceDefault))
	})
	if there {
		return nil
	}
	name := ref.Name
	if ref.Namespace != "" {
		name = ref.Namespace + "/" + name
	}
	f := Finding{Severity: Warning, Check: "binding", ID: "binding/parameter", Path: "spec.paramRef.name", Message: fmt.Sprintf("no %s %s is among the files", params.Kind, name),
		Hint: "without it the binding has no effect (parameterNotFoundAction: Allow)"}
	if ref.ParameterNotFoundAction == nil || *ref.ParameterNotFoundAction == admissionv1.DenyAction {
		f.Hint = "without it every request is denied that the binding is for (parameterNotFoundAction: Deny)"
	}
	return []Finding{f}
}

// unused finds parts of a policy to which nothing refers, and parameter kinds that the set does not
// define.
func (s *policySet) unused(p *Policy) []Finding {
	var out []Finding
	if !slices.ContainsFunc(s.Policies, func(q *Policy) bool { return q.binding != nil && q.binds(p) }) {
		out = append(out, Finding{Severity: Warning, Check: "binding", ID: "binding/unused", Path: "metadata.name",
			Message: "no binding among the files names the policy: it is not in force before one does"})
	}
	c := p.policy
	if c.params != nil {
		if gv, err := apischema.ParseGroupVersion(c.params.APIVersion); err == nil && !s.defined(gv.WithKind(c.params.Kind)) {
			out = append(out, Finding{Severity: Warning, Check: "binding", Path: "spec.paramKind",
				Message: fmt.Sprintf("kind %s of %s is not built in, and no definition of it is among the files: without one every request is an error that failurePolicy decides about",
					c.params.Kind, c.params.APIVersion)})
		}
	}
	return append(out, c.unread()...)
}

// defined reports whether a definition of the set, or a built-in kind, has the kind.
func (s *policySet) defined(gvk apischema.GroupVersionKind) bool {
	for k := range s.kinds.InGroup(gvk.Group) {
		if k.Name == gvk.Kind && k.Version(gvk.Version) != nil {
			return true
		}
	}
	return false
}

// dynamic matches uses of variables other than by a plain name.
var dynamic = regexp.MustCompile(`\bvariables\b\s*[^.\s]|\bvariables\s*$`)

// unread finds variables that no expression reads.
func (c *common) unread() []Finding {
	var all []string
	for _, v := range c.variables {
		all = append(all, v.Expression)
	}
	for _, e := range c.expressions {
		all = append(all, e.text)
	}
	if slices.ContainsFunc(all, dynamic.MatchString) {
		return nil
	}
	var out []Finding
	for i, v := range c.variables {
		read := regexp.MustCompile(`\bvariables\s*\.\s*\??\s*` + regexp.QuoteMeta(v.Name) + `\b`)
		if !slices.ContainsFunc(all, read.MatchString) {
			out = append(out, Finding{Severity: Warning, Check: "no-effect", ID: "no-effect/variable", Path: specPath.Child("variables").Index(i).Child("name").String(),
				Message: fmt.Sprintf("no expression reads variables.%s: it is never computed", v.Name)})
		}
	}
	return out
}
