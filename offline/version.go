package offline

import (
	"bytes"
	"encoding/json"
	"strconv"
)

// This file sets the resource version in the text of an object without changing anything else,
// because the server must see the user's text, including duplicate keys.

// withVersion returns the text with metadata.resourceVersion set to rev. If metadata is not an
// object, the text does not change.
func withVersion(text []byte, rev int64) []byte {
	version := []byte(strconv.Quote(strconv.FormatInt(rev, 10)))
	from, to, ok := member(text, "metadata")
	if !ok || text[from] != '{' {
		return text
	}
	metadata := text[from:to]
	if at, end, ok := member(metadata, "resourceVersion"); ok {
		return spliced(text, from+at, from+end, version)
	}
	entry := append([]byte(`"resourceVersion":`), version...)
	if len(bytes.TrimSpace(metadata[1:len(metadata)-1])) > 0 {
		entry = append(entry, ',')
	}
	return spliced(text, from+1, from+1, entry)
}

func spliced(text []byte, from, to int, with []byte) []byte {
	out := make([]byte, 0, len(text)+len(with))
	out = append(out, text[:from]...)
	out = append(out, with...)
	return append(out, text[to:]...)
}

// member returns the position of the value of a key in an object's text. If the key repeats, the
// last value counts.
func member(text []byte, key string) (from, to int, found bool) {
	dec := json.NewDecoder(bytes.NewReader(text))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return 0, 0, false
	}
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return 0, 0, false
		}
		var value json.RawMessage
		if dec.Decode(&value) != nil {
			return 0, 0, false
		}
		if name == key {
			to = int(dec.InputOffset())
			from, found = to-len(value), true
		}
	}
	return from, to, found
}
