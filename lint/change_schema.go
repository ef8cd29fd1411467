package lint

import (
	"fmt"
	"slices"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/keelson-io/keelson/schema/structural"
)

// This file compares two schemas of a version: the types, and the members and items below them.
// Every value that a server stored by the old schema must be valid by the new one and lose nothing.
// change_values.go compares restrictions, change_default.go new defaults.

// pair is the same place of objects in the new and the old schema.
type pair struct {
	*change
	new, was *structural.Schema
	path     string // of new in the new CRD
	root     bool
	item     bool // the place is an item of a list
	// newKeeps and wasKeeps: pruning keeps undeclared fields, by the node or by a list above it.
	newKeeps, wasKeeps bool
	// decoded is the schema by which the server decodes metadata, whatever new and was declare. It
	// is nil outside of metadata.
	decoded *structural.Schema
	// kept describes the value that an update must leave unchanged for ratcheting to apply; ""
	// means this value.
	kept string

	parent *pair  // nil at the root
	name   string // the field of the parent, anyKey for items and additional properties
}

// anyKey is the name of a pair that stands for all items or additional properties.
const anyKey = "*"

// Schemas of values that no node of a CRD describes.
var (
	// anyValue describes a field that no schema declares and pruning keeps.
	anyValue = &structural.Schema{Preserve: true, Nullable: true}
	// emptiedValue describes a value below additionalProperties: true. Pruning empties all objects in it.
	emptiedValue = &structural.Schema{Nullable: true}
	// resourceName describes apiVersion and kind of a resource that does not declare them.
	resourceName = &structural.Schema{Type: "string"}
)

// schemas compares the schemas of the i-th version.
func (c *change) schemas(new, was *apiextv1.CustomResourceDefinitionVersion, i int) {
	n, w := parse(new), parse(was)
	if n != nil && w != nil {
		p := pair{change: c, new: n, was: w, path: schemaPath(i), root: true, newKeeps: n.Preserve, wasKeeps: w.Preserve}
		p.compare()
	}
}

// tightened adds a finding for a restriction that stored objects may violate.
func (p *pair) tightened(at, format string, args ...any) {
	p.breaks(p.path+at, fmt.Sprintf(format, args...), p.ratcheting())
}

// ratcheting returns the hint that says when ratcheting excuses stored objects.
func (p *pair) ratcheting() string {
	kept := p.kept
	if kept == "" {
		kept = inObjects(p.path)
	}
	if p.root {
		return "stored objects that do not meet it are refused at the next update that changes anything"
	}
	return fmt.Sprintf("an update that leaves %s as it is passes (ratcheting)", kept)
}

// compare compares a node and all nodes below it.
func (p *pair) compare() {
	if p.new == p.was || !p.types() {
		return // all nodes below differ in the same way
	}
	p.nullable()
	p.defaults()
	p.restrictions()
	p.lists()
	p.rules()
	if admits(p.was, "object") {
		p.embedded()
		p.mapType()
		p.required()
		p.properties()
		p.others()
	}
	if admits(p.was, "array") {
		p.items()
	}
}

// below returns the pair for a node one step below.
func (p *pair) below(name string, new, was *structural.Schema, step string) *pair {
	q := &pair{change: p.change, new: new, was: was, path: p.path + step, kept: p.kept, parent: p, name: name}
	q.newKeeps, q.wasKeeps = new.Preserve, was.Preserve
	return q
}

// admits reports whether a value of a type may be valid by s. The type "number" includes integers.
func admits(s *structural.Schema, typ string) bool {
	switch {
	case s.IntOrString:
		return typ == "string" || typ == "number"
	case s.Type == "":
		return true
	case s.Type == "integer":
		return typ == "number"
	}
	return s.Type == typ
}

// typeName returns the type of a node in words.
func typeName(s *structural.Schema) string {
	switch {
	case s.IntOrString:
		return "integer or string"
	case s.Type == "":
		return "any type"
	}
	return s.Type
}

// types compares the types. It reports whether they are equal or the new one is wider.
func (p *pair) types() bool {
	was, is := typeName(p.was), typeName(p.new)
	switch {
	case was == is:
		return true
	case is == "any type", was == "integer" && is == "number", (was == "integer" || was == "string") && is == "integer or string":
		if rule := p.reader(); rule != "" {
			p.breaks(p.path+".type", fmt.Sprintf("changes from %s to %s, and a rule may read it: %s", was, is, rule), "")
		}
		return true
	case p.was == anyValue, p.was == emptiedValue:
		p.tightened(".type", "any value was valid here, because nothing declared it; from now on it must be of type %s%s", is, p.pruned())
		return false
	}
	p.tightened(".type", "changes from %s to %s: stored values and clients of the old type are refused", was, is)
	return false
}

// pruned returns the second half of a sentence if the new node prunes objects.
func (p *pair) pruned() string {
	if p.new.Type == "object" && !p.newKeeps && p.new.Additional == nil && p.new.AdditionalAllows == nil {
		return ", and fields that it does not declare are dropped"
	}
	return ""
}

// nullable reports a node that no longer allows null.
func (p *pair) nullable() {
	_, w := p.values()
	switch {
	case !p.was.Nullable || p.new.Nullable, w.Enum != nil: // an enum refuses null, even if it has it
	case p.item && p.new.Default == nil:
		if p.new.Type != "" || p.new.IntOrString {
			p.tightened(".nullable", "null is not valid any more")
		}
	default:
		p.breaks(p.path+".nullable", "null is not valid any more: it is dropped, or replaced by the default", "")
	}
}

// embedded reports a node that becomes an embedded resource, or ceases to be one.
func (p *pair) embedded() {
	switch {
	case p.new.Embedded && !p.was.Embedded:
		p.breaks(p.path+".x-kubernetes-embedded-resource", "is new: an object without a valid apiVersion, kind and metadata is refused",
			"ratcheting does not apply: every update of such an object is refused")
	case p.was.Embedded && !p.new.Embedded && (!p.newKeeps || p.new.Properties["metadata"] != nil):
		p.breaks(p.path, "x-kubernetes-embedded-resource is removed: apiVersion, kind and metadata are pruned by the schema like other fields", "")
	}
}

// rules reports new rules, and rules that changed.
func (p *pair) rules() {
	for i, r := range p.new.Rules {
		same := func(w apiextv1.ValidationRule) bool {
			return w.Rule == r.Rule && (w.OptionalOldSelf != nil && *w.OptionalOldSelf) == (r.OptionalOldSelf != nil && *r.OptionalOldSelf)
		}
		if slices.ContainsFunc(p.was.Rules, same) {
			continue
		}
		hint := p.ratcheting()
		if oldSelf.MatchString(r.Rule) {
			hint = "a transition rule: stored objects stay as they are, every update is checked; no ratcheting"
		}
		p.breaks(fmt.Sprintf("%s.x-kubernetes-validations[%d].rule", p.path, i), "the rule is new or differs: "+oneLine(r.Rule, 100), hint)
	}
}

// isResource reports whether s has apiVersion, kind and metadata without declaring them.
func (p *pair) isResource(s *structural.Schema) bool { return p.root || s.Embedded }

// member returns the schema of a field of s, which is p.new or p.was. It is nil if pruning drops
// the field.
func (p *pair) member(s *structural.Schema, keeps bool, name string) *structural.Schema {
	switch {
	case s.Properties[name] != nil:
		return s.Properties[name]
	case p.isResource(s) && name == "metadata":
		return structural.ObjectMeta()
	case p.isResource(s) && metaFields[name]:
		return resourceName
	}
	return p.other(s, keeps, name)
}

// other returns the schema of an undeclared field of s, which is p.new or p.was. It is nil if
// pruning drops the field.
func (p *pair) other(s *structural.Schema, keeps bool, name string) *structural.Schema {
	switch {
	case s.Additional != nil:
		return s.Additional
	case p.decoded != nil && p.decoded.Properties[name] != nil:
		return p.decoded.Properties[name]
	case p.decoded != nil:
		return p.decoded.Additional
	case s.AdditionalAllows != nil:
		return emptiedValue
	case keeps:
		return anyValue
	}
	return nil
}

// names returns the fields that one of the schemas declares, sorted.
func (p *pair) names() []string {
	names := slices.Concat(p.was.Names, p.new.Names)
	slices.Sort(names)
	return slices.Compact(names)
}

// properties compares the fields that one of the schemas declares.
func (p *pair) properties() {
	for _, name := range p.names() {
		if !p.new.Embedded && p.was.Embedded && metaFields[name] {
			continue // embedded reports it
		}
		p.property(name, p.member(p.new, p.newKeeps, name), p.member(p.was, p.wasKeeps, name))
	}
}

// property compares a field. Its schemas are nil where pruning drops it.
func (p *pair) property(name string, new, was *structural.Schema) {
	step := ".properties[" + name + "]"
	switch {
	case was == nil && new.Default != nil:
		p.below(name, new, anyValue, step).defaulted()
	case was == nil:
	case new == nil:
		p.breaks(p.path+".properties", fmt.Sprintf("field %q is removed: stored values are dropped at the next read, and clients that send it get an error or a warning", name), "")
	case p.new.Properties[name] != nil:
		q := p.below(name, new, was, step)
		if p.decoded != nil {
			q.decoded = p.decoded.Properties[name]
		} else if name == "metadata" && p.isResource(p.new) && p.isResource(p.was) {
			q.decoded = structural.ObjectMeta()
		}
		q.compare()
	case new == anyValue || p.decoded != nil || p.isResource(p.new) && metaFields[name]:
		if p.was.Properties[name] != nil {
			p.notes(p.path+".properties", fmt.Sprintf("field %q is not declared any more: it is kept, but not checked", name), "")
		}
	default:
		if p.was.Properties[name] != nil {
			p.notes(p.path+".properties", fmt.Sprintf("field %q is not declared any more: it is checked like every other key", name), "")
		}
		p.below(anyKey, new, was, ".additionalProperties").compare()
	}
}

// others compares the fields that neither schema declares.
func (p *pair) others() {
	new, was := p.other(p.new, p.newKeeps, ""), p.other(p.was, p.wasKeeps, "")
	switch {
	case was == nil || new == anyValue || new == was:
	case new != nil:
		q := p.below(anyKey, new, was, ".additionalProperties")
		if p.decoded != nil {
			q.decoded = p.decoded.Additional
		}
		q.compare()
	case was == anyValue:
		p.breaks(p.path, "fields that the schema does not declare are not preserved any more: they are dropped at the next read", "")
	default:
		p.breaks(p.path, "keys that are not declared are not kept any more: they are dropped at the next read", "")
	}
}

// items compares the items of lists.
func (p *pair) items() {
	schema := func(s *structural.Schema, keeps bool) *structural.Schema {
		switch {
		case s.Items != nil:
			return s.Items
		case keeps:
			return anyValue
		}
		return emptiedValue
	}
	q := p.below(anyKey, schema(p.new, p.newKeeps), schema(p.was, p.wasKeeps), ".items")
	if p.decoded != nil {
		if q.decoded = p.decoded.Items; p.new.Items == nil {
			return
		}
	}
	if q.new == anyValue || q.new == p.new && q.was == p.was {
		return
	}
	q.item = true
	q.newKeeps, q.wasKeeps = q.newKeeps || p.newKeeps, q.wasKeeps || p.wasKeeps
	if p.new.ListType != "map" && q.kept == "" {
		q.kept = "all of " + inObjects(p.path) // items of other lists are not correlated
	}
	q.compare()
}
