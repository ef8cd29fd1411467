package lib

import (
	"net/url"
	"regexp"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
)

// This file defines Kubernetes' functions of strings: find, findAll, and URLs.

// RegexLibrary returns find() and findAll().
func RegexLibrary() []cel.EnvOption {
	s := types.StringType
	return []cel.EnvOption{
		cel.Function("find", cel.MemberOverload("string_find_string", []*types.Type{s, s}, s, cel.BinaryBinding(
			func(text, pattern ref.Val) ref.Val {
				str, re, failure := findArguments(text, pattern)
				if failure != nil {
					return failure
				}
				return types.String(re.FindString(str))
			}))),
		cel.Function("findAll",
			cel.MemberOverload("string_find_all_string", []*types.Type{s, s}, types.NewListType(s), cel.BinaryBinding(
				func(text, pattern ref.Val) ref.Val { return findAll(text, pattern, types.Int(-1)) })),
			cel.MemberOverload("string_find_all_string_int", []*types.Type{s, s, types.IntType}, types.NewListType(s), cel.FunctionBinding(findAll))),
	}
}

// findArguments returns the string and the compiled pattern, or an error.
func findArguments(text, pattern ref.Val) (string, *regexp.Regexp, ref.Val) {
	str, ok := text.Value().(string)
	if !ok {
		return "", nil, types.MaybeNoSuchOverloadErr(text)
	}
	expr, ok := pattern.Value().(string)
	if !ok {
		return "", nil, types.MaybeNoSuchOverloadErr(pattern)
	}
	re, err := regexp.Compile(expr)
	if err != nil {
		return "", nil, types.NewErr("Illegal regex: %v", err)
	}
	return str, re, nil
}

// findAll implements findAll(). The third argument bounds the number of results, -1 means no bound.
func findAll(args ...ref.Val) ref.Val {
	if len(args) != 3 {
		return types.NoSuchOverloadErr()
	}
	n, ok := args[2].(types.Int)
	str, re, failure := findArguments(args[0], args[1])
	switch {
	case failure != nil:
		return failure
	case !ok:
		return types.MaybeNoSuchOverloadErr(args[2])
	}
	return types.NewStringList(types.DefaultTypeAdapter, re.FindAllString(str, int(n)))
}

// URLType is the type of URLs.
var URLType = types.NewObjectType("kubernetes.URL")

// URLValue is an absolute URL, or a path.
type URLValue struct {
	Object
	U *url.URL
}

func (u URLValue) String() string                   { return u.U.String() }
func (u URLValue) Value() any                       { return u.U }
func (u URLValue) ConvertToType(t ref.Type) ref.Val { return Convert(u, t) }
func (u URLValue) Equal(other ref.Val) ref.Val {
	o, ok := other.(URLValue)
	if !ok {
		return types.MaybeNoSuchOverloadErr(other)
	}
	return types.Bool(u.U.String() == o.U.String())
}

// ParseURL parses an absolute URL, or a path.
func ParseURL(s string) (*url.URL, error) {
	if _, err := url.ParseRequestURI(s); err != nil {
		return nil, err
	}
	return url.Parse(s)
}

// URLLibrary returns the functions of URLs.
func URLLibrary() []cel.EnvOption {
	part := func(name, id string, get func(*url.URL) string) cel.EnvOption {
		return Method(name, id, URLType, types.StringType, func(u URLValue) ref.Val { return types.String(get(u.U)) })
	}
	query := types.NewMapType(types.StringType, types.NewListType(types.StringType))
	return []cel.EnvOption{
		FromString("url", "string_to_url", URLType, func(s types.String) ref.Val {
			u, err := ParseURL(string(s))
			if err != nil {
				return types.NewErr("URL parse error during conversion from string: %v", err)
			}
			return URLValue{Object{URLType}, u}
		}),
		FromString("isURL", "is_url_string", types.BoolType, func(s types.String) ref.Val {
			_, err := url.ParseRequestURI(string(s))
			return types.Bool(err == nil)
		}),
		part("getScheme", "url_get_scheme", func(u *url.URL) string { return u.Scheme }),
		part("getHost", "url_get_host", func(u *url.URL) string { return u.Host }),
		part("getHostname", "url_get_hostname", (*url.URL).Hostname),
		part("getPort", "url_get_port", (*url.URL).Port),
		part("getEscapedPath", "url_get_escaped_path", (*url.URL).EscapedPath),
		Method("getQuery", "url_get_query", URLType, query, func(u URLValue) ref.Val {
			out := map[ref.Val]ref.Val{}
			for k, v := range u.U.Query() {
				out[types.String(k)] = types.NewStringList(types.DefaultTypeAdapter, v)
			}
			return types.NewRefValMap(types.DefaultTypeAdapter, out)
		}),
	}
}
