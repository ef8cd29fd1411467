package schema

import (
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kjson "sigs.k8s.io/json"

	"github.com/keelson-io/keelson/jsondoc"
)

// This file lists what the decoder drops. It is a plain twin of the decoder: it visits the parsed
// text again.

// Strict lists the duplicate and undeclared fields of src in upstream's order: duplicates, fields of metadata, other fields, fields of the metadata of embedded
// resources. For malformed JSON it returns nil.
func (p *Program) Strict(src []byte) []jsondoc.StrictError {
	var d jsondoc.Doc
	code, err := p.load()
	if err != nil || jsondoc.Parse(&d, src) != nil {
		return nil
	}
	return code.strict(&d, src)
}

// strict is Strict for a parsed text.
func (p *program) strict(d *jsondoc.Doc, src []byte) []jsondoc.StrictError {
	list := jsondoc.Duplicates(src)
	s := strict{p: p}
	root := d.Root()
	if p.root.resource {
		list = append(list, unknownFields(unknownMeta("", root.Get("metadata")))...)
	}
	if !p.options.PreserveUnknown {
		s.value(p.root, p.root.keep, "", root)
		slices.Sort(s.unknown)
		list = append(list, unknownFields(s.unknown)...)
	}
	s.embedded(p.root, "", root)
	slices.Sort(s.meta)
	return append(list, unknownFields(s.meta)...)
}

// unknownFields returns the error for each path.
func unknownFields(paths []string) []jsondoc.StrictError {
	list := make([]jsondoc.StrictError, len(paths))
	for i, path := range paths {
		list[i] = jsondoc.StrictError{Kind: jsondoc.UnknownField, Path: path, Verbatim: true}
	}
	return list
}

// strict collects the paths of undeclared fields.
type strict struct {
	p       *program
	unknown []string
	meta    []string // paths in the metadata of embedded resources
}

// value finds the fields that decoding x by n drops. n is nil below a node without a schema. keep
// says that undeclared members are kept.
func (s *strict) value(n *node, keep bool, path string, x jsondoc.Value) {
	switch x.Kind() {
	case jsondoc.Object:
		for name, m := range x.Members() {
			s.member(n, keep, join(path, name), name, m)
		}
	case jsondoc.Array:
		for i := range x.Len() {
			at := path + "[" + strconv.Itoa(i) + "]"
			switch {
			case n == nil:
				s.value(nil, false, at, x.Item(i))
			case n.items != nil:
				s.value(n.items, n.items.keep, at, x.Item(i))
			case !keep:
				s.value(nil, false, at, x.Item(i))
			}
		}
	}
}

// member is value for a member.
func (s *strict) member(n *node, keep bool, path, name string, m jsondoc.Value) {
	if n == nil {
		s.unknown = append(s.unknown, path)
		return
	}
	p := n.prop(name)
	switch {
	case n.resource && isMeta(name):
	case p != nil:
		s.value(p, p.keep, path, m)
	case n.additional != nil:
		s.value(n.additional, n.additional.keep, path, m)
	case n.anyOther:
		s.value(nil, false, path, m)
	case !keep:
		s.unknown = append(s.unknown, path)
	}
}

// join appends a member name to a path.
func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// embedded finds unknown fields in the metadata of embedded resources. at is the path in the
// notation of field errors.
func (s *strict) embedded(n *node, at string, x jsondoc.Value) {
	if !n.deepEmbedded {
		return
	}
	switch x.Kind() {
	case jsondoc.Object:
		for name, m := range x.Members() {
			if n.embedded && name == "metadata" {
				s.meta = append(s.meta, unknownMeta(at, m)...)
			}
			if p := n.prop(name); p != nil {
				s.embedded(p, join(at, name), m)
			} else if n.additional != nil {
				s.embedded(n.additional, at+"["+name+"]", m)
			}
		}
	case jsondoc.Array:
		for i := 0; n.items != nil && i < x.Len(); i++ {
			index := "[" + strconv.Itoa(i) + "]"
			s.embedded(n.items, at+index, x.Item(i))
		}
	}
}

// unknownMeta returns the paths of fields that ObjectMeta does not have.
func unknownMeta(at string, meta jsondoc.Value) []string {
	if !meta.Exists() {
		return nil
	}
	var into metav1.ObjectMeta
	errs, err := kjson.UnmarshalStrict(meta.AppendJSON(nil), &into)
	if err != nil {
		return nil
	}
	prefix := join(at, "metadata") + "."
	var paths []string
	for _, err := range errs {
		if e, ok := err.(kjson.FieldError); ok {
			paths = append(paths, prefix+strings.TrimPrefix(e.FieldPath(), "."))
		}
	}
	return paths
}
