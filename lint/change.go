package lint

import (
	"fmt"
	"slices"
	"strings"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/keelson-io/keelson/schema/structural"
)

// This file compares two versions of a definition; change_schema.go compares their schemas.

// change collects the effects of a changed definition.
type change struct {
	d   *Definition
	out []Finding
}

// compare returns the effects of the change of old to d on stored objects and clients.
func compare(d, old *Definition) []Finding {
	c := &change{d: d}
	new, was := &d.CRD.Spec, &old.CRD.Spec
	c.names(new, was)
	type schemas [2]*apiextv1.CustomResourceValidation
	var done []schemas
	for i := range was.Versions {
		v := &was.Versions[i]
		j := slices.IndexFunc(new.Versions, func(n apiextv1.CustomResourceDefinitionVersion) bool { return n.Name == v.Name })
		if j < 0 {
			c.breaks("spec.versions", fmt.Sprintf("version %s is removed: clients of it get 404", v.Name),
				"first serve it no longer (served: false), migrate stored objects, and take it off status.storedVersions")
			continue
		}
		c.version(&new.Versions[j], v, j)
		// A change that several versions share is reported once.
		pair := schemas{new.Versions[j].Schema, v.Schema}
		if !slices.ContainsFunc(done, func(d schemas) bool { return equality.Semantic.DeepEqual(d, pair) }) {
			c.schemas(&new.Versions[j], v, j)
		}
		done = append(done, pair)
	}
	c.storage(new, was)
	return c.out
}

// breaks adds a breaking finding.
func (c *change) breaks(path, message, hint string) {
	c.add(Finding{Severity: Breaking, Check: "change", Path: path, Message: message, Hint: hint})
}

// notes adds a warning.
func (c *change) notes(path, message, hint string) {
	c.add(Finding{Severity: Warning, Check: "change", Path: path, Message: message, Hint: hint})
}

// add adds a finding once. Several fields that become one node may have the same finding.
func (c *change) add(f Finding) {
	same := func(g Finding) bool { return g.Severity == f.Severity && g.Path == f.Path && g.Message == f.Message }
	if !slices.ContainsFunc(c.out, same) {
		c.out = append(c.out, f)
	}
}

// names compares the names that requests and objects use.
func (c *change) names(new, was *apiextv1.CustomResourceDefinitionSpec) {
	for _, n := range []struct{ path, new, old string }{
		{"spec.group", new.Group, was.Group},
		{"spec.scope", string(new.Scope), string(was.Scope)},
		{"spec.names.plural", new.Names.Plural, was.Names.Plural},
		{"spec.names.kind", new.Names.Kind, was.Names.Kind},
	} {
		if n.new != n.old {
			c.breaks(n.path, fmt.Sprintf("changed from %q to %q: stored objects are not found any more", n.old, n.new),
				"a server refuses this for a definition that is established; define another kind instead")
		}
	}
	if new.Names.Singular != was.Names.Singular {
		c.notes("spec.names.singular", fmt.Sprintf("changed from %q to %q: commands that name it fail", was.Names.Singular, new.Names.Singular), "")
	}
	if was.PreserveUnknownFields && !new.PreserveUnknownFields {
		c.breaks("spec.preserveUnknownFields", "becomes false: fields that the schema does not declare are dropped at the next read", "")
	}
	for _, n := range []struct {
		path, what string
		new, old   []string
	}{
		{"spec.names.shortNames", "short name", new.Names.ShortNames, was.Names.ShortNames},
		{"spec.names.categories", "category", new.Names.Categories, was.Names.Categories},
	} {
		for _, name := range n.old {
			if !slices.Contains(n.new, name) {
				c.notes(n.path, fmt.Sprintf("%s %q is removed: commands that name it fail", n.what, name), "")
			}
		}
	}
}

// storage compares the storage versions.
func (c *change) storage(new, was *apiextv1.CustomResourceDefinitionSpec) {
	stored := func(s *apiextv1.CustomResourceDefinitionSpec) *apiextv1.CustomResourceDefinitionVersion {
		for i := range s.Versions {
			if s.Versions[i].Storage {
				return &s.Versions[i]
			}
		}
		return nil
	}
	n, w := stored(new), stored(was)
	if n == nil || w == nil || n.Name == w.Name {
		return
	}
	i := slices.IndexFunc(new.Versions, func(v apiextv1.CustomResourceDefinitionVersion) bool { return v.Name == n.Name })
	path := fmt.Sprintf("spec.versions[%d].storage", i)
	c.notes(path, fmt.Sprintf("the storage version changes from %s to %s: objects change over when they are written next", w.Name, n.Name),
		fmt.Sprintf("%s must stay in spec.versions until no object is stored in it", w.Name))
	if new.Conversion != nil && new.Conversion.Strategy == apiextv1.WebhookConverter {
		return // the webhook may convert every field
	}
	from, to := parse(w), parse(n)
	if from == nil || to == nil {
		return
	}
	for _, lost := range lostFields(to, from, "") {
		c.breaks(path, fmt.Sprintf("%s has no field %s: it is lost when an object of %s is converted", n.Name, strings.TrimPrefix(lost, "."), w.Name), "")
	}
}

// parse returns the schema of a version, nil if it has none or an invalid one.
func parse(v *apiextv1.CustomResourceDefinitionVersion) *structural.Schema {
	if v.Schema == nil {
		return nil
	}
	s, errs := structural.Parse(v.Schema.OpenAPIV3Schema, nil)
	if len(errs) > 0 {
		return nil
	}
	return s
}

// lostFields returns the fields that from declares and to prunes.
func lostFields(to, from *structural.Schema, path string) []string {
	if to == nil || from == nil || to.Preserve {
		return nil
	}
	var out []string
	for _, name := range from.Names {
		if path == "" && metaFields[name] {
			continue
		}
		switch next := to.Properties[name]; {
		case next != nil:
			out = append(out, lostFields(next, from.Properties[name], path+"."+name)...)
		case to.Additional != nil:
			out = append(out, lostFields(to.Additional, from.Properties[name], path+"."+name)...)
		case to.AdditionalAllows == nil || !*to.AdditionalAllows:
			out = append(out, path+"."+name)
		}
	}
	out = append(out, lostFields(to.Items, from.Items, path+"[*]")...)
	return append(out, lostFields(to.Additional, from.Additional, path+"[*]")...)
}

// version compares one version; new is the i-th.
func (c *change) version(new, was *apiextv1.CustomResourceDefinitionVersion, i int) {
	path := fmt.Sprintf("spec.versions[%d]", i)
	if was.Served && !new.Served {
		c.breaks(path+".served", fmt.Sprintf("version %s is not served any more: clients of it get 404", was.Name), "")
	}
	if new.Deprecated && !was.Deprecated {
		c.notes(path+".deprecated", fmt.Sprintf("version %s becomes deprecated: clients get a warning with every request", was.Name), "")
	}
	if s := was.Subresources; s != nil {
		if s.Status != nil && (new.Subresources == nil || new.Subresources.Status == nil) {
			c.breaks(path+".subresources", "the status subresource is removed: controllers that write /status get 404", "")
		}
		if s.Scale != nil && (new.Subresources == nil || new.Subresources.Scale == nil) {
			c.breaks(path+".subresources", "the scale subresource is removed: kubectl scale and autoscalers get 404", "")
		} else if s.Scale != nil && (s.Scale.SpecReplicasPath != new.Subresources.Scale.SpecReplicasPath ||
			s.Scale.StatusReplicasPath != new.Subresources.Scale.StatusReplicasPath) {
			c.breaks(path+".subresources.scale", "the paths of the scale subresource change: autoscalers read and write other fields", "")
		}
	}
	if new.Subresources != nil && new.Subresources.Status != nil && (was.Subresources == nil || was.Subresources.Status == nil) {
		c.breaks(path+".subresources.status", "status becomes a subresource: a status in an ordinary write is ignored", "write /status")
	}
	for _, f := range was.SelectableFields {
		if !slices.Contains(new.SelectableFields, f) {
			c.breaks(path+".selectableFields", fmt.Sprintf("%s is not selectable any more: field selectors that name it get 400", f.JSONPath), "")
		}
	}
	for _, col := range was.AdditionalPrinterColumns {
		if !slices.ContainsFunc(new.AdditionalPrinterColumns, func(n apiextv1.CustomResourceColumnDefinition) bool { return n.Name == col.Name }) {
			c.notes(path+".additionalPrinterColumns", fmt.Sprintf("column %q is removed: what reads it from a table does not find it", col.Name), "")
		}
	}
}
