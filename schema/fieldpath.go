package schema

import (
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-io/keelson/schema/structural"
)

// This file resolves JSON paths of member names in a schema, for rules and selectable fields.

var errNoField = errors.New("does not refer to a valid field")

// FieldPath resolves a path such as .a.b['c'], starting at s. It returns the names, the path as
// errors print it, and the schema of the field: nil for a member of a map without a schema. Array
// indexes are errors, and so is ['c'] unless brackets is set.
func FieldPath(text string, s *structural.Schema, brackets bool) (names []string, path *field.Path, found *structural.Schema, err error) {
	for text != "" {
		var name string
		switch text[0] {
		case '.':
			if name, text = pathToken(text[1:]); name == "" {
				return nil, nil, nil, errors.New("unexpected end of JSON path")
			}
		case '[':
			if !brackets {
				return nil, nil, nil, errors.New("array notation is not allowed")
			}
			if name, text, err = pathKey(text[1:]); err != nil {
				return nil, nil, nil, err
			}
		default:
			token, _ := pathToken(text)
			return nil, nil, nil, fmt.Errorf("expected [ or . but got: %s", token)
		}
		switch {
		case s == nil:
			return nil, nil, nil, errNoField
		case s.Properties != nil:
			if s = s.Properties[name]; s == nil {
				return nil, nil, nil, errNoField
			}
			path = path.Child(name)
		case s.Additional != nil || s.AdditionalAllows != nil:
			s, path = s.Additional, path.Key(name)
		default:
			return nil, nil, nil, errNoField
		}
		names = append(names, name)
	}
	return names, path, s, nil
}

// pathToken splits off the next token: a delimiter, or the text before the next one.
func pathToken(text string) (token, rest string) {
	i := strings.IndexAny(text, ".[]")
	switch {
	case i < 0:
		return text, ""
	case i == 0:
		return text[:1], text[1:]
	}
	return text[:i], text[i:]
}

// pathKey splits off the rest of a step in brackets: 'key'].
func pathKey(text string) (key, rest string, err error) {
	if text == "" {
		return "", "", fmt.Errorf("unexpected end of JSON path")
	}
	end := -1
	if text[0] == '\'' {
		for i := 1; i < len(text); i++ {
			if text[i] == '\'' && text[i-1] != '\\' {
				end = i
				break
			}
		}
	}
	if end < 0 {
		token := text
		if text[0] != '\'' {
			token, _ = pathToken(text)
		}
		return "", "", fmt.Errorf("expected single quoted string but got %s", token)
	}
	if key, err = unquoteKey(text[1:end]); err != nil {
		return "", "", fmt.Errorf("invalid string literal: %w", err)
	}
	token, rest := pathToken(text[end+1:])
	switch token {
	case "":
		return "", "", fmt.Errorf("unexpected end of JSON path")
	case "]":
		return key, rest, nil
	}
	return "", "", fmt.Errorf("expected ] but got %s", token)
}

// unquoteKey replaces the escape sequences of a quoted key.
func unquoteKey(s string) (string, error) {
	const from, to = `abfnrtv'\`, "\a\b\f\n\r\t\v'\\"
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) {
			b.WriteByte(s[i])
			continue
		}
		i++
		at := strings.IndexByte(from, s[i])
		if at < 0 {
			return "", fmt.Errorf("invalid escape char %s", s[i-1:i+1])
		}
		b.WriteByte(to[at])
	}
	return b.String(), nil
}
