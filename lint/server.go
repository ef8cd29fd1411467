package lint

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-io/keelson/crd"
	"github.com/keelson-io/keelson/internal/meta"
	"github.com/keelson-io/keelson/internal/nearest"
	"github.com/keelson-io/keelson/internal/source"
	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/kind"
	"github.com/keelson-io/keelson/kubernetes"
	"github.com/keelson-io/keelson/schema"
)

// This file runs the checks of a server.

// version returns the CustomResourceDefinition version in which d is written.
func (d *Definition) version(r kubernetes.Release) *kind.Version {
	k := (&crd.Compiler{Release: r}).Definitions()
	if d.isBeta() {
		return k.Version("v1beta1")
	}
	return k.Versions[0]
}

// isBeta reports whether d is written in v1beta1.
func (d *Definition) isBeta() bool {
	var head struct{ APIVersion string }
	return json.Unmarshal(d.JSON, &head) == nil && head.APIVersion == apiextv1.GroupName+"/v1beta1"
}

// verdict returns the errors and warnings of a server of the release for d as a new definition, or
// for a change of old to d.
func verdict(ctx context.Context, d, old *Definition, r kubernetes.Release) []Finding {
	v := d.version(r)
	out := slices.Concat(d.duplicates(), d.booleanKeys(), d.mistyped)
	out = append(out, d.unknownVersion()...)
	object := new(jsondoc.Doc)
	found, err := v.Decode(object, d.JSON)
	if err != nil {
		return append(out, d.place(Finding{Severity: Error, Check: "server", Message: err.Error()}))
	}
	if found != 0 {
		for _, e := range v.Strict(d.JSON) {
			// Drafts and, with their positions, duplicate keys are reported in other words.
			if !strings.HasSuffix(e.Path, "."+draftKey) && (len(d.Source.Duplicates) == 0 || e.Kind != jsondoc.DuplicateField) {
				out = append(out, d.place(strictly(v, e)))
			}
		}
	}
	var before *jsondoc.Doc
	if old == nil {
		v.PrepareCreate(object)
		meta.FillCreate(meta.Object{Doc: object}, time.Now())
	} else if before, err = stored(old.version(r), old); err != nil {
		return append(out, d.place(Finding{Severity: Error, Check: "server", Message: "the old definition: " + err.Error()}))
	} else {
		o, b := meta.Object{Doc: object}, meta.Object{Doc: before}
		o.SetResourceVersion(b.ResourceVersion())
		v.PrepareUpdate(object, before, schema.Whole)
		meta.FillUpdate(o, b, false)
	}
	result := v.Validate(ctx, object, before, schema.Whole)
	for _, e := range result.Errors {
		// The server derives stored versions from spec.versions, whose own error comes first.
		if old != nil || e.Field != "status.storedVersions" || len(result.Errors) == 1 {
			out = append(out, d.fromServer(e)...)
		}
	}
	seen, places := map[string]int{}, map[string]bool{}
	for _, w := range result.Warnings {
		f := d.warned(w, seen[w])
		seen[w]++
		if at := f.Path + "\n" + w; !places[at] { // versions with one schema repeat its warnings
			places[at] = true
			out = append(out, d.place(f))
		}
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

// strictly returns the finding for an unknown or duplicate field, without its position.
func strictly(v *kind.Version, e jsondoc.StrictError) Finding {
	f := Finding{Severity: Error, Check: "server", ID: "server/unknown-field", Path: e.Path, Message: e.Error(),
		Hint: "a server that reads strictly, as kubectl asks it to, refuses this; otherwise the field is dropped"}
	if e.Kind == jsondoc.DuplicateField {
		f.ID = "server/duplicate-key"
	} else if like := LikeField(v, f.Path); like != "" {
		f.Hint = "write " + like + "; " + f.Hint
	}
	return f
}

// LikeField returns the name of the field that the unknown field at path probably stands for, and ""
// if no field of its parent has a similar name.
func LikeField(v *kind.Version, path string) string {
	steps := source.Split(path)
	if len(steps) == 0 || v.Schema == nil {
		return ""
	}
	name := steps[len(steps)-1]
	if strings.Contains(path, ".openAPIV3Schema") {
		return nearest.Name(name, slices.Sorted(maps.Keys(keywords)))
	}
	s := v.Schema.Source()
	for _, step := range steps[:len(steps)-1] {
		switch {
		case s == nil:
			return ""
		case s.Items != nil:
			s = s.Items
		case s.Properties[step] != nil:
			s = s.Properties[step]
		default:
			s = s.Additional
		}
	}
	if s == nil {
		return ""
	}
	return nearest.Name(name, s.Names)
}

// duplicates returns a finding for each key that the text repeats.
func (d *Definition) duplicates() []Finding { return duplicates(d.Source) }

// duplicates returns a finding for each key that a text repeats.
func duplicates(src Source) []Finding {
	var out []Finding
	for _, k := range src.Duplicates {
		out = append(out, Finding{Severity: Error, Check: "server", ID: "server/duplicate-key", Path: k.Path, Line: k.Line, Column: k.Column,
			Message: fmt.Sprintf("key %q is there already, in line %d", k.Key, k.First), Hint: "remove one of the two; the last one would count"})
	}
	return out
}

// booleanKeys returns a warning for each key that YAML reads as true or false: a field of that name is rarely meant.
func (d *Definition) booleanKeys() []Finding {
	var out []Finding
	for _, k := range d.text.BooleanKeys() {
		out = append(out, Finding{Severity: Warning, Check: "server", ID: "server/boolean-key", Path: k.Path, Where: k.Path, Line: k.Line, Column: k.Column,
			Message: fmt.Sprintf("YAML reads the key %s as %s", k.Written, k.Name), Hint: fmt.Sprintf("write %q, in quotes, if the name is meant", k.Written)})
	}
	return out
}

// unknownVersion returns a finding for an apiVersion that is missing, or not served by Kubernetes any
// more.
func (d *Definition) unknownVersion() []Finding {
	var head struct{ APIVersion string }
	group := new(crd.Compiler).Definitions().Group
	f := Finding{Severity: Error, Check: "server", ID: "server/unknown-kind", Path: "apiVersion", Hint: "write apiVersion: " + group + "/v1"}
	switch err := json.Unmarshal(d.JSON, &head); {
	case err != nil || head.APIVersion == group+"/v1":
		return nil
	case head.APIVersion == "":
		f.Message = "apiVersion is missing"
	case head.APIVersion == group+"/v1beta1":
		f.Severity, f.ID = Warning, "server/removed-api"
		f.Message = head.APIVersion + " was removed from Kubernetes in 1.22: its servers refuse this; keelson serves it"
	default:
		return nil // the server's verdict covers it
	}
	return []Finding{d.place(f)}
}

// warned returns the finding for a warning. For unknown formats, it searches the position: a server
// repeats the warning for each place, and before is the number of earlier ones with this text.
func (d *Definition) warned(text string, before int) Finding {
	f := Finding{Severity: Warning, Check: "server", Message: text}
	if format, ok := strings.CutPrefix(text, "unrecognized format "); ok {
		f.Hint, f.ID = "it restricts nothing", "server/format"
		for _, s := range d.schemas() {
			s.each(func(n node) {
				if fmt.Sprintf("%q", n.schema.Format) != format {
					return
				}
				if before >= 0 { // the last place if there are more warnings
					f.Path = n.path + ".format"
				}
				before--
			})
		}
	}
	return f
}

// notAtRoot returns a finding for each keyword at the root of a schema that the list in a server's error, of names of Go fields, does not have.
func (d *Definition) notAtRoot(f Finding, detail string) []Finding {
	_, list, _ := strings.Cut(detail, "[")
	list, _, _ = strings.Cut(list, "]")
	allowed := strings.Fields(list)
	f.Message = field.ErrorTypeInvalid.String() + ": " + detail // without the schema, which may be very long
	path := f.Path
	var out []Finding
	if _, root, all := d.text.Walk(path); all && root.Kind == yaml.MappingNode {
		for i := 0; i+1 < len(root.Content); i += 2 {
			key := root.Content[i].Value
			if strings.HasPrefix(key, "x-kubernetes-") || slices.ContainsFunc(allowed, func(name string) bool { return strings.EqualFold(name, key) }) {
				continue
			}
			f.Path, f.Hint = path+"."+key, fmt.Sprintf("write %s below properties, for example beside the type of spec", key)
			out = append(out, d.place(f))
		}
	}
	if out == nil {
		return []Finding{d.place(f)}
	}
	return out
}

// fromServer converts an error to findings: one for each position in an expression that it names,
// at least one.
func (d *Definition) fromServer(e *field.Error) []Finding {
	f := Finding{Severity: Error, Check: "server", ID: serverID(e), Path: source.FieldOf(e.Field, e.ErrorBody()), Message: source.Shorten(e.ErrorBody())}
	if !d.isBeta() {
		f.Path = source.InCRD(f.Path)
	}
	switch {
	case strings.HasSuffix(e.Detail, "allowed at the root of the schema if the status subresource is enabled"):
		return d.notAtRoot(f, e.Detail)
	case f.Path == "spec.versions" && strings.Contains(e.Detail, "storage version"):
		f.Message = e.Type.String() + ": " + e.Detail // ErrorBody would repeat all versions
		d.storageHint(&f)
	case f.Path == "apiVersion":
		f.Hint = "write apiVersion: " + new(crd.Compiler).Definitions().Group + "/v1"
	}
	if !strings.Contains(f.Path, "x-kubernetes-validations") {
		return []Finding{d.place(f)}
	}
	f.Check, f.ID = "rule", ""
	if e.Detail != "" {
		f.Message = e.Detail // ErrorBody would repeat the whole rule
	}
	if strings.Contains(e.Detail, "estimated rule cost") || strings.Contains(e.Detail, "estimated messageExpression cost") {
		f.Check = "cost"
	}
	out := d.text.pointed(f, e.Detail, d.current(f.Path, d.text.Scalar(f.Path), e.Detail))
	for i := range out {
		out[i] = d.place(out[i])
	}
	return out
}

// storageHint sets the hint and the position of the error that not exactly one version is stored.
func (d *Definition) storageHint(f *Finding) {
	var stored []string
	for i, v := range d.CRD.Spec.Versions {
		if v.Storage {
			stored = append(stored, v.Name)
			f.Path = fmt.Sprintf("spec.versions[%d].storage", i)
		}
	}
	switch n := len(stored); {
	case n > 1:
		f.Hint = fmt.Sprintf("%s and %s have storage: true: write storage: false in all but one", strings.Join(stored[:n-1], ", "), stored[n-1])
	case len(d.CRD.Spec.Versions) > 0:
		f.Hint = "write storage: true in the version in which objects are to be stored"
	}
}

// pointed returns a copy of f for each position that the error's detail names, or f itself if there
// are none. The last one gets the hint.
func (t *text) pointed(f Finding, detail, hint string) []Finding {
	texts, places := pointers(detail, t.Scalar(f.Path))
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
	return CheckReleases(ctx, d, old, nil)
}

// check is CheckReleases without the lowest release.
func check(ctx context.Context, d, old *Definition, releases []kubernetes.Release) *Report {
	r := &Report{Kind: "CustomResourceDefinition", Name: d.name(), File: d.Source.Name, Line: d.Source.Line}
	found := matrix(releases, verdict(ctx, d, old, kubernetes.Newest()), func(r kubernetes.Release) []Finding { return d.refusals(ctx, r) })
	r.Findings = append([]Finding{}, found...) // an empty list, not null, in JSON
	r.Findings = append(r.Findings, d.drafts()...)
	if old != nil {
		r.Findings = append(r.Findings, compare(d, old)...)
	}
	trees := d.schemas()
	if current := len(releases) == 0 || slices.Contains(releases, kubernetes.Newest()); current && Worst(r.Findings) == Error {
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
		r.Findings[i] = identify(d.place(f))
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
		p, gaps := t.compile()
		out = append(out, t.gapFindings(gaps)...)
		if p == nil {
			if n := countRules(t.root); n > 0 && len(gaps) == 0 {
				out = append(out, Finding{Severity: Warning, Check: "unchecked", Path: t.path,
					Message: plural(n, "rule") + " of this schema are not checked, because it does not compile", Hint: "correct the errors first"})
			}
			continue
		}
		for _, e := range p.CheckRules(schema.RuleCheck{Path: field.NewPath(t.path)}) {
			if len(gaps) > 0 && dependsOnGaps(e, gaps) {
				continue
			}
			for _, f := range d.fromServer(e) {
				if !said[f.Path+" "+f.Message] {
					out = append(out, f)
				}
			}
		}
	}
	return out
}

// dependsOnGaps reports whether an error may be due to the unknown parts of a schema: costs, which
// follow from bounds, and the correlation of lists.
func dependsOnGaps(e *field.Error, gaps []gap) bool {
	if strings.Contains(e.Detail, "estimated rule cost") || strings.Contains(e.Detail, "estimated messageExpression cost") {
		return true
	}
	return slices.ContainsFunc(gaps, func(g gap) bool {
		return strings.HasSuffix(e.Detail, "uncorrelatable portion of the schema within "+g.path)
	})
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
