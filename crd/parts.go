package crd

import (
	"bytes"
	"errors"
	"fmt"
	"hash/maphash"
	"strconv"
	"sync"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	kjson "sigs.k8s.io/json"

	"github.com/keelson-io/keelson/internal/poison"
	"github.com/keelson-io/keelson/jsondoc"
)

// This file separates the schemas of a definition from the rest, and joins them again. Schemas are
// most of the bytes, and changing the status or the API version of a definition does not need them
// decoded.

// parts is a definition that was separated from its schemas.
type parts struct {
	rest    []byte   // the definition as JSON, with a reference in place of each schema
	schemas [][]byte // the distinct texts of the schemas

	found map[uint64]int // indexes in schemas by hash of the text
}

// A reference is {"$ref":"N"} with an index into parts.schemas. Valid definitions cannot contain
// $ref.
const referenceStart, referenceEnd = `{"$ref":"`, `"}`

// partsSeed makes hash collisions unpredictable for clients.
var partsSeed = maphash.MakeSeed()

// addSchema adds the text of a schema, unless it is there already, and returns the reference to it.
func (p *parts) addSchema(text []byte) ([]byte, error) {
	sum := maphash.Bytes(partsSeed, text)
	at, ok := p.found[sum]
	if !ok || !bytes.Equal(p.schemas[at], text) {
		if p.found == nil {
			p.found = map[uint64]int{}
		}
		at = len(p.schemas)
		p.schemas, p.found[sum] = append(p.schemas, text), at
	}
	return fmt.Appendf(nil, "%s%d%s", referenceStart, at, referenceEnd), nil
}

// schemaOf returns the text to which a reference refers: the inverse of addSchema.
func (p *parts) schemaOf(text []byte) ([]byte, error) {
	number, starts := bytes.CutPrefix(text, []byte(referenceStart))
	if number, ends := bytes.CutSuffix(number, []byte(referenceEnd)); starts && ends {
		if at, err := strconv.Atoi(string(number)); err == nil && at >= 0 && at < len(p.schemas) {
			return p.schemas[at], nil
		}
	}
	return nil, fmt.Errorf("definition without its schemas: %.40q is no reference to one", text)
}

// separate separates a definition, in v1 or v1beta1, from its schemas. ok is false if raw is not
// JSON or has duplicate fields.
func separate(raw []byte) (p *parts, ok bool) {
	p = new(parts)
	rest, err := outlined(raw, p.addSchema)
	p.rest = rest
	return p, err == nil
}

// join replaces the references in a definition, in v1 or v1beta1, by the schemas.
func (p *parts) join(text []byte) ([]byte, error) {
	if len(p.schemas) == 0 {
		return text, nil
	}
	return outlined(text, p.schemaOf)
}

// separateDoc is separate for a document. The schemas have the texts that the document prints.
func separateDoc(root jsondoc.Value) *parts {
	p := new(parts)
	p.rest, _ = printed(func(out []byte) ([]byte, error) { // which cannot fail
		o := valueOutliner{parts: p, out: out}
		o.object(root, func(name string, v jsondoc.Value) {
			if name != "spec" {
				o.value(v)
				return
			}
			o.object(v, o.spec)
		})
		return o.out, nil
	})
	return p
}

// printed returns the result of print, which appends to a buffer. The result has no unused
// capacity.
func printed(print func(out []byte) ([]byte, error)) ([]byte, error) {
	buffer := printing.Get().(*[]byte)
	out, err := print((*buffer)[:0])
	// The buffer is reused, so that later reads of it would be errors; package poison makes them
	// visible in tests.
	text := bytes.Clone(out)
	poison.Fill(out)
	if *buffer = out; cap(out) <= maxPrinting && !poison.On {
		printing.Put(buffer)
	}
	return text, err
}

// printing holds the buffers of printed. Buffers above maxPrinting bytes are left to the garbage
// collector.
var printing = sync.Pool{New: func() any { return new([]byte) }}

const maxPrinting = 1 << 20

// valueOutliner prints the document of a definition with references in place of schemas.
type valueOutliner struct {
	*parts
	out []byte
}

// value prints a value unchanged.
func (o *valueOutliner) value(v jsondoc.Value) { o.out = v.AppendJSON(o.out) }

// object prints an object; member prints the value of each member. Other values are printed
// unchanged.
func (o *valueOutliner) object(v jsondoc.Value, member func(name string, v jsondoc.Value)) {
	if v.Kind() != jsondoc.Object {
		o.value(v)
		return
	}
	o.out = append(o.out, '{')
	open := len(o.out)
	for name, v := range v.Members() {
		if len(o.out) > open {
			o.out = append(o.out, ',')
		}
		o.out = append(jsondoc.AppendQuoted(o.out, name), ':')
		member(name, v)
	}
	o.out = append(o.out, '}')
}

// spec prints a member of the spec: schemas are in validation (v1beta1) and in the versions.
func (o *valueOutliner) spec(name string, v jsondoc.Value) {
	switch {
	case name == "validation":
		o.object(v, o.schema)
	case name == "versions" && v.Kind() == jsondoc.Array:
		o.out = append(o.out, '[')
		for i, v := range v.Items() {
			if i > 0 {
				o.out = append(o.out, ',')
			}
			o.object(v, o.version)
		}
		o.out = append(o.out, ']')
	default:
		o.value(v)
	}
}

// version prints a member of a version.
func (o *valueOutliner) version(name string, v jsondoc.Value) {
	if name != "schema" {
		o.value(v)
		return
	}
	o.object(v, o.schema)
}

// schema prints a member of a CustomResourceValidation. A schema is printed once, to get its text,
// and replaced by the reference.
func (o *valueOutliner) schema(name string, v jsondoc.Value) {
	if name != "openAPIV3Schema" || v.Kind() != jsondoc.Object {
		o.value(v)
		return
	}
	from := len(o.out)
	o.value(v)
	text := bytes.Clone(o.out[from:])
	reference, _ := o.addSchema(text) // cannot fail
	o.out = append(o.out[:from], reference...)
}

// outlined copies a definition, in v1 or v1beta1, and replaces the text of each schema by the
// result of instead. It is an error if a field is there twice, because decoders differ in which one
// they use.
func outlined(raw []byte, instead func(schema []byte) ([]byte, error)) ([]byte, error) {
	return printed(func(out []byte) ([]byte, error) {
		d := jsondoc.Get()
		defer d.Release()
		d.Reset(nil)
		o := outliner{d: d, raw: raw, s: d.Scan(raw), out: out, instead: instead}
		err := o.object(o.root)
		if err == nil {
			err = o.s.End()
		}
		if err == nil && o.s.Duplicates() {
			err = errDuplicate
		}
		return o.out, err
	})
}

var errDuplicate = errors.New("definition has a field twice")

// outliner copies the text of a definition and replaces its schemas.
type outliner struct {
	d       *jsondoc.Doc
	raw     []byte
	s       jsondoc.Scanner
	out     []byte
	instead func(schema []byte) ([]byte, error)
}

// object copies an object; member copies the value of each member. Other values are copied
// unchanged.
func (o *outliner) object(member func(name string) error) error {
	if kind, err := o.s.Kind(); err != nil || kind != jsondoc.Object {
		return o.value()
	}
	if err := o.s.ObjectStart(); err != nil {
		return err
	}
	o.out = append(o.out, '{')
	for first := true; ; first = false {
		key, more, err := o.s.Key(first)
		if err != nil {
			return err
		}
		if !more {
			o.out = append(o.out, '}')
			return nil
		}
		if !first {
			o.out = append(o.out, ',')
		}
		name := o.d.Str(key)
		o.out = append(jsondoc.AppendQuoted(o.out, name), ':')
		if err := member(name); err != nil {
			return err
		}
	}
}

// value copies the next value unchanged.
func (o *outliner) value() error {
	text, err := o.text()
	o.out = append(o.out, text...)
	return err
}

// text returns the text of the next value, and skips it.
func (o *outliner) text() ([]byte, error) {
	if _, err := o.s.Kind(); err != nil { // skips white space
		return nil, err
	}
	from := o.s.Offset()
	if err := o.s.Skip(); err != nil {
		return nil, err
	}
	return o.raw[from:o.s.Offset():o.s.Offset()], nil
}

// root copies a member of the definition.
func (o *outliner) root(name string) error {
	if name == "spec" {
		return o.object(o.spec)
	}
	return o.value()
}

// spec copies a member of the spec.
func (o *outliner) spec(name string) error {
	if name == "validation" {
		return o.object(o.schema)
	}
	if kind, err := o.s.Kind(); name != "versions" || err != nil || kind != jsondoc.Array {
		return o.value()
	}
	if err := o.s.ArrayStart(); err != nil {
		return err
	}
	o.out = append(o.out, '[')
	for first := true; ; first = false {
		more, err := o.s.More(first)
		if err != nil {
			return err
		}
		if !more {
			o.out = append(o.out, ']')
			return nil
		}
		if !first {
			o.out = append(o.out, ',')
		}
		if err := o.object(o.version); err != nil {
			return err
		}
	}
}

// version copies a member of a version.
func (o *outliner) version(name string) error {
	if name == "schema" {
		return o.object(o.schema)
	}
	return o.value()
}

// schema copies a member of a CustomResourceValidation.
func (o *outliner) schema(name string) error {
	if kind, err := o.s.Kind(); name != "openAPIV3Schema" || err != nil || kind != jsondoc.Object {
		return o.value()
	}
	text, err := o.text()
	if err == nil {
		text, err = o.instead(text)
	}
	o.out = append(o.out, text...)
	return err
}

// definition decodes the definition, in v1, with references in place of schemas.
func (p *parts) definition() (*apiextv1.CustomResourceDefinition, error) {
	rest, err := convertBeta(p.rest)
	if err != nil {
		return nil, err
	}
	crd := new(apiextv1.CustomResourceDefinition)
	if err := kjson.UnmarshalCaseSensitivePreserveInts(rest, crd); err != nil {
		return nil, fmt.Errorf("stored CustomResourceDefinition: %w", err)
	}
	return crd, nil
}

// detach removes the references from crd, and returns for each version the text of its schema, nil
// if it has none.
func (p *parts) detach(crd *apiextv1.CustomResourceDefinition) [][]byte {
	texts := make([][]byte, len(crd.Spec.Versions))
	for i := range texts {
		if at := p.reference(&crd.Spec.Versions[i]); at >= 0 {
			texts[i] = p.schemas[at]
			// Versions may share one CustomResourceValidation, which must not be changed.
			crd.Spec.Versions[i].Schema = new(apiextv1.CustomResourceValidation)
		}
	}
	return texts
}

// attach replaces the references in crd by decoded schemas. schemas has the order of p.schemas.
func (p *parts) attach(crd *apiextv1.CustomResourceDefinition, schemas []*apiextv1.JSONSchemaProps) {
	all := make([]*apiextv1.CustomResourceValidation, len(schemas))
	for i := range crd.Spec.Versions {
		at := p.reference(&crd.Spec.Versions[i])
		if at < 0 {
			continue
		}
		if all[at] == nil {
			all[at] = &apiextv1.CustomResourceValidation{OpenAPIV3Schema: schemas[at]}
		}
		crd.Spec.Versions[i].Schema = all[at]
	}
}

// reference returns the index in p.schemas to which v refers, -1 if v has no schema.
func (p *parts) reference(v *apiextv1.CustomResourceDefinitionVersion) int {
	s := openAPI(v.Schema)
	if s == nil || s.Ref == nil {
		return -1
	}
	at, err := strconv.Atoi(*s.Ref)
	if err != nil || at < 0 || at >= len(p.schemas) {
		return -1
	}
	return at
}
