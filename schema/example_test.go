package schema_test

import (
	"context"
	"fmt"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/schema"
	"github.com/keelson-io/keelson/schema/structural"
)

// A schema without a definition around it: decode prunes and defaults, validate says what is wrong.
func ExampleCompile() {
	parsed, errs := structural.Parse(&apiextv1.JSONSchemaProps{
		Type: "object", Required: []string{"name"},
		Properties: map[string]apiextv1.JSONSchemaProps{
			"name":  {Type: "string"},
			"count": {Type: "integer", Default: &apiextv1.JSON{Raw: []byte("3")}},
		},
	}, field.NewPath("schema"))
	if len(errs) > 0 {
		fmt.Println(errs.ToAggregate())
		return
	}
	p, err := schema.Compile(parsed, schema.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	d := jsondoc.Get()
	defer d.Release()
	if _, err := p.Decode(d, []byte(`{"extra": 1}`)); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(string(d.Root().AppendJSON(nil)))
	for _, e := range p.Validate(context.Background(), d, nil, schema.Whole).Errors {
		fmt.Println(e)
	}
	// Output:
	// {"count":3}
	// name: Required value
}
