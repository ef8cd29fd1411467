package schema_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"sort"

	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apimachinery/pkg/runtime"
)

// This file makes objects from schemas and damages them.

type generator struct{ r *rand.Rand }

var words = []string{
	"", "a", "abc", "a-b", "A", "10s", "1h", "80", "*", "*.example.com", "example.com", "https", "HTTPS", "HTTP", "/", "/path", "x/y",
	"Exact", "PathPrefix", "Service", "Gateway", "gateway.networking.k8s.io", "10.0.0.1", "2001:db8::1", "10.0.0.0/8", "2024-01-02T03:04:05Z",
	"2024-01-02", "50%", "100Mi", "ü", "日本語", "\u2028", "<&>", "aGVsbG8=", "Terminate", "Same", "All", "300ms", "-1", "0x10",
}

func (g *generator) text() string { return words[g.r.IntN(len(words))] }

func (g *generator) number() any {
	return []any{int64(0), int64(1), int64(-1), int64(2), int64(80), int64(443), int64(65536), int64(1) << 31, int64(1) << 40, 0.5, 1.5, 6.0, 1e20, -2.25}[g.r.IntN(14)]
}

// junk is a value of any kind.
func (g *generator) junk(depth int) any {
	switch g.r.IntN(9) {
	case 0:
		return nil
	case 1:
		return g.r.IntN(2) == 0
	case 2, 3:
		return g.number()
	case 4, 5:
		return g.text()
	case 6:
		return map[string]any{}
	case 7:
		if depth > 2 {
			return []any{}
		}
		return []any{g.junk(depth + 1), g.junk(depth + 1)}
	}
	if depth > 2 {
		return map[string]any{"a": int64(1)}
	}
	return map[string]any{"a": g.junk(depth + 1), "name": g.junk(depth + 1), "type": g.text()}
}

// value makes a value that mostly fits s.
func (g *generator) value(s *structuralschema.Structural, depth int) any {
	if g.r.IntN(60) == 0 {
		return g.junk(depth)
	}
	if v := s.ValueValidation; v != nil && len(v.Enum) > 0 && g.r.IntN(10) > 0 {
		return runtime.DeepCopyJSONValue(v.Enum[g.r.IntN(len(v.Enum))].Object)
	}
	switch {
	case s.XIntOrString:
		if g.r.IntN(2) == 0 {
			return g.number()
		}
		return g.text()
	case s.Type == "object":
		return g.object(s, depth)
	case s.Type == "array":
		if s.Items == nil {
			return []any{}
		}
		list := []any{}
		for range g.count(s.ValueValidation) {
			list = append(list, g.value(s.Items, depth+1))
		}
		return list
	case s.Type == "string":
		return g.fitting(s.ValueValidation)
	case s.Type == "integer":
		if v := s.ValueValidation; v != nil && v.Minimum != nil && g.r.IntN(4) > 0 {
			return int64(*v.Minimum) + g.r.Int64N(2)
		}
		return []any{int64(0), int64(1), int64(80), int64(443), int64(65535), int64(2)}[g.r.IntN(6)]
	case s.Type == "number":
		return g.number()
	case s.Type == "boolean":
		return g.r.IntN(2) == 0
	}
	return g.junk(depth)
}

// count is how many items a list has, mostly within its bounds.
func (g *generator) count(v *structuralschema.ValueValidation) int {
	n := g.r.IntN(4)
	if v == nil || g.r.IntN(8) == 0 {
		return n
	}
	if v.MinItems != nil && *v.MinItems < 10 {
		n += int(*v.MinItems)
	}
	if v.MaxItems != nil && int64(n) > *v.MaxItems {
		n = int(max(*v.MaxItems, 0))
	}
	return n
}

// samples are texts of a format.
var samples = map[string]string{
	"date-time": "2024-01-02T03:04:05Z", "date": "2024-01-02", "duration": "1h30m", "byte": "aGVsbG8=", "uri": "https://example.com/x", "ipv4": "10.0.0.1",
	"ipv6": "2001:db8::1", "cidr": "10.0.0.0/8", "uuid": "123e4567-e89b-42d3-a456-426614174000", "email": "a@b.example", "hostname": "example.com", "mac": "00:00:5e:00:53:01",
}

// fitting is a text that fits a schema if a few draws find one.
func (g *generator) fitting(v *structuralschema.ValueValidation) string {
	text := g.text()
	if v == nil || g.r.IntN(10) == 0 {
		return text
	}
	if sample, ok := samples[v.Format]; ok {
		return sample
	}
	for range 12 {
		length := int64(len([]rune(text)))
		fits := (v.MinLength == nil || length >= *v.MinLength) && (v.MaxLength == nil || length <= *v.MaxLength)
		if fits && v.Pattern != "" {
			fits, _ = regexp.MatchString(v.Pattern, text)
		}
		if fits {
			break
		}
		text = g.text()
	}
	return text
}

func (g *generator) object(s *structuralschema.Structural, depth int) any {
	obj := map[string]any{}
	for _, name := range sortedNames(s.Properties) {
		p := s.Properties[name]
		required := s.ValueValidation != nil && slices.Contains(s.ValueValidation.Required, name)
		if required && g.r.IntN(20) > 0 || g.r.IntN(3+2*depth) == 0 && depth < 12 {
			obj[name] = g.value(&p, depth+1)
		}
	}
	if a := s.AdditionalProperties; a != nil {
		for range g.r.IntN(3) {
			if a.Structural != nil {
				obj[g.text()] = g.value(a.Structural, depth+1)
			} else {
				obj[g.text()] = g.junk(depth)
			}
		}
	}
	if s.XEmbeddedResource && g.r.IntN(4) > 0 {
		obj["apiVersion"], obj["kind"] = "v1", "ConfigMap"
		obj["metadata"] = g.metadata()
	}
	if s.XPreserveUnknownFields && g.r.IntN(2) == 0 {
		obj["extra"] = g.junk(0)
	}
	return obj
}

func (g *generator) metadata() any {
	meta := map[string]any{"name": "n"}
	more := map[string]any{
		"labels": map[string]any{"a": "b"}, "annotations": map[string]any{"x/y": "z"}, "creationTimestamp": "2024-01-02T03:04:05Z",
		"finalizers": []any{"a/b"}, "generation": int64(3), "namespace": "ns", "uid": "u", "resourceVersion": "7",
		"ownerReferences": []any{map[string]any{"apiVersion": "v1", "kind": "K", "name": "n", "uid": "u", "controller": true}},
		"managedFields":   []any{map[string]any{"manager": "m", "operation": "Apply", "apiVersion": "v1", "time": "2024-01-02T03:04:05Z", "fieldsType": "FieldsV1", "fieldsV1": map[string]any{"f:a": map[string]any{}}}},
	}
	for _, name := range sortedNames(more) {
		if g.r.IntN(3) == 0 {
			meta[name] = more[name]
		}
	}
	return meta
}

func sortedNames[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// root makes an object of the schema.
func (g *generator) root(s *structuralschema.Structural, apiVersion, kind string) map[string]any {
	obj := g.object(s, 0).(map[string]any)
	obj["apiVersion"], obj["kind"], obj["metadata"] = apiVersion, kind, g.metadata()
	return obj
}

// damage changes one thing somewhere below x and returns the result. It leaves
// apiVersion and kind of the root alone.
func (g *generator) damage(x any, root bool) any {
	switch x := x.(type) {
	case map[string]any:
		names := make([]string, 0, len(x))
		for name := range x {
			if !root || name != "apiVersion" && name != "kind" {
				names = append(names, name)
			}
		}
		sort.Strings(names)
		if len(names) == 0 || !root && g.r.IntN(6) == 0 {
			x[g.text()+"x"] = g.junk(0)
			return x
		}
		name := names[g.r.IntN(len(names))]
		switch g.r.IntN(12) {
		case 0:
			delete(x, name)
		case 1:
			x[name] = g.junk(0)
		case 2:
			x[name] = nil
		default:
			x[name] = g.damage(x[name], false)
		}
		return x
	case []any:
		if len(x) == 0 {
			return append(x, g.junk(0))
		}
		i := g.r.IntN(len(x))
		switch g.r.IntN(8) {
		case 0:
			return append(x, runtime.DeepCopyJSONValue(x[i]))
		case 1:
			return slices.Delete(x, i, i+1)
		case 2:
			x[i] = g.junk(0)
		case 3:
			return slices.Repeat(x, 1+g.r.IntN(12))
		default:
			x[i] = g.damage(x[i], false)
		}
		return x
	case string:
		return []any{g.text(), x + "x", g.junk(0), fmt.Sprint(x, x, x, x, x, x, x, x)}[g.r.IntN(4)]
	case int64:
		return []any{x + 1, -x, float64(x) + 0.5, g.junk(0)}[g.r.IntN(4)]
	}
	return g.junk(0)
}
