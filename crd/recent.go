package crd

import (
	"bytes"
	"sync"
	"sync/atomic"

	"github.com/keelson-io/keelson/internal/fastpath"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"

	"github.com/keelson-io/keelson/schema"
	"github.com/keelson-io/keelson/schema/structural"
)

// This file remembers the last few schemas of definitions. To read and to
// compile a large one takes milliseconds, and the same one is asked for several
// times in a row: to check it, to store it, to serve it, and again for every
// change of its status. Nobody can see from outside whether a schema was
// remembered or read.

// recentSchema is a schema and what was made of it. The schema is never changed.
type recentSchema struct {
	text []byte // as documents print it
	wire *apiextv1.JSONSchemaProps
	// exact says that it is what reading text makes, digit by digit: the number
	// 1.0 is printed as 1.
	exact bool

	parsed  atomic.Pointer[structural.Schema] // nil until somebody asks, or if it cannot be parsed
	sound   atomic.Bool                       // it was found to be structural
	program atomic.Pointer[schema.Program]    // what rules are checked by, and objects later: as long as it is here it stays compiled
}

// Compiler reads, checks and compiles the definitions of one server. It remembers
// the schemas that it read last, and equal schemas that it compiles share memory.
// The zero value is ready to use. It is safe for concurrent use. A nil *Compiler
// remembers and shares nothing.
type Compiler struct {
	// Metrics, if not nil, observes the rules and updates of all kinds.
	Metrics *schema.Metrics

	nodes  structural.Nodes
	codes  schema.Codes
	recent recentSchemas
}

// parse is structural.Parse with the nodes of c.
func (c *Compiler) parse(wire *apiextv1.JSONSchemaProps, path *field.Path) (*structural.Schema, field.ErrorList) {
	if c == nil {
		return structural.Parse(wire, path)
	}
	return c.nodes.Parse(wire, path)
}

// options returns the options for the schema of a whole resource.
func (c *Compiler) options(preserveUnknown bool) (schema.Options, error) {
	e, err := env()
	o := schema.Options{Resource: true, Env: e, PreserveUnknown: preserveUnknown}
	if c != nil {
		o.Codes, o.Metrics = &c.codes, c.Metrics
	}
	return o, err
}

// remembered returns what is remembered of a text, as a document prints it.
func (c *Compiler) remembered(text []byte) *recentSchema {
	if c == nil {
		return nil
	}
	return c.recent.get(text)
}

// rememberedWire returns what is remembered of a schema that was read before.
func (c *Compiler) rememberedWire(wire *apiextv1.JSONSchemaProps) *recentSchema {
	if c == nil {
		return nil
	}
	return c.recent.of(wire)
}

// remember remembers a schema and its text, which must not change any more.
func (c *Compiler) remember(text []byte, wire *apiextv1.JSONSchemaProps, exact bool) {
	if c != nil {
		c.recent.put(text, wire, exact)
	}
}

// recentSchemas are the last schemas that were read.
type recentSchemas struct {
	mu   sync.Mutex
	all  [8]*recentSchema
	next int
}

// find is the schema for which is holds, nil if it is forgotten.
func (r *recentSchemas) find(is func(*recentSchema) bool) *recentSchema {
	if !fastpath.Schemas.On() {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.all {
		if s != nil && is(s) {
			return s
		}
	}
	return nil
}

// get is the schema of a text, as a document prints it.
func (r *recentSchemas) get(text []byte) *recentSchema {
	return r.find(func(s *recentSchema) bool { return bytes.Equal(s.text, text) })
}

// of is what is remembered of a schema that get or put returned.
func (r *recentSchemas) of(wire *apiextv1.JSONSchemaProps) *recentSchema {
	return r.find(func(s *recentSchema) bool { return s.wire == wire })
}

// put remembers a schema in place of another one with the same text. The text
// must not change any more.
func (r *recentSchemas) put(text []byte, wire *apiextv1.JSONSchemaProps, exact bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := r.next
	for i, s := range r.all {
		if s != nil && bytes.Equal(s.text, text) {
			if s.wire == wire {
				return
			}
			at = i
		}
	}
	r.all[at] = &recentSchema{text: text, wire: wire, exact: exact}
	if at == r.next {
		r.next = (r.next + 1) % len(r.all)
	}
	r.trim(at)
}

// maxRecent bounds the text of the schemas that are remembered beside the newest, in bytes. A
// compiled schema can take a hundred times the memory of its text.
const maxRecent = 1 << 20

// trim forgets the oldest schemas, but not the one at newest, until the others are small enough.
func (r *recentSchemas) trim(newest int) {
	size := 0
	for i := 1; i < len(r.all); i++ { // from the newest to the oldest
		at := (newest + len(r.all) - i) % len(r.all)
		if s := r.all[at]; s != nil {
			if size += len(s.text); size > maxRecent {
				r.all[at] = nil
			}
		}
	}
}

// readSchema returns the schema of a text that a document prints, or has printed. It must
// not be changed.
func (c *Compiler) readSchema(text []byte) (*apiextv1.JSONSchemaProps, error) {
	if s := c.remembered(text); s != nil {
		return s.wire, nil
	}
	wire, exact, ok := readSchema(text)
	if !ok {
		wire = new(apiextv1.JSONSchemaProps)
		if err := kjson.UnmarshalCaseSensitivePreserveInts(text, wire); err != nil {
			return nil, err
		}
	}
	c.remember(bytes.Clone(text), wire, ok && exact)
	return wire, nil
}

// isPrinted reports whether a text has nothing but what a schema is printed with.
func (c *Compiler) isPrinted(text []byte) bool {
	if c.remembered(text) != nil {
		return true
	}
	_, _, ok := readSchema(text)
	return ok
}

// parsedSchema is structural.Parse.
func (c *Compiler) parsedSchema(wire *apiextv1.JSONSchemaProps, path *field.Path) (*structural.Schema, field.ErrorList) {
	known := c.rememberedWire(wire)
	if known == nil {
		return c.parse(wire, path)
	}
	if s := known.parsed.Load(); s != nil {
		return s, nil
	}
	s, errs := c.parse(wire, path)
	if len(errs) == 0 {
		known.parsed.Store(s)
	}
	return s, errs
}

// structuralErrors is structural.Validate of what wire was parsed to.
func (c *Compiler) structuralErrors(wire *apiextv1.JSONSchemaProps, parsed *structural.Schema, path *field.Path) field.ErrorList {
	known := c.rememberedWire(wire)
	if known != nil && known.sound.Load() {
		return nil
	}
	errs := structural.Validate(parsed, path)
	if known != nil && len(errs) == 0 {
		known.sound.Store(true)
	}
	return errs
}
