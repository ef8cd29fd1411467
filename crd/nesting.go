package crd

import (
	"bytes"
	"fmt"

	"github.com/keelson-io/keelson/kind"
)

// This file bounds how deep the schemas of a definition nest. It runs before recursive decoders do.

// rereadNames are the fields whose Go types have an UnmarshalJSON: encoding/json scans their value
// once more for each such field around it, so that the time is quadratic in the depth.
var rereadNames = [][]byte{[]byte("items"), []byte("additionalItems"), []byte("additionalProperties"), []byte("dependencies")}

// isReread reports whether a name, as it is written in JSON, may be one of rereadNames.
func isReread(name []byte) bool {
	for _, n := range rereadNames {
		if bytes.EqualFold(name, n) {
			return true
		}
	}
	return bytes.IndexByte(name, '\\') >= 0 // an escape may hide one of them
}

// checkNesting returns an error if decoding src as a definition would take too much stack or time.
// It ignores malformed JSON, which the decoder reports.
func checkNesting(src []byte) error {
	var starts [kind.MaxDepth]int // the offsets of the open arrays and objects; -1 if they are not in rereadNames
	var name []byte
	// total counts the bytes that are read again; again says that the next value is.
	depth, total, again := 0, 0, false
	for i := 0; i < len(src); i++ {
		switch src[i] {
		case '"':
			end := i + 1
			for end < len(src) && src[end] != '"' {
				if src[end] == '\\' {
					end++
				}
				end++
			}
			name, i = src[min(i+1, len(src)):min(end, len(src))], end
		case ':':
			again = isReread(name)
		case ',':
			again = false
		case '{', '[':
			if depth == kind.MaxDepth {
				return fmt.Errorf("CustomResourceDefinition: got more than %d levels of arrays and objects", kind.MaxDepth)
			}
			starts[depth] = -1
			if again {
				starts[depth] = i
			}
			depth, again = depth+1, false
		case '}', ']':
			if depth == 0 {
				return nil
			}
			depth--
			if starts[depth] >= 0 {
				total += i - starts[depth]
			}
			if total > kind.MaxReread {
				return kind.ErrReread
			}
		}
	}
	return nil
}
