package suite

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

const mutable = `apiVersion: apiextensions.k8s.io/v1
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
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            required: [size]
            properties:
              size: {type: integer, maximum: 9}
              color: {type: string, enum: [red, blue], default: red}
              never: {type: string, maxLength: 5}
            x-kubernetes-validations:
            - rule: self.size > 2 || self.color == 'red'
`

// mutations runs a mutation test of cases.
func mutations(t *testing.T, limit int, cases string) (*Mutations, error) {
	t.Helper()
	s, err := Parse("suite.yaml", []byte("crd: crd.yaml\ncases:\n"+cases), func(string) ([]byte, error) { return []byte(mutable), nil })
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	return Mutate(t.Context(), []*Suite{s}, MutateOptions{Limit: limit})
}

func widgetCase(name, spec, want string) string {
	object := fmt.Sprintf("{apiVersion: example.com/v1, kind: Widget, metadata: {name: a}, spec: %s}", spec)
	if want == "" {
		want = "stored: " + object
	}
	return fmt.Sprintf("- {name: %s, object: %s, %s}\n", name, object, want)
}

// TestMutate holds which changes are not detected: with few cases, and with cases for all of them.
func TestMutate(t *testing.T) {
	few := widgetCase("small", "{size: 3, color: red}", "") + widgetCase("large", "{size: 20}", "error: spec.size")
	m, err := mutations(t, 0, few)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range m.Undetected {
		got = append(got, fmt.Sprintf("%s:%d:%d %s: %s => %s", c.File, c.Line, c.Column, c.What, c.Before, c.After))
	}
	want := []string{
		"crd.yaml:18:24 an item of required is removed: \"size\" => ",
		"crd.yaml:21:37 enum is removed: [\"red\",\"blue\"] => ",
		"crd.yaml:21:49 an item of enum is removed: \"blue\" => ",
		"crd.yaml:21:56 the default is removed: \"red\" => ",
		"crd.yaml:22:37 the bound is removed: 5 => ",
		"crd.yaml:22:37 the bound is looser: 5 => 6",
		"crd.yaml:22:37 the bound is tighter: 5 => 4",
		"crd.yaml:20:37 the bound is looser: 9 => 10",
		"crd.yaml:20:37 the bound is tighter: 9 => 8",
		"crd.yaml:24:15 the rule is removed: self.size > 2 || self.color == 'red' => ",
		"crd.yaml:24:21 the right operand is dropped: self.size > 2 || self.color == 'red' => (self.size > 2)",
	}
	for _, line := range want {
		if !slices.Contains(got, line) {
			t.Errorf("%s is missing among\n%s", line, strings.Join(got, "\n"))
		}
	}
	many := few + widgetCase("one", "{size: 1}", "stored: {apiVersion: example.com/v1, kind: Widget, metadata: {name: a}, spec: {size: 1, color: red}}") +
		widgetCase("blue", "{size: 2, color: blue}", "error: failed rule") + widgetCase("blue3", "{size: 3, color: blue}", "") +
		widgetCase("nine", "{size: 9, color: red}", "") + widgetCase("ten", "{size: 10}", "error: spec.size") + widgetCase("none", "{color: red}", "error: spec.size") +
		widgetCase("green", "{size: 3, color: green}", "error: spec.color") + widgetCase("long", "{size: 3, color: red, never: abcde}", "") +
		widgetCase("longer", "{size: 3, color: red, never: abcdef}", "error: spec.never")
	if m, err = mutations(t, 0, many); err != nil {
		t.Fatal(err)
	}
	for _, c := range m.Undetected {
		t.Errorf("not detected: %s:%d:%d %s: %s => %s", c.File, c.Line, c.Column, c.What, c.Before, c.After)
	}
	if m.Percent() != 100 || m.Detected < 18 {
		t.Errorf("got %d of %d changes detected", m.Detected, m.Tried)
	}
	bounded, err := mutations(t, 3, few)
	if err != nil || bounded.Tried != 3 || bounded.Changes != m.Changes {
		t.Errorf("got %+v, %v, want 3 changes tried", bounded, err)
	}
	if _, err := mutations(t, 0, widgetCase("wrong", "{size: 20}", "error: color")); err == nil || !strings.Contains(err.Error(), "suite.yaml:3: case \"wrong\" fails") {
		t.Errorf("a case that fails: got %v", err)
	}
}
