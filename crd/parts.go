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

// This file takes the schemas out of a definition and puts them back. They are
// by far the largest part of it, and whoever changes its status, or writes it in
// another version of the API, does not look into them.

// parts is a definition apart from its schemas.
type parts struct {
	rest    []byte   // the definition, JSON; in the place of a schema stands a reference to it
	schemas [][]byte // the texts of the schemas, each once

	found map[uint64]int // where in schemas a text is, by its hash
}

const referenceStart, referenceEnd = `{"$ref":"`, `"}`

var partsSeed = maphash.MakeSeed()

// take notes a schema and returns the reference to it.
func (p *parts) take(text []byte) ([]byte, error) {
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

// put is take's inverse.
func (p *parts) put(text []byte) ([]byte, error) {
	number, starts := bytes.CutPrefix(text, []byte(referenceStart))
	if number, ends := bytes.CutSuffix(number, []byte(referenceEnd)); starts && ends {
		if at, err := strconv.Atoi(string(number)); err == nil && at >= 0 && at < len(p.schemas) {
			return p.schemas[at], nil
		}
	}
	return nil, fmt.Errorf("definition without its schemas: %.40q is no reference to one", text)
}

// takeOut takes a definition of either version apart. ok is false if the text is
// no JSON, or has a field twice.
func takeOut(raw []byte) (p *parts, ok bool) {
	p = new(parts)
	rest, err := outlined(raw, p.take)
	p.rest = rest
	return p, err == nil
}

// graft puts the schemas back into a definition that has references, in either
// version.
func (p *parts) graft(text []byte) ([]byte, error) {
	if len(p.schemas) == 0 {
		return text, nil
	}
	return outlined(text, p.put)
}

// takeOutOf is takeOut for a document; the texts are those that it prints.
func takeOutOf(root jsondoc.Value) *parts {
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

// printed is what print appends to a buffer, in memory of its own size.
func printed(print func(out []byte) ([]byte, error)) ([]byte, error) {
	buffer := printing.Get().(*[]byte)
	out, err := print((*buffer)[:0])
	text := bytes.Clone(out)
	poison.Fill(out)
	if *buffer = out; cap(out) <= maxPrinting && !poison.On {
		printing.Put(buffer)
	}
	return text, err
}

// printing are the buffers of printed; large ones do not go back.
var printing = sync.Pool{New: func() any { return new([]byte) }}

const maxPrinting = 1 << 20

// valueOutliner prints a document with references for schemas.
type valueOutliner struct {
	*parts
	out []byte
}

func (o *valueOutliner) value(v jsondoc.Value) { o.out = v.AppendJSON(o.out) }

// object prints an object, its members as member does.
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

func (o *valueOutliner) version(name string, v jsondoc.Value) {
	if name != "schema" {
		o.value(v)
		return
	}
	o.object(v, o.schema)
}

func (o *valueOutliner) schema(name string, v jsondoc.Value) {
	if name != "openAPIV3Schema" || v.Kind() != jsondoc.Object {
		o.value(v)
		return
	}
	from := len(o.out)
	o.value(v)
	text := bytes.Clone(o.out[from:])
	reference, _ := o.take(text) // taking cannot fail
	o.out = append(o.out[:from], reference...)
}

// outlined copies a definition of either version with something else in the
// place of its schemas.
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

// outliner copies a definition apart from its schemas.
type outliner struct {
	d       *jsondoc.Doc
	raw     []byte
	s       jsondoc.Scanner
	out     []byte
	instead func(schema []byte) ([]byte, error)
}

// object copies an object; member copies or leaves out the value of a member.
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

// value copies a value as it is.
func (o *outliner) value() error {
	text, err := o.text()
	o.out = append(o.out, text...)
	return err
}

// text consumes a value.
func (o *outliner) text() ([]byte, error) {
	if _, err := o.s.Kind(); err != nil { // skips space
		return nil, err
	}
	from := o.s.Offset()
	if err := o.s.Skip(); err != nil {
		return nil, err
	}
	return o.raw[from:o.s.Offset():o.s.Offset()], nil
}

func (o *outliner) root(name string) error {
	if name == "spec" {
		return o.object(o.spec)
	}
	return o.value()
}

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

func (o *outliner) version(name string) error {
	if name == "schema" {
		return o.object(o.schema)
	}
	return o.value()
}

// schema copies a member of what contains a schema.
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

// definition is the definition in v1, with references for schemas.
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

// detach takes the references out of crd and returns the texts that they are of,
// version by version, nil where there is none.
func (p *parts) detach(crd *apiextv1.CustomResourceDefinition) [][]byte {
	texts := make([][]byte, len(crd.Spec.Versions))
	for i := range texts {
		if at := p.reference(&crd.Spec.Versions[i]); at >= 0 {
			texts[i] = p.schemas[at]
			// Versions may share what contains their schema.
			crd.Spec.Versions[i].Schema = new(apiextv1.CustomResourceValidation)
		}
	}
	return texts
}

// attach puts schemas, those of p in the order of their texts, in the place of the
// references in crd.
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

// reference is where in p.schemas the schema of v is, -1 if it has none.
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
