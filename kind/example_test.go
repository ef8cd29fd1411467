package kind_test

import (
	"context"
	"fmt"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/keelson-io/keelson/doc"
	"github.com/keelson-io/keelson/kind"
	"github.com/keelson-io/keelson/schema"
)

// A definition is checked, compiled, and then decodes and validates bytes.
func ExampleCompile() {
	var crd apiextv1.CustomResourceDefinition
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
`), &crd); err != nil {
		fmt.Println(err)
		return
	}
	kind.DefaultCRD(&crd)
	if errs := kind.ValidateCRD(&crd); len(errs) > 0 {
		fmt.Println(errs.ToAggregate())
		return
	}
	k, err := kind.Compile(&crd)
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
		d := doc.Get()
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

// An update is validated beside the object that it replaces: rules can look at
// the old value, and what was wrong before and is left as it was is forgiven.
func ExampleVersion_Validate() {
	crd, errs, err := kind.NewCRD([]byte(`{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "widgets.example.org"},
		"spec": {"group": "example.org", "scope": "Cluster", "names": {"plural": "widgets", "kind": "Widget"},
			"versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {
				"type": "object", "properties": {
					"class": {"type": "string", "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "class cannot be changed"}]},
					"size":  {"type": "integer", "maximum": 10}}}}}}}]}}`))
	if err != nil || len(errs) > 0 {
		fmt.Println(err, errs.ToAggregate())
		return
	}
	k, err := kind.Compile(crd)
	if err != nil {
		fmt.Println(err)
		return
	}
	v, old, updated := k.Version("v1"), doc.Get(), doc.Get()
	defer old.Release()
	defer updated.Release()
	const meta = `"apiVersion":"example.org/v1","kind":"Widget","metadata":{"name":"a","resourceVersion":"1"}`
	for _, spec := range []string{`{"class":"x","size":11}`, `{"class":"y","size":11}`, `{"class":"x","size":12}`} {
		if _, err := v.Decode(old, []byte(`{`+meta+`,"spec":{"class":"x","size":11}}`)); err != nil {
			fmt.Println(err)
		}
		if _, err := v.Decode(updated, []byte(`{`+meta+`,"spec":`+spec+`}`)); err != nil {
			fmt.Println(err)
		}
		fmt.Println(spec, v.Validate(context.Background(), updated, old, schema.Whole).Errors.ToAggregate())
	}
	// Output:
	// {"class":"x","size":11} <nil>
	// {"class":"y","size":11} spec.class: Invalid value: "y": class cannot be changed
	// {"class":"x","size":12} spec.size: Invalid value: 12: spec.size in body should be less than or equal to 10
}

// Strict says in words what Decode dropped.
func ExampleVersion_Strict() {
	crd, _, err := kind.NewCRD([]byte(`{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "widgets.example.org"},
		"spec": {"group": "example.org", "scope": "Cluster", "names": {"plural": "widgets", "kind": "Widget"},
			"versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}]}}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	k, err := kind.Compile(crd)
	if err != nil {
		fmt.Println(err)
		return
	}
	v, d := k.Version("v1"), doc.Get()
	defer d.Release()
	body := []byte(`{"apiVersion":"example.org/v1","kind":"Widget","metadata":{"name":"a"},"size":1,"metadata":{"name":"b"}}`)
	found, err := v.Decode(d, body)
	fmt.Println(found&schema.FoundUnknown != 0, found&schema.FoundDuplicate != 0, err)
	for _, text := range v.Strict(body) {
		fmt.Println(text)
	}
	// Output:
	// true true <nil>
	// duplicate field "metadata"
	// unknown field "size"
}
