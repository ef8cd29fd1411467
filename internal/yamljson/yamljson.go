// Package yamljson converts YAML to JSON as sigs.k8s.io/yaml does, for bodies of requests: the
// results and the error texts are the same.
//
// Four things differ, and all of them bound work. A text is parsed once, also if the caller wants
// to know its duplicate keys. The conversion ends when its context ends. Aliases cannot make
// the JSON much longer than the text. And a text has at most MaxIndicators indicators.
//
// # How it works
//
// Most manifests use a small part of YAML, which block.go converts without the library. For the
// others,
// the YAML library decodes mappings to ordered lists of pairs, which are cheaper than maps, and
// this package prints them. Pairs show neither merge keys (<<) nor the lines of duplicate keys. A
// text that has either is decoded again, to maps, if it is not too long for that.
package yamljson

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v2"

	"github.com/keelson-io/keelson/internal/fastpath"
)

// Bounds of a conversion.
const (
	// MaxJSON is the largest length of the JSON in bytes. Escapes make a text at most six times as
	// long, so that only aliases can exceed it for a request body.
	MaxJSON = 24 << 20

	// MaxTwice is the largest number of values in a text that must be decoded twice: one with merge
	// keys, or one with duplicate keys that the caller asks for.
	MaxTwice = 500_000

	// MaxIndicators is the greatest number of the characters , ? : [ { and of dashes before
	// white space in a text. Each value but the first follows one of them, and each of them ends or
	// begins at most two values. The library takes up to 1 µs for each. A list of numbers with a
	// line for each has one in four bytes at most, so that only flow style gets there within the
	// bound of a body, with hardly anything between the commas.
	MaxIndicators = 800_000

	// MaxDepth is the depth of flow collections from which on the library refuses a text.
	MaxDepth = 10_000

	// maxList is the length in bytes up to which [JSON] converts a text that is a list. A longer list
	// becomes an empty one: API objects are mappings, and the error for a list does not depend on
	// its items.
	maxList = 64 << 10
)

// LimitError is the error for a text that exceeds a bound of this package.
type LimitError struct{ msg string }

func (e *LimitError) Error() string { return e.msg }

// JSON converts the first document of a YAML text, which should be a mapping: a long list becomes an
// empty one. If strict is set and a mapping repeats a key, duplicates is the error of
// [sigs.k8s.io/yaml.YAMLToJSONStrict], and the JSON has the last value. If ctx ends, the error is that
// of ctx.
func JSON(ctx context.Context, text []byte, strict bool) (json []byte, duplicates, err error) {
	return convert(ctx, text, strict, len(text) > maxList)
}

// Any is [JSON] for a document that may be a list of any length.
func Any(ctx context.Context, text []byte, strict bool) (json []byte, duplicates, err error) {
	return convert(ctx, text, strict, false)
}

// convert is JSON. If emptied is set, a list becomes an empty one.
func convert(ctx context.Context, text []byte, strict, emptied bool) (json []byte, duplicates, err error) {
	if n := boundedIndicators(text); n > MaxIndicators {
		if opened(text) > MaxDepth {
			return nil, nil, errDepth
		}
		return nil, nil, &LimitError{fmt.Sprintf("a YAML text has at most %d indicators (one of , ? : [ { -), got %d; JSON has no such limit", MaxIndicators, n)}
	}
	if fastpath.BlockYAML.On() {
		if json, ok := block(text); ok {
			return json, nil, ctx.Err()
		}
	}
	r := root{emptied: emptied}
	if err := decode(ctx, text, &r, false); err != nil {
		return nil, nil, err
	}
	p := printer{ctx: ctx, maps: r.maps, b: make([]byte, 0, len(text)+len(text)/4)}
	err = errNeedsMaps
	if r.maps || !mayMerge(text) {
		err = p.print(r.value)
	}
	if err == errNeedsMaps {
		if n := count(r.value); n > MaxTwice {
			return nil, nil, &LimitError{fmt.Sprintf("a YAML text with merge keys or odd keys has at most %d values, got %d", MaxTwice, n)}
		}
		r.value, p.b, p.maps = nil, p.b[:0], true
		if err := decode(ctx, text, &r.value, false); err != nil {
			return nil, nil, err
		}
		err = p.print(r.value)
	}
	if err == nil {
		err = p.badFloat
	}
	if err != nil {
		return nil, nil, err
	}
	if !strict || !p.maps && !p.duplicates {
		return p.b, nil, nil
	}
	if n := count(r.value); n > MaxTwice {
		return nil, nil, &LimitError{fmt.Sprintf("a YAML text with duplicate keys has at most %d values, got %d", MaxTwice, n)}
	}
	var again any
	duplicates = decode(ctx, text, &again, true)
	if ctx.Err() != nil {
		return nil, nil, ctx.Err()
	}
	return p.b, duplicates, nil
}

// Messages returns the message for each key of the error duplicates that JSON returned, or that joins other errors.
func Messages(duplicates error) []string {
	if e := (*yaml.TypeError)(nil); errors.As(duplicates, &e) {
		return slices.Clone(e.Errors)
	}
	// Callers that split a text themselves have a list.
	if all, ok := duplicates.(interface{ Unwrap() []error }); ok {
		var out []string
		for _, err := range all.Unwrap() {
			out = append(out, err.Error())
		}
		return out
	}
	return []string{duplicates.Error()}
}

// decode decodes the first document of a text. For an empty text, out does not change.
func decode(ctx context.Context, text []byte, out any, strict bool) error {
	d := yaml.NewDecoder(&reader{ctx, text})
	d.SetStrict(strict)
	err := d.Decode(out)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, io.EOF):
		return nil
	}
	return err
}

// reader reads a text until its context ends. The library reads a few hundred bytes at a time while
// it parses.
type reader struct {
	ctx  context.Context
	text []byte
}

// Read implements [io.Reader].
func (r *reader) Read(b []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	if len(r.text) == 0 {
		return 0, io.EOF
	}
	n := copy(b, r.text)
	r.text = r.text[n:]
	return n, nil
}

// root decodes a document: a mapping to pairs, anything else as the library decodes it.
type root struct {
	emptied bool // a list becomes an empty one
	value   any
	maps    bool // mappings were decoded to maps
}

// skipped is a value that is not decoded.
type skipped struct{}

// UnmarshalYAML implements [yaml.Unmarshaler].
func (skipped) UnmarshalYAML(func(any) error) error { return nil }

// UnmarshalYAML implements [yaml.Unmarshaler]. The library does not call it for null.
func (r *root) UnmarshalYAML(unmarshal func(any) error) error {
	var mismatch *yaml.TypeError
	switch err := unmarshal(new([]skipped)); {
	case err == nil && r.emptied:
		r.value, r.maps = []any{}, true
		return nil
	case err == nil: // a list, which the library would decode as a list of pairs
		r.maps = true
		return unmarshal(&r.value)
	case !errors.As(err, &mismatch):
		return err
	}
	var pairs yaml.MapSlice
	err := unmarshal(&pairs)
	if errors.As(err, &mismatch) {
		r.maps = true
		return unmarshal(&r.value)
	}
	r.value = pairs
	return err
}

// mayMerge reports whether a text may contain merge keys: the plain scalar <<, or any scalar that
// means it and has the tag of merge keys or the tag "!", which leaves the tag to the library.
func mayMerge(text []byte) bool {
	has := func(s string) bool { return bytes.Contains(text, []byte(s)) }
	utf16 := bytes.HasPrefix(text, []byte("\xfe\xff")) || bytes.HasPrefix(text, []byte("\xff\xfe"))
	return utf16 || has("<<") || has("!") && has(`\`) && (has("merge") || has("%") || has("!<!>") || hasTag(text))
}

// hasTag reports whether a text may contain the tag "!": white space follows it.
func hasTag(text []byte) bool {
	for {
		i := bytes.IndexByte(text, '!')
		if i < 0 {
			return false
		}
		text = text[i+1:]
		if r, _ := utf8.DecodeRune(text); unicode.IsSpace(r) {
			return true
		}
	}
}

// errDepth is the error for a text that is too deep, and too long to let the library find that.
var errDepth = fmt.Errorf("yaml: exceeded max depth of %d", MaxDepth)

// opened returns the length of the longest run of brackets and braces that open a collection.
func opened(text []byte) int {
	longest, run := 0, 0
	for _, c := range text {
		if run++; c != '[' && c != '{' {
			run = 0
		}
		longest = max(longest, run)
	}
	return longest
}

// boundedIndicators is [indicators], or 0 for a text that is too short to have more than
// MaxIndicators.
func boundedIndicators(text []byte) int {
	if len(text) <= MaxIndicators {
		return 0
	}
	return indicators(text)
}

// indicators returns how many characters of a text may separate values, also of those in quotes
// and comments.
func indicators(text []byte) int {
	n := 0
	for i, c := range text {
		switch c {
		case ',', '?', ':', '[', '{':
			n++
		case '-':
			// White space is ASCII, the first byte of a line break of Unicode, or the other half of
			// a UTF-16 character.
			if i+1 == len(text) || text[i+1] <= ' ' || text[i+1] >= utf8.RuneSelf || i > 0 && text[i-1] == 0 {
				n++
			}
		}
	}
	return n
}

// count returns the number of values, keys included.
func count(v any) int {
	n := 1
	switch v := v.(type) {
	case yaml.MapSlice:
		for i := range v {
			n += count(v[i].Key) + count(v[i].Value)
		}
	case map[any]any:
		for key, value := range v {
			n += count(key) + count(value)
		}
	case []any:
		for i := range v {
			n += count(v[i])
		}
	}
	return n
}
