package suite_test

import (
	"context"
	"fmt"
	"log"

	"github.com/keelson-io/keelson/suite"
)

const definition = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
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
            properties:
              size: {type: integer, default: 1, maximum: 10}
              color:
                type: string
                maxLength: 20
                x-kubernetes-validations:
                - {rule: self == oldSelf, message: the color is final}
`

// Compile a definition, give it objects, read the errors of fields.
func ExampleKinds_Create() {
	kinds, err := suite.NewKinds([]byte(definition))
	if err != nil {
		log.Fatal(err) // what the server would refuse the definition with
	}
	defer kinds.Close()
	for _, object := range []string{
		`{apiVersion: example.com/v1, kind: Widget, metadata: {name: a}, spec: {color: red, colour: red}}`,
		`{apiVersion: example.com/v1, kind: Widget, metadata: {name: b}, spec: {size: 11, color: 3}}`,
	} {
		outcome, err := kinds.Create(context.Background(), []byte(object), suite.Options{})
		if err != nil {
			log.Fatal(err) // no answer: not an object, or of another kind
		}
		if outcome.Refusal != nil {
			fmt.Println(outcome.Refusal.Code, outcome.Refusal.Reason)
		}
		for _, e := range outcome.Errors {
			fmt.Printf("%s: %s\n", e.Field, e.Message)
		}
		for _, w := range outcome.Warnings {
			fmt.Println("warning:", w)
		}
	}
	// Output:
	// warning: unknown field "spec.colour"
	// 422 Invalid
	// spec.color: Invalid value: "integer": spec.color in body must be of type string: "integer"
	// spec.size: Invalid value: 11: spec.size in body should be less than or equal to 10
	// <nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation
}

func ExampleKinds_Update() {
	kinds, err := suite.NewKinds([]byte(definition))
	if err != nil {
		log.Fatal(err)
	}
	defer kinds.Close()
	outcome, err := kinds.Update(context.Background(),
		[]byte(`{apiVersion: example.com/v1, kind: Widget, metadata: {name: a}, spec: {color: red}}`),
		[]byte(`{apiVersion: example.com/v1, kind: Widget, metadata: {name: a}, spec: {color: blue}}`), suite.Options{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(outcome.Refusal.Message)
	// Output:
	// Widget.example.com "a" is invalid: spec.color: Invalid value: "blue": the color is final
}

func ExampleSuite_Run() {
	s, err := suite.Parse("widgets.yaml", []byte(`
crd: widget-crd.yaml
cases:
- name: the size has a default
  object: {apiVersion: example.com/v1, kind: Widget, metadata: {name: a}, spec: {}}
  stored: {apiVersion: example.com/v1, kind: Widget, metadata: {name: a}, spec: {size: 2}}
`), func(path string) ([]byte, error) { return []byte(definition), nil })
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	for _, r := range s.Run(context.Background(), nil) {
		fmt.Println(r.Case, r.Passed, r.Failures)
	}
	// Output:
	// the size has a default false [spec.size: got 1, want 2]
}
