package kind

import (
	"errors"
	"testing"

	"github.com/keelson-io/keelson/jsondoc"
)

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

// TestMissingVersion holds what the error of an object in a version that its kind lacks says.
func TestMissingVersion(t *testing.T) {
	custom := &Kind{Group: "demo.io", Plural: "docs", Name: "Doc", Namespaced: true}
	custom.Storage = &Version{Kind: custom, Name: "v2", IsStorage: true}
	custom.All = []*Version{custom.Storage}
	const way = `: add v1 to spec.versions of the CRD again (served: false is enough) and rewrite the objects, for example with a StorageVersionMigration, ` +
		`or delete the object with the option ignoreStoreReadErrorWithClusterBreakingPotential`
	for raw, want := range map[string]string{
		`{"apiVersion":"demo.io/v1","kind":"Doc","metadata":{"name":"a","namespace":"n"}}`: `stored Doc n/a: got apiVersion "demo.io/v1", want one of the versions of docs.demo.io` + way,
		`{"metadata":{"name":"a"},"apiVersion":"demo.io/v1"}`:                              `stored Doc a: got apiVersion "demo.io/v1", want one of the versions of docs.demo.io` + way,
		`{"apiVersion":"other.io/v1","metadata":{"name":"a"}}`:                             `stored Doc a: got apiVersion "other.io/v1", want one of the versions of docs.demo.io`,
		`{"metadata":{"name":"a"}}`:                                                        `stored Doc a: got apiVersion "", want one of the versions of docs.demo.io`,
	} {
		err := custom.Storage.Load(new(jsondoc.Doc), []byte(raw), 1)
		if !IsMissingVersion(err) || err.Error() != want {
			t.Errorf("%s:\ngot  %v\nwant %s", raw, err, want)
		}
	}
	if IsMissingVersion(errors.New("other")) || IsMissingVersion(nil) {
		t.Error("other errors are not of a missing version")
	}
	for raw, want := range map[string]string{`{"apiVersion":"a/b"}`: "a/b", `{"x":1,"apiVersion":"a/b"}`: "a/b", `{`: "", `[]`: ""} {
		if got := StoredAPIVersion([]byte(raw)); got != want {
			t.Errorf("%s: got %q, want %q", raw, got, want)
		}
	}
}
