package table

import (
	"reflect"
	"strconv"
	"strings"
	"sync"

	"k8s.io/client-go/util/jsonpath"

	"github.com/keelson-io/keelson/jsondoc"
)

// This file parses and follows JSON paths.

// path is a parsed path: steps if it is simple, else the library's form.
type path struct {
	steps []step
	slow  *slowPath
}

// stepKind is the kind of one step of a path.
type stepKind uint8

const (
	stepMember stepKind = iota // .name
	stepIndex                  // [3]
	stepFilter                 // [?(@.name=="text")]
)

// step is one step of a simple path.
type step struct {
	kind  stepKind
	name  string
	index int

	left  []string // the member that a filter compares
	text  string   // with this
	equal bool     // == or !=
}

// parsePath parses a path as a column declares it. A path that makes no sense
// finds nothing.
func parsePath(text string) *path {
	if steps, ok := parseSimple(text); ok {
		return &path{steps: steps}
	}
	return &path{slow: newSlowPath(text)}
}

// parseSimple parses a simple path; ok is false if it is none.
func parseSimple(text string) (steps []step, ok bool) {
	for text != "" {
		var s step
		switch {
		case text[0] == '.':
			s.name, text = cutName(text[1:])
			if s.name == "" {
				return nil, false
			}
		case strings.HasPrefix(text, "[?("):
			if s, text, ok = parseFilter(text); !ok {
				return nil, false
			}
		case text[0] == '[':
			inside, rest, found := strings.Cut(text[1:], "]")
			n, err := strconv.Atoi(inside)
			if !found || err != nil || inside[0] == '+' {
				return nil, false
			}
			s, text = step{kind: stepIndex, index: n}, rest
		default:
			return nil, false
		}
		steps = append(steps, s)
	}
	return steps, len(steps) > 0
}

// cutName cuts a plain name from the front of s; "" if there is none.
func cutName(s string) (name, rest string) {
	i := 0
	for i < len(s) && (s[i] >= 'a' && s[i] <= 'z' || s[i] >= 'A' && s[i] <= 'Z' || s[i] == '_' || i > 0 && (s[i] >= '0' && s[i] <= '9' || s[i] == '-')) {
		i++
	}
	return s[:i], s[i:]
}

// parseFilter parses a comparison of a member with a quoted text.
func parseFilter(s string) (f step, rest string, ok bool) {
	inside, rest, found := strings.Cut(s[len("[?("):], ")]")
	if !found {
		return f, "", false
	}
	left, right, found := strings.Cut(inside, "=")
	if !found || left == "" || right == "" {
		return f, "", false
	}
	f.kind, f.equal = stepFilter, true
	switch {
	case strings.HasSuffix(left, "!"):
		f.equal, left = false, left[:len(left)-1]
	case right[0] == '=':
		right = right[1:]
	default:
		return f, "", false
	}
	left, right = strings.TrimSpace(left), strings.TrimSpace(right)
	if !strings.HasPrefix(left, "@.") || len(right) < 2 || right[0] != right[len(right)-1] || right[0] != '"' && right[0] != '\'' {
		return f, "", false
	}
	for left = left[1:]; left != ""; {
		var name string
		if left[0] != '.' {
			return f, "", false
		}
		if name, left = cutName(left[1:]); name == "" {
			return f, "", false
		}
		f.left = append(f.left, name)
	}
	f.text = right[1 : len(right)-1]
	return f, rest, !strings.ContainsAny(f.text, "\"'\\()[]{}=<>!")
}

// first returns the first value that the path finds in the object of a row.
func (p *path) first(r *row) (jsondoc.Value, bool) {
	if p.slow != nil {
		return p.slow.first(r)
	}
	return follow(r.obj, p.steps)
}

// follow walks the steps. Only filters make several values of one: then all
// of them must follow the rest without an error, and the first to find
// something gives the result.
func follow(v jsondoc.Value, steps []step) (jsondoc.Value, bool) {
	found, _ := walk(v, steps)
	return found, found.Exists()
}

// walk is follow with a difference between a missing value and an error: only an array can be
// indexed or filtered.
func walk(v jsondoc.Value, steps []step) (found jsondoc.Value, ok bool) {
	for i := range steps {
		s := &steps[i]
		switch s.kind {
		case stepMember:
			if v = v.Get(s.name); !v.Exists() {
				return jsondoc.Value{}, true
			}
		case stepIndex:
			if v.Kind() == jsondoc.Null {
				return jsondoc.Value{}, true
			}
			n := s.index
			if n < 0 {
				n += v.Len()
			}
			if v.Kind() != jsondoc.Array || n < 0 || n >= v.Len() {
				return jsondoc.Value{}, false
			}
			v = v.Item(n)
		case stepFilter:
			return s.filter(v, steps[i+1:])
		}
	}
	return v, true
}

// filter follows the rest of a path from the items that pass.
func (s *step) filter(v jsondoc.Value, rest []step) (found jsondoc.Value, ok bool) {
	if v.Kind() != jsondoc.Array {
		return jsondoc.Value{}, false
	}
	for _, item := range v.Items() {
		left := item.At(s.left...)
		if !left.Exists() {
			continue
		}
		if left.Kind() != jsondoc.String {
			return jsondoc.Value{}, false // values of different types do not compare
		}
		if (left.Text() == s.text) != s.equal {
			continue
		}
		got, ok := walk(item, rest)
		if !ok {
			return jsondoc.Value{}, false
		}
		if !found.Exists() {
			found = got
		}
	}
	return found, true
}

// slowPath is a path in the library's form, which is not safe for concurrent
// use.
type slowPath struct {
	shape  shape
	parsed sync.Pool // of *jsonpath.JSONPath; nil if the path makes no sense
}

// newSlowPath returns a path that the library evaluates. An invalid path finds nothing.
func newSlowPath(text string) *slowPath {
	s := new(slowPath)
	text = "{" + text + "}"
	parsed, err := jsonpath.Parse("column", text)
	if err != nil {
		s.parsed.New = func() any { return (*jsonpath.JSONPath)(nil) }
		return s
	}
	s.shape = shapeOf(parsed.Root.Nodes)
	s.parsed.New = func() any {
		p := jsonpath.New("column").AllowMissingKeys(true)
		if p.Parse(text) != nil {
			p = nil
		}
		return p
	}
	return s
}

// first finds the first value on a copy of the object as Go values and makes a document
// of it. A path that is too much work finds nothing: the library cannot be interrupted.
func (s *slowPath) first(r *row) (jsondoc.Value, bool) {
	p := s.parsed.Get().(*jsonpath.JSONPath)
	if p == nil {
		return jsondoc.Value{}, false
	}
	effort := s.shape.effort(r)
	if r.effort+effort > maxEffort {
		s.parsed.Put(p)
		return jsondoc.Value{}, false
	}
	r.effort += effort
	results, err := p.FindResults(r.interfaces())
	if err != nil {
		return jsondoc.Value{}, false // p may be in the middle of something: not used again
	}
	if s.shape.ranges == 0 { // a range leaves p without the steps before it
		s.parsed.Put(p)
	}
	if len(results) == 0 || len(results[0]) == 0 {
		return jsondoc.Value{}, false
	}
	d := new(jsondoc.Doc)
	d.SetRoot(nodeOf(d, results[0][0]))
	return d.Root(), d.Root().Exists()
}

// nodeOf makes a node of a Go value.
func nodeOf(d *jsondoc.Doc, r reflect.Value) jsondoc.Node {
	if !r.IsValid() {
		return jsondoc.NullNode
	}
	switch v := r.Interface().(type) {
	case nil:
		return jsondoc.NullNode
	case bool:
		return jsondoc.BoolNode(v)
	case int:
		return jsondoc.IntNode(int64(v))
	case int64:
		return jsondoc.IntNode(v)
	case float64:
		return jsondoc.FloatNode(v)
	case string:
		return d.NewString(v)
	case []any:
		items := make([]jsondoc.Node, len(v))
		for i := range v {
			items[i] = nodeOf(d, reflect.ValueOf(v[i]))
		}
		return d.NewArray(items)
	case map[string]any:
		pairs := make([]jsondoc.Node, 0, 2*len(v))
		for name, member := range v {
			pairs = append(pairs, d.NewString(name), nodeOf(d, reflect.ValueOf(member)))
		}
		sorted, _ := d.SortPairs(pairs)
		return d.NewMap(sorted)
	}
	return jsondoc.Node{}
}
