package lint

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-io/keelson/crd"
	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/kind"
	"github.com/keelson-io/keelson/meta"
	"github.com/keelson-io/keelson/schema"
)

// This file runs the checks of a server.

// version returns the CustomResourceDefinition version in which d is written.
func (d *Definition) version() *kind.Version {
	var head struct{ APIVersion string }
	k := new(crd.Compiler).Definitions()
	if json.Unmarshal(d.JSON, &head) == nil && head.APIVersion == k.Group+"/v1beta1" {
		return k.Version("v1beta1")
	}
	return k.Versions[0]
}

// verdict returns the errors and warnings of a server for d as a new definition, or for a change of
// old to d.
func verdict(ctx context.Context, d, old *Definition) []Finding {
	v := d.version()
	object := new(jsondoc.Doc)
	found, err := v.Decode(object, d.JSON)
	if err != nil {
		return []Finding{d.place(Finding{Severity: Error, Check: "server", Message: err.Error()})}
	}
	var out []Finding
	for _, note := range d.Source.Duplicates {
		out = append(out, d.strict(note))
	}
	if found != 0 {
		for _, note := range v.Strict(d.JSON) {
			if !strings.Contains(note, "."+draftKey+`"`) { // said in other words
				out = append(out, d.strict(note))
			}
		}
	}
	var before *jsondoc.Doc
	if old == nil {
		v.PrepareCreate(object)
		meta.FillCreate(meta.Object{Doc: object}, time.Now())
	} else if before, err = stored(old.version(), old); err != nil {
		return append(out, d.place(Finding{Severity: Error, Check: "server", Message: "the old definition: " + err.Error()}))
	} else {
		o, b := meta.Object{Doc: object}, meta.Object{Doc: before}
		o.SetResourceVersion(b.ResourceVersion())
		v.PrepareUpdate(object, before, schema.Whole)
		meta.FillUpdate(o, b, false)
	}
	result := v.Validate(ctx, object, before, schema.Whole)
	for _, e := range result.Errors {
		out = append(out, d.fromServer(e)...)
	}
	for _, w := range result.Warnings {
		out = append(out, d.place(d.warned(w)))
	}
	return out
}

// stored returns a definition as a server would store it.
func stored(v *kind.Version, d *Definition) (*jsondoc.Doc, error) {
	object := new(jsondoc.Doc)
	if _, err := v.Decode(object, d.JSON); err != nil {
		return nil, err
	}
	m := meta.Object{Doc: object}
	if object.Root().At("status", "storedVersions").Len() == 0 {
		v.PrepareCreate(object)
	}
	if m.UID() == "" {
		m.SetUID(meta.NewUID())
	}
	if m.CreationTimestamp() == "" {
		m.SetCreationTimestamp(time.Now())
	}
	if m.ResourceVersion() == "" {
		m.SetResourceVersion("1")
	}
	return object, nil
}

// strict returns the finding for an unknown or duplicate field.
func (d *Definition) strict(note string) Finding { return d.place(strictly(note)) }

// strictly is strict without the position.
func strictly(note string) Finding {
	f := Finding{Severity: Error, Check: "server", Message: note}
	if _, rest, ok := strings.Cut(note, ` field "`); ok {
		f.Path = strings.TrimSuffix(rest, `"`)
		f.Hint = "a server that reads strictly, as kubectl asks it to, refuses this; otherwise the field is dropped"
	}
	return f
}

// warned returns the finding for a warning. For unknown formats, it searches the position.
func (d *Definition) warned(text string) Finding {
	f := Finding{Severity: Warning, Check: "server", Message: text}
	if format, ok := strings.CutPrefix(text, "unrecognized format "); ok {
		f.Hint = "it restricts nothing"
		for _, s := range d.schemas() {
			s.each(func(n node) {
				if f.Path == "" && fmt.Sprintf("%q", n.schema.Format) == format {
					f.Path = n.path + ".format"
				}
			})
		}
	}
	return f
}

// fromServer converts an error to findings: one for each position in an expression that it names,
// at least one.
func (d *Definition) fromServer(e *field.Error) []Finding {
	f := Finding{Severity: Error, Check: "server", Path: written(e.Field), Message: e.ErrorBody()}
	if e.Field == "" || e.Field == "<nil>" {
		f.Path = ""
	}
	if !strings.Contains(f.Path, "x-kubernetes-validations") {
		return []Finding{d.place(f)}
	}
	f.Check = "rule"
	if e.Detail != "" {
		f.Message = e.Detail // ErrorBody would repeat the whole rule
	}
	if strings.Contains(e.Detail, "estimated rule cost") || strings.Contains(e.Detail, "estimated messageExpression cost") {
		f.Check = "cost"
	}
	out := d.text.pointed(f, e.Detail, d.current(f.Path, d.text.value(f.Path), e.Detail))
	for i := range out {
		out[i] = d.place(out[i])
	}
	return out
}

// pointed returns a copy of f for each position that the error's detail names, or f itself if there
// are none. The last one gets the hint.
func (t *text) pointed(f Finding, detail, hint string) []Finding {
	texts, places := pointers(detail, t.value(f.Path))
	if len(texts) == 0 {
		return []Finding{f}
	}
	f.Check = "rule"
	var out []Finding
	for i := range texts {
		g := f
		g.Message, g.Expression = "does not compile: "+texts[i], places[i]
		if i == len(texts)-1 {
			g.Hint = hint
		}
		out = append(out, g)
	}
	return out
}

// Check checks a definition: as a new one if old is nil, otherwise as a change of old, with the
// effects on stored objects and clients.
func Check(ctx context.Context, d, old *Definition) *Report {
	r := &Report{Kind: "CustomResourceDefinition", Name: d.name(), Source: d.Source.Name, Line: d.Source.Line}
	r.Findings = append([]Finding{}, verdict(ctx, d, old)...) // an empty list, not null, in JSON
	r.Findings = append(r.Findings, d.drafts()...)
	if old != nil {
		r.Findings = append(r.Findings, compare(d, old)...)
	}
	trees := d.schemas()
	if Worst(r.Findings) == Error {
		r.Findings = append(r.Findings, d.further(trees, r.Findings)...)
	}
	for _, s := range trees {
		s.each(func(n node) {
			r.Findings = append(r.Findings, n.contradictions()...)
			r.Findings = append(r.Findings, n.constants(ctx)...)
		})
		if c, ok := s.costs(); ok {
			r.Schemas = append(r.Schemas, c)
			r.Findings = advise(r.Findings, c)
		}
	}
	for i, f := range r.Findings {
		r.Findings[i] = d.place(f)
	}
	slices.SortStableFunc(r.Findings, func(a, b Finding) int { return a.Line - b.Line })
	return r
}

// further returns the errors of rules that a server does not report, because it stops at other
// errors.
func (d *Definition) further(trees []*tree, known []Finding) []Finding {
	said := map[string]bool{}
	for _, f := range known {
		said[f.Path+" "+f.Message] = true
	}
	var out []Finding
	for _, t := range trees {
		p := t.compile()
		if p == nil {
			continue
		}
		for _, e := range p.CheckRules(schema.RuleCheck{Path: field.NewPath(t.path)}) {
			for _, f := range d.fromServer(e) {
				if !said[f.Path+" "+f.Message] {
					out = append(out, f)
				}
			}
		}
	}
	return out
}

// advise adds advice to the hints of findings about cost.
func advise(findings []Finding, s Schema) []Finding {
	for i, f := range findings {
		if f.Check != "cost" {
			continue
		}
		for _, c := range s.Costs {
			hinted := slices.ContainsFunc(findings, func(g Finding) bool { return g.Path == c.Path && g.Hint != "" })
			if c.Path == f.Path && c.Advice != nil && !hinted {
				findings[i].Hint = c.Advice.String()
			}
		}
	}
	return findings
}
