package kind

import (
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"weak"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"

	"github.com/keelson-io/keelson/doc"
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
	text    []byte   // of the definition in v1; nil if Outline holds
}

// ParseStored reads a stored definition: as an outline if its schemas were found
// right when it was written, completely otherwise. raw must not change.
func ParseStored(raw []byte) (*Stored, error) {
	if s := parseOutline(raw); s != nil && s.trusted() {
		return s, nil
	}
	text, err := fromBeta(raw)
	if err != nil {
		return nil, err
	}
	crd, err := ParseDefinition(text)
	if err != nil {
		return nil, err
	}
	return &Stored{Definition: crd, text: text}, nil
}

// Text is the definition in v1 if reading raw, as it is stored, took that, and
// else raw. Whoever changes the definition need not convert it again.
func (s *Stored) Text(raw []byte) []byte {
	if s.text != nil {
		return s.text
	}
	return raw
}

// trusted reports whether a server has checked the schemas. All were when they
// were written, except for legacy ones; of those a condition says what is wrong.
func (s *Stored) trusted() bool {
	crd := s.Definition
	return crd.APIVersion == apiextv1.SchemeGroupVersion.String() && crd.Kind == "CustomResourceDefinition" &&
		!crd.Spec.PreserveUnknownFields && HasCondition(crd, apiextv1.Established) && Condition(crd, apiextv1.NonStructuralSchema) == nil &&
		len(s.schemas) == len(crd.Spec.Versions)
}

// parseOutline is nil if raw is not what it should be; reading it completely says
// why.
func parseOutline(raw []byte) *Stored {
	d := doc.Get()
	defer d.Release()
	d.Reset(nil)
	o := outliner{d: d, raw: raw, s: d.Scan(raw)}
	if o.object(o.root) != nil || o.s.End() != nil || o.s.Duplicates() {
		return nil
	}
	rest, err := fromBeta(o.out)
	if err != nil {
		return nil
	}
	crd := new(apiextv1.CustomResourceDefinition)
	if err := kjson.UnmarshalCaseSensitivePreserveInts(rest, crd); err != nil {
		return nil
	}
	if o.shared != nil { // v1beta1 has at its top what all versions have in common
		o.schemas = slices.Repeat([][]byte{o.shared}, len(crd.Spec.Versions))
	}
	return &Stored{Definition: crd, Outline: true, schemas: o.schemas}
}

// outliner copies a definition apart from its schemas.
type outliner struct {
	d       *doc.Doc
	raw     []byte
	s       doc.Scanner
	out     []byte
	schemas [][]byte
	shared  []byte // of all versions
}

// object copies an object; member copies or leaves out the value of a member.
func (o *outliner) object(member func(name string) error) error {
	if kind, err := o.s.Kind(); err != nil || kind != doc.Object {
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
		o.out = append(doc.AppendQuoted(o.out, name), ':')
		if err := member(name); err != nil {
			return err
		}
	}
}

// value copies a value as it is.
func (o *outliner) value() error {
	if _, err := o.s.Kind(); err != nil { // skips space
		return err
	}
	from := o.s.Offset()
	if err := o.s.Skip(); err != nil {
		return err
	}
	o.out = append(o.out, o.raw[from:o.s.Offset()]...)
	return nil
}

func (o *outliner) root(name string) error {
	if name == "spec" {
		return o.object(o.spec)
	}
	return o.value()
}

func (o *outliner) spec(name string) error {
	if name == "validation" {
		return o.object(func(name string) error { return o.schema(name, &o.shared) })
	}
	if kind, err := o.s.Kind(); name != "versions" || err != nil || kind != doc.Array {
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
		o.schemas = append(o.schemas, nil)
		if err := o.object(o.version); err != nil {
			return err
		}
	}
}

func (o *outliner) version(name string) error {
	if name == "schema" {
		return o.object(func(name string) error { return o.schema(name, &o.schemas[len(o.schemas)-1]) })
	}
	return o.value()
}

// schema notes in at where the schema stands, and leaves it out.
func (o *outliner) schema(name string, at *[]byte) error {
	if kind, err := o.s.Kind(); name != "openAPIV3Schema" || err != nil || kind != doc.Object {
		return o.value()
	}
	from := o.s.Offset()
	if err := o.s.Skip(); err != nil {
		return err
	}
	*at = o.raw[from:o.s.Offset():o.s.Offset()]
	o.out = append(o.out, "null"...)
	return nil
}

// declared is the schema that a version declares. It is read from its text when
// somebody asks, and again if it was not in use for a while.
type declared struct {
	text atomic.Pointer[[]byte]            // of the schema
	kept atomic.Pointer[structural.Schema] // before there is a text
	last atomic.Pointer[weak.Pointer[structural.Schema]]
	mu   sync.Mutex // held while reading
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
	s, err := parseSchema(*text)
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

// parseSchema reads a schema as definitions have it.
func parseSchema(text []byte) (*structural.Schema, error) {
	var wire apiextv1.JSONSchemaProps
	if err := json.Unmarshal(text, &wire); err != nil {
		return nil, fmt.Errorf("stored schema: %w", err)
	}
	s, errs := structural.Parse(&wire, field.NewPath("schema", "openAPIV3Schema"))
	return s, errs.ToAggregate()
}

// CompileStored makes a Kind of a stored definition. The schemas of an outline
// are read when they are used first.
func CompileStored(s *Stored) (*Kind, error) {
	k, err := compile(s.Definition, s.Outline)
	if err == nil {
		k.Rebase(s)
	}
	return k, err
}

// Rebase lets k read its schemas from s, an outline of the same generation of
// the same definition. What k kept of the place that it read them from before
// can then be freed.
func (k *Kind) Rebase(s *Stored) {
	if !s.Outline || len(s.schemas) != len(k.All) {
		return
	}
	for i, v := range k.All {
		v.declared.rebase(s.schemas[i])
	}
}

// lazySchema sets the schema of v, which is read when it is needed.
func (v *Version) lazySchema(s *structural.Schema) error {
	opts, err := options(v.Kind.PreserveUnknown)
	if err != nil {
		return err
	}
	v.declared = new(declared)
	v.declared.kept.Store(s)
	v.Schema = schema.Lazy(v.declared.load, opts)
	v.Structural = v.Schema.Source
	return nil
}
