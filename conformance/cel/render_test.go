package cel_test

import (
	"cmp"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"k8s.io/apimachinery/pkg/api/resource"
)

// This file prints values in full.

// render prints a value so that different values differ. The entries of maps,
// which upstream has in no order, are sorted.
func render(v ref.Val) string { return string(appendValue(nil, v)) }

func appendValue(b []byte, v ref.Val) []byte {
	switch v := v.(type) {
	case nil:
		return append(b, "nothing"...)
	case types.Bool:
		return strconv.AppendBool(b, bool(v))
	case types.Int:
		return strconv.AppendInt(b, int64(v), 10)
	case types.Uint:
		return append(strconv.AppendUint(b, uint64(v), 10), 'u')
	case types.Double:
		return append(strconv.AppendFloat(b, float64(v), 'g', -1, 64), 'd')
	case types.String:
		return strconv.AppendQuote(b, string(v))
	case types.Bytes:
		return strconv.AppendQuote(append(b, 'b'), string(v))
	case types.Null:
		return append(b, "null"...)
	case types.Timestamp:
		return v.Time.AppendFormat(b, "timestamp "+time.RFC3339Nano)
	case types.Duration:
		return append(append(b, "duration "...), v.Duration.String()...)
	case *types.Type:
		return append(append(b, "type "...), v.TypeName()...)
	case *types.Optional:
		if !v.HasValue() {
			return append(b, "none"...)
		}
		return append(appendValue(append(b, "some("...), v.GetValue()), ')')
	case *types.Err:
		return append(append(b, "error "...), v.Error()...)
	case traits.Lister:
		return appendList(b, v)
	case traits.Mapper:
		return appendMap(b, v)
	}
	return append(append(append(b, v.Type().TypeName()...), ' '), opaqueText(v)...)
}

func appendList(b []byte, v traits.Lister) []byte {
	b = append(b, '[')
	first := true
	for it := v.Iterator(); it.HasNext() == types.True; first = false {
		if !first {
			b = append(b, ", "...)
		}
		b = appendValue(b, it.Next())
	}
	return append(b, ']')
}

func appendMap(b []byte, v traits.Mapper) []byte {
	var entries []string
	for it := v.Iterator(); it.HasNext() == types.True; {
		key := it.Next()
		if key == nil { // upstream has these in place of members that an object does not declare
			continue
		}
		if !isKey(key) { // no look-up can find it
			entries = append(entries, render(key))
			continue
		}
		item, _ := v.Find(key)
		if item == nil { // what an object's declaration does not know
			entries = append(entries, "undeclared")
			continue
		}
		entries = append(entries, render(key)+": "+render(item))
	}
	slices.Sort(entries)
	return append(append(append(b, '{'), strings.Join(entries, ", ")...), '}')
}

// isKey reports whether a map can be asked for the key.
func isKey(v ref.Val) bool {
	switch v.(type) {
	case types.Bool, types.Int, types.Uint, types.Double, types.String:
		return true
	}
	return false
}

// opaqueText is what tells values of a library's type apart.
func opaqueText(v ref.Val) string {
	switch x := v.Value().(type) {
	case *resource.Quantity:
		return x.String()
	case *url.URL:
		return x.String()
	case ref.Val: // the value of what has none
		return ""
	case fmt.Stringer:
		return x.String()
	}
	return ""
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

func sortedUnique[T cmp.Ordered](list []T) []T {
	slices.Sort(list)
	return slices.Compact(list)
}
