package jsondoc

import (
	"slices"
	"testing"
)

func TestPatchStrict(t *testing.T) {
	for _, tt := range []struct {
		patch string
		want  []string
		err   string
	}{
		{`[]`, nil, ``},
		{`null`, nil, ``},
		{`[{"op":"add","path":"/a","value":{"b":1}},{"op":"move","from":"/a","path":"/b"}]`, nil, ``},
		{`[{"op":"add","op":"add","path":"/a","bogus":1}]`, []string{`json patch duplicate field "[0].op"`, `json patch unknown field "[0].bogus"`}, ``},
		{`[{"op":"add","path":"/a","value":{"x":1,"x":2}}]`, []string{`json patch duplicate field "[0].value.x"`}, ``},
		{`[{"op":1}]`, nil, `json: cannot unmarshal number into Go struct field jsonPatchOp.op of type string`},
		{`{}`, nil, `json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp`},
		{`[1]`, nil, `json: cannot unmarshal number into Go value of type handlers.jsonPatchOp`},
		{`[`, nil, `unexpected end of JSON input`},
	} {
		got, err := JSONPatchStrict([]byte(tt.patch))
		if !slices.Equal(got, tt.want) || (err == nil) != (tt.err == "") || err != nil && err.Error() != tt.err {
			t.Errorf("JSONPatchStrict(%s): got %q, %v, want %q, %q", tt.patch, got, err, tt.want, tt.err)
		}
	}
	for _, tt := range []struct {
		patch string
		want  []string
		err   string
	}{
		{`{}`, nil, ``},
		{`null`, nil, ``},
		{`{"a":{"b":1}}`, nil, ``},
		{`{"a":{"b":1,"b":2},"a":1}`, []string{`duplicate field "a.b"`, `duplicate field "a"`}, ``},
		{`[]`, nil, `json: cannot unmarshal array into Go value of type map[string]interface {}`},
		{`{"a":1e999}`, nil, `json: cannot unmarshal number 1e999 into Go value of type float64`},
		{`{`, nil, `unexpected end of JSON input`},
	} {
		got, err := MergePatchStrict([]byte(tt.patch))
		if !slices.Equal(got, tt.want) || (err == nil) != (tt.err == "") || err != nil && err.Error() != tt.err {
			t.Errorf("MergePatchStrict(%s): got %q, %v, want %q, %q", tt.patch, got, err, tt.want, tt.err)
		}
	}
}
