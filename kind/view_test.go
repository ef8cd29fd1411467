package kind_test

import (
	"slices"
	"testing"
	"unsafe"

	"github.com/keelson-io/keelson/internal/meta"
	"github.com/keelson-io/keelson/jsondoc"
)

// This file tests views that share what a change left as it was.

func TestViewOf(t *testing.T) {
	k := compileTest(t)
	object := func(metadata, spec string) string {
		return `{"apiVersion":"example.org/v1beta1","kind":"Widget","metadata":{"name":"w","namespace":"n"` + metadata + `},"spec":{` + spec + `}}`
	}
	texts := []string{
		object("", ""), object(`,"labels":{}`, `"a":"x"`), object(`,"labels":{"a":"b"}`, `"a":"x"`), object(`,"labels":{"a":"b"}`, `"a":"y","num":3`),
		object(`,"labels":{"a":"c"}`, ""), object(`,"labels":{"b":"c"}`, ""), object(`,"labels":{"a":"c","b":"c"}`, ""), object(`,"labels":null`, ""),
	}
	for _, v := range k.Versions {
		for _, was := range texts {
			before := v.ViewOf(decode(t, v, was), nil, nil)
			for _, is := range texts {
				d := decode(t, v, is)
				got, want := v.ViewOf(d, []byte(is), before), v.ViewOf(d, []byte(is), nil)
				if string(got.JSON) != is || !sameView(got, want) {
					t.Errorf("%s: %s after %s: got labels %v, want %v", v.Name, is, was, got.Labels, want.Labels)
				}
				same := len(got.Labels) > 0 && slices.Equal(got.Labels, before.Labels)
				if shared := same && unsafe.SliceData(got.Labels) == unsafe.SliceData(before.Labels); shared != same {
					t.Errorf("%s: %s after %s: labels are not shared", v.Name, is, was)
				}
			}
		}
	}
}

// sameView reports whether selectors see the same in two views.
func sameView(a, b *meta.View) bool {
	if !slices.Equal(a.Labels, b.Labels) {
		return false
	}
	for _, path := range []string{"metadata.name", "metadata.namespace", "spec.a", "spec.num", "else"} {
		if a.Fields(path) != b.Fields(path) {
			return false
		}
	}
	return true
}

// BenchmarkViewOf is what follows each write.
func BenchmarkViewOf(b *testing.B) {
	k := compileTest(b)
	v := k.Version("v1")
	d := new(jsondoc.Doc)
	if _, err := v.Decode(d, []byte(`{"apiVersion":"example.org/v1","kind":"Widget","metadata":{"name":"w","namespace":"n","labels":{"app":"x","tier":"y"}}}`)); err != nil {
		b.Fatal(err)
	}
	before := v.ViewOf(d, nil, nil)
	for name, was := range map[string]*meta.View{"new": nil, "changed": before} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				v.ViewOf(d, nil, was)
			}
		})
	}
}
