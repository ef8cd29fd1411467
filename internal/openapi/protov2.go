package openapi

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	openapi_v2 "github.com/google/gnostic-models/openapiv2"
	"google.golang.org/protobuf/proto"
)

// This file encodes the document of version 2, which describes all kinds, in protobuf.

// pieceBytes is how much of a document is parsed at a time. The parser reads it as YAML, and its nodes take some ten times the text.
const pieceBytes = 128 << 10

// protoV2 encodes a document whose members are sorted by name. It parses paths and definitions in pieces, so that the nodes of
// only one piece are in memory. The result is that of parsing the document as a whole.
func protoV2(text []byte) ([]byte, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(text, &members); err != nil {
		return nil, fmt.Errorf("OpenAPI v2 document: %w", err)
	}
	lists := map[string]map[string]json.RawMessage{}
	for _, name := range []string{"paths", "definitions"} {
		if have, ok := members[name]; ok {
			var list map[string]json.RawMessage
			if err := json.Unmarshal(have, &list); err != nil {
				return nil, fmt.Errorf("%s of the OpenAPI v2 document: %w", name, err)
			}
			lists[name], members[name] = list, json.RawMessage("{}")
		}
	}
	whole, err := parseV2(members)
	if err != nil {
		return nil, err
	}
	// Each piece is a document of its own with the members that all documents must have.
	head := map[string]json.RawMessage{"swagger": members["swagger"], "info": members["info"], "paths": json.RawMessage("{}")}
	for name, list := range lists {
		err := inPieces(list, func(piece map[string]json.RawMessage) error {
			text, err := json.Marshal(piece)
			if err != nil {
				return err
			}
			members := maps.Clone(head)
			members[name] = text
			part, err := parseV2(members)
			if err != nil {
				return err
			}
			if name == "paths" {
				whole.Paths.Path = append(whole.Paths.Path, part.Paths.Path...)
				whole.Paths.VendorExtension = append(whole.Paths.VendorExtension, part.Paths.VendorExtension...)
			} else {
				whole.Definitions.AdditionalProperties = append(whole.Definitions.AdditionalProperties, part.Definitions.AdditionalProperties...)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return proto.Marshal(whole)
}

// inPieces calls do with pieces of a list, in the order of the names.
func inPieces(list map[string]json.RawMessage, do func(map[string]json.RawMessage) error) error {
	piece, size := map[string]json.RawMessage{}, 0
	for _, name := range slices.Sorted(maps.Keys(list)) {
		piece[name] = list[name]
		if size += len(name) + len(list[name]); size < pieceBytes {
			continue
		}
		if err := do(piece); err != nil {
			return err
		}
		clear(piece)
		size = 0
	}
	if len(piece) == 0 {
		return nil
	}
	return do(piece)
}

// parseV2 parses a document with these members.
func parseV2(members map[string]json.RawMessage) (*openapi_v2.Document, error) {
	text, err := json.Marshal(members)
	if err != nil {
		return nil, fmt.Errorf("OpenAPI v2 document: %w", err)
	}
	d, err := openapi_v2.ParseDocument(text)
	if err != nil {
		return nil, fmt.Errorf("OpenAPI v2 document: %w", err)
	}
	return d, nil
}
