package val

import (
	"fmt"
	"math"
	"strings"

	"github.com/google/cel-go/common/types/ref"

	"github.com/keelson-io/keelson/cel/internal/lib"
)

// This file selects members and items by a key that is known only at run time, or from values whose
// type is.

// Qualify returns v[key]. present says whether that member or item exists. If not, got is the
// error, or no value if test is set. An item of a list that does not fit its type is present, and
// an error.
func Qualify(v, key Value, test bool) (got Value, present bool) {
	switch v.K {
	case KindUnknown:
		return v, true
	case KindError:
		return v, false
	case KindMap:
		got, found := findIn(v, key)
		if found {
			return got, got.K != KindError
		}
	case KindList:
		i, failure := listIndex(key)
		if failure.Failed() {
			return failure, false
		}
		if i >= 0 && i < int64(v.Size()) {
			if v.FromDoc() && key.K != KindInt {
				return Errorf("unsupported index: %v", key.Ref()), true
			}
			return v.Item(int(i)), true
		}
		if test {
			return Value{}, false
		}
		if key.K != KindInt {
			return Errorf("index out of bounds: %v", key.Ref()), false
		}
		return Value{K: KindError, Flag: codeIndex, Bits: key.Bits}, false
	case KindOpaque:
		if m, ok := v.Opaque().(*made); ok {
			if got, present := m.get(key, test); present {
				return got, true
			}
		}
	}
	if test {
		return Value{}, false
	}
	return NoSuchKey(key), false
}

// NoSuchKey returns the error of a missing key.
func NoSuchKey(key Value) Value {
	if key.K == KindString {
		return Value{K: KindError, Flag: CodeNoKey, Bits: key.Bits, Ptr: key.Ptr}
	}
	return Errorf("no such key: %v", key.Ref())
}

// listIndex returns a key as the index of a list.
func listIndex(key Value) (int64, Value) {
	switch key.K {
	case KindInt:
		return key.Int(), Value{}
	case KindDouble:
		if i, ok := ExactInt(key.Float()); ok {
			return i, Value{}
		}
		return 0, Errorf("unsupported index value %v in list", key.Float())
	case KindUint:
		if key.Bits <= math.MaxInt64 {
			return int64(key.Bits), Value{}
		}
		return 0, Errorf("unsupported index value %d in list", key.Bits)
	}
	return 0, Errorf("unsupported index type '%s' in list", key.TypeName())
}

// CheckKey returns an error for a value that can never be a key, otherwise the key.
func CheckKey(key Value) Value {
	switch key.K {
	case KindString, KindInt, KindUint, KindBool, KindDouble, KindUnknown, KindError:
		return key
	}
	return Errorf("invalid qualifier type: %s", GoTypeName(key))
}

// GoTypeName returns the Go type in which cel-go stores a value, for messages that show it.
func GoTypeName(v Value) string {
	switch {
	case v.K == KindList && v.FromDoc():
		switch {
		case v.Typ.set():
			return "*common.unstructuredSetList"
		case v.Typ.mapList():
			return "*common.unstructuredMapList"
		}
		return "*common.unstructuredList"
	case v.K == KindMap && v.FromDoc():
		return "*common.unstructuredMap"
	case v.K == KindList:
		return "*types.baseList"
	case v.K == KindMap:
		return "*types.baseMap"
	case v.K == KindOpaque:
		return libraryTypeName(v.Opaque())
	}
	return fmt.Sprintf("%T", v.Ref())
}

// libraryTypeName returns the Go type in which upstream stores a value of a library type.
func libraryTypeName(v ref.Val) string {
	switch v := v.(type) {
	case lib.Quantity:
		if v.Derived {
			return "*cel.Quantity"
		}
		return "cel.Quantity"
	case lib.URLValue:
		return "cel.URL"
	case lib.Address:
		return "cel.IP"
	case lib.Network:
		return "cel.CIDR"
	case lib.Version:
		return "cel.Semver"
	case lib.NamedFormat:
		return "cel.Format"
	case lib.Access:
		short := strings.TrimPrefix(v.T.TypeName(), "kubernetes.authorization.")
		return "library." + strings.ToLower(short[:1]) + short[1:] + "Val"
	case lib.Decision:
		return "library.decisionVal"
	case *made:
		if v.T.TypeName() == patchTypeName {
			return "*mutation.JSONPatchVal"
		}
		return "*dynamic.ObjectVal"
	}
	return fmt.Sprintf("%T", v)
}

// CheckNewKey returns an error for a key that a map literal cannot have, or has already.
func CheckNewKey(m *MapBox, k Value) Value {
	switch k.K {
	case KindString, KindBool, KindInt, KindUint:
	default:
		return Errorf("unsupported key type: %s", k.TypeName())
	}
	if _, found := m.Find(k); found {
		return Errorf("duplicate map key: %v", k.Ref())
	}
	return Value{}
}
