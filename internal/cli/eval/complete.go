// This file completes words in a session of "eval".

package eval

import (
	"context"
	"regexp"
	"slices"
	"strings"

	"github.com/keelson-io/keelson/cel"
)

// complete completes the word that ends at pos as far as all choices agree, and returns the
// choices.
func (s *session) complete(ctx context.Context, line string, pos int) (string, int, []string) {
	before, after := line[:pos], line[pos:]
	word, choices := s.choices(ctx, before)
	choices = slices.DeleteFunc(choices, func(c string) bool { return !strings.HasPrefix(c, word) })
	if len(choices) == 0 {
		return line, pos, nil
	}
	slices.Sort(choices)
	choices = slices.Compact(choices)
	common := choices[0]
	for _, c := range choices {
		for !strings.HasPrefix(c, common) {
			common = common[:len(common)-1]
		}
	}
	before += common[len(word):]
	if len(common) > len(word) && len(choices) > 1 {
		choices = choices[:1] // the word became longer: show no list yet
	}
	return before + after, len(before), choices
}

// lastPath matches a path at the end of a text, up to its last dot, and the word after it.
var lastPath = regexp.MustCompile(`((?:[A-Za-z_][A-Za-z0-9_]*)(?:\.\??[A-Za-z_][A-Za-z0-9_]*|\[[^\[\]]*\])*)\.\??([A-Za-z0-9_]*)$`)

var lastWord = regexp.MustCompile(`[A-Za-z0-9_]*$`)

// commands lists the commands of a session.
var commands = []string{":cost ", ":help", ":known", ":quit", ":type ", ":unknown "}

// choices returns the words that may replace the last word of a text.
func (s *session) choices(ctx context.Context, before string) (word string, choices []string) {
	if strings.HasPrefix(before, ":") && !strings.Contains(before, " ") {
		return before, slices.Clone(commands)
	}
	if m := lastPath.FindStringSubmatch(before); m != nil {
		own := s.members(ctx, m[1])
		if slices.ContainsFunc(own, func(name string) bool { return strings.HasPrefix(name, m[2]) }) {
			return m[2], own // functions are offered if no member matches
		}
		return m[2], s.after(m[1])
	}
	word = lastWord.FindString(before)
	if strings.HasSuffix(strings.TrimSuffix(before, word), ".") {
		return word, s.after("")
	}
	choices = []string{"self", "oldSelf", "true", "false", "null", "has("}
	for _, name := range s.language.Functions() {
		if !slices.Contains(s.language.Members(), name) && isWord(name) {
			first, _, dotted := strings.Cut(name, ".")
			if dotted {
				choices = append(choices, first+".")
				continue
			}
			choices = append(choices, name+"(")
		}
	}
	return word, choices
}

// isWord reports whether a function is called by name, not by an operator.
func isWord(name string) bool {
	return name[0] >= 'a' && name[0] <= 'z' && name != "in"
}

// after returns the functions and macros that may follow a dot. namespace is the word before it.
func (s *session) after(namespace string) []string {
	var out []string
	for _, name := range s.language.Functions() {
		if rest, ok := strings.CutPrefix(name, namespace+"."); ok && namespace != "" {
			out = append(out, rest+"(")
		}
	}
	if len(out) > 0 {
		return out
	}
	for _, name := range append(s.language.Members(), s.language.Macros()...) {
		if isWord(name) && name != "has" {
			out = append(out, name+"(")
		}
	}
	return out
}

// completionCost is the cost limit for evaluating a path.
const completionCost = 10_000

// members returns the members of the value at a path: those that its schema declares, or those of
// the data.
func (s *session) members(ctx context.Context, path string) []string {
	var out []string
	if t := s.typeAt(path); t != nil {
		for _, f := range t.Fields {
			if name, ok := cel.Escape(f.Name); ok && f.Type != nil {
				out = append(out, name)
			}
		}
		return out
	}
	x, err := s.language.CompileExpression(strings.ReplaceAll(path, ".?", "."))
	if err != nil {
		return nil
	}
	v, _, err := x.Eval(ctx, s.vars, completionCost)
	if err != nil || v.Kind() != cel.KindMap {
		return nil
	}
	entries, _ := v.Go().(map[any]any)
	for key := range entries {
		if name, ok := key.(string); ok && lastWord.FindString(name) == name && name != "" {
			out = append(out, name)
		}
	}
	return out
}

// step matches one step of a path.
var step = regexp.MustCompile(`^(?:\.\??([A-Za-z_][A-Za-z0-9_]*)|\[[^\[\]]*\])`)

// typeAt returns the type that the schema has at a path, nil if there is none.
func (s *session) typeAt(path string) *cel.Type {
	rest, ok := strings.CutPrefix(path, "self")
	if !ok {
		rest, ok = strings.CutPrefix(path, "oldSelf")
	}
	var t *cel.Type
	if s.data != nil {
		t = s.data.kind
	}
	for ok && t != nil && rest != "" {
		m := step.FindStringSubmatch(rest)
		if m == nil {
			return nil
		}
		rest = rest[len(m[0]):]
		if m[1] == "" || t.Kind == cel.Map {
			t = t.Elem
			continue
		}
		name, _ := cel.Unescape(m[1])
		i := slices.IndexFunc(t.Fields, func(f cel.Field) bool { return f.Name == name })
		if i < 0 {
			return nil
		}
		t = t.Fields[i].Type
	}
	if !ok {
		return nil
	}
	return t
}
