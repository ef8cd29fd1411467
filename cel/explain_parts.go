package cel

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"

	"github.com/keelson-io/keelson/cel/internal/check"
	"github.com/keelson-io/keelson/cel/internal/eval"
)

// This file makes the explanation of an evaluation: a tree of the parts of the expression.
//
// The tree follows the text, not what macros expand to. The parts of a macro over elements have the
// values of one element: see LoopReason. An error is absorbed if some part above it is not an error.
//
// Hidden variables. A part is hidden if it depends on a hidden variable. The values of other parts can
// reveal something, too: whether the right side of && was evaluated depends on the left side, and for
// which element a macro was decided depends on its predicate. All parts of such an operator or macro
// are therefore hidden if one of them is. The result of the whole expression is not hidden: it decided
// about the request.
//
// Bounds. An explanation has at most MaxParts parts, and at most maxShownText bytes of each text and
// maxShown bytes of each value, so that it has at most some 100 KiB whatever the expression and the data are.

// Outcome of a part of an expression.
type PartOutcome string

// The outcomes. A part is absorbed if it is an error on which the result does not depend. It is
// unevaluated if the result was known without it. It is hidden if it depends on a variable that must
// not be shown.
const (
	PartValue       PartOutcome = "value"
	PartError       PartOutcome = "error"
	PartAbsorbed    PartOutcome = "absorbed"
	PartUnevaluated PartOutcome = "unevaluated"
	PartHidden      PartOutcome = "hidden"
)

// Part is a part of an expression as it was written, with what it evaluated to. Its JSON form is
// that of command-line programs.
type Part struct {
	Text    string      `json:"text"`   // shortened if it is long
	Start   int         `json:"start"`  // offset in the expression, in bytes
	End     int         `json:"end"`    // offset of the byte behind it
	Line    int         `json:"line"`   // from 1
	Column  int         `json:"column"` // in characters, from 1
	Outcome PartOutcome `json:"outcome"`
	// Value is the value of a PartValue.
	Value Value `json:"-"`
	// Shown is Value as JSON; a string that describes it, if the JSON would be long.
	Shown json.RawMessage `json:"value,omitempty"`
	Error string          `json:"error,omitempty"`
	// Path is the place in the data that the part reads, such as self.spec.items[2].name.
	Path  string      `json:"path,omitempty"`
	Loop  *LoopReason `json:"loop,omitempty"` // of a macro that visits elements
	Parts []Part      `json:"parts,omitempty"`
	// Omitted is the number of direct and indirect parts that are missing because the explanation would be
	// too long.
	Omitted int `json:"omitted,omitempty"`
}

// LoopReason says how a macro such as all() or map() came to its result.
type LoopReason struct {
	Elements int `json:"elements"` // visited elements
	// Index is the element whose values the parts of the macro have: the one that decided, otherwise
	// the first that failed, otherwise the last. It is -1 if there was none.
	Index   int  `json:"index"`
	Decided bool `json:"decided,omitempty"` // the result does not depend on the other elements
	// Element is the element, or the key for a macro over a map, as JSON.
	Element json.RawMessage `json:"element,omitempty"`
	Path    string          `json:"path,omitempty"` // of the element
	// Results are the results of the first elements: of the predicate, or what map() collects.
	Results []Value `json:"-"`
}

// ShowOptions bound an explanation. The zero value is for the owner of all data.
type ShowOptions struct {
	// Hidden names variables that must not be shown. Parts that depend on them are PartHidden, and so
	// is whatever would reveal them. The result of the whole expression is always shown.
	Hidden []string
	// Places has the paths of variables, such as spec.rules[0] for self. A variable without one has its
	// name.
	Places map[string]string
	// MaxParts is the greatest number of parts; 0 stands for 200.
	MaxParts int
}

const (
	defaultParts = 200
	maxShownText = 160 // bytes of the text of a part
	maxShown     = 200 // bytes of a value
)

// Root returns the whole expression as a Part, with its parts.
func (x *Explanation) Root(o ShowOptions) Part {
	if o.MaxParts == 0 {
		o.MaxParts = defaultParts
	}
	s := &shower{x: x, e: x.explainer, places: o.Places, left: o.MaxParts, hidden: make([]bool, len(x.explainer.probe.Parts))}
	switch {
	case len(o.Hidden) == 0:
	case len(s.hidden) == maxParts: // parts that are not recorded may depend on them
		for i := range s.hidden {
			s.hidden[i] = true
		}
	default:
		s.hide(0, o.Hidden)
	}
	root := s.part(0, nil, true)
	root.Outcome, root.Error, root.Value, root.Shown = PartValue, "", x.Value, nil
	if x.Err != nil {
		root.Outcome, root.Error, root.Value = PartError, shortened(x.Err.Error(), maxShown), Value{}
	} else {
		root.Shown = show(x.Value)
	}
	return root
}

// shower builds the tree of one explanation. It visits the parts in the order of the text, so that an
// explanation that is too long has the beginning of the expression.
type shower struct {
	x      *Explanation
	e      *Explainer
	places map[string]string // of variables, see ShowOptions
	left   int               // the number of parts that may still be added
	hidden []bool            // by number of the part
}

// scope is a variable that a macro declares.
type scope struct {
	name string
	path string // of its value
	up   *scope
}

// hide marks the parts that depend on hidden variables, and those that would reveal them. It reports
// whether part n does.
func (s *shower) hide(n int32, names []string) bool {
	part := &s.e.probe.Parts[n]
	hidden := false
	walk := func(e ast.Expr) { // the names of the part itself, such as a.b for a variable with a dot
		if e.Kind() == ast.IdentKind && slices.Contains(names, strings.TrimPrefix(e.AsIdent(), ".")) {
			hidden = true
		}
		if ref, ok := s.e.tree.ReferenceMap()[e.ID()]; ok && slices.Contains(names, strings.TrimPrefix(ref.Name, ".")) {
			hidden = true
		}
	}
	walk(part.Expr)
	inner := names
	// The variables of a macro over hidden data, and names that are bound to it, are hidden as well.
	for i, child := range part.Parts {
		if below := s.hide(child, inner); below {
			hidden = true
			if part.Macro != nil && i == 0 || isBind(part) {
				inner = append(slices.Clone(inner), s.declared(part)...)
			}
		}
	}
	if s.hidden[n] = hidden; hidden {
		// Which parts were evaluated, and for which element, depends on the hidden part.
		for _, child := range part.Parts {
			if s.chooses(part) {
				for i := child; i < s.e.probe.Parts[child].End; i++ {
					s.hidden[i] = true
				}
			}
		}
	}
	return hidden
}

// chooses reports whether the parts of a part are evaluated depending on each other.
func (s *shower) chooses(part *eval.Part) bool {
	if part.Macro != nil {
		return true
	}
	if part.Expr.Kind() != ast.CallKind {
		return false
	}
	switch part.Expr.AsCall().FunctionName() {
	case operators.LogicalAnd, operators.LogicalOr, operators.Conditional, "or", "orValue":
		return true
	}
	return false
}

// isBind reports whether a part is cel.bind().
func isBind(part *eval.Part) bool {
	return part.Macro != nil && part.Expr.Kind() == ast.ComprehensionKind && part.Loop < 0
}

// declared returns the names of the variables that a macro declares.
func (s *shower) declared(part *eval.Part) []string {
	if part.Expr.Kind() != ast.ComprehensionKind {
		return nil
	}
	c := part.Expr.AsComprehension()
	return []string{c.IterVar(), c.IterVar2(), c.AccuVar()}
}

// part returns part n.
// names are the variables of the macros around it. live says that an error of the part is an error of
// the whole.
func (s *shower) part(n int32, names *scope, live bool) Part {
	s.left--
	part := &s.e.probe.Parts[n]
	at := s.e.spans[n]
	out := Part{Text: shortened(s.e.source[at.start:at.end], maxShownText), Start: at.start, End: at.end}
	out.Line, out.Column = s.e.places.position(at.start)
	v := s.x.valueOf(n)
	switch {
	case s.hidden[n]:
		out.Outcome = PartHidden
	case v.K == KindNone:
		out.Outcome = PartUnevaluated
	case v.K == KindError && live:
		out.Outcome, out.Error = PartError, shortened(v.Err().Error(), maxShown)
	case v.K == KindError:
		out.Outcome, out.Error = PartAbsorbed, shortened(v.Err().Error(), maxShown)
	default:
		out.Outcome, out.Value, out.Shown = PartValue, v, show(v)
	}
	if !s.hidden[n] && part.Constant.K == KindNone {
		out.Path = s.place(s.path(n, names))
	}
	inner := names
	if part.Loop >= 0 {
		inner = s.loop(&out, n, names)
	}
	// Errors below a part that is not an error did not matter.
	live = live && (v.K == KindError || v.K == KindNone || n == 0 && s.x.Err != nil)
	for i, child := range part.Parts {
		if s.left <= 0 {
			out.Omitted = int(part.End - child)
			break
		}
		in := names
		if i > 0 {
			in = inner
		}
		if i == 1 && isBind(part) {
			in = &scope{name: part.Expr.AsComprehension().AccuVar(), path: s.path(part.Parts[0], names), up: names}
		}
		if c := &s.e.probe.Parts[child]; !c.Compiled || c.Expr.Kind() == ast.LiteralKind {
			continue
		}
		out.Parts = append(out.Parts, s.part(child, in, live))
	}
	return out
}

// loop fills in what a macro did, and returns the variables of its element.
func (s *shower) loop(out *Part, n int32, names *scope) *scope {
	part := &s.e.probe.Parts[n]
	c := part.Expr.AsComprehension()
	rec := &s.x.rec.Loops[part.Loop]
	over := s.x.valueOf(part.Parts[0])
	path := s.path(part.Parts[0], names)
	inner := &scope{name: c.IterVar(), up: names}
	if c.HasIterVar2() {
		inner = &scope{name: c.IterVar2(), up: inner}
	}
	if s.hidden[n] || out.Outcome == PartUnevaluated || over.K != KindList && over.K != KindMap {
		return inner
	}
	r := &LoopReason{Elements: rec.Count, Index: rec.Index, Results: slices.Clone(rec.Results)}
	out.Loop = r
	if rec.Index < 0 {
		return inner
	}
	// The variable of a macro over a map is the key. With two variables, the second is the value.
	element := rec.Var
	switch {
	case over.K == KindMap && path != "":
		path += stepOf(rec.Var)
	case path != "":
		path += "[" + strconv.Itoa(rec.Index) + "]"
	}
	if c.HasIterVar2() {
		inner.path = path
		element = rec.Var2
		if over.K == KindMap {
			element = rec.Var
		}
	} else if over.K == KindList {
		inner.path = path
	}
	r.Element, r.Path = show(element), s.place(path)
	switch shape, _ := check.Recognise(c); shape {
	case check.ShapeAll:
		r.Decided = out.Value.K == KindBool && !out.Value.Bool()
	case check.ShapeExists:
		r.Decided = out.Value.K == KindBool && out.Value.Bool()
	}
	return inner
}

// path returns the place in the data that a part reads, "" if it reads none.
func (s *shower) path(n int32, names *scope) string {
	part := &s.e.probe.Parts[n]
	e := part.Expr
	if ref, ok := s.e.tree.ReferenceMap()[e.ID()]; ok && ref.Value == nil && (e.Kind() == ast.IdentKind || e.Kind() == ast.SelectKind) {
		return names.pathOf(ref.Name)
	}
	switch e.Kind() {
	case ast.IdentKind:
		return names.pathOf(e.AsIdent())
	case ast.SelectKind:
		if len(part.Parts) == 1 {
			if base := s.path(part.Parts[0], names); base != "" {
				name := e.AsSelect().FieldName()
				if plain, ok := Unescape(name); ok {
					name = plain
				}
				return base + stepOf(StringValue(name))
			}
		}
	case ast.CallKind:
		switch e.AsCall().FunctionName() {
		case operators.Index, operators.OptIndex, operators.OptSelect:
			if len(part.Parts) != 2 {
				return ""
			}
			base, key := s.path(part.Parts[0], names), s.x.valueOf(part.Parts[1])
			if base != "" && (key.K == KindString || key.K == KindInt || key.K == KindUint || key.K == KindBool) {
				return base + stepOf(key)
			}
		}
	}
	return ""
}

// place returns a path that starts with the place of its variable.
func (s *shower) place(path string) string {
	end := strings.IndexAny(path, ".[")
	if end < 0 {
		end = len(path)
	}
	if at, ok := s.places[path[:end]]; ok {
		return strings.TrimPrefix(at+path[end:], ".")
	}
	return path
}

// pathOf returns the path of a variable, "" if its value has none.
func (names *scope) pathOf(name string) string {
	for v := names; v != nil && !strings.HasPrefix(name, "."); v = v.up {
		if v.name == name {
			return v.path
		}
	}
	return strings.TrimPrefix(name, ".")
}

// stepOf returns a step of a path.
func stepOf(key Value) string {
	if key.K != KindString {
		return "[" + key.String() + "]"
	}
	name := key.Str()
	for i := range len(name) {
		c := name[i]
		if c != '_' && c != '-' && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') {
			return "[" + strconv.Quote(shortened(name, maxShown)) + "]"
		}
	}
	return "." + name
}

// Lines returns the part and its parts as text, one on each line, with the position, the value and the
// place in the data. Variables and constants are left out.
func (p *Part) Lines() []string { return p.lines(nil, 0) }

// lines appends the lines of the part to to.
func (p *Part) lines(to []string, depth int) []string {
	line := fmt.Sprintf("%-6s %s%s", fmt.Sprintf("%d:%d", p.Line, p.Column), strings.Repeat("  ", depth), strings.Join(strings.Fields(p.Text), " "))
	switch p.Outcome {
	case PartValue:
		line += " = " + string(p.Shown)
	case PartError:
		line += " fails: " + p.Error
	case PartAbsorbed:
		line += " fails, which does not matter: " + p.Error
	case PartUnevaluated:
		return append(to, line+" is not evaluated")
	case PartHidden:
		return append(to, line+" is not shown")
	}
	if l := p.Loop; l != nil {
		line += l.text()
	} else if p.Path != "" {
		line += "    (" + p.Path + ")"
	}
	to = append(to, line)
	for i := range p.Parts {
		child := &p.Parts[i]
		// A variable alone says nothing, and the beginning of a path is in the path; but if a path fails,
		// its beginning says how far it leads.
		isVariable := child.Path != "" && len(child.Parts) == 0
		isPrefix := child.Path != "" && p.Path != "" && strings.HasPrefix(p.Path, child.Path) && p.Outcome != PartError
		if !isVariable && !isPrefix {
			to = child.lines(to, depth+1)
		}
	}
	if p.Omitted > 0 {
		to = append(to, fmt.Sprintf("%6s %s%d more parts", "", strings.Repeat("  ", depth+1), p.Omitted))
	}
	return to
}

// text returns what the loop did.
func (l *LoopReason) text() string {
	if l.Index < 0 {
		return "    (there are no elements)"
	}
	at := l.Path
	if at == "" {
		at = fmt.Sprintf("element %d", l.Index)
	}
	if l.Decided {
		return fmt.Sprintf("    (decided by %s = %s)", at, l.Element)
	}
	return fmt.Sprintf("    (elements: %d; below is %s = %s)", l.Elements, at, l.Element)
}

// show returns a value as short JSON. If that would be long, it is a string that describes the value.
func show(v Value) json.RawMessage {
	if v.K == KindString && len(v.Str()) > maxShown {
		text, _ := json.Marshal(shortened(v.Str(), maxShown))
		return text
	}
	text, err := v.JSONWithin(maxShown)
	switch {
	case errors.Is(err, ErrTooLarge) && (v.K == KindList || v.K == KindMap):
		text, _ = json.Marshal(fmt.Sprintf("(a %s of %d)", v.TypeName(), v.Size()))
	case err != nil:
		text, _ = json.Marshal("(a value of type " + v.TypeName() + ")")
	}
	return text
}

// shortened returns a text without its middle if it is long.
func shortened(s string, most int) string {
	if len(s) <= most {
		return s
	}
	head, tail := s[:most/2], s[len(s)-most/2:]
	return strings.ToValidUTF8(head, "") + " … " + strings.ToValidUTF8(tail, "")
}
