package check

import (
	"fmt"
	"strings"

	"github.com/google/cel-go/common/types"
)

// This file parses types that callers write as text, such as "map(string, int)".

// simpleTypes has the types without parameters, by all their names.
var simpleTypes = map[string]*types.Type{
	"bool": types.BoolType, "int": types.IntType, "uint": types.UintType, "double": types.DoubleType,
	"string": types.StringType, "bytes": types.BytesType, "null_type": types.NullType, "dyn": types.DynType,
	"any": types.AnyType, "type": types.TypeType, "timestamp": types.TimestampType, "duration": types.DurationType,
	"google.protobuf.Timestamp": types.TimestampType, "google.protobuf.Duration": types.DurationType,
	"google.protobuf.Any": types.AnyType,
	"list":                types.NewListType(types.DynType), "map": types.NewMapType(types.DynType, types.DynType),
}

// ParseType returns the type with that name.
func ParseType(text string) (*types.Type, error) {
	t, rest, err := typePrefix(strings.TrimSpace(text))
	if err == nil && rest != "" {
		err = fmt.Errorf("unexpected %q after the type", rest)
	}
	if err != nil {
		return nil, fmt.Errorf("type %q: %w", text, err)
	}
	return t, nil
}

// typePrefix parses a type at the start of s.
func typePrefix(s string) (t *types.Type, rest string, err error) {
	end := strings.IndexAny(s, "(), ")
	if end < 0 {
		end = len(s)
	}
	name, rest := s[:end], strings.TrimLeft(s[end:], " ")
	if name == "" {
		return nil, "", fmt.Errorf("no name at %q", s)
	}
	if !strings.HasPrefix(rest, "(") {
		if t, ok := simpleTypes[name]; ok {
			return t, rest, nil
		}
		if len(name) == 1 && name[0] >= 'A' && name[0] <= 'Z' {
			return types.NewTypeParamType(name), rest, nil
		}
		return types.NewObjectType(name), rest, nil
	}
	var params []*types.Type
	rest = rest[1:]
	for {
		p, after, err := typePrefix(strings.TrimLeft(rest, " "))
		if err != nil {
			return nil, "", err
		}
		params = append(params, p)
		rest = strings.TrimLeft(after, " ")
		if !strings.HasPrefix(rest, ",") {
			break
		}
		rest = rest[1:]
	}
	if !strings.HasPrefix(rest, ")") {
		return nil, "", fmt.Errorf("no ) at %q", rest)
	}
	t, err = typeWith(name, params)
	return t, strings.TrimLeft(rest[1:], " "), err
}

// typeWith returns a type with parameters.
func typeWith(name string, params []*types.Type) (*types.Type, error) {
	want := map[string]int{"list": 1, "map": 2, "optional_type": 1, "wrapper": 1, "type": 1}[name]
	if want != 0 && want != len(params) {
		return nil, fmt.Errorf("%s: got %d parameters, want %d", name, len(params), want)
	}
	switch name {
	case "list":
		return types.NewListType(params[0]), nil
	case "map":
		return types.NewMapType(params[0], params[1]), nil
	case "optional_type":
		return types.NewOptionalType(params[0]), nil
	case "wrapper":
		return types.NewNullableType(params[0]), nil
	case "type":
		return types.NewTypeTypeWithParam(params[0]), nil
	}
	if simpleTypes[name] != nil {
		return nil, fmt.Errorf("%s has no parameters", name)
	}
	return types.NewOpaqueType(name, params...), nil
}
