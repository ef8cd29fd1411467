package kind_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/keelson-io/keelson/crd"
	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/kind"
	"github.com/keelson-io/keelson/schema"
)

// compile makes a kind of a definition.
func compile(text string) (*kind.Kind, error) {
	definition, errs, err := crd.New([]byte(text))
	if err != nil || len(errs) > 0 {
		return nil, errors.Join(err, errs.ToAggregate())
	}
	return crd.Compile(definition)
}

// An update is validated beside the object that it replaces: rules can look at
// the old value, and what was wrong before and is left as it was is forgiven.
func ExampleVersion_Validate() {
	k, err := compile(`{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "widgets.example.org"},
		"spec": {"group": "example.org", "scope": "Cluster", "names": {"plural": "widgets", "kind": "Widget"},
			"versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {
				"type": "object", "properties": {
					"class": {"type": "string", "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "class cannot be changed"}]},
					"size":  {"type": "integer", "maximum": 10}}}}}}}]}}`)
	if err != nil {
		fmt.Println(err)
		return
	}
	v, old, updated := k.Version("v1"), jsondoc.Get(), jsondoc.Get()
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

// Strict lists what Decode dropped.
func ExampleVersion_Strict() {
	k, err := compile(`{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "widgets.example.org"},
		"spec": {"group": "example.org", "scope": "Cluster", "names": {"plural": "widgets", "kind": "Widget"},
			"versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}]}}`)
	if err != nil {
		fmt.Println(err)
		return
	}
	v, d := k.Version("v1"), jsondoc.Get()
	defer d.Release()
	body := []byte(`{"apiVersion":"example.org/v1","kind":"Widget","metadata":{"name":"a"},"size":1,"metadata":{"name":"b"}}`)
	found, err := v.Decode(d, body)
	fmt.Println(found&schema.FoundUnknown != 0, found&schema.FoundDuplicate != 0, err)
	for _, dropped := range v.Strict(body) {
		fmt.Println(dropped)
	}
	// Output:
	// true true <nil>
	// duplicate field "metadata"
	// unknown field "size"
}
