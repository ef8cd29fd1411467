package declared

import (
	"fmt"
	"strings"

	"github.com/keelson-io/keelson/schema/structural"
)

// This file parses paths and finds their schemas.

// maxPath is the greatest number of elements of a path.
const maxPath = 64

// elementKind says what an element of a path selects.
type elementKind uint8

const (
	memberOf elementKind = iota // a member of an object or map
	each                        // each item of a list
	first                       // the first item of a list
)

// element is one selection of a path.
type element struct {
	kind elementKind
	name string // of a member
}

// path names a field, from the root of an object.
type path []element

// parsePath parses a path such as spec.rules[*].match['a.b'][0].
func parsePath(text string) (path, error) {
	var out path
	rest := text
	for rest != "" {
		switch {
		case strings.HasPrefix(rest, "[*]"):
			out, rest = append(out, element{kind: each}), rest[3:]
		case strings.HasPrefix(rest, "[0]"):
			out, rest = append(out, element{kind: first}), rest[3:]
		case strings.HasPrefix(rest, "['"):
			name, after, ok := strings.Cut(rest[2:], "']")
			if !ok || name == "" {
				return nil, fmt.Errorf("got %q, want a path: ['… has no end", text)
			}
			out, rest = append(out, element{name: name}), after
		case rest[0] == '[':
			return nil, fmt.Errorf("got %q, want a path with [*], [0] or ['name'] in place of %q", text, rest)
		default:
			rest = strings.TrimPrefix(rest, ".")
			end := strings.IndexAny(rest, ".[")
			if end < 0 {
				end = len(rest)
			}
			if end == 0 {
				return nil, fmt.Errorf("got %q, want a path such as spec.rules[*].port", text)
			}
			out, rest = append(out, element{name: rest[:end]}), rest[end:]
		}
		if len(out) > maxPath {
			return nil, fmt.Errorf("the path has more than %d elements", maxPath)
		}
	}
	if len(out) == 0 || out[0].kind != memberOf || text[0] == '.' {
		return nil, fmt.Errorf("got %q, want a path such as spec.rules[*].port", text)
	}
	return out, checkRoot(out)
}

// checkRoot returns an error for a path that a conversion cannot change.
func checkRoot(p path) error {
	switch p[0].name {
	case "apiVersion", "kind":
		return fmt.Errorf("%s is set by the conversion itself: leave the path out", p[0].name)
	case "metadata":
		if len(p) != 3 || p[1].name != "labels" && p[1].name != "annotations" || p[2].kind != memberOf {
			return fmt.Errorf("got %q, want metadata.labels['name'] or metadata.annotations['name']: other metadata cannot be converted", p)
		}
		if strings.HasPrefix(p[2].name, annotationPrefix) {
			return fmt.Errorf("annotations that begin with %s are those of conversions: choose another one", annotationPrefix)
		}
	}
	return nil
}

// String returns the path as text.
func (p path) String() string {
	var b strings.Builder
	for i, e := range p {
		switch {
		case e.kind == each:
			b.WriteString("[*]")
		case e.kind == first:
			b.WriteString("[0]")
		case strings.ContainsAny(e.name, ".[]'"):
			b.WriteString("['" + e.name + "']")
		default:
			if i > 0 {
				b.WriteByte('.')
			}
			b.WriteString(e.name)
		}
	}
	return b.String()
}

// lists returns the number of elements that stand for each item.
func (p path) lists() int {
	n := 0
	for _, e := range p {
		if e.kind == each {
			n++
		}
	}
	return n
}

// cut splits p behind its last [*]. prefix is empty if it has none.
func (p path) cut() (prefix, rest path) {
	for i := len(p) - 1; i >= 0; i-- {
		if p[i].kind == each {
			return p[:i+1], p[i+1:]
		}
	}
	return nil, p
}

// within reports whether p is q, or below q.
func (p path) within(q path) bool {
	if len(p) < len(q) {
		return false
	}
	for i := range q {
		if p[i] != q[i] {
			return false
		}
	}
	return true
}

// equal reports whether p and q are the same path.
func (p path) equal(q path) bool { return len(p) == len(q) && p.within(q) }

// replaced returns p with its beginning from, replaced by to.
func (p path) replaced(from, to path) path {
	return append(to[:len(to):len(to)], p[len(from):]...)
}

// find returns the schema of a path below s. It is nil if the schema says nothing about the value.
func find(s *structural.Schema, p path, version string) (*structural.Schema, error) {
	if p[0].name == "metadata" {
		return structural.String(), nil
	}
	for i, e := range p {
		if s == nil {
			return nil, nil
		}
		at := path(p[:i]).String()
		switch e.kind {
		case each, first:
			if s.Type != "array" {
				if s.Preserve && s.Type == "" {
					return nil, nil
				}
				return nil, fmt.Errorf("%s in %s: got type %s, want a list before %s", at, version, typeName(s), path(p[i:i+1]))
			}
			s = s.Items
		default:
			next, ok := declaredMember(s, e.name)
			if !ok && s.Preserve {
				return nil, nil
			}
			if !ok && s.Type == "array" {
				return nil, fmt.Errorf("%s in %s is a list: write [*] for its items, or [0] for the first", at, version)
			}
			if !ok {
				where := "version " + version
				if at != "" {
					where = at + " in " + version
				}
				return nil, fmt.Errorf("unknown field %q in %s%s", p, where, didYouMean(e.name, s.Names))
			}
			s = next
		}
	}
	return s, nil
}

// declaredMember returns the schema of a member, and whether it is declared.
func declaredMember(s *structural.Schema, name string) (*structural.Schema, bool) {
	if m, ok := s.Properties[name]; ok {
		return m, true
	}
	if s.Additional != nil {
		return s.Additional, true
	}
	return nil, s.AdditionalAllows != nil && *s.AdditionalAllows
}

// typeName returns the type of a schema for messages.
func typeName(s *structural.Schema) string {
	switch {
	case s == nil || s.Type == "" && !s.IntOrString:
		return "any"
	case s.IntOrString:
		return "integer or string"
	case s.Type == "object" && s.Additional != nil:
		return "map"
	}
	return s.Type
}

// sameType reports whether a value of schema a can be one of schema b. Schemas that say nothing fit.
func sameType(a, b *structural.Schema) bool {
	ta, tb := typeName(a), typeName(b)
	switch {
	case ta == tb || ta == "any" || tb == "any":
		return true
	case ta == "integer":
		return tb == "number" || tb == "integer or string"
	case ta == "number", ta == "integer or string":
		return tb == "integer" || tb == "string" && ta == "integer or string"
	case ta == "string":
		return tb == "integer or string"
	case ta == "object" || ta == "map":
		return tb == "object" || tb == "map"
	}
	return false
}
