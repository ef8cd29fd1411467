package lint

import (
	"fmt"
	"slices"
	"strings"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-io/keelson/schema/structural"
)

// This file makes the rules of an invalid schema checkable. A server stops at a schema that is not
// structural. Lint replaces the invalid parts by values of unknown type, checks the rules that are
// left, and reports what it could not check.

// gap is a part of a schema whose type rules do not know.
type gap struct {
	path   string // of the schema node
	why    string // what the node lacks
	rules  int    // rules at and below the node, which are not checked
	opaque bool   // other rules see any value here
}

// checkable returns a copy of the schema that compiles, and the parts that are unknown in it. The
// copy is the schema itself if nothing is wrong with it. It is nil if there is no such copy.
func (t *tree) checkable() (*structural.Schema, []gap) {
	r := &repairer{gaps: slices.Clone(t.lost), tries: map[string]int{}}
	root := t.root
	// Every pass changes each invalid node, and a node is changed at most four times.
	for range maxRepairs {
		errs := structural.Validate(root, field.NewPath(t.path))
		if len(errs) == 0 {
			return root, r.gaps
		}
		r.errs = map[string][]*field.Error{}
		copied := tree{path: t.path, root: root}
		owner := map[string]bool{}
		copied.each(func(n node) { owner[n.path] = true })
		for _, e := range errs {
			at := ownerOf(e.Field, owner)
			r.errs[at] = append(r.errs[at], e)
		}
		if root = r.node(root, t.path, true); root == nil {
			return nil, r.gaps
		}
	}
	return nil, r.gaps
}

// maxRepairs bounds the passes over a schema. A pass repairs all invalid nodes that it sees.
const maxRepairs = 16

// ownerOf returns the longest path of a node that begins the path of an error.
func ownerOf(path string, nodes map[string]bool) string {
	for !nodes[path] {
		cut := strings.LastIndexAny(path, ".[")
		if cut < 0 {
			return path
		}
		path = path[:cut]
	}
	return path
}

// repairer replaces invalid nodes.
type repairer struct {
	errs  map[string][]*field.Error // by path of the node
	tries map[string]int            // repairs of a node so far
	gaps  []gap
}

// unknown returns a node of unknown type.
func unknown() *structural.Schema { return &structural.Schema{IntOrString: true} }

// node returns a copy of a node with its invalid parts replaced.
func (r *repairer) node(s *structural.Schema, path string, root bool) *structural.Schema {
	out := *s
	if errs := r.errs[path]; len(errs) > 0 {
		r.tries[path]++
		if !r.repair(&out, path, errs, root) {
			if root {
				return nil
			}
			r.gaps = append(r.gaps, gap{path: path, why: "is not structural", rules: countRules(s), opaque: true})
			return unknown()
		}
	}
	if len(out.Names) > 0 {
		properties := make(map[string]*structural.Schema, len(out.Names))
		for _, name := range out.Names {
			properties[name] = r.node(out.Properties[name], fmt.Sprintf("%s.properties[%s]", path, name), false)
		}
		out.Properties = properties
	}
	if out.Items != nil {
		out.Items = r.node(out.Items, path+".items", false)
	}
	if out.Additional != nil {
		out.Additional = r.node(out.Additional, path+".additionalProperties", false)
	}
	return &out
}

// repair changes a node that has errors. It reports false if the node must be replaced.
func (r *repairer) repair(s *structural.Schema, path string, errs []*field.Error, root bool) bool {
	switch r.tries[path] {
	case 1:
		return r.addTypes(s, path, errs, root)
	case 2:
		// What is left concerns keywords beside the type. They do not change what rules see.
		s.Values, s.ListType, s.ListMapKeys, s.MapType, s.Default, s.Embedded = nil, "", nil, "", nil, false
		if root || s.IntOrString {
			s.Additional, s.AdditionalAllows, s.Preserve = nil, nil, false
		}
		r.gaps = append(r.gaps, gap{path: path, why: "is not structural"})
		return true
	case 3:
		if !root {
			return false
		}
		// The names and metadata of a resource are the same for all kinds.
		s.Type = "object"
		s.Names = slices.DeleteFunc(slices.Clone(s.Names), func(name string) bool { return metaFields[name] })
		return true
	}
	return false
}

// addTypes adds the type and the items that a node lacks, as far as its other keywords imply them.
func (r *repairer) addTypes(s *structural.Schema, path string, errs []*field.Error, root bool) bool {
	if s.Type == "" && !s.IntOrString && !s.Preserve {
		switch {
		case root || len(s.Names) > 0 || s.Additional != nil:
			s.Type = "object"
		case s.Items != nil:
			s.Type = "array"
		default:
			r.gaps = append(r.gaps, gap{path: path, why: "has no type", rules: countRules(s), opaque: true})
			*s = *unknown()
			return true
		}
	}
	if s.Type == "array" && s.Items == nil {
		s.Items = unknown()
		r.gaps = append(r.gaps, gap{path: path, why: "has no items", opaque: true})
	}
	// A restriction of something undeclared is an error of the restriction.
	for _, e := range errs {
		if s.Values != nil && (strings.HasPrefix(e.Detail, "because it is defined in ") || strings.Contains(e.Field[len(path):], "Of[") || strings.HasPrefix(e.Field[len(path):], ".not")) {
			values := *s.Values
			values.AllOf, values.AnyOf, values.OneOf, values.Not = nil, nil, nil, nil
			s.Values = &values
		}
	}
	return true
}

// countRules returns the number of rules at and below a node.
func countRules(s *structural.Schema) int {
	n := 0
	walk(node{schema: s}, func(n2 node) { n += len(n2.schema.Rules) })
	return n
}

// gapFindings returns the findings about the parts that were not checked. They do not matter in a
// schema without rules.
func (t *tree) gapFindings(gaps []gap) []Finding {
	if countRules(t.root) == 0 {
		return nil
	}
	var out []Finding
	for _, g := range gaps {
		f := Finding{Severity: Warning, Check: "unchecked", Path: g.path}
		switch {
		case g.rules > 0:
			f.Message = fmt.Sprintf("%s: not checked: %s; others are checked as if any value were valid here", g.why, plural(g.rules, "rule"))
		case g.opaque:
			f.Message = g.why + ": rules are checked as if any value were valid here"
		default:
			f.Message = g.why + ": rules are checked without what is wrong here"
		}
		f.Hint = "correct the errors first; costs are estimated after that"
		out = append(out, f)
	}
	return out
}

// plural returns a number with a noun.
func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// parseTree returns the structural schema of s. Keywords that structural schemas cannot hold are
// left out; lost lists the nodes that had them.
func parseTree(s *apiextv1.JSONSchemaProps, path string) (root *structural.Schema, lost []gap) {
	if root, errs := structural.Parse(s, nil); len(errs) == 0 {
		return root, nil
	}
	s = s.DeepCopy()
	dropUnsupported(s, path, &lost)
	root, errs := structural.Parse(s, nil)
	if len(errs) > 0 {
		return nil, nil
	}
	return root, lost
}

// dropUnsupported removes the keywords at and below a node that structural schemas cannot hold.
func dropUnsupported(s *apiextv1.JSONSchemaProps, path string, lost *[]gap) {
	drop := func(name string, there bool) {
		if there {
			*lost = append(*lost, gap{path: path, why: "has " + name})
		}
	}
	drop("$ref", s.Ref != nil && *s.Ref != "")
	drop("patternProperties", len(s.PatternProperties) > 0)
	drop("dependencies", len(s.Dependencies) > 0)
	drop("definitions", len(s.Definitions) > 0)
	s.ID, s.Schema, s.Ref, s.PatternProperties, s.Dependencies, s.AdditionalItems, s.Definitions = "", "", nil, nil, nil, nil, nil
	if s.XPreserveUnknownFields != nil && !*s.XPreserveUnknownFields {
		s.XPreserveUnknownFields = nil
	}
	if s.Items != nil {
		if len(s.Items.JSONSchemas) > 0 {
			s.Items = nil
		} else if s.Items.Schema != nil {
			dropUnsupported(s.Items.Schema, path+".items", lost)
		}
	}
	for name, p := range s.Properties {
		dropUnsupported(&p, fmt.Sprintf("%s.properties[%s]", path, name), lost)
		s.Properties[name] = p
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
		dropUnsupported(s.AdditionalProperties.Schema, path+".additionalProperties", lost)
	}
	for _, list := range [][]apiextv1.JSONSchemaProps{s.AllOf, s.AnyOf, s.OneOf} {
		for i := range list {
			dropUnsupported(&list[i], path, lost)
		}
	}
	if s.Not != nil {
		dropUnsupported(s.Not, path, lost)
	}
}
