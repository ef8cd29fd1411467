package builtin

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// This file makes an object that says everything into one that upstream takes.

// settle takes out of a body what upstream finds wrong with it, one thing after the other.
func (r *run) settle(of string, q *request, body m) bool {
	r.t.Helper()
	for range 60 {
		q.body = body
		a := r.peers[0].ask(q)
		if a.code < 300 {
			return true
		}
		var said metav1.Status
		if err := json.Unmarshal(a.body, &said); err != nil || said.Details == nil || len(said.Details.Causes) == 0 {
			r.t.Errorf("%s: %d %.600s", of, a.code, a.body)
			return false
		}
		if !slices.ContainsFunc(said.Details.Causes, func(c metav1.StatusCause) bool { return takeOut(body, c.Field) }) {
			r.t.Errorf("%s: nothing to take out: %.600s", of, a.body)
			return false
		}
	}
	r.t.Errorf("%s: there is always more to take out", of)
	return false
}

// takeOut takes what a path names out of an object, or what is above it, if it is not there.
func takeOut(o m, path string) bool {
	steps := stepsOf(path)
	if len(steps) < 2 && (len(steps) == 0 || steps[0] == "spec" || steps[0] == "metadata") {
		return false
	}
	remove, depth := func() {}, 0
	var put func(any)
	var at any = o
	for i, name := range steps {
		switch in := at.(type) {
		case m:
			v, ok := in[name]
			for other := range in { // some errors spell names in their own way
				if !ok && (strings.EqualFold(other, name) || strings.EqualFold(other, "deprecated"+name) || other+"s" == name && in[other] != nil) {
					name, v, ok = other, in[other], true
				}
			}
			if !ok {
				if depth > 1 {
					remove()
				}
				return depth > 1
			}
			remove, put, at = func() { delete(in, name) }, func(v any) { in[name] = v }, v
		case []any:
			n, err := strconv.Atoi(name)
			if err != nil || n >= len(in) {
				remove()
				return true
			}
			set := put
			remove, put, at = func() { set(append(in[:n:n], in[n+1:]...)) }, func(v any) { in[n] = v }, in[n]
		default:
			remove()
			return true
		}
		depth = i + 1
	}
	remove()
	return true
}

// stepsOf takes a path of an error apart.
func stepsOf(path string) []string {
	var out []string
	for path != "" {
		end := strings.IndexAny(path, ".[")
		switch {
		case path[0] == '[':
			end = strings.IndexByte(path, ']')
			out = append(out, path[1:end])
			path = strings.TrimPrefix(path[end+1:], ".")
			continue
		case end < 0:
			return append(out, path)
		}
		out = append(out, path[:end])
		path = strings.TrimPrefix(path[end:], ".")
	}
	return out
}
