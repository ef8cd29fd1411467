package lint

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-io/keelson/doc"
	"github.com/keelson-io/keelson/kind"
	"github.com/keelson-io/keelson/meta"
	"github.com/keelson-io/keelson/schema"
)

// This file asks what a server would say to a definition.

// version is the version of the kind of definitions that d is written in.
func (d *Definition) version() *kind.Version {
	var head struct{ APIVersion string }
	for _, k := range kind.Builtins() {
		if k.Name != "CustomResourceDefinition" {
			continue
		}
		if json.Unmarshal(d.JSON, &head) == nil && head.APIVersion == k.Group+"/v1beta1" {
			return k.Version("v1beta1")
		}
		return k.Versions[0]
	}
	panic("BUG: no built-in kind CustomResourceDefinition")
}

// verdict lists what a server says to d as a new definition, or to a change of old to d.
func verdict(ctx context.Context, d, old *Definition) []Finding {
	v := d.version()
	object := new(doc.Doc)
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
	var before *doc.Doc
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

// stored is a definition as a server has it.
func stored(v *kind.Version, d *Definition) (*doc.Doc, error) {
	object := new(doc.Doc)
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

// strict is the finding of a field that is not known, or is there twice.
func (d *Definition) strict(note string) Finding { return d.place(strictly(note)) }

// strictly is the same, without its place.
func strictly(note string) Finding {
	f := Finding{Severity: Error, Check: "server", Message: note}
	if _, rest, ok := strings.Cut(note, ` field "`); ok {
		f.Path = strings.TrimSuffix(rest, `"`)
		f.Hint = "a server that reads strictly, as kubectl asks it to, refuses this; otherwise the field is dropped"
	}
	return f
}

// warned is the finding of a warning; the formats that mean nothing are looked up.
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

// fromServer makes findings of an error: one for each place in an expression that it names, one if there are none.
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
		f.Message = e.Detail // the whole rule, which ErrorBody prints, stands in the file
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

// pointed makes a finding for each place in the expression at f that the detail of an error names, and f itself if there are none.
// The hint goes with the last.
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

// Check reports what is wrong with a definition: as a new one if old is nil, otherwise as a change of old, with what the
// change breaks.
func Check(ctx context.Context, d, old *Definition) *Report {
	r := &Report{Kind: "CustomResourceDefinition", Name: d.name(), Source: d.Source.Name, Line: d.Source.Line}
	r.Findings = append([]Finding{}, verdict(ctx, d, old)...) // in JSON a list, even if it is empty
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

// further lists the errors of rules that a server does not get to, because something else is wrong.
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

// advise puts advice into the hints of findings about cost.
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
