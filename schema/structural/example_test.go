package structural_test

import (
	"fmt"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-io/keelson/schema/structural"
)

// A property without a type makes a schema not structural.
func ExampleValidate() {
	path := field.NewPath("openAPIV3Schema")
	for _, size := range []apiextv1.JSONSchemaProps{{Type: "integer"}, {Description: "without a type"}} {
		s, errs := structural.Parse(&apiextv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextv1.JSONSchemaProps{"size": size}}, path)
		if len(errs) > 0 {
			fmt.Println(errs.ToAggregate())
			continue
		}
		fmt.Println(structural.Validate(s, path))
	}
	// Output:
	// []
	// [openAPIV3Schema.properties[size].type: Required value: must not be empty for specified object fields]
}
