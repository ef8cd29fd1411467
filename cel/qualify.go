package cel

import (
	"fmt"
	"math"
	"strings"

	"github.com/google/cel-go/common/types/ref"
)

// This file selects from values by a key that is known only at run time, or
// from values whose type is.

// qualify is v[key]. present says whether there was such a member or item; if
// not, got is the error, or no value if test is set. An item of a list may be
// an error all the same, because the datum does not fit its type: it is
// present.
func qualify(v, key Value, test bool) (got Value, present bool) {
	switch v.kind {
	case KindUnknown:
		return v, true
	case KindError:
		return v, false
	case KindMap:
		got, found := findIn(v, key)
		if found {
			return got, got.kind != KindError
		}
	case KindList:
		i, failure := listIndex(key)
		if failure.failed() {
			return failure, false
		}
		if i >= 0 && i < int64(v.size()) {
			if v.fromDoc() && key.kind != KindInt {
				return errorf("unsupported index: %v", key.ref()), true
			}
			return v.item(int(i)), true
		}
		if test {
			return Value{}, false
		}
		if key.kind != KindInt {
			return errorf("index out of bounds: %v", key.ref()), false
		}
		return Value{kind: KindError, flag: errIndex, bits: key.bits}, false
	case KindOpaque:
		if m, ok := v.opaque().(*made); ok {
			if got, present := m.get(key, test); present {
				return got, true
			}
		}
	}
	if test {
		return Value{}, false
	}
	return noSuchKey(key), false
}

func noSuchKey(key Value) Value {
	if key.kind == KindString {
		return Value{kind: KindError, flag: errNoKey, bits: key.bits, ptr: key.ptr}
	}
	return errorf("no such key: %v", key.ref())
}

// listIndex is a key as the index into a list.
func listIndex(key Value) (int64, Value) {
	switch key.kind {
	case KindInt:
		return key.Int(), Value{}
	case KindDouble:
		if i, ok := exactInt(key.Float()); ok {
			return i, Value{}
		}
		return 0, errorf("unsupported index value %v in list", key.Float())
	case KindUint:
		if key.bits <= math.MaxInt64 {
			return int64(key.bits), Value{}
		}
		return 0, errorf("unsupported index value %d in list", key.bits)
	}
	return 0, errorf("unsupported index type '%s' in list", key.typeName())
}

// checkKey refuses what can never be a key.
func checkKey(key Value) Value {
	switch key.kind {
	case KindString, KindInt, KindUint, KindBool, KindDouble, KindUnknown, KindError:
		return key
	}
	return errorf("invalid qualifier type: %s", goTypeName(key))
}

// goTypeName is the Go type that cel-go keeps a value in, which some of its
// messages show.
func goTypeName(v Value) string {
	switch {
	case v.kind == KindList && v.fromDoc():
		switch {
		case v.typ.set():
			return "*common.unstructuredSetList"
		case v.typ.mapList():
			return "*common.unstructuredMapList"
		}
		return "*common.unstructuredList"
	case v.kind == KindMap && v.fromDoc():
		return "*common.unstructuredMap"
	case v.kind == KindList:
		return "*types.baseList"
	case v.kind == KindMap:
		return "*types.baseMap"
	case v.kind == KindOpaque:
		return libraryTypeName(v.opaque())
	}
	return fmt.Sprintf("%T", v.ref())
}

// libraryTypeName is the Go type that upstream keeps a value of a library in.
func libraryTypeName(v ref.Val) string {
	switch v := v.(type) {
	case quantity:
		if v.derived {
			return "*cel.Quantity"
		}
		return "cel.Quantity"
	case urlValue:
		return "cel.URL"
	case address:
		return "cel.IP"
	case network:
		return "cel.CIDR"
	case version:
		return "cel.Semver"
	case namedFormat:
		return "cel.Format"
	case access:
		short := strings.TrimPrefix(v.t.TypeName(), "kubernetes.authorization.")
		return "library." + strings.ToLower(short[:1]) + short[1:] + "Val"
	case decision:
		return "library.decisionVal"
	case *made:
		if v.t.TypeName() == patchTypeName {
			return "*mutation.JSONPatchVal"
		}
		return "*dynamic.ObjectVal"
	}
	return fmt.Sprintf("%T", v)
}
