package witness

import (
	"encoding/base64"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/cel-go/common/ast"
)

// This file solves tests of texts, and works backwards through functions of texts.

// durationTexts returns texts of a duration, the shortest first.
func durationTexts(d time.Duration) []string {
	long := d.String()
	short := long
	if strings.HasSuffix(short, "m0s") {
		short = strings.TrimSuffix(short, "0s")
	}
	if strings.HasSuffix(short, "h0m") {
		short = strings.TrimSuffix(short, "0m")
	}
	out := []string{short}
	if d%time.Second == 0 {
		out = append(out, strconv.FormatInt(int64(d/time.Second), 10)+"s")
	}
	if d%time.Millisecond == 0 {
		out = append(out, strconv.FormatInt(int64(d/time.Millisecond), 10)+"ms")
	}
	if d > 0 { // without fractions
		var parts strings.Builder
		for _, u := range []struct {
			unit time.Duration
			name string
		}{{time.Hour, "h"}, {time.Minute, "m"}, {time.Second, "s"}, {time.Millisecond, "ms"}} {
			if n := d / u.unit; n > 0 {
				parts.WriteString(strconv.FormatInt(int64(n), 10) + u.name)
				d -= n * u.unit
			}
		}
		out = append(out, parts.String())
	}
	if long != short {
		out = append(out, long)
	}
	return out
}

// invert enumerates states in which a function of a text, a list or a timestamp yields v.
func (r *run) invert(st *state, c ast.CallExpr, v any, en *env, yield sink) bool {
	if !c.IsMemberFunction() {
		return true
	}
	var arg any
	if len(c.Args()) > 0 {
		value, err := r.eval(st, c.Args()[0], en)
		if err != nil {
			return true
		}
		arg = value.Go()
	}
	text, _ := v.(string)
	n, isInt := v.(int64)
	argText, _ := arg.(string)
	argInt, argIsInt := arg.(int64)
	switch name := c.FunctionName(); {
	case name == "charAt" && argIsInt && argInt >= 0 && argInt < 1<<12:
		return r.become(st, c.Target(), strings.Repeat("a", int(argInt))+text, en, yield)
	case strings.HasSuffix(strings.ToLower(name), "indexof") && isInt && n >= 0 && n < 1<<12 && argText != "":
		return r.become(st, c.Target(), strings.Repeat("-", int(n))+argText, en, yield)
	case name == "reverse" && text != "":
		runes := []rune(text)
		slices.Reverse(runes)
		return r.become(st, c.Target(), string(runes), en, yield)
	case name == "join" && argText != "":
		parts := []any{}
		for _, p := range strings.Split(text, argText) {
			parts = append(parts, p)
		}
		return r.become(st, c.Target(), parts, en, yield)
	case name == "decode" && isIdent(c.Target(), "base64"):
		if b, ok := v.([]byte); ok {
			return r.become(st, c.Args()[0], base64.StdEncoding.EncodeToString(b), en, yield)
		}
	case name == "getFullYear" && isInt && n > 0 && n < 9999:
		return r.become(st, c.Target(), time.Date(int(n), 1, 1, 0, 0, 0, 0, time.UTC), en, yield)
	}
	return true
}

// unsubstring enumerates states in which a part of a text is v.
func (r *run) unsubstring(st *state, c ast.CallExpr, v string, en *env, yield sink) bool {
	from, err := r.eval(st, c.Args()[0], en)
	n, ok := from.Go().(int64)
	if err != nil || !ok || n < 0 || n > 1<<12 {
		return true
	}
	prefix := strings.Repeat("a", int(n))
	if now, err := r.eval(st, c.Target(), en); err == nil {
		if text, ok := now.Go().(string); ok && int64(len(text)) >= n {
			prefix = text[:n]
		}
	}
	return r.become(st, c.Target(), prefix+v, en, yield)
}

// unsplit enumerates states in which a part of a split text is v.
func (r *run) unsplit(st *state, split ast.CallExpr, index ast.Expr, v string, en *env, yield sink) bool {
	i, err1 := r.eval(st, index, en)
	sep, err2 := r.eval(st, split.Args()[0], en)
	n, okN := i.Go().(int64)
	text, okText := sep.Go().(string)
	if err1 != nil || err2 != nil || !okN || !okText || n < 0 || n > 64 {
		return true
	}
	full := strings.Repeat("a"+text, int(n)) + v
	return r.become(st, split.Target(), full, en, yield) && r.become(st, split.Target(), full+text+"a", en, yield)
}

// unsplitAll enumerates states in which a split text has these parts.
func (r *run) unsplitAll(st *state, split ast.CallExpr, parts []any, en *env, yield sink) bool {
	sep, err := r.eval(st, split.Args()[0], en)
	text, ok := sep.Go().(string)
	if err != nil || !ok {
		return true
	}
	var all []string
	for _, p := range parts {
		all = append(all, textOf(p))
	}
	return r.become(st, split.Target(), strings.Join(all, text), en, yield)
}

// urlsWith returns URLs with a part.
func urlsWith(function, part string) []string {
	switch function {
	case "getScheme":
		return []string{part + "://a", part + ":///a", "/" + part}
	case "getHost", "getHostname":
		return []string{"http://" + part, "https://" + part + "/a"}
	case "getPort":
		return []string{"http://a:" + part}
	}
	return []string{"http://a" + part, part}
}

// textTest enumerates states in which startsWith, endsWith, contains or matches has the result want.
func (r *run) textTest(st *state, e ast.Expr, want bool, en *env, yield sink) bool {
	c := e.AsCall()
	arg, err := r.eval(st, c.Args()[0], en)
	part, ok := arg.Go().(string)
	if err != nil || !ok {
		return r.materialize(st, c.Args()[0], en, yield) && r.generic(st, e, en, yield)
	}
	now, err := r.eval(st, c.Target(), en)
	current, ok := now.Go().(string)
	if err != nil {
		return r.materialize(st, c.Target(), en, func(next *state) bool {
			if r.holds(next, e, want, en) {
				return yield(next)
			}
			return r.textTest(next, e, want, en, yield)
		})
	}
	if !ok {
		return r.generic(st, e, en, yield)
	}
	condition, near := textRule{part, want}, []string{}
	switch c.FunctionName() {
	case "startsWith":
		condition.pattern, near = "^"+regexp.QuoteMeta(part), []string{part + current, part}
	case "endsWith":
		condition.pattern, near = regexp.QuoteMeta(part)+`\z`, []string{current + part, part}
	case "contains":
		condition.pattern, near = regexp.QuoteMeta(part), []string{current + part, part + current, part, current + part + "a"}
	}
	if !want {
		near = mutations(current, part)
	}
	var n *nodeSchema
	if at, optional, ok := r.resolve(st, c.Target(), en); ok && !optional {
		n = r.s.schemaAt(at.path)
		if !want && n != nil {
			near = append(near, "")
		}
	}
	values := []any{}
	for _, text := range append(near, r.s.texts(n, []textRule{condition}, 3*r.width)...) {
		if r.s.satisfies(text, []textRule{condition}) && !contains(values, any(text)) {
			values = append(values, text)
		}
	}
	if len(values) == 0 {
		return true
	}
	if at, optional, ok := r.resolve(st, c.Target(), en); ok && !optional {
		tried := 0
		for _, v := range values {
			if next, ok := r.put(st, at, v); ok && r.s.fits(n, v) {
				if tried++; !yield(next) {
					return false
				}
				if tried > 3*r.width {
					break
				}
			}
		}
		return true
	}
	return r.towards(st, c.Target(), values, en, yield)
}

// mutations returns texts close to a text that may not pass a test that it passes.
func mutations(text, part string) []string {
	out := []string{strings.ReplaceAll(text, part, ""), text + "!", text + "a", text + " ", "!" + text, "a" + text, text + ".", text + "/", text + "-", strings.ToUpper(text)}
	for i := range min(len(text), 16) {
		out = append(out, text[:i]+text[i+1:], text[:i]+"!"+text[i:], text[:i]+"/"+text[i:])
	}
	return append(out, "a", "!", " ", "/", "*")
}
