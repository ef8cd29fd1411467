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

// This file reads definitions without their schemas, which are by far the
// largest part of them and needed only when somebody uses the kind.

// Stored is a definition as it is stored, read as far as it has to be.
type Stored struct {
	// Definition is without the schemas of its versions if Outline holds.
	Definition *apiextv1.CustomResourceDefinition
	Outline    bool

	schemas [][]byte // the text of each version's schema if Outline holds, nil where there is none
}

// ParseStored reads a stored definition: as an outline if its schemas were found
// right when it was written, completely otherwise. raw must not change.
func (c *Compiler) ParseStored(raw []byte) (*Stored, error) {
	p, ok := takeOut(raw)
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

// trusted reports whether a server has checked the schemas. All were when they
// were written, except for legacy ones; of those a condition says what is wrong.
func (s *Stored) trusted() bool {
	crd := s.Definition
	return crd.APIVersion == apiextv1.SchemeGroupVersion.String() && crd.Kind == "CustomResourceDefinition" &&
		!crd.Spec.PreserveUnknownFields && HasCondition(crd, apiextv1.Established) && Condition(crd, apiextv1.NonStructuralSchema) == nil
}

// outline is nil if the definition is not what it should be; reading it
// completely says why.
func (p *parts) outline() *Stored {
	crd, err := p.definition()
	if err != nil {
		return nil
	}
	return &Stored{Definition: crd, Outline: true, schemas: p.detach(crd)}
}

// declared is the schema that a version declares. It is read from its text when
// somebody asks, and again if it was not in use for a while.
type declared struct {
	text atomic.Pointer[[]byte]            // of the schema
	kept atomic.Pointer[structural.Schema] // before there is a text
	last atomic.Pointer[weak.Pointer[structural.Schema]]
	mu   sync.Mutex // held while reading

	compiler *Compiler
}

// rebase makes d read the same schema from another place; what was kept need not
// be any longer.
func (d *declared) rebase(text []byte) {
	d.text.Store(&text)
	d.kept.Store(nil)
}

// load is the schema.
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

func (d *declared) known() *structural.Schema {
	if s := d.kept.Load(); s != nil {
		return s
	}
	if last := d.last.Load(); last != nil {
		return last.Value()
	}
	return nil
}

// parseText reads a schema as definitions have it.
func (c *Compiler) parseText(text []byte) (*structural.Schema, error) {
	var wire apiextv1.JSONSchemaProps
	if err := json.Unmarshal(text, &wire); err != nil {
		return nil, fmt.Errorf("stored schema: %w", err)
	}
	s, errs := c.parse(&wire, field.NewPath("schema", "openAPIV3Schema"))
	return s, errs.ToAggregate()
}

// CompileStored makes a Kind of a stored definition. The schemas of an outline
// are read when they are used first.
func (c *Compiler) CompileStored(s *Stored) (*kind.Kind, error) {
	k, err := c.compile(s.Definition, s.Outline)
	if err == nil {
		Rebase(k, s)
	}
	return k, err
}

// Rebase lets k read its schemas from s, an outline of the same generation of
// the same definition. What k kept of the place that it read them from before
// can then be freed.
func Rebase(k *kind.Kind, s *Stored) {
	if !s.Outline || len(s.schemas) != len(k.All) {
		return
	}
	for i, v := range k.All {
		v.Declared.(*declared).rebase(s.schemas[i])
	}
}

// setSchema sets the schema of v, which is read when it is needed.
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
