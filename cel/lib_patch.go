package cel

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
)

// This file defines what expressions of mutating policies make: objects to be
// applied, such as Object{spec: Object.spec{replicas: 3}}, and operations of
// JSON patches, JSONPatch{op: "add", path: "/spec", value: 3}.

const (
	objectTypeName = "Object"
	patchTypeName  = "JSONPatch"
)

// patchLibrary holds the function for paths of patches.
func patchLibrary() []cel.EnvOption {
	escape := strings.NewReplacer("/", "~1", "~", "~0")
	return []cel.EnvOption{
		fromString("jsonpatch.escapeKey", "string_jsonpatch_escapeKey_string", types.StringType, func(s types.String) ref.Val {
			return types.String(escape.Replace(string(s)))
		}),
	}
}

// isPatchType reports whether a literal of that type makes an object or an
// operation.
func isPatchType(name string) bool {
	return name == patchTypeName || name == objectTypeName || strings.HasPrefix(name, objectTypeName+".")
}

// patchField is the type of a member of such a literal.
func patchField(object, field string) (*types.Type, bool) {
	switch {
	case object != patchTypeName || field == "value":
		return types.DynType, true
	case field == "op" || field == "path" || field == "from":
		return types.StringType, true
	}
	return nil, false
}

// made is an object or an operation that an expression made.
type made struct {
	object
	names  []string
	fields map[string]Value
}

// madeOf makes the value of a literal.
func madeOf(name string, names []string, fields map[string]Value) Value {
	if name == patchTypeName {
		for _, field := range []string{"op", "path", "from"} {
			if v, ok := fields[field]; ok && v.kind != KindString {
				return errorf("unexpected type %T for JSONPatchType '%s' field", v.ref().Value(), field)
			}
		}
	}
	return opaqueValue(&made{object{types.NewObjectType(name)}, names, fields})
}

func (m *made) Value() any                       { return m.native() }
func (m *made) IsZeroValue() bool                { return m.t.TypeName() != patchTypeName && len(m.fields) == 0 }
func (m *made) ConvertToType(t ref.Type) ref.Val { return convert(m, t) }

func (m *made) Equal(other ref.Val) ref.Val { return equal(opaqueValue(m), fromRef(other)).ref() }

// madeRef is an object in an evaluation, whose comparisons are bounded as a whole.
type madeRef struct {
	*made
	c *comparison
}

func (r *madeRef) Equal(other ref.Val) ref.Val {
	return equalIn(r.c, opaqueValue(r.made), fromRef(other)).ref()
}

// get is a member, as upstream reads one: what is missing is the zero value of
// its type, unless test is set.
func (m *made) get(key Value, test bool) (Value, bool) {
	name := key.Str()
	v, ok := m.fields[name]
	t, known := patchField(m.t.TypeName(), name)
	switch {
	case ok && test && t == types.StringType:
		return v, v.bits > 0
	case ok, test:
		return v, ok
	case known && t == types.StringType:
		return constString(""), true
	}
	return nullValue, known
}

// native is the object as plain Go data, or the operation.
func (m *made) native() any {
	if m.t.TypeName() == patchTypeName {
		out := JSONPatch{Op: m.fields["op"].Str(), Path: m.fields["path"].Str(), From: m.fields["from"].Str()}
		out.Value, out.HasValue = m.fields["value"], m.fields["value"].kind != KindNone
		return out
	}
	out := map[string]any{}
	for name, v := range m.fields {
		out[name] = v.Go()
	}
	return out
}

// JSONPatch is an operation that an expression made: what [Value.Go] returns
// for a value of type JSONPatch.
type JSONPatch struct {
	Op, Path, From string
	Value          Value // with HasValue
	HasValue       bool
}

// CheckObject checks that the objects inside of one that an expression made have
// the types of their places: Object.spec below spec, and so on.
func CheckObject(v Value) error {
	if v.kind != KindOpaque {
		return fmt.Errorf("got a %s, want an Object", v.typeName())
	}
	return checkPlaces(v, v.typeName())
}

func checkPlaces(v Value, place string) (failure error) {
	each := func(item Value, at string) {
		if failure == nil {
			failure = checkPlaces(item, at)
		}
	}
	switch v.kind {
	case KindOpaque:
		m, ok := v.opaque().(*made)
		if !ok {
			return nil
		}
		if name := m.t.TypeName(); name != place {
			return fmt.Errorf("unexpected type name %q, expected %q, which matches field name path from root Object type", name, place)
		}
		for _, name := range m.names {
			each(m.fields[name], place+"."+name)
		}
	case KindList:
		for i, n := 0, v.size(); i < n; i++ {
			each(v.item(i), place)
		}
	case KindMap:
		eachEntry(v, func(_, item Value) bool {
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
