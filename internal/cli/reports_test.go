package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// This file tests the JSON documents of validate, lint and test.

// TestReportsHaveOneForm reads the documents of three commands with one type.
func TestReportsHaveOneForm(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	crd := write("crd.yaml", `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  names: {plural: widgets, singular: widget, kind: Widget, listKind: WidgetList}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:
              size: {type: integer, minimum: 5, maximum: 2}
              on: {type: string}
`)
	object := write("object.yaml", `apiVersion: example.com/v1
kind: Widget
metadata: {name: a, namespace: default}
spec:
  colour: red
  size: 3
  on: a
`)
	bad := write("bad.yaml", "a: [\n")
	suite := write("suite.yaml", `crd: crd.yaml
cases:
- name: a
  object: {apiVersion: example.com/v1, kind: Widget, metadata: {name: a, namespace: default}}
  error: impossible
`)
	broken := write("broken.yaml", "crd: crd.yaml\ncases: 5\n")
	type finding struct {
		File         string
		Line, Column int
		Severity, ID string
		Message      string
	}
	for _, one := range []struct {
		kind    string
		args    []string
		ids     []string // with the severity, file and line of each
		summary map[string]int
	}{
		{"ValidateReport", []string{"validate", "-f", crd, object, bad}, []string{"error FieldValueInvalid object.yaml:6", "error FieldValueInvalid object.yaml:6",
			"error StrictDecoding object.yaml:5", "error Syntax bad.yaml:2", "warning BooleanKey object.yaml:7"}, map[string]int{"invalid": 2, "notObjects": 0, "skipped": 0, "valid": 0}},
		{"LintReport", []string{"lint", crd, bad}, []string{"error server/syntax bad.yaml:2", "warning contradiction/minimum crd.yaml:19", "warning server/boolean-key crd.yaml:20"},
			map[string]int{"errors": 1, "breaking": 0, "warnings": 2}},
		{"TestReport", []string{"test", suite, broken}, []string{"error Case suite.yaml:3", "error Suite broken.yaml:2"}, map[string]int{"passed": 0, "failed": 2}},
	} {
		var out, errs bytes.Buffer
		code := run(t.Context(), append([]string{one.args[0], "-o", "json"}, one.args[1:]...), nil, &out, &errs)
		var got struct {
			APIVersion, Kind string
			Results          []struct {
				File     string
				Findings []finding
			}
			Summary map[string]int
		}
		if err := json.Unmarshal(out.Bytes(), &got); err != nil || code != 1 {
			t.Fatalf("%v: exit code %d, %v\n%s%s", one.args, code, err, &out, &errs)
		}
		var ids []string
		for _, r := range got.Results {
			for _, f := range r.Findings {
				if f.File != r.File || f.Message == "" || f.Line < 1 {
					t.Errorf("%s: a finding of %s is %+v", one.kind, r.File, f)
				}
				ids = append(ids, fmt.Sprintf("%s %s %s:%d", f.Severity, f.ID, filepath.Base(f.File), f.Line))
			}
		}
		slices.Sort(ids)
		if got.APIVersion != "cli.keelson.io/v1" || got.Kind != one.kind || !slices.Equal(ids, one.ids) {
			t.Errorf("%s %s: got %q, want %s %q", got.APIVersion, got.Kind, ids, one.kind, one.ids)
		}
		for name, n := range one.summary {
			if m, ok := got.Summary[name]; !ok || m != n {
				t.Errorf("%s: summary: got %v, want %v", one.kind, got.Summary, one.summary)
			}
		}
	}
}
