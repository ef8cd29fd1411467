// Package mistype finds values of the wrong type in objects. A server that decodes an object stops at the first one, with the name of a Go
// type and without its place.
//
// The function to call is [Of].
package mistype

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-io/keelson/internal/source"
	"github.com/keelson-io/keelson/kind"
	"github.com/keelson-io/keelson/schema/structural"
)

// Mistake is a value of the wrong type, or in a wrong form.
type Mistake struct {
	Path    string // of the value
	Message string // what it is, and what to write
}

// most is the number of mistakes that are listed.
const most = 100

// Of returns the values of an object that a server of its kind does not decode, and the object's JSON without them. scalar returns the
// characters of a field in its file, "" if they are not known: YAML reads 1.10 as the number 1.1.
func Of(v *kind.Version, text []byte, scalar func(path string) string) ([]Mistake, []byte) {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	var object any
	if dec.Decode(&object) != nil {
		return nil, text
	}
	var out []Mistake
	var typ reflect.Type
	if v.Kind.Behavior.GoType != nil {
		typ = reflect.TypeOf(v.Kind.Behavior.GoType(v).New())
	}
	if object = below(decoded(v), typ, object, "", &out); len(out) == 0 || object == (removed{}) {
		return nil, text
	}
	for i := range out {
		if said, want, ok := strings.Cut(out[i].Message, wantString); ok {
			if written := scalar(out[i].Path); written != "" && strconv.Quote(written) != want {
				out[i].Message = said + wantString + strconv.Quote(written)
			}
		}
	}
	rest, err := json.Marshal(object)
	if err != nil {
		return nil, text
	}
	return out, rest
}

// wantString is the end of the message about a value that is a string without its quotes.
const wantString = ", want a string; write "

// decoded returns the schema of what a server decodes before it validates: all of an object of a built-in kind, otherwise the metadata.
func decoded(v *kind.Version) *structural.Schema {
	s := &structural.Schema{Type: "object", Properties: map[string]*structural.Schema{}}
	if v.Schema != nil && v.Kind.Behavior.IsBuiltin {
		*s = *v.Schema.Source()
		s.Properties = maps.Clone(s.Properties)
	}
	if s.Properties == nil {
		s.Properties = map[string]*structural.Schema{}
	}
	s.Properties["metadata"] = structural.ObjectMeta()
	return s
}

// removed stands for a value of the wrong type.
type removed struct{}

// below returns a value without the parts that have the wrong type. t is its Go type, nil if it is not known.
func below(s *structural.Schema, t reflect.Type, v any, path string, out *[]Mistake) any {
	if s == nil || v == nil || len(*out) >= most {
		return v
	}
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	got, decided := wrongForm(t, v, path)
	if !decided {
		got = wrongType(s, v)
	}
	if got != "" {
		*out = append(*out, Mistake{Path: path, Message: got})
		return removed{}
	}
	switch v := v.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			of := s.Properties[name]
			if of == nil {
				of = s.Additional
			}
			if v[name] = below(of, member(t, name), v[name], source.Join(path, name), out); v[name] == (removed{}) {
				delete(v, name)
			}
		}
	case []any:
		if decided {
			return v
		}
		for i := range v {
			v[i] = below(s.Items, element(t), v[i], fmt.Sprintf("%s[%d]", path, i), out)
		}
		return slices.DeleteFunc(v, func(item any) bool { return item == (removed{}) })
	}
	return v
}

// wrongForm is wrongType for Go types whose form in JSON a schema does not tell: bytes, and times with microseconds.
func wrongForm(t reflect.Type, v any, path string) (got string, decided bool) {
	text, isText := v.(string)
	switch {
	case t == nil:
		return "", false
	case t == reflect.TypeFor[[]byte]() && isText:
		if _, err := base64.StdEncoding.DecodeString(text); err == nil {
			return "", true
		}
		if strings.HasPrefix(path, "data") {
			return "not base64; encode it, or write it as it is under stringData", true
		}
		return "not base64", true
	case t == reflect.TypeFor[[]byte]():
		list, ok := v.([]any) // of numbers
		return "", ok && !slices.ContainsFunc(list, func(item any) bool {
			n, ok := item.(json.Number)
			_, err := strconv.ParseUint(n.String(), 10, 8)
			return !ok || err != nil
		})
	case t == reflect.TypeFor[metav1.MicroTime]() && isText:
		if _, err := time.Parse(metav1.RFC3339Micro, text); err != nil {
			return fmt.Sprintf("got %q, want a time such as 2006-01-02T15:04:05.000000Z", begin(text)), true
		}
		return "", true
	}
	return "", false
}

// member returns the type of a member of an object; nil if it is not known.
func member(t reflect.Type, name string) reflect.Type {
	switch {
	case t == nil:
		return nil
	case t.Kind() == reflect.Map:
		return t.Elem()
	case t.Kind() != reflect.Struct:
		return nil
	}
	for i := range t.NumField() {
		f := t.Field(i)
		switch tag, options, _ := strings.Cut(f.Tag.Get("json"), ","); {
		case tag == name:
			return f.Type
		case tag == "" && (f.Anonymous || options == "inline"):
			if m := member(f.Type, name); m != nil {
				return m
			}
		}
	}
	return nil
}

// element returns the type of the items of a list; nil if it is not known.
func element(t reflect.Type) reflect.Type {
	if t == nil || t.Kind() != reflect.Slice {
		return nil
	}
	return t.Elem()
}

// wrongType returns what is wrong with the type or the format of a value; "" if nothing is.
func wrongType(s *structural.Schema, v any) string {
	switch v := v.(type) {
	case string:
		return wrongString(s, v)
	case json.Number:
		return wrongNumber(s, v.String())
	case bool:
		if s.Type == "boolean" || s.Type == "" && !s.IntOrString {
			return ""
		}
		if s.Type == "string" && s.Format == "" {
			return fmt.Sprintf("got %t%s%q", v, wantString, fmt.Sprint(v))
		}
		return fmt.Sprintf("got %t, want %s", v, wantedType(s))
	case []any:
		if s.Type == "array" || s.Type == "" && !s.IntOrString {
			return ""
		}
		return "got a list, want " + wantedType(s)
	case map[string]any:
		if s.Type == "object" || s.Type == "" && !s.IntOrString {
			return ""
		}
		if s.Type == "array" {
			return `got an object, want a list: begin each item with "- "`
		}
		return "got an object, want " + wantedType(s)
	}
	return ""
}

// wrongString is wrongType for a string.
func wrongString(s *structural.Schema, v string) string {
	example := strings.TrimSpace(v)
	switch s.Type {
	case "":
		return ""
	case "string":
		switch s.Format {
		case "quantity":
			if _, err := resource.ParseQuantity(v); err != nil {
				return fmt.Sprintf("got %q, want a quantity such as 500m, 2 or 1Gi", begin(v))
			}
		case "date-time":
			if _, err := time.Parse(time.RFC3339, v); err != nil && v != "" {
				return fmt.Sprintf("got %q, want a time such as 2006-01-02T15:04:05Z", begin(v))
			}
		}
		return ""
	case "integer", "number":
		if json.Unmarshal([]byte(example), new(json.Number)) == nil && example != "" && example[0] != '"' {
			return fmt.Sprintf("got a string, want %s; write %s, without quotes", wantedType(s), example)
		}
	case "boolean":
		if example == "true" || example == "false" {
			return fmt.Sprintf("got a string, want a boolean; write %s, without quotes", example)
		}
	}
	return "got a string, want " + wantedType(s)
}

// wrongNumber is wrongType for a number.
func wrongNumber(s *structural.Schema, v string) string {
	switch {
	case s.Type == "integer" || s.IntOrString:
		bits := 64
		if s.Format == "int32" || s.IntOrString {
			bits = 32
		}
		_, err := strconv.ParseInt(v, 10, bits)
		if errors.Is(err, strconv.ErrRange) {
			return fmt.Sprintf("got the number %s, want %s from %d to %d", v, wantedType(s), -1<<(bits-1), 1<<(bits-1)-1)
		}
		if err == nil {
			return ""
		}
	case s.Type == "number", s.Type == "", s.Format == "quantity":
		return ""
	case s.Type == "string" && s.Format == "":
		return fmt.Sprintf("got the number %s%s%q", v, wantString, v)
	}
	return fmt.Sprintf("got the number %s, want %s", v, wantedType(s))
}

// begin returns the beginning of a long string.
func begin(v string) string {
	if r := []rune(v); len(r) > 60 {
		return string(r[:60]) + "…"
	}
	return v
}

// wantedType returns the type of a schema in words.
func wantedType(s *structural.Schema) string {
	switch {
	case s.IntOrString:
		return "an integer or a string"
	case s.Format == "quantity":
		return "a quantity such as 500m, 2 or 1Gi"
	case s.Format == "date-time":
		return "a time such as 2006-01-02T15:04:05Z"
	case s.Type == "integer" || s.Type == "object":
		return "an " + s.Type
	case s.Type == "array":
		return "a list"
	}
	return "a " + s.Type
}
