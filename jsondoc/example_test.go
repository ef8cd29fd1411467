package jsondoc_test

import (
	"fmt"

	"github.com/keelson-io/keelson/jsondoc"
)

// A document is read, looked at, changed and printed; keys come out sorted.
func Example() {
	d := jsondoc.Get()
	defer d.Release()
	if err := jsondoc.Parse(d, []byte(`{"spec": {"size": 3, "parts": ["a", "b"]}, "kind": "Widget"}`)); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(d.Root().At("spec", "size").Int(), d.Root().At("spec", "nope").Exists())
	for i, part := range d.Root().At("spec", "parts").Items() {
		fmt.Println(i, part.Text())
	}
	d.Set(jsondoc.IntNode(4), "spec", "size")
	d.Remove("spec", "parts")
	fmt.Println(string(d.Root().AppendJSON(nil)))
	// Output:
	// 3 false
	// 0 a
	// 1 b
	// {"kind":"Widget","spec":{"size":4}}
}

// A merge patch replaces members; null removes them.
func ExampleMergePatch() {
	out, err := jsondoc.MergePatch([]byte(`{"a":1,"b":{"c":2,"d":3}}`), []byte(`{"b":{"c":null,"e":[4]}}`))
	fmt.Println(string(out), err)
	// Output:
	// {"a":1,"b":{"d":3,"e":[4]}} <nil>
}
