package schema

import (
	"fmt"
	"strings"
)

// This file prints programs, for tests and debugging.

// String returns a dump of p: a line for each node on the spine, followed by its restrictions and
// junctors. It omits metadata.
func (p *Program) String() string {
	code, err := p.load()
	if err != nil {
		return err.Error()
	}
	var b strings.Builder
	code.root.dump(code, &b, "", ".")
	return b.String()
}

// dump prints n and the nodes below.
func (n *node) dump(p *program, b *strings.Builder, indent, name string) {
	fmt.Fprintf(b, "%s%s", indent, name)
	word := func(yes bool, format string, args ...any) {
		if yes {
			b.WriteByte(' ')
			fmt.Fprintf(b, format, args...)
		}
	}
	word(n.types != "", "%s", n.types)
	word(n.format != "", "format=%s", n.format)
	word(n.nullable, "nullable")
	word(n.resource, "resource")
	word(n.keep, "keep")
	word(n.shape != 0, "shape=%d", n.shape)
	word(n.noOther, "no-others")
	word(n.anyOther && !n.noOther && n.additional == nil, "others")
	word(n.listType != "", "list=%s%v", n.listType, n.mapKeys)
	word(n.mapType != "", "map=%s", n.mapType)
	word(n.defText != nil, "default=%s", n.defText)
	if n.rules != nil {
		word(true, "rules=%d", len(n.rules.source))
	}
	if n.values != nil {
		n.values.dump(word)
	}
	b.WriteByte('\n')
	indent += "  "
	for _, prop := range n.props {
		prop.node.dump(p, b, indent, fmt.Sprintf("%s@%d", prop.name, prop.slot))
	}
	if n.additional != nil {
		n.additional.dump(p, b, indent, "*")
	}
	if n.items != nil {
		n.items.dump(p, b, indent, "[]")
	}
	if v := n.values; v != nil {
		dumpBranches(p, b, indent, "allOf", v.allOf)
		dumpBranches(p, b, indent, "anyOf", v.anyOf)
		dumpBranches(p, b, indent, "oneOf", v.oneOf)
		if v.not != nil {
			v.not.dump(p, b, indent, "not")
		}
	}
}

// dumpBranches prints the schemas of a junctor.
func dumpBranches(p *program, b *strings.Builder, indent, word string, branches []*node) {
	for i, n := range branches {
		n.dump(p, b, indent, fmt.Sprintf("%s[%d]", word, i))
	}
}

// dump prints the restrictions on the line of their node.
func (v *values) dump(word func(yes bool, format string, args ...any)) {
	number := func(name string, bound *float64, exclusive bool) {
		if bound != nil {
			word(true, "%s=%v", name, *bound)
			word(exclusive, "exclusive")
		}
	}
	number("min", v.min, v.exclMin)
	number("max", v.max, v.exclMax)
	number("multiple", v.multiple, false)
	word(v.badBound, "bad-bound")
	word(v.unique, "unique")
	for _, size := range []struct {
		name  string
		bound int64
	}{
		{"minLength", v.minLength}, {"maxLength", v.maxLength}, {"minItems", v.minItems},
		{"maxItems", v.maxItems}, {"minProps", v.minProps}, {"maxProps", v.maxProps},
	} {
		word(size.bound != none, "%s=%d", size.name, size.bound)
	}
	if v.match != nil {
		word(true, "pattern=%q", v.match.text)
	}
	word(len(v.enum) > 0, "enum=%v", v.enum)
	for _, r := range v.required {
		word(true, "required=%s@%d", r.name, r.slot)
	}
}
