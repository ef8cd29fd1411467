package objects

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-io/keelson/internal/cache"
	"github.com/keelson-io/keelson/internal/meta"
	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/kind"
)

// This file tests that patches of metadata come to the same the short way and
// the plain one.

// metadataCRD has defaults at every level, metadata of its own below the root,
// and fields that are kept unknown.
const metadataCRD = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: heads.demo.io, uid: 1f1c8bb2-1c1f-4bb5-9f02-0d2f0b6c1a03, generation: 1}
spec:
  group: demo.io
  scope: Cluster
  names: {plural: heads, singular: head, kind: Head, listKind: HeadList}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        required: [spec]
        properties:
          metadata: {type: object, properties: {name: {type: string, maxLength: 5}, generateName: {type: string}}}
          aaa: {type: object, default: {}, properties: {b: {type: integer, default: 3}}}
          spec:
            type: object
            properties:
              color: {type: string, default: red}
              none: {type: string, nullable: true}
              number: {type: number}
              free: {type: object, x-kubernetes-preserve-unknown-fields: true}
              template: {type: object, x-kubernetes-embedded-resource: true, x-kubernetes-preserve-unknown-fields: true}
`

// patchBoth patches a stored object both ways. short is empty if the short way
// was not taken.
func patchBoth(t testing.TB, v *kind.Version, stored, patch string) (short, plain string) {
	t.Helper()
	obj := &cache.Object{Key: v.Kind.Key("", "a"), Rev: 7, Raw: []byte(stored)}
	live, next := new(jsondoc.Doc), new(jsondoc.Doc)
	if v.Load(live, obj.Raw, obj.Rev) != nil {
		return "", ""
	}
	ref := RefTo(v.Kind, "", "a")
	ref.Version = v
	if ofMetadata([]byte(patch)) && ref.patchMetadata(next, live, []byte(patch)) {
		err := ref.checkIdentity(meta.Object{Doc: next})
		if next.Root().At("metadata", "managedFields").Exists() {
			t.Errorf("got managedFields, which are the live object's: %s", next.Root().AppendJSON(nil))
		}
		short = fmt.Sprint(string(next.Root().AppendJSON(nil)), err)
	}
	view, err := obj.View(v)
	if err != nil {
		t.Fatal(err)
	}
	next = new(jsondoc.Doc)
	text, err := patched(t.Context(), types.MergePatchType, view.JSON, []byte(patch))
	if err != nil {
		return short, err.Error()
	}
	_, err = ref.decodePatched(next, &patchResult{
		patch: Patch{Type: types.MergePatchType, Options: &meta.WriteOptions{FieldValidation: metav1.FieldValidationStrict}}, after: text,
	})
	if next.Root().Kind() != jsondoc.Object {
		return short, err.Error()
	}
	next.Remove("metadata", "managedFields")
	return short, fmt.Sprint(string(next.Root().AppendJSON(nil)), err)
}

// managed are usual managedFields.
const managed = `"managedFields":[{"apiVersion":"demo.io/v1","fieldsType":"FieldsV1","fieldsV1":{"f:metadata":{"f:labels":{".":{},"f:a":{}}}},"manager":"m","operation":"Update","time":"2026-01-02T03:04:05Z"}]`

func FuzzPatchMetadata(f *testing.F) {
	specs := []string{
		`{}`, `null`, `{"color":null,"none":null,"unknown":1}`, `{"number":1.5}`, `{"number":1.0,"free":{"x":1.0}}`, `{"color":"\u003cé"}`,
		`{"free":{"x":[null,{"y":null}]},"template":{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","labels":{"a":"b"},"bogus":1}}}`,
	}
	patches := []string{
		`{"metadata":{"labels":{"a":"c","d":null}}}`, `{"metadata":{"annotations":{"é\"":"<&>"},"finalizers":["x/y"]}}`, `{"metadata":{"labels":null}}`,
		`{"metadata":{"labels":{"a":1}}}`, `{"metadata":{"bogus":1}}`, `{"metadata":{"name":"b"}}`, `{"metadata":null}`, `{"metadata":{}}`, `{"metadata":[]}`,
		`{"metadata":{"ownerReferences":[{"uid":"u"}],"creationTimestamp":null}}`, `{"metadata":{"resourceVersion":"7","generation":1.0}}`,
		`{"metadata":{"namespace":"n"}}`, `{"metadata":{},"spec":{}}`, `{}`, `[]`, `{"metadata":{"managedFields":[]}}`, `{"metadata":{"creationTimestamp":"x"}}`,
	}
	for _, spec := range specs {
		for _, patch := range patches {
			f.Add(spec, patch)
		}
	}
	v := compile(f, metadataCRD).Version("v1")
	f.Fuzz(func(t *testing.T, spec, patch string) {
		stored := `{"apiVersion":"demo.io/v1","kind":"Head","metadata":{"name":"a","uid":"u","labels":{"a":"b","d":"e"},"generation":4,` + managed + `},"spec":` + spec + `}`
		if short, plain := patchBoth(t, v, stored, patch); short != "" && short != plain {
			t.Errorf("patch %s of %s:\nshort %s\nplain %s", patch, stored, short, plain)
		}
	})
}

func TestPatchMetadataIsTaken(t *testing.T) {
	v := compile(t, metadataCRD).Version("v1")
	stored := `{"apiVersion":"demo.io/v1","kind":"Head","metadata":{"name":"a","uid":"u"},"spec":{"free":{"x":1}}}`
	for patch, want := range map[string]bool{
		`{"metadata":{"annotations":{"a":"b"}}}`:            true,
		`{"metadata":{"finalizers":["x/y"],"labels":null}}`: true,
		`{"metadata":{"bogus":1}}`:                          false,
		`{"metadata":{"managedFields":null}}`:               false,
		`{"spec":{}}`:                                       false,
	} {
		if short, _ := patchBoth(t, v, stored, patch); (short != "") != want {
			t.Errorf("%s: the short way was taken: %v, want %v", patch, short != "", want)
		}
	}
}

// TestPatchMetadataOfOddManagers: what others have stored as managedFields is of no more interest to the short way than to the plain one.
func TestPatchMetadataOfOddManagers(t *testing.T) {
	v := compile(t, metadataCRD).Version("v1")
	for _, stored := range []string{managed, `"managedFields":null`, `"managedFields":[]`, `"managedFields":[{}]`, `"managedFields":[null]`, `"managedFields":"x"`,
		`"managedFields":[1]`, `"managedFields":[{"manager":1}]`, `"managedFields":[{"time":"x"}]`, `"managedFields":[{"fieldsV1":"x","bogus":1}]`} {
		stored = `{"apiVersion":"demo.io/v1","kind":"Head","metadata":{"name":"a","uid":"u",` + stored + `},"spec":{}}`
		if short, plain := patchBoth(t, v, stored, `{"metadata":{"labels":{"a":"b"}}}`); short != "" && short != plain {
			t.Errorf("patch of %s:\nshort %s\nplain %s", stored, short, plain)
		}
	}
}
