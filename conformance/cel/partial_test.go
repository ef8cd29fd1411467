package cel_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"

	kcel "github.com/keelson-io/keelson/cel"
)

// This file holds partial evaluation to its law, on the same expressions and
// data: evaluating what remains gives what evaluating everything at once gives.

// partialLimit bounds an evaluation in parts.
const partialLimit = 100_000

// lawBreach marks random parts of the data unknown and says how the law is
// broken; "" if it is not. excuse says why the law could not be tried.
func lawBreach(r *rand.Rand, words *vocabulary, l *kcel.Language, x *kcel.Expression, vars kcel.Vars) (breach, excuse string) {
	var patterns []kcel.Pattern
	var texts []string
	for range 1 + r.IntN(3) {
		text := words.paths[r.IntN(len(words.paths))]
		p, err := l.Pattern(text)
		if err != nil {
			return fmt.Sprintf("pattern %s: %v", text, err), ""
		}
		patterns, texts = append(patterns, p), append(texts, text)
	}
	want := evaluated(x.Eval(context.Background(), vars, partialLimit))
	out, cost, err := x.Partial(context.Background(), vars, patterns, partialLimit)
	got := evaluated(out.Value, cost, err)
	if err == nil && !out.Known {
		y, err := l.CompileExpression(out.Residual)
		if err != nil { // literals in place of members may be too exact, or too vague, for the checker: see Outcome
			y, err = l.CompileUnchecked(out.Residual)
		}
		if err != nil {
			return "", "in parts: the residual does not compile: " + firstWords(err.Error())
		}
		got = evaluated(y.Eval(context.Background(), vars, partialLimit))
	}
	switch {
	case want.value == got.value && (want.err == "") == (got.err == "") && (want.err == costError) == (got.err == costError):
		return "", ""
	case want.err == costError || got.err == costError:
		return "", "in parts: the cost limit ends one of the evaluations"
	}
	return fmt.Sprintf("with %v unknown: the residual is %q, whose value is %s (%s), not %s (%s)",
		texts, out.Residual, got.value, got.err, want.value, want.err), ""
}

// firstWords are the words of an error of compilation without the place.
func firstWords(text string) string {
	_, text, _ = strings.Cut(text, "<input>:")
	text, _, _ = strings.Cut(text, "\n")
	if words := strings.Fields(text); len(words) > 4 {
		text = strings.Join(words[1:4], " ")
	}
	return text
}

// isPath reports whether a text is a pattern of unknown parts: members and items
// that are there for certain.
func isPath(text string) bool { return !strings.ContainsAny(text, "?'") }
