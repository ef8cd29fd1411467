package jsondoc_test

import (
	"testing"

	"github.com/keelson-io/keelson/jsondoc"
)

// treeOrder is an order that refers to itself.
func treeOrder() *jsondoc.Order {
	o := &jsondoc.Order{HasNulls: true}
	o.Members = []jsondoc.OrderedMember{
		{Name: "z"}, {Name: "kids", Within: o, EmptyIsNull: true}, {Name: "by", Within: &jsondoc.Order{Others: o, HasNulls: true}}, {Name: "a"},
	}
	return o
}

func TestAppendOrdered(t *testing.T) {
	for i, c := range []struct{ text, want string }{
		{`{"a":1,"z":2}`, `{"z":2,"a":1}`},
		{`{"b":1,"a":2,"z":3,"_":4}`, `{"z":3,"a":2,"_":4,"b":1}`},
		{`{"kids":[{"a":1,"z":2},{"b":{"z":1,"a":2}}],"z":0}`, `{"z":0,"kids":[{"z":2,"a":1},{"b":{"a":2,"z":1}}]}`},
		{`{"by":{"y":{"a":1,"z":2},"x":{"kids":[]}}}`, `{"by":{"x":{"kids":[]},"y":{"z":2,"a":1}}}`},
		{`{}`, `{}`},
		{`[{"a":1,"z":2},3,null]`, `[{"z":2,"a":1},3,null]`},
		{`{"kids":"not a list","<":1}`, `{"kids":"not a list","\u003c":1}`},
	} {
		d := jsondoc.Get()
		if err := jsondoc.Parse(d, []byte(c.text)); err != nil {
			t.Fatal(err)
		}
		if got := string(d.AppendOrdered(nil, d.Root().Node, treeOrder())); got != c.want {
			t.Errorf("row %d: %s: got %s, want %s", i, c.text, got, c.want)
		}
		if got, want := string(d.AppendOrdered(nil, d.Root().Node, nil)), string(d.Root().AppendJSON(nil)); got != want {
			t.Errorf("row %d: without an order: got %s, want %s", i, got, want)
		}
		d.Release()
	}
}

func TestNullEmpty(t *testing.T) {
	shapes := []*jsondoc.Shape{nil, jsondoc.NewShape([]string{"a", "kids"}, []uint16{0, 1}, true)}
	d := new(jsondoc.Doc)
	d.Reset(shapes)
	empty := d.NewShaped(1)
	d.SetSlot(empty, 1, d.NewArray(nil))
	root := d.NewShaped(1)
	d.SetSlot(root, 0, d.NewArray(nil)) // may stay empty
	d.SetSlot(root, 1, d.NewArray([]jsondoc.Node{empty}))
	d.SetRoot(root)
	d.NullEmpty(root, nil)
	if got, want := string(d.Root().AppendJSON(nil)), `{"a":[],"kids":[{"kids":[]}]}`; got != want {
		t.Errorf("without an order: got %s, want %s", got, want)
	}
	d.NullEmpty(root, treeOrder())
	if got, want := string(d.Root().AppendJSON(nil)), `{"a":[],"kids":[{"kids":null}]}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
