package suite

import (
	"context"
	"strings"
	"testing"
)

// This file tests what the scripts of internal/cli do not reach.

const twoVersions = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Cluster
  names: {plural: widgets, singular: widget, kind: Widget, listKind: WidgetList}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, properties: {a: {type: integer}, b: {type: integer, default: 3}}}}
  - name: v2
    served: true
    storage: false
    schema: {openAPIV3Schema: {type: object, properties: {a: {type: integer, maximum: 5}}}}
`

func parse(t testing.TB, text string) (*Suite, error) {
	t.Helper()
	s, err := Parse("test.yaml", []byte(text), func(string) ([]byte, error) { return []byte(twoVersions), nil })
	if err == nil {
		t.Cleanup(func() { s.Close() })
	}
	return s, err
}

// TestNoSuite holds that the error for another kind of file says what a suite needs.
func TestNoSuite(t *testing.T) {
	for text, want := range map[string]string{
		"apiVersion: v1\nkind: ConfigMap": "a.yaml: no suite: it has no cases",
		"cases: []\nkind: x":              `a.yaml:2:1: unknown field "kind"`,
	} {
		if _, err := Parse("a.yaml", []byte(text), nil); err == nil || err.Error() != want {
			t.Errorf("%q: got %v, want %s", text, err, want)
		}
	}
}

func TestUpdateThroughAnotherVersion(t *testing.T) {
	k, err := NewKinds([]byte(twoVersions))
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	v1 := []byte(`{apiVersion: example.com/v1, kind: Widget, metadata: {name: a}, a: 7, b: 1}`)
	same := []byte(`{apiVersion: example.com/v2, kind: Widget, metadata: {name: a, labels: {x: "y"}}, a: 7}`)
	got, err := k.Update(t.Context(), v1, same, Options{})
	if err != nil || got.Refusal != nil {
		t.Fatalf("a value that was too large before: got %v, %+v", err, got)
	}
	if !strings.Contains(string(got.Object), `"apiVersion":"example.com/v2"`) || strings.Contains(string(got.Object), `"b"`) {
		t.Errorf("got %s, want v2 without b", got.Object)
	}
	worse := []byte(`{apiVersion: example.com/v2, kind: Widget, metadata: {name: a}, a: 8}`)
	if got, err = k.Update(t.Context(), v1, worse, Options{}); err != nil || len(got.Errors) != 1 {
		t.Errorf("a value that gets worse: got %v, %+v, want one error", err, got)
	}
}

func TestRequestsWithoutAnAnswer(t *testing.T) {
	k, err := NewKinds([]byte(twoVersions))
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	const good = `{apiVersion: example.com/v1, kind: Widget, metadata: {name: a}}`
	for _, tt := range []struct {
		object  string
		options Options
		want    string
	}{
		{"[", Options{}, "did not find expected node content"},
		{"3", Options{}, "not an object"},
		{"{apiVersion: example.com/v3, kind: Widget}", Options{}, `no definition of kind "Widget" in version "example.com/v3"`},
		{good, Options{FieldValidation: "Never"}, `fieldValidation: got "Never"`},
		{good, Options{Subresource: "status"}, "only updates"},
	} {
		if _, err := k.Create(t.Context(), []byte(tt.object), tt.options); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want %s", tt.object, err, tt.want)
		}
	}
	for _, o := range []Options{{Subresource: "scale"}, {Subresource: "status"}} {
		if _, err := k.Update(t.Context(), []byte(good), []byte(good), o); err == nil || !strings.Contains(err.Error(), "subresource") {
			t.Errorf("update of %s: got %v, want an error", o.Subresource, err)
		}
	}
}

func TestUpdateKeepsAllOtherLines(t *testing.T) {
	for _, tt := range []struct{ name, before, after string }{
		{"no newline at the end", "crd: x\ncases:\n- name: a\n  object: {apiVersion: example.com/v1, kind: Widget, metadata: {name: a}, a: x}",
			"crd: x\ncases:\n- name: a\n  object: {apiVersion: example.com/v1, kind: Widget, metadata: {name: a}, a: x}\n" +
				"  error: 'a: Invalid value: \"string\": a in body must be of type integer: \"string\"'\n"},
		{"expectations of both kinds, indented list", "crd: x\ncases:\n  - name: a\n    warnings:\n    - x # gone\n    error: never\n    # about the object\n    object: {apiVersion: example.com/v1, kind: Widget, metadata: {name: a}}\n  # end\n",
			"crd: x\ncases:\n  - name: a\n    stored:\n      apiVersion: example.com/v1\n      b: 3\n      kind: Widget\n      metadata:\n        name: a\n    warnings: []\n    # about the object\n    object: {apiVersion: example.com/v1, kind: Widget, metadata: {name: a}}\n  # end\n"},
	} {
		s, err := parse(t, tt.before)
		if err != nil {
			t.Fatal(err)
		}
		got, n, err := s.Update(s.Run(t.Context(), nil))
		if err != nil || n != 1 {
			t.Fatalf("%s: got %d updated, %v", tt.name, n, err)
		}
		if string(got) != tt.after {
			t.Errorf("%s: got\n%s\nwant\n%s", tt.name, got, tt.after)
		}
	}
}

// FuzzUpdate checks that an updated suite is a valid suite whose cases pass.
func FuzzUpdate(f *testing.F) {
	f.Add("crd: x\ncases:\n- name: a\n  object: {apiVersion: example.com/v1, kind: Widget, metadata: {name: a}}\n  stored: {}\n")
	f.Add("crd: x\ncases:\n  - name: a\n    initial: {apiVersion: example.com/v1, kind: Widget, metadata: {name: a}}\n    updated: |\n      apiVersion: example.com/v2\n      kind: Widget\n      metadata: {name: a}\n      a: 6\n    # c\n    warnings:\n    - x\n")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := parse(t, text)
		if err != nil {
			return
		}
		results := s.Run(context.Background(), nil)
		out, n, err := s.Update(results)
		if err != nil || n == 0 {
			return
		}
		again, err := parse(t, string(out))
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		for i, r := range again.Run(context.Background(), nil) {
			if !r.Passed && results[i].answered {
				t.Errorf("%s: %v\n%s", r.Case, r.Failures, out)
			}
		}
	})
}

// TestBuiltinKindsNeedNoDefinition runs a suite that names no file.
func TestBuiltinKindsNeedNoDefinition(t *testing.T) {
	s, err := parse(t, "cases:\n- name: a\n  object: {apiVersion: v1, kind: Service, metadata: {name: S}}\n  error: 'metadata.name'\n")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range s.Run(t.Context(), nil) {
		if !r.Passed {
			t.Errorf("got %+v", r)
		}
	}
}

// TestUnknownKeysHaveALine names the place of a key that suites do not have, and not that of the same
// key in an object.
func TestUnknownKeysHaveALine(t *testing.T) {
	for text, want := range map[string]string{
		"cases:\n- name: a\n  object: {expect: 1}\n- name: b\n  expect: x\n": `test.yaml:5:3: unknown field "expect"`,
		"user: {name: a, groupz: []}\ncases: [{name: a}]\n":                  `test.yaml:1:17: `,
	} {
		if _, err := parse(t, text); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: got %v, want %s", text, err, want)
		}
	}
}
