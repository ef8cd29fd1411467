// This file finds values of the wrong type. A server stops at the first one, with the name of a Go
// type and without its place.

package cli

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/keelson-io/keelson/internal/manifest"
	"github.com/keelson-io/keelson/internal/source"
	"github.com/keelson-io/keelson/kind"
	"github.com/keelson-io/keelson/lint"
	"github.com/keelson-io/keelson/offline"
	"github.com/keelson-io/keelson/schema/structural"
)

// maxMistypes is the number of values of the wrong type that are listed.
const maxMistypes = 100

// mistypes returns the values of an object that have another type than its schema says, and the
// object's JSON without them. It returns none if the schema does not tell.
func mistypes(v *kind.Version, d manifest.Document) ([]mistake, []byte) {
	if offline.IsDefinition(d) {
		return mistypesOfDefinition(d)
	}
	if v.Schema == nil {
		return nil, d.JSON
	}
	dec := json.NewDecoder(bytes.NewReader(d.JSON))
	dec.UseNumber()
	var object any
	if dec.Decode(&object) != nil {
		return nil, d.JSON
	}
	var out []mistake
	if v.Kind.Group == "" && v.Kind.Name == "Secret" {
		notEncoded(object, &out)
	}
	if object = mistypesBelow(v.Schema.Source(), object, "", &out); len(out) == 0 || object == (removed{}) {
		return nil, d.JSON
	}
	text, err := json.Marshal(object)
	if err != nil {
		return nil, d.JSON
	}
	return out, text
}

// mistypesOfDefinition is mistypes for a definition, whose schemas lint reads.
func mistypesOfDefinition(d manifest.Document) ([]mistake, []byte) {
	definition, err := lint.Load(lint.Source{Name: d.File, Line: d.Line, Text: d.Text()})
	if err != nil {
		return nil, d.JSON
	}
	var out []mistake
	for _, f := range definition.Mistyped() {
		steps := source.Split(f.Path)
		message := strings.TrimPrefix(f.Message, steps[len(steps)-1]+": ")
		if f.Hint != "" {
			message += "; " + f.Hint
		}
		out = append(out, mistake{Rule: ruleType, Path: f.Path, Message: message})
	}
	return out, definition.JSON
}

// notEncoded removes the data of a Secret that are not base64, a format that its schema does not have.
func notEncoded(object any, out *[]mistake) {
	secret, _ := object.(map[string]any)
	data, _ := secret["data"].(map[string]any)
	for _, key := range slices.Sorted(maps.Keys(data)) {
		text, ok := data[key].(string)
		if _, err := base64.StdEncoding.DecodeString(text); ok && err != nil {
			*out = append(*out, mistake{Rule: ruleType, Path: source.Join("data", key), Message: "not base64; encode it, or write it as it is under stringData"})
			delete(data, key)
		}
	}
}

// removed stands for a value of the wrong type.
type removed struct{}

// mistypesBelow returns a value without the parts that have the wrong type.
func mistypesBelow(s *structural.Schema, v any, path string, out *[]mistake) any {
	if s == nil || v == nil || s.IntOrString || len(*out) >= maxMistypes {
		return v
	}
	if got := wrongType(s, v); got != "" {
		*out = append(*out, mistake{Rule: ruleType, Path: path, Message: got})
		return removed{}
	}
	switch v := v.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			below := s.Properties[name]
			if below == nil {
				below = s.Additional
			}
			if v[name] = mistypesBelow(below, v[name], source.Join(path, name), out); v[name] == (removed{}) {
				delete(v, name)
			}
		}
	case []any:
		for i := range v {
			v[i] = mistypesBelow(s.Items, v[i], fmt.Sprintf("%s[%d]", path, i), out)
		}
		return slices.DeleteFunc(v, func(item any) bool { return item == (removed{}) })
	}
	return v
}

// wrongType returns what is wrong with the type of a value; "" if nothing is.
func wrongType(s *structural.Schema, v any) string {
	got, example := "", ""
	switch v := v.(type) {
	case string:
		got, example = "a text", strings.TrimSpace(v)
		if s.Type == "string" || s.Type == "" {
			return ""
		}
		if s.Type == "integer" || s.Type == "number" {
			if json.Unmarshal([]byte(example), new(json.Number)) == nil && example != "" && example[0] != '"' {
				return fmt.Sprintf("got %s, want %s; write %s, without quotes", got, article(s.Type), example)
			}
		}
		if s.Type == "boolean" && (example == "true" || example == "false") {
			return fmt.Sprintf("got %s, want a boolean; write %s, without quotes", got, example)
		}
	case json.Number:
		got = "the number " + v.String()
		if s.Type == "number" || s.Type == "" || s.Type == "integer" && !strings.ContainsAny(v.String(), ".eE") {
			return ""
		}
		if s.Type == "string" {
			return fmt.Sprintf("got %s, want a text; write %q", got, v.String())
		}
	case bool:
		got = fmt.Sprint(v)
		if s.Type == "boolean" || s.Type == "" {
			return ""
		}
		if s.Type == "string" {
			return fmt.Sprintf("got %s, want a text; write %q", got, got)
		}
	case []any:
		got = "a list"
		if s.Type == "array" || s.Type == "" {
			return ""
		}
	case map[string]any:
		got = "an object"
		if s.Type == "object" || s.Type == "" {
			return ""
		}
		if s.Type == "array" {
			return `got an object, want a list: begin each item with "- "`
		}
	}
	return fmt.Sprintf("got %s, want %s", got, article(s.Type))
}

// article returns the name of a type in words.
func article(typ string) string {
	switch typ {
	case "string":
		return "a text"
	case "integer", "object":
		return "an " + typ
	case "array":
		return "a list"
	}
	return "a " + typ
}
