package openapi

import (
	"bytes"
	"fmt"
	"testing"

	openapi_v2 "github.com/google/gnostic-models/openapiv2"
	"google.golang.org/protobuf/proto"
)

// TestProtobufInPieces compares documents that are parsed in pieces with the same documents parsed as a whole.
func TestProtobufInPieces(t *testing.T) {
	for _, kinds := range []int{0, 1, 60} {
		r, _, url := start(t)
		for i := range kinds {
			r.Put(widgets(t, fmt.Sprintf("g%d.example", i), "things", "Thing"))
		}
		_, text := get(t, url+"/openapi/v2", "application/json")
		if kinds == 60 && len(text) < 4*pieceBytes {
			t.Fatalf("the document has only %d bytes", len(text))
		}
		whole, err := openapi_v2.ParseDocument(text)
		if err != nil {
			t.Fatal(err)
		}
		want, err := proto.Marshal(whole)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := protoV2(text); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%d kinds: got %d bytes that differ from the %d wanted, error %v", kinds, len(got), len(want), err)
		}
	}
	for _, text := range []string{``, `[]`, `{}`, `{"swagger":"2.0","info":{"title":"t","version":"1"},"paths":[]}`, `{"swagger":"2.0","info":{},"paths":{}}`} {
		if got, err := protoV2([]byte(text)); err == nil {
			t.Errorf("%s: got %d bytes, want an error", text, len(got))
		}
	}
}
