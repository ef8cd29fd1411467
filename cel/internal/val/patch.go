package val

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"

	"github.com/keelson-io/keelson/cel/internal/lib"
)

// This file defines the results of expressions of mutating policies: objects to apply, such as
// Object{spec: Object.spec{replicas: 3}}, and operations of JSON patches, such as JSONPatch{op:
// "add", path: "/spec", value: 3}.

const (
	objectTypeName = "Object"
	patchTypeName  = "JSONPatch"
)

// PatchLibrary returns the function that escapes the keys in paths of patches.
func PatchLibrary() []cel.EnvOption {
	escape := strings.NewReplacer("/", "~1", "~", "~0")
	return []cel.EnvOption{
		lib.FromString("jsonpatch.escapeKey", "string_jsonpatch_escapeKey_string", types.StringType, func(s types.String) ref.Val {
			return types.String(escape.Replace(string(s)))
		}),
	}
}

// IsPatchType reports whether name is the type of an object or of an operation.
func IsPatchType(name string) bool {
	return name == patchTypeName || name == objectTypeName || strings.HasPrefix(name, objectTypeName+".")
}

// PatchField returns the type of a member of such a literal.
func PatchField(object, field string) (*types.Type, bool) {
	switch {
	case object != patchTypeName || field == "value":
		return types.DynType, true
	case field == "op" || field == "path" || field == "from":
		return types.StringType, true
	}
	return nil, false
}

// made is an object or an operation that an expression constructed.
type made struct {
	lib.Object
	names  []string
	fields map[string]Value
}

// MadeOf returns the value of a literal.
func MadeOf(name string, names []string, fields map[string]Value) Value {
	if name == patchTypeName {
		for _, field := range []string{"op", "path", "from"} {
			if v, ok := fields[field]; ok && v.K != KindString {
				return Errorf("unexpected type %T for JSONPatchType '%s' field", v.Ref().Value(), field)
			}
		}
	}
	return OpaqueValue(&made{lib.Object{T: types.NewObjectType(name)}, names, fields})
}

func (m *made) Value() any                       { return m.native() }
func (m *made) IsZeroValue() bool                { return m.T.TypeName() != patchTypeName && len(m.fields) == 0 }
func (m *made) ConvertToType(t ref.Type) ref.Val { return lib.Convert(m, t) }

func (m *made) Equal(other ref.Val) ref.Val { return Equal(OpaqueValue(m), FromRef(other)).Ref() }

// madeRef is an object within an evaluation, which bounds the sum of its comparisons.
type madeRef struct {
	*made
	c *comparison
}

func (r *madeRef) Equal(other ref.Val) ref.Val {
	return equalIn(r.c, OpaqueValue(r.made), FromRef(other)).Ref()
}

// get returns a member as upstream does: a missing member is the zero value of its type, unless
// test is set.
func (m *made) get(key Value, test bool) (Value, bool) {
	name := key.Str()
	v, ok := m.fields[name]
	t, known := PatchField(m.T.TypeName(), name)
	switch {
	case ok && test && t == types.StringType:
		return v, v.Bits > 0
	case ok, test:
		return v, ok
	case known && t == types.StringType:
		return ConstString(""), true
	}
	return NullValue, known
}

// native returns the object or operation as plain Go data.
func (m *made) native() any {
	if m.T.TypeName() == patchTypeName {
		out := JSONPatch{Op: m.fields["op"].Str(), Path: m.fields["path"].Str(), From: m.fields["from"].Str()}
		out.Value, out.HasValue = m.fields["value"], m.fields["value"].K != KindNone
		return out
	}
	out := map[string]any{}
	for name, v := range m.fields {
		out[name] = v.Go()
	}
	return out
}

// JSONPatch is an operation of a JSON patch: the result of [Value.Go] for a value of type
// JSONPatch.
type JSONPatch struct {
	Op, Path, From string
	Value          Value // if HasValue
	HasValue       bool
}

// CheckObject checks an object that an expression constructed: nested objects must have the types
// of their places, such as Object.spec for the member spec.
func CheckObject(v Value) error {
	if v.K != KindOpaque {
		return fmt.Errorf("got a %s, want an Object", v.TypeName())
	}
	return checkPlaces(v, v.TypeName())
}

// checkPlaces checks v and the values within. place is the type that v must have.
func checkPlaces(v Value, place string) (failure error) {
	each := func(item Value, at string) {
		if failure == nil {
			failure = checkPlaces(item, at)
		}
	}
	switch v.K {
	case KindOpaque:
		m, ok := v.Opaque().(*made)
		if !ok {
			return nil
		}
		if name := m.T.TypeName(); name != place {
			return fmt.Errorf("unexpected type name %q, expected %q, which matches field name path from root Object type", name, place)
		}
		for _, name := range m.names {
			each(m.fields[name], place+"."+name)
		}
	case KindList:
		for i, n := 0, v.Size(); i < n; i++ {
			each(v.Item(i), place)
		}
	case KindMap:
		EachEntry(v, func(_, item Value) bool {
			each(item, place)
			return true
		})
	}
	return failure
}

func (m *made) ConvertToNative(t reflect.Type) (any, error) {
	if native := m.native(); reflect.TypeOf(native) == t {
		return native, nil
	}
	return nil, conversionError(m, t)
}
