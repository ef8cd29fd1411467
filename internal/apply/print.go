package apply

import (
	"fmt"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v6/value"

	"github.com/keelson-io/keelson/jsondoc"
)

// This file prints merged objects: a tree of SMD values, partly still nodes of
// a document, to JSON with sorted keys.

// printer prints a merged object with new managedFields and, if annotation is
// not nil, a new record of what was applied last.
type printer struct {
	entries    []metav1.ManagedFieldsEntry
	annotation *string
	d          *jsondoc.Doc
}

// print returns the JSON of a value.
func (p *printer) print(v value.Value) ([]byte, error) {
	p.d = jsondoc.Get()
	defer p.d.Release()
	if n, ok := v.(node); ok {
		p.d.SetRoot(p.d.Import(n.Value))
	} else {
		root, err := p.node(v.Unstructured())
		if err != nil {
			return nil, err
		}
		p.d.SetRoot(root)
	}
	if p.annotation != nil {
		p.setLastApplied()
	}
	if err := writeManaged(p.d, p.entries); err != nil {
		return nil, fmt.Errorf("failed to encode managed fields: %v", err)
	}
	return p.d.Root().AppendJSON(nil), nil
}

// node makes a node of a Go value.
func (p *printer) node(v any) (jsondoc.Node, error) {
	switch v := v.(type) {
	case nil:
		return jsondoc.NullNode, nil
	case bool:
		return jsondoc.BoolNode(v), nil
	case int64:
		return jsondoc.IntNode(v), nil
	case int:
		return jsondoc.IntNode(int64(v)), nil
	case float64:
		return jsondoc.FloatNode(v), nil
	case string:
		return p.d.NewString(v), nil
	case []any:
		items := make([]jsondoc.Node, len(v))
		for i, item := range v {
			var err error
			if items[i], err = p.node(item); err != nil {
				return jsondoc.Node{}, err
			}
		}
		return p.d.NewArray(items), nil
	case map[string]any:
		pairs := make([]jsondoc.Node, 0, 2*len(v))
		for _, name := range slices.Sorted(maps.Keys(v)) {
			member, err := p.node(v[name])
			if err != nil {
				return jsondoc.Node{}, err
			}
			pairs = append(pairs, p.d.NewString(name), member)
		}
		return p.d.NewMap(pairs), nil
	}
	return jsondoc.Node{}, fmt.Errorf("failed to convert new typed object to object: no JSON value: %T", v)
}

// hasLastApplied reports whether client-side apply left its record.
func hasLastApplied(v value.Value) bool {
	return memberText(v, "metadata", "annotations", lastApplied) != ""
}

// memberText returns the string at a path.
func memberText(v value.Value, path ...string) string {
	for _, name := range path {
		if v == nil || !v.IsMap() {
			return ""
		}
		v, _ = v.AsMap().Get(name)
	}
	if v == nil || !v.IsString() {
		return ""
	}
	return v.AsString()
}

// setLastApplied sets the record of client-side apply, or removes it where it
// would make the annotations too large.
func (p *printer) setLastApplied() {
	p.d.Set(p.d.NewString(*p.annotation), "metadata", "annotations", lastApplied)
	size := 0
	for name, v := range p.d.Root().At("metadata", "annotations").Members() {
		size += len(name) + len(v.Text())
	}
	if size > maxAnnotated {
		p.d.Remove("metadata", "annotations", lastApplied)
	}
}

// nextLastApplied returns the record of config for client-side apply.
func nextLastApplied(config jsondoc.Value) *string {
	d := jsondoc.Get()
	defer d.Release()
	d.SetRoot(d.Import(config))
	d.Remove("metadata", "annotations", lastApplied)
	text := string(d.Root().AppendJSON(nil)) + "\n"
	return &text
}
