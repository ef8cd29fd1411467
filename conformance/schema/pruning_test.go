package schema_test

import (
	"testing"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// This file holds that examples 7 and 9 of KEP-2332 are as upstream built them.

func TestPruningAsBuilt(t *testing.T) {
	for name, text := range map[string]string{
		"7": `{type: object, properties: {json: {type: object, x-kubernetes-preserve-unknown-fields: true, nullable: true, properties: {bar: {type: object}}}}}`,
		"9": `{type: object, properties: {json: {type: object, x-kubernetes-preserve-unknown-fields: true, nullable: true, additionalProperties: {type: object}}}}`,
	} {
		var s apiextv1.JSONSchemaProps
		if err := yaml.Unmarshal([]byte(text), &s); err != nil {
			t.Fatal(err)
		}
		p := newPair(t, name, &s)
		src := []byte(`{"apiVersion":"example/v1","kind":"Foo","foo":42,"json":{"bar":{"inner":43,"abc":44},"def":45}}`)
		p.check(t, src, nil, false)
		obj, _, err := p.up.decode(src, false)
		if err != nil {
			t.Fatal(err)
		}
		if got := mustJSON(obj["json"]); got != `{"bar":{},"def":45}` {
			t.Errorf("%s: upstream keeps %s", name, got)
		}
	}
}
