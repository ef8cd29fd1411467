package crd

import (
	"bytes"
	"fmt"

	"github.com/keelson-io/keelson/kind"
)

// This file bounds how deep the schemas of a definition nest, before recursive code reads them.

// rereadNames are the fields whose values encoding/json reads and prints again for each of these
// fields around them.
var rereadNames = [][]byte{[]byte("items"), []byte("additionalItems"), []byte("additionalProperties"), []byte("dependencies")}

// isReread reports whether a name, as it stands in JSON, may be one of rereadNames.
func isReread(name []byte) bool {
	for _, n := range rereadNames {
		if bytes.EqualFold(name, n) {
			return true
		}
	}
	return bytes.IndexByte(name, '\\') >= 0 // an escape may spell one of them
}

// checkNesting returns an error if a definition in JSON must not be decoded. Malformed JSON is left
// to the decoder.
func checkNesting(src []byte) error {
	var starts [kind.MaxDepth]int // offsets of the open values; -1 for one that is read once
	var name []byte
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
