package crd_test

import (
	"context"
	"fmt"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/keelson-io/keelson/crd"
	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/schema"
)

// A definition is checked, compiled, and then decodes and validates bytes.
func ExampleCompile() {
	var definition apiextv1.CustomResourceDefinition
	if err := yaml.Unmarshal([]byte(`
metadata: {name: widgets.example.org}
spec:
  group: example.org
  scope: Cluster
  names: {plural: widgets, kind: Widget}
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
              color: {type: string, enum: [red, green]}
            x-kubernetes-validations:
            - {rule: "self.size < 5 || has(self.color)", message: large ones need a color}
`), &definition); err != nil {
		fmt.Println(err)
		return
	}
	crd.Default(&definition)
	if errs := crd.Validate(&definition); len(errs) > 0 {
		fmt.Println(errs.ToAggregate())
		return
	}
	k, err := crd.Compile(&definition)
	if err != nil {
		fmt.Println(err)
		return
	}
	v := k.Version("v1")
	for _, body := range []string{
		`{"apiVersion":"example.org/v1","kind":"Widget","metadata":{"name":"a"},"spec":{"extra":true}}`,
		`{"apiVersion":"example.org/v1","kind":"Widget","metadata":{"name":"b"},"spec":{"size":11,"color":"red"}}`,
		`{"apiVersion":"example.org/v1","kind":"Widget","metadata":{"name":"c"},"spec":{"size":7}}`,
	} {
		d := jsondoc.Get()
		if _, err := v.Decode(d, []byte(body)); err != nil {
			fmt.Println(err)
			return
		}
		errs := v.Validate(context.Background(), d, nil, schema.Whole).Errors
		for _, e := range errs {
			fmt.Println(e.Field, "-", e.Error())
		}
		if len(errs) == 0 {
			fmt.Println(string(d.Root().Get("spec").AppendJSON(nil)))
		}
		d.Release()
	}
	// Output:
	// {"size":1}
	// spec.size - spec.size: Invalid value: 11: spec.size in body should be less than or equal to 10
	// spec - spec: Invalid value: large ones need a color
}
