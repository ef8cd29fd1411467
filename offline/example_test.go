package offline_test

import (
	"context"
	"fmt"
	"log"

	"github.com/keelson-io/keelson/offline"
)

const definition = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.org}
spec:
  group: example.org
  scope: Namespaced
  names: {plural: widgets, kind: Widget}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec: {type: object, properties: {size: {type: integer, default: 1, maximum: 10}}}
`

// The server's verdict on two objects, and what it would store.
func ExampleServer_Do() {
	ctx := context.Background()
	server, err := offline.Open(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	refused, _, err := server.Add(ctx, offline.Documents("crd.yaml", []byte(definition)))
	if err != nil || len(refused) > 0 {
		log.Fatal(refused, err)
	}
	for _, d := range offline.Documents("widgets.yaml", []byte(`
{apiVersion: example.org/v1, kind: Widget, metadata: {name: a}, spec: {}}
---
{apiVersion: example.org/v1, kind: Widget, metadata: {name: b}, spec: {size: 11}}
`)) {
		answer, err := server.Do(ctx, &offline.Request{Object: &d})
		switch {
		case err != nil:
			log.Fatal(err) // no answer: not an object, or of an unknown kind
		case answer.Refusal != nil:
			fmt.Println(d, answer.Refusal.Message)
		default:
			fmt.Println(d, "is valid")
		}
	}
	// Output:
	// widgets.yaml:2 is valid
	// widgets.yaml:4 Widget.example.org "b" is invalid: spec.size: Invalid value: 11: spec.size in body should be less than or equal to 10
}
