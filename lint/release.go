package lint

import (
	"context"
	"fmt"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"github.com/keelson-io/keelson/cel"
	"github.com/keelson-io/keelson/crd"
	"github.com/keelson-io/keelson/kubernetes"
)

// This file asks which releases of Kubernetes accept a definition or policy. The verdict of an older
// release is that of a server of that release with default feature gates, on a new object that is
// read strictly. A field that the release does not know, or removes, counts as refused.

// Lowest is the oldest release from which on all releases accept an object.
type Lowest struct {
	Kubernetes string `json:"kubernetes"` // such as "1.31"
	// Refused is the release before it, which refuses the object; "" if Kubernetes is the oldest
	// release that is known.
	Refused string `json:"refused,omitempty"`
	// Findings are the reasons.
	Findings []Finding `json:"findings,omitempty"`
}

// lowest asks older and older releases until one refuses the object.
func lowest(ctx context.Context, refusals func(kubernetes.Release) []Finding) *Lowest {
	out := &Lowest{Kubernetes: kubernetes.Newest().String()}
	for _, r := range slices.Backward(kubernetes.All()) {
		if r.IsNewest() {
			continue
		}
		if out.Findings = refusals(r); len(out.Findings) > 0 {
			out.Refused = r.String()
			return out
		}
		if ctx.Err() != nil {
			return nil
		}
		out.Kubernetes = r.String()
	}
	return out
}

// refusals returns the reasons for which a server of the release refuses a definition as a new one.
func (d *Definition) refusals(ctx context.Context, r kubernetes.Release) []Finding {
	var out []Finding
	for _, f := range verdict(ctx, d, nil, r) {
		if f.Severity == Error {
			out = append(out, f)
		}
	}
	for _, f := range crd.Lost(d.CRD, r) {
		if f.Unknown && slices.ContainsFunc(out, func(o Finding) bool { return o.Path == f.Path }) {
			continue
		}
		out = append(out, d.place(Finding{Severity: Error, Check: "version", ID: "version/field", Path: f.Path, Message: f.Text(),
			Hint: fmt.Sprintf("%s and later keep it", f.Since)}))
	}
	for i, f := range out {
		out[i] = ofRelease(f)
	}
	return out
}

// alike reports whether an older release cannot judge a definition differently from the newest one,
// because all differences are about rules and fields that it does not have.
func (d *Definition) alike() bool {
	if len(crd.Lost(d.CRD, kubernetes.Oldest())) > 0 {
		return false
	}
	return !slices.ContainsFunc(d.schemas(), func(t *tree) bool { return countRules(t.root) > 0 })
}

// ofRelease returns a finding of an older release under a name of its own.
func ofRelease(f Finding) Finding {
	if f.Check == "version" {
		return f
	}
	f = identify(f)
	id := "version/server"
	switch {
	case f.ID == "server/unknown-field":
		id = "version/field"
	case f.Check == "cost":
		id = "version/cost"
	case f.Check == "rule":
		id = "version/rule"
	}
	f.Check, f.ID = "version", id
	return f
}

// CheckReleases is Check with the verdicts of the given releases, instead of that of the newest one
// alone. What only older releases refuse is an Error of the check "version".
func CheckReleases(ctx context.Context, d, old *Definition, releases []kubernetes.Release) *Report {
	r := check(ctx, d, old, releases)
	if Worst(verdict(ctx, d, nil, kubernetes.Newest())) == Error {
		return r
	}
	if d.alike() {
		r.Lowest = &Lowest{Kubernetes: kubernetes.Oldest().String()}
		return r
	}
	r.Lowest = lowest(ctx, func(r kubernetes.Release) []Finding { return d.refusals(ctx, r) })
	return r
}

// matrix returns the findings of releases: those of the newest one, if it is asked for, and those
// that only older ones have.
func matrix(releases []kubernetes.Release, newest []Finding, refusals func(kubernetes.Release) []Finding) []Finding {
	var out []Finding
	if len(releases) == 0 || slices.Contains(releases, kubernetes.Newest()) {
		out = append(out, newest...)
	}
	type key struct {
		path, message string
		line, column  int
	}
	place := map[key]int{}
	for _, r := range releases {
		if r.IsNewest() {
			continue
		}
		for _, f := range refusals(r) {
			if slices.ContainsFunc(out, func(n Finding) bool { return n.Check != "version" && n.Path == f.Path && n.Message == f.Message }) {
				continue // the newest release refuses it, too
			}
			k := key{f.Path, f.Message, f.Line, f.Column}
			if at, ok := place[k]; ok {
				out[at].Kubernetes = append(out[at].Kubernetes, r.String())
				continue
			}
			place[k], f.Kubernetes = len(out), []string{r.String()}
			out = append(out, f)
		}
	}
	return out
}

// policySince has the first release that serves a kind of policies in v1. Beta versions are off by
// default in all releases.
var policySince = map[string]string{
	"ValidatingAdmissionPolicy": "1.30", "ValidatingAdmissionPolicyBinding": "1.30",
	"MutatingAdmissionPolicy": "1.36", "MutatingAdmissionPolicyBinding": "1.36",
}

// refusals returns the reasons for which a server of the release refuses a policy that the newest
// one accepts.
func (p *Policy) refusals(r kubernetes.Release) []Finding {
	since, err := kubernetes.ParseRelease(policySince[p.Kind])
	if err == nil && r.Minor() < since.Minor() {
		return []Finding{p.text.place(Finding{Severity: Error, Check: "version", ID: "version/api", Path: "apiVersion",
			Message: fmt.Sprintf("Kubernetes %s does not serve %s in %s", r, p.Kind, p.gvk.GroupVersion()), Hint: fmt.Sprintf("%s and later serve it", since)})}
	}
	if p.policy == nil {
		return nil
	}
	o := p.policy.options()
	o.Kubernetes = r.Compatible()
	l, err := cel.NewLanguage(o)
	if err != nil {
		return []Finding{{Severity: Error, Check: "version", ID: "version/server", Message: err.Error()}}
	}
	var out []Finding
	for _, e := range p.policy.errors(l) {
		f := Finding{Severity: Error, Check: "version", ID: "version/rule", Path: e.path, Message: e.err.Error()}
		for _, f := range p.text.pointed(f, e.err.Error(), "") {
			f.Check = "version"
			out = append(out, p.text.place(f))
		}
	}
	return out
}

// badExpression is an expression that does not compile.
type badExpression struct {
	path string
	err  error
}

// errors returns the expressions of a policy that do not compile in a language, in the order of
// compilation.
func (c *common) errors(l *cel.Language) []badExpression {
	composition := cel.NewComposition()
	l, err := l.Compose(composition)
	if err != nil {
		return []badExpression{{"spec", err}}
	}
	var out []badExpression
	for i, v := range c.variables {
		x, err := l.CompileExpression(v.Expression)
		if err != nil {
			out, x = append(out, badExpression{specPath.Child("variables").Index(i).Child("expression").String(), err}), nil
		}
		composition.Add(v.Name, x)
	}
	for _, e := range c.expressions {
		if _, err := l.CompileExpression(e.text); err != nil {
			out = append(out, badExpression{e.path, err})
		}
	}
	return out
}

// since completes the report on a policy with the oldest release that accepts it, and with the
// findings of the releases that are asked for.
func (s *policySet) since(ctx context.Context, p *Policy, r *Report) {
	refused := Worst(r.Findings) == Error
	refusals := func(release kubernetes.Release) []Finding {
		if refused || p.gvk.Version != admissionv1.SchemeGroupVersion.Version {
			return nil
		}
		return p.refusals(release)
	}
	r.Findings = matrix(s.releases, r.Findings, refusals)
	if !refused && p.gvk.Version == admissionv1.SchemeGroupVersion.Version {
		r.Lowest = lowest(ctx, refusals)
	}
}

// releaseList returns releases as a text: "1.29 and 1.31".
func releaseList(releases []string) string {
	if n := len(releases); n > 1 {
		return strings.Join(releases[:n-1], ", ") + " and " + releases[n-1]
	}
	return strings.Join(releases, "")
}

// ReleaseText returns the message of a finding with the releases that it is about.
func (f *Finding) ReleaseText() string {
	if len(f.Kubernetes) == 0 {
		return f.Message
	}
	return "Kubernetes " + releaseList(f.Kubernetes) + ": " + f.Message
}
