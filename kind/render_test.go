package kind

import "testing"

func TestLeadingAPIVersion(t *testing.T) {
	for text, want := range map[string]string{
		`{"apiVersion":"a/b","kind":"C"}`:             "a/b",
		`{"kind":"C","apiVersion":"a/b"}`:             "a/b",
		`{"kind":"C","metadata":{},"apiVersion":"a"}`: "",
		`{"kind":"C"`:                 "",
		`{"kind":"C`:                  "",
		`{"apiVersion":"a`:            "",
		`{"apiVersion": "a"}`:         "",
		`{"kind":"","apiVersion":""}`: "",
		``:                            "",
	} {
		if got := leadingAPIVersion([]byte(text)); got != want {
			t.Errorf("%s: got %q, want %q", text, got, want)
		}
	}
}
