package cel

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/keelson-io/keelson/cel/internal/eval"
	"github.com/keelson-io/keelson/cel/internal/val"
)

// This file evaluates expressions while some inputs are unknown (partial evaluation).
//
// A pattern marks a part of a variable as unknown. A path is unknown if it is a prefix of a pattern
// or extends one. A result that depends on an unknown path is unknown, unless &&, || or ?: has a
// result that does not depend on it.

// Pattern parses a pattern: a variable followed by members and indexes, such as request.user,
// request.labels["a b"], items[0].name, items[*] or spec.*.name.
func (l *Language) Pattern(text string) (Pattern, error) {
	p := Pattern{Text: text}
	for _, name := range slices.Sorted(maps.Keys(l.words.Known)) { // the longest name that starts the text
		rest, ok := strings.CutPrefix(text, name)
		if ok && len(name) > len(p.Name) && (rest == "" || rest[0] == '.' || rest[0] == '[') {
			p.Name = name
		}
	}
	if p.Name == "" {
		return p, fmt.Errorf("unknown path %q: it begins with no variable of the language", text)
	}
	var err error
	p.Keys, err = patternKeys(text[len(p.Name):])
	if err != nil {
		return p, fmt.Errorf("unknown path %q: %w", text, err)
	}
	return p, nil
}

// patternKeys parses the steps after the variable.
func patternKeys(rest string) ([]val.PatternKey, error) {
	var keys []val.PatternKey
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
			keys = append(keys, val.PatternKey{Any: text == "*", Key: val.ConstString(text)})
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

// indexKey parses the text between brackets.
func indexKey(text string) (val.PatternKey, error) {
	if text == "*" {
		return val.PatternKey{Any: true}, nil
	}
	if i, err := strconv.ParseInt(text, 10, 64); err == nil {
		return val.PatternKey{Key: val.IntValue(i)}, nil
	}
	if b, err := strconv.ParseBool(text); err == nil && len(text) > 3 {
		return val.PatternKey{Key: val.BoolValue(b)}, nil
	}
	s, err := strconv.Unquote(text)
	if err != nil {
		return val.PatternKey{}, fmt.Errorf("index %q: want a number, a boolean, a quoted string or *", text)
	}
	return val.PatternKey{Key: val.ConstString(s)}, nil
}

// parts is an expression that is compiled so that each part can be evaluated.
type parts struct {
	root   val.EvalFn
	slots  int
	inputs []eval.Input
	nodes  map[int64]val.EvalFn
}

// compileParts compiles the expression with a closure for each node.
func (x *Expression) compileParts() (*parts, error) {
	t := &eval.Trace{Nodes: map[int64]val.EvalFn{}, Low: math.MaxInt}
	lc := &eval.LangCompiler{Lang: &x.lang.words, Unchecked: x.unchecked, Slots: map[string]int{}, Trace: t}
	root, slots, err := lc.Compile(x.tree)
	if err != nil {
		return nil, err
	}
	return &parts{root.Eval, slots, lc.Inputs, t.Nodes}, nil
}

// Outcome is the result of a partial evaluation.
type Outcome struct {
	// Known: Value is the result, whatever the unknown parts are.
	Known bool
	Value Value
	// Unknown has the sorted paths on which the result depends, if it is not Known.
	Unknown []string
	// Residual is the remaining expression. Known parts are literals in it, if there are literals
	// with the same meaning, and parts that cannot influence the result are omitted. When
	// everything is known, it evaluates to the result of the whole expression. Under Kubernetes'
	// checks of literals it may need [Language.CompileUnchecked].
	Residual string
}

// Partial evaluates the expression while some parts of its inputs are unknown. Inputs that are
// completely unknown may be missing in vars. The cost includes repeated evaluations for the
// residual expression; limit bounds it, 0 means no limit. The error is a result that does not
// depend on the unknown parts, or the reason why the evaluation ended.
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
	case v.K != KindUnknown:
		return Outcome{Known: true, Value: v}, r.cost, nil
	}
	r.addPaths(v)
	text, err := r.text()
	if err != nil {
		return Outcome{}, r.cost, err
	}
	return Outcome{Value: v, Unknown: slices.Sorted(maps.Keys(r.paths)), Residual: text}, r.cost, nil
}
