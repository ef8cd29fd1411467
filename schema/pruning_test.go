package schema

import (
	"testing"

	"github.com/keelson-io/keelson/jsondoc"
)

// This file has the eleven examples of KEP-2332, by number.

func TestPruningExamples(t *testing.T) {
	const around = `{"apiVersion":"example/v1","kind":"Foo"`
	for _, row := range []struct {
		example                 int
		where, schema, in, want string
	}{
		{1, here(), `{type: object}`, `"foo":42,"json":{"bar":43}`, ``},
		{2, here(), `{type: object, properties: {foo: {type: object}}}`, `"foo":{"abc":42},"json":{"bar":43}`, `"foo":{}`},
		{3, here(), `{type: object, properties: {foo: {type: object, properties: {bar: {type: object}}}}}`,
			`"foo":{"bar":{"abc":42},"def":43},"json":{"ghi":44}`, `"foo":{"bar":{}}`},
		{4, here(), `{type: object, properties: {foo: {type: object, additionalProperties: {type: object}}}}`,
			`"foo":{"abc":{"x":42},"def":{"y":43}},"json":{"ghi":44}`, `"foo":{"abc":{},"def":{}}`},
		{5, here(), `{type: object, properties: {foo: {type: object, additionalProperties: false}}}`,
			`"foo":{"abc":{"x":42},"def":{"y":43}},"json":{"ghi":44}`, `"foo":{"abc":{},"def":{}}`},
		{6, here(), `{type: object, properties: {json: {x-kubernetes-preserve-unknown-fields: true, nullable: true}}}`, `"foo":42,"json":{"bar":43}`, `"json":{"bar":43}`},
		// The text of 7 and 9 keeps abc and inner. The reference implementation, which this follows, prunes again below declared fields.
		{7, here(), `{type: object, properties: {json: {type: object, x-kubernetes-preserve-unknown-fields: true, nullable: true, properties: {bar: {type: object}}}}}`,
			`"foo":42,"json":{"bar":{"abc":43},"def":44}`, `"json":{"bar":{},"def":44}`},
		{8, here(), `{type: object, properties: {json: {type: object, x-kubernetes-preserve-unknown-fields: true, nullable: true, properties: {bar: {type: object, properties: {inner: {type: integer}}}}}}}`,
			`"foo":42,"json":{"bar":{"inner":43,"abc":44},"def":45}`, `"json":{"bar":{"inner":43},"def":45}`},
		{9, here(), `{type: object, properties: {json: {type: object, x-kubernetes-preserve-unknown-fields: true, nullable: true, additionalProperties: {type: object}}}}`,
			`"foo":42,"json":{"bar":{"inner":43,"abc":44},"def":45}`, `"json":{"bar":{},"def":45}`},
		{10, here(), `{type: object, properties: {object: {type: object, nullable: true, x-kubernetes-embedded-resource: true, x-kubernetes-preserve-unknown-fields: true}}}`,
			`"foo":42,"object":{"bar":43,"abc":44,"metadata":{"name":"example","garbage":45}}`, `"object":{"bar":43,"abc":44,"metadata":{"name":"example"}}`},
		{11, here(), `{type: object}`, `"metadata":{"name":"example","garbage":43},"foo":42`, `"metadata":{"name":"example"}`},
	} {
		p := compileYAML(t, row.schema, Options{Resource: true})
		member := func(s string) string {
			if s == "" {
				return around + "}"
			}
			return around + "," + s + "}"
		}
		for how, decode := range map[string]func(*jsondoc.Doc, []byte) (Found, error){"request": p.Decode, "storage": p.DecodeStored, "conversion": p.DecodeConverted} {
			var got, want jsondoc.Doc
			if _, err := decode(&got, []byte(member(row.in))); err != nil {
				t.Errorf("%s: example %d, %s: %v", row.where, row.example, how, err)
				continue
			}
			if err := jsondoc.Parse(&want, []byte(member(row.want))); err != nil {
				t.Fatal(err)
			}
			// ObjectMeta always has a creationTimestamp when it is read anew.
			got.Remove("metadata", "creationTimestamp")
			got.Remove("object", "metadata", "creationTimestamp")
			if !jsondoc.Equal(got.Root(), want.Root()) {
				t.Errorf("%s: example %d, %s: got %s, want %s", row.where, row.example, how, got.Root().AppendJSON(nil), want.Root().AppendJSON(nil))
			}
		}
	}
}
