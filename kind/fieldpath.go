package kind

import (
	"errors"
	"fmt"
	"strings"

	"github.com/keelson-io/keelson/schema/structural"
)

// This file follows JSON paths of names (.a.b['c']) through a schema, as
// selectable fields and the fieldPath of rules are checked.

var (
	errNoField  = errors.New("does not refer to a valid field")
	errEnd      = errors.New("unexpected end of JSON path")
	errBrackets = errors.New("array notation is not allowed")
)

// followPath returns the schema that path leads to from s, and the names on
// the way. brackets allows the form ['name'].
func followPath(path string, s *structural.Schema, brackets bool) ([]string, *structural.Schema, error) {
	var names []string
	rest := path
	for rest != "" {
		token, after := nextToken(rest)
		var name string
		switch token {
		case "[":
			if !brackets {
				return nil, nil, errBrackets
			}
			var err error
			if name, after, err = bracketName(after); err != nil {
				return nil, nil, err
			}
		case ".":
			if name, after = nextToken(after); name == "" {
				return nil, nil, errEnd
			}
		default:
			return nil, nil, fmt.Errorf("expected [ or . but got: %s", token)
		}
		if s = child(s, name); s == nil {
			return nil, nil, errNoField
		}
		names = append(names, name)
		rest = after
	}
	return names, s, nil
}

// child is the schema of a member: of a property or else of any additional
// one.
func child(s *structural.Schema, name string) *structural.Schema {
	if s.Properties != nil {
		return s.Properties[name]
	}
	return s.Additional
}

// nextToken cuts a token from s: one of the delimiters . [ ] or whatever stands
// before the next one. Delimiters inside single quotes do not count.
func nextToken(s string) (token, rest string) {
	if s == "" {
		return "", ""
	}
	if s[0] == '\'' {
		for i := 1; i < len(s); i++ {
			if s[i] == '\'' && s[i-1] != '\\' {
				return s[:i+1], s[i+1:]
			}
		}
		return s, ""
	}
	switch i := strings.IndexAny(s, ".[]"); i {
	case -1:
		return s, ""
	case 0:
		return s[:1], s[1:]
	default:
		return s[:i], s[i:]
	}
}

// bracketName reads 'name'] and returns the name and what follows.
func bracketName(s string) (name, rest string, err error) {
	token, rest := nextToken(s)
	if token == "" {
		return "", "", errEnd
	}
	if len(token) < 2 || token[0] != '\'' || token[len(token)-1] != '\'' {
		return "", "", fmt.Errorf("expected single quoted string but got %s", token)
	}
	if name, err = unescape(token[1 : len(token)-1]); err != nil {
		return "", "", fmt.Errorf("invalid string literal: %w", err)
	}
	token, rest = nextToken(rest)
	if token == "" {
		return "", "", errEnd
	}
	if token != "]" {
		return "", "", fmt.Errorf("expected ] but got %s", token)
	}
	return name, rest, nil
}

// unescape resolves the escapes that a quoted name may contain.
func unescape(s string) (string, error) {
	if !strings.Contains(s, `\`) {
		return s, nil
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' {
			b.WriteByte(s[i])
			continue
		}
		i++
		if i == len(s) {
			return "", errors.New("escape sequence is not complete")
		}
		at := strings.IndexByte(`abfnrtv'\`, s[i])
		if at < 0 {
			return "", fmt.Errorf("unknown escape sequence \\%c", s[i])
		}
		b.WriteByte("\a\b\f\n\r\t\v'\\"[at])
	}
	return b.String(), nil
}
