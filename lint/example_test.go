package lint_test

import (
	"context"
	"fmt"
	"log"

	"github.com/keelson-io/keelson/lint"
)

func ExampleCheck() {
	d, err := lint.Load(lint.Source{Name: "widgets.yaml", Text: []byte(`
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
            x-kubernetes-validations:
            - rule: self.min <= self.max
            - rule: self.names.all(a, self.names.exists_one(b, a == b))
            properties:
              min: {type: integer}
              names:
                type: array
                items: {type: string, maxLength: 63}
`)})
	if err != nil {
		log.Fatal(err)
	}
	report := lint.Check(context.Background(), d, nil)
	first := report.Findings[0]
	for _, f := range report.Findings {
		if f.Expression != nil {
			first = f
		}
	}
	fmt.Printf("%s:%d:%d: %s: %s\n", report.File, first.Line, first.Column, first.Severity, first.Message)
	for _, c := range report.Schemas[0].Costs {
		fmt.Printf("%s: %s\n", c.Where, c.Advice)
	}
	// Output:
	// widgets.yaml:20:37: error: does not compile: undefined field 'max'
	// spec: set maxItems: 577 on spec.names (any bound up to it fits)
}
