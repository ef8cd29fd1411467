package builtin

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"sort"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"

	"github.com/keelson-io/keelson/internal/testpeers"
)

// This file compares two answers.

// sameness remembers which values of both servers correspond: a uid, and each resource version of an object, has one counterpart. This
// shows an object that only one server wrote again.
type sameness struct {
	testpeers.Pairs
	given *testpeers.Pairs // likewise, addresses and ports that servers chose for services
}

// headers lists the compared headers.
var headers = []string{"Content-Type", "Warning", "Retry-After", "Cache-Control", "Vary", "Allow", "Location", "Www-Authenticate"}

// difference is a place where two answers differ.
type difference struct {
	place        string // such as "body.spec.ports[0].name"
	theirs, ours string // what is there, as JSON; "" if nothing is
}

func (d difference) String() string {
	return fmt.Sprintf("%s: upstream %s | keelson %s", d.place, orNothing(d.theirs), orNothing(d.ours))
}

func orNothing(text string) string {
	if text == "" {
		return "nothing"
	}
	if len(text) > 500 {
		return text[:500] + "…"
	}
	return text
}

// differences compares two answers to the same request.
func (s *sameness) differences(theirs, ours *answer) []difference {
	var out []difference
	note := func(place string, a, b any) {
		if x, y := print(a), print(b); x != y {
			out = append(out, difference{place, x, y})
		}
	}
	note("code", theirs.code, ours.code)
	for _, name := range headers {
		a, b := theirs.header.Values(name), ours.header.Values(name)
		slices.Sort(a)
		slices.Sort(b)
		if !slices.Equal(a, b) {
			note("header."+name, lessOf(a, b), lessOf(b, a))
		}
	}
	x, y := theirs.values(), ours.values()
	s.pair(x, y, "", "")
	s.compare(&out, "body", s.plain(0, x, "", ""), s.plain(1, y, "", ""))
	return out
}

// lessOf returns the items of the sorted list a that b lacks.
func lessOf(a, b []string) []string {
	b = slices.Clone(b)
	return slices.DeleteFunc(slices.Clone(a), func(text string) bool {
		i := slices.Index(b, text)
		if i >= 0 {
			b = slices.Delete(b, i, i+1)
		}
		return i >= 0
	})
}

// values decodes a body: to one value, to a list if there are several as in a watch, or to a text if it is not JSON.
func (a *answer) values() any {
	if bytes.HasPrefix(a.body, []byte("k8s\x00")) {
		if obj, _, err := protobufs.Decode(a.body, nil, nil); err == nil {
			return reread(obj)
		}
		return string(a.body)
	}
	if strings.HasPrefix(a.header.Get("Content-Type"), yamlText) {
		var v any
		if err := yaml.Unmarshal(a.body, &v); err != nil {
			return string(a.body)
		}
		return reread(v)
	}
	var all []any
	d := json.NewDecoder(bytes.NewReader(a.body))
	d.UseNumber()
	for d.More() {
		var v any
		if d.Decode(&v) != nil {
			return string(a.body)
		}
		all = append(all, v)
	}
	if len(all) == 1 {
		return all[0]
	}
	return all
}

// protobufs decodes protobuf answers.
var protobufs = protobuf.NewSerializer(scheme.Scheme, scheme.Scheme)

// reread converts a Go object to JSON values.
func reread(obj any) (v any) {
	d := json.NewDecoder(strings.NewReader(print(obj)))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		panic("BUG: " + err.Error())
	}
	return v
}

// pair makes the ids at the same places counterparts of each other. An id keeps its first counterpart.
func (s *sameness) pair(x, y any, key, parent string) {
	switch a := x.(type) {
	case map[string]any:
		if b, ok := y.(map[string]any); ok {
			for _, k := range slices.Sorted(maps.Keys(a)) {
				s.pair(a[k], b[k], k, key)
			}
		}
	case []any:
		if b, ok := y.([]any); ok && len(a) == len(b) {
			for i := range a {
				s.pair(a[i], b[i], "", key)
			}
		}
	case string:
		if b, ok := y.(string); ok && (key == "uid" || key == "resourceVersion" && parent == "metadata") {
			s.Bind(a, b)
		} else if ok && (key == "clusterIP" || parent == "clusterIPs") && chosen.MatchString(a) && chosen.MatchString(b) {
			s.given.Bind(a, b)
		}
	case json.Number:
		if b, ok := y.(json.Number); ok && isPort(key) && chosenPort(string(a)) && chosenPort(string(b)) {
			s.given.Bind(string(a), string(b))
		}
	}
}

var (
	moments  = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`)
	uids     = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	versions = regexp.MustCompile(`(resourceVersion\\*":\\*"|[Rr]esourceVersion in (?:the )?(?:precondition|record) \()\d+`)
	injected = regexp.MustCompile(`\b(kube-api-access-)[a-z0-9]{5}\b`) // the volume of a service account's token
	// Servers choose addresses behind the first 256 of their range.
	chosen     = regexp.MustCompile(`\b10\.0\.[1-9]\d*\.\d+\b`)
	fiveDigits = regexp.MustCompile(`\b\d{5}\b`)
	ages       = regexp.MustCompile(`^(\d+[smhd])+$`)
	listed     = regexp.MustCompile(`^(.* is invalid: )\[(.*)\]$`)
)

// plain is a value with names in place of what differs from server to server, and in an order that does not.
func (s *sameness) plain(side int, v any, key, parent string) any {
	switch x := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for k, value := range x {
			switch {
			case k == "remainingItemCount":
			case k == "metadata" && isList(x):
				out[k] = s.plain(side, withoutVersion(value), k, "list")
			case k == "items":
				out[k] = s.plain(side, withoutTypes(value), k, key)
			default:
				out[k] = s.plain(side, value, k, key)
			}
		}
		return out
	case []any:
		out := make([]any, len(x))
		for i := range x {
			out[i] = s.plain(side, x[i], "", key)
		}
		if key == "managedFields" || key == "causes" {
			sort.SliceStable(out, func(i, j int) bool { return print(out[i]) < print(out[j]) })
		}
		return out
	case string:
		return s.text(side, x, key, parent)
	case json.Number:
		if isPort(key) {
			return s.chosen(side, string(x))
		}
	}
	return v
}

// isPort reports whether a member is a port that servers choose.
func isPort(key string) bool { return key == "nodePort" || key == "healthCheckNodePort" }

// chosenPort reports whether a port is none of those that servers leave to who asks for them.
func chosenPort(text string) bool { return len(text) == 5 && text >= "30086" && text <= "32767" }

// chosen is a text with names in place of addresses and ports that servers chose.
func (s *sameness) chosen(side int, text string) string {
	name := func(said string) string {
		if name, ok := s.given.Name(side, said); ok {
			return name
		}
		return "«chosen»"
	}
	text = chosen.ReplaceAllStringFunc(text, name)
	return fiveDigits.ReplaceAllStringFunc(text, func(port string) string {
		if chosenPort(port) {
			return name(port)
		}
		return port
	})
}

// isList reports whether an object is a list or a table: which version it is of depends on what else was written.
func isList(o map[string]any) bool {
	kind, _ := o["kind"].(string)
	return strings.HasSuffix(kind, "List") || kind == "Table"
}

func withoutVersion(v any) any {
	if m, ok := v.(map[string]any); ok {
		m = maps.Clone(m)
		delete(m, "resourceVersion")
		return m
	}
	return v
}

// withoutTypes is items of a list without what upstream does not say of them.
func withoutTypes(v any) any {
	items, _ := v.([]any)
	out := slices.Clone(items)
	for i := range out {
		if m, ok := out[i].(map[string]any); ok {
			m = maps.Clone(m)
			delete(m, "kind")
			delete(m, "apiVersion")
			out[i] = m
		}
	}
	if items == nil {
		return v
	}
	return out
}

// text is a text with names in it.
func (s *sameness) text(side int, x, key, parent string) string {
	if key == "resourceVersion" && parent == "metadata" {
		if name, ok := s.Name(side, x); ok {
			return name
		}
		return "«unknown»"
	}
	if ages.MatchString(x) && parent == "cells" {
		return "«age»"
	}
	x = uids.ReplaceAllStringFunc(x, func(id string) string {
		if name, ok := s.Name(side, id); ok {
			return name
		}
		return "«uid»"
	})
	x = moments.ReplaceAllString(x, "«time»")
	x = versions.ReplaceAllString(x, "$1«version»")
	x = injected.ReplaceAllString(x, "$1«random»")
	x = s.chosen(side, x)
	if m := listed.FindStringSubmatch(x); m != nil && key == "message" {
		parts := strings.Split(m[2], ", ")
		slices.Sort(parts)
		x = m[1] + "[" + strings.Join(parts, ", ") + "]"
	}
	return x
}

// compare notes where two values differ, as deep as can be.
func (s *sameness) compare(out *[]difference, place string, a, b any) {
	switch x := a.(type) {
	case map[string]any:
		y, ok := b.(map[string]any)
		if !ok {
			break
		}
		keys := maps.Clone(x)
		maps.Copy(keys, y)
		for _, k := range slices.Sorted(maps.Keys(keys)) {
			left, inLeft := x[k]
			right, inRight := y[k]
			switch {
			case !inLeft:
				*out = append(*out, difference{place + "." + k, "", print(right)})
			case !inRight:
				*out = append(*out, difference{place + "." + k, print(left), ""})
			default:
				s.compare(out, place+"."+k, left, right)
			}
		}
		return
	case []any:
		y, ok := b.([]any)
		if !ok || len(x) != len(y) {
			break
		}
		for i := range x {
			s.compare(out, fmt.Sprintf("%s[%d]", place, i), x[i], y[i])
		}
		return
	}
	if x, y := print(a), print(b); x != y {
		*out = append(*out, difference{place, x, y})
	}
}

// print is a value as JSON.
func print(v any) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic("BUG: " + err.Error())
	}
	return strings.TrimSuffix(b.String(), "\n")
}
