package crd

import "bytes"

// This file estimates the memory of definitions.

const (
	// textFactor is the number of bytes that a definition keeps for each of its own: the bytes, their
	// views, and what is compiled of long texts such as rules, enums and defaults.
	textFactor = 16
	// schemaBytes is the number of bytes that a definition keeps for each object in it: a schema of a
	// place is a node of the structural schema, one of the compiled program, and a type for rules.
	schemaBytes = 3000
)

// Memory returns approximately how many bytes a server keeps for a definition with those stored
// bytes, besides views of its objects. A short text can have very many schemas: 65,535 of them are
// 1.8 MB of text, and 155 MB of memory.
func Memory(raw []byte) int64 {
	return max(textFactor*int64(len(raw)), schemaBytes*int64(bytes.Count(raw, []byte("{"))))
}
