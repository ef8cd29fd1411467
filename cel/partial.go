package cel

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/google/cel-go/common/ast"
)

// This file evaluates expressions of which some inputs are not known yet.
//
// A part of a variable is marked unknown by a pattern. A path that overlaps one
// (the path goes on where the pattern ends, or the pattern where the path
// ends) is unknown; what depends on it is unknown unless && || or ?: has an
// answer all the same.

// Pattern says which part of a variable is unknown.
type Pattern struct {
	text string
	name string
	keys []patternKey
}

// patternKey is a member or index, or any.
type patternKey struct {
	any bool
	key Value
}

// String is the text that the pattern was made from.
func (p Pattern) String() string { return p.text }

// Pattern reads a pattern: a variable followed by members and indexes, such as
// request.user, request.labels["a b"], items[0].name, items[*] or spec.*.name.
func (l *Language) Pattern(text string) (Pattern, error) {
	p := Pattern{text: text}
	for _, name := range sortedNames(l.known) { // the longest name that the text begins with
		rest, ok := strings.CutPrefix(text, name)
		if ok && len(name) > len(p.name) && (rest == "" || rest[0] == '.' || rest[0] == '[') {
			p.name = name
		}
	}
	if p.name == "" {
		return p, fmt.Errorf("unknown path %q: it begins with no variable of the language", text)
	}
	var err error
	p.keys, err = patternKeys(text[len(p.name):])
	if err != nil {
		return p, fmt.Errorf("unknown path %q: %w", text, err)
	}
	return p, nil
}

// patternKeys reads what follows the variable.
func patternKeys(rest string) ([]patternKey, error) {
	var keys []patternKey
	for rest != "" {
		var text string
		if rest[0] == '.' {
			end := strings.IndexAny(rest[1:], ".[")
			if end < 0 {
				end = len(rest) - 1
			}
			text, rest = rest[1:end+1], rest[end+1:]
			if text == "" {
				return nil, fmt.Errorf("a name is missing before %q", rest)
			}
			keys = append(keys, patternKey{any: text == "*", key: constString(text)})
			continue
		}
		inside := rest[1:]
		if quoted, err := strconv.QuotedPrefix(inside); err == nil {
			text = quoted
		} else if end := strings.IndexByte(inside, ']'); end >= 0 {
			text = inside[:end]
		}
		if rest[0] != '[' || !strings.HasPrefix(inside[len(text):], "]") {
			return nil, fmt.Errorf("got %q, want .name or [index]", rest)
		}
		rest = inside[len(text)+1:]
		key, err := indexKey(text)
		if err != nil {
			return nil, err
		}
		keys = append(keys, key)
	}
	return keys, nil
}

// indexKey reads what stands between brackets.
func indexKey(text string) (patternKey, error) {
	if text == "*" {
		return patternKey{any: true}, nil
	}
	if i, err := strconv.ParseInt(text, 10, 64); err == nil {
		return patternKey{key: intValue(i)}, nil
	}
	if b, err := strconv.ParseBool(text); err == nil && len(text) > 3 {
		return patternKey{key: boolValue(b)}, nil
	}
	s, err := strconv.Unquote(text)
	if err != nil {
		return patternKey{}, fmt.Errorf("index %q: want a number, a boolean, a quoted string or *", text)
	}
	return patternKey{key: constString(s)}, nil
}

// attribute is a path from an input that may be unknown in part.
type attribute struct {
	path
	name string
}

func (a *attribute) code() *code {
	return &code{attr: a, resolve: a.read, eval: func(fr *frame) Value {
		fr.cost += a.root
		return a.read(fr)
	}}
}

// extend is the attribute with one more step.
func (a *attribute) extend(s step, test bool) *code {
	next := *a
	next.steps = append(slices.Clone(a.steps), s)
	if test {
		next.test = true
		next.root--
	}
	return next.code()
}

// read is the value of the attribute, or unknown.
func (a *attribute) read(fr *frame) Value {
	cost := fr.cost
	if unknown := a.overlap(fr); unknown.kind == KindUnknown {
		return unknown
	}
	fr.cost = cost
	return a.resolve(fr)
}

// overlap is the unknown that the attribute is, or no value.
func (a *attribute) overlap(fr *frame) Value {
	var live []Pattern
	for _, p := range fr.unknown {
		if p.name == a.name {
			live = append(live, p)
		}
	}
	trail := a.name
	for i := 0; len(live) > 0; i++ {
		for _, p := range live {
			if len(p.keys) == i {
				return unknownValue(trail)
			}
		}
		if i == len(a.steps) {
			return unknownValue(trail)
		}
		key := a.steps[i].value(fr)
		switch key.kind {
		case KindError:
			return unknownValue(trail)
		case KindUnknown:
			return mergeUnknowns(unknownValue(trail), key)
		}
		live = slices.DeleteFunc(live, func(p Pattern) bool {
			return !p.keys[i].any && !isTrue(equal(p.keys[i].key, key))
		})
		trail += stepText(key)
	}
	return Value{}
}

// stepText is a key as it is written after a path.
func stepText(key Value) string {
	switch {
	case key.kind == KindString && isName(key.text()):
		return "." + key.text()
	case key.kind == KindString:
		return "[" + strconv.Quote(key.text()) + "]"
	}
	return "[" + key.String() + "]"
}

func isName(s string) bool {
	for i := range len(s) {
		c := s[i]
		if c != '_' && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return s != ""
}

// trace remembers the code of every node that depends on inputs only, not on
// variables of a comprehension around it.
type trace struct {
	nodes map[int64]evalFn
	low   int // depth of the outermost variable read in the node being compiled
}

func (v *variable) depth() int {
	n := 0
	for ; v != nil; v = v.next {
		n++
	}
	return n
}

func (t *trace) node(c *compiler, e ast.Expr) *code {
	outer := t.low
	t.low = math.MaxInt
	out := c.anyNode(e)
	if t.low > c.scope.depth() {
		t.nodes[e.ID()] = out.eval
	}
	t.low = min(t.low, outer)
	return out
}

func (t *trace) used(v *variable) { t.low = min(t.low, v.depth()) }

// parts is an expression compiled so that its parts can be evaluated.
type parts struct {
	root   evalFn
	slots  int
	inputs []input
	nodes  map[int64]evalFn
}

func (x *Expression) compileParts() (*parts, error) {
	t := &trace{nodes: map[int64]evalFn{}, low: math.MaxInt}
	lc := &langCompiler{lang: x.lang, strict: x.lang.strict, unchecked: x.unchecked, slots: map[string]int{}, trace: t}
	root, slots, err := lc.compile(x.tree)
	if err != nil {
		return nil, err
	}
	return &parts{root.eval, slots, lc.inputs, t.nodes}, nil
}

// Outcome is what a partial evaluation found.
type Outcome struct {
	// Known: Value is the answer whatever the unknown parts turn out to be.
	Known bool
	Value Value
	// Unknown, if there is no answer yet, names what it depends on, sorted.
	Unknown []string
	// Residual is the expression that remains: what is known is in it as
	// literals, where there are literals that mean the same, and what cannot
	// matter is not. Evaluating it when everything is known gives what the
	// whole expression gives. Under Kubernetes' checks of literals it may need
	// [Language.CompileUnchecked].
	Residual string
}

// Partial evaluates the expression with some parts of its inputs unknown.
// Inputs that are unknown as a whole need not be among vars. The cost is that
// of the evaluation and of all that was evaluated again to find the residual
// expression; limit bounds it, 0 means no bound. The error is one that the
// expression evaluates to whatever the unknown parts are, or what ended the
// evaluation.
func (x *Expression) Partial(ctx context.Context, vars Vars, unknown []Pattern, limit uint64) (Outcome, uint64, error) {
	x.partsOnce.Do(func() { x.parts, x.partsErr = x.compileParts() })
	if x.partsErr != nil {
		return Outcome{}, 0, x.partsErr
	}
	if limit == 0 {
		limit = math.MaxUint64
	}
	r := &residue{ctx: ctx, x: x, vars: vars, unknown: unknown, limit: limit, paths: map[string]bool{}}
	v, err := r.eval(x.parts.root)
	switch {
	case err != nil:
		return Outcome{}, r.cost, err
	case v.kind != KindUnknown:
		return Outcome{Known: true, Value: v}, r.cost, nil
	}
	r.note(v)
	text, err := r.text()
	if err != nil {
		return Outcome{}, r.cost, err
	}
	return Outcome{Value: v, Unknown: sortedNames(r.paths), Residual: text}, r.cost, nil
}
