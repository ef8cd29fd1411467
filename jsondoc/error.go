package jsondoc

import (
	gojson "encoding/json"
	"strconv"

	kjson "sigs.k8s.io/json"
)

// This file defines the errors of reading JSON.

// SyntaxError is a text that is no JSON, in encoding/json's words.
type SyntaxError struct {
	Offset int // bytes read up to and including the wrong one
	msg    string
}

func (e *SyntaxError) Error() string { return e.msg }

// RangeError is a number beyond float64, in encoding/json's words.
type RangeError struct {
	Offset int // bytes read up to and including the one after the number
	Number string
}

func (e *RangeError) Error() string {
	return "json: cannot unmarshal number " + e.Number + " into Go value of type float64"
}

// fail is the error of the source, which the scanner found to be wrong. It
// checks the whole text again with the decoder that Kubernetes uses: slower,
// but its words and offsets are right by construction.
func (s *Scanner) fail() error {
	var raw gojson.RawMessage
	err := kjson.UnmarshalCaseSensitivePreserveInts(s.src, &raw)
	if err == nil {
		panic("BUG: scanner refuses valid JSON at offset " + strconv.Itoa(s.pos))
	}
	_, offset := kjson.SyntaxErrorOffset(err)
	return &SyntaxError{Offset: int(offset), msg: err.Error()}
}
