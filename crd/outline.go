package crd

import (
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"
	"weak"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-io/keelson/kind"
	"github.com/keelson-io/keelson/schema"
	"github.com/keelson-io/keelson/schema/structural"
)

// This file reads definitions without their schemas, which are most of their bytes and not needed
// until the kind is used.

// Stored is a stored definition, possibly an outline: read without its schemas.
type Stored struct {
	// Definition has no schemas in its versions if Outline is true.
	Definition *apiextv1.CustomResourceDefinition
	Outline    bool

	schemas [][]byte // the text of each version's schema, nil if it has none; only if Outline is true
}

// ParseStored reads a stored definition. It returns an outline if the schemas are known to be
// structural, and the whole definition otherwise. The result refers to raw, which must not change.
func (c *Compiler) ParseStored(raw []byte) (*Stored, error) {
	p, ok := separate(raw)
	if !ok {
		crd, err := c.parseRaw(raw)
		return &Stored{Definition: crd}, err
	}
	if s := p.outline(); s != nil && s.trusted() {
		return s, nil
	}
	crd, err := p.whole(c)
	return &Stored{Definition: crd}, err
}

// trusted reports whether the schemas are known to be structural. A server checked them when they
// were written, unless the definition is a legacy one; then the condition NonStructuralSchema says
// so.
func (s *Stored) trusted() bool {
	crd := s.Definition
	return crd.APIVersion == apiextv1.SchemeGroupVersion.String() && crd.Kind == "CustomResourceDefinition" &&
		!crd.Spec.PreserveUnknownFields && HasCondition(crd, apiextv1.Established) && Condition(crd, apiextv1.NonStructuralSchema) == nil
}

// outline returns the outline of the definition, nil if it cannot be decoded. Reading it completely
// then returns the error.
func (p *parts) outline() *Stored {
	crd, err := p.definition()
	if err != nil {
		return nil
	}
	return &Stored{Definition: crd, Outline: true, schemas: p.detach(crd)}
}

// declared is the schema of a version. It is parsed from its text when it is first used, and again
// if the garbage collector freed it since.
type declared struct {
	text atomic.Pointer[[]byte]                          // JSON text of the schema; nil until rebase
	kept atomic.Pointer[structural.Schema]               // the parsed schema until there is a text
	last atomic.Pointer[weak.Pointer[structural.Schema]] // the last parsed schema, which may be freed
	mu   sync.Mutex                                      // held while parsing, so that concurrent users parse once

	compiler *Compiler
}

// rebase makes d parse its schema from text. A parsed schema need not be kept any longer.
func (d *declared) rebase(text []byte) {
	d.text.Store(&text)
	d.kept.Store(nil)
}

// load returns the schema, nil if the version has none.
func (d *declared) load() (*structural.Schema, error) {
	if s := d.known(); s != nil {
		return s, nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if s := d.known(); s != nil {
		return s, nil
	}
	text := d.text.Load()
	if text == nil || *text == nil {
		return nil, nil
	}
	s, err := d.compiler.parseText(*text)
	if err == nil {
		last := weak.Make(s)
		d.last.Store(&last)
	}
	return s, err
}

// known returns the parsed schema if it is in memory, otherwise nil.
func (d *declared) known() *structural.Schema {
	if s := d.kept.Load(); s != nil {
		return s
	}
	if last := d.last.Load(); last != nil {
		return last.Value()
	}
	return nil
}

// parseText parses the JSON text of a schema.
func (c *Compiler) parseText(text []byte) (*structural.Schema, error) {
	var wire apiextv1.JSONSchemaProps
	if err := json.Unmarshal(text, &wire); err != nil {
		return nil, fmt.Errorf("stored schema: %w", err)
	}
	s, errs := c.parse(&wire, field.NewPath("schema", "openAPIV3Schema"))
	return s, errs.ToAggregate()
}

// CompileStored compiles a stored definition. The schemas of an outline are parsed when they are
// first used.
func (c *Compiler) CompileStored(s *Stored) (*kind.Kind, error) {
	k, err := c.compile(s.Definition, s.Outline)
	if err == nil {
		Rebase(k, s)
	}
	return k, err
}

// Rebase lets k parse its schemas from the texts in s, an outline of the same generation of the
// same definition. The bytes from which k parsed them before can then be freed.
func Rebase(k *kind.Kind, s *Stored) {
	if !s.Outline || len(s.schemas) != len(k.All) {
		return
	}
	for i, v := range k.All {
		v.Declared.(*declared).rebase(s.schemas[i])
	}
}

// setSchema sets the schema of v, which is compiled when it is first used. s may be nil.
func (c *Compiler) setSchema(v *kind.Version, s *structural.Schema) error {
	opts, err := c.options(v.Kind.PreserveUnknown)
	if err != nil {
		return err
	}
	d := &declared{compiler: c}
	d.kept.Store(s)
	v.Declared, v.Schema = d, schema.Lazy(d.load, opts)
	v.Structural = v.Schema.Source
	return nil
}
