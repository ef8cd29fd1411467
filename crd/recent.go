package crd

import (
	"bytes"
	"context"
	"sync"
	"sync/atomic"

	"github.com/keelson-io/keelson/internal/fastpath"
	"github.com/keelson-io/keelson/kubernetes"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"

	"github.com/keelson-io/keelson/schema"
	"github.com/keelson-io/keelson/schema/structural"
)

// This file caches the last few schemas of definitions. Decoding and compiling a large one takes
// milliseconds, and one request needs the same schema several times: to check it, to store it, to
// serve it, and again for each change of the status. The results do not depend on the cache.

// recentSchema is a schema with the results that were computed from it. The schema is never
// changed.
type recentSchema struct {
	text []byte // as documents print it
	// wire is the decoded schema.
	wire *apiextv1.JSONSchemaProps
	// exact says that decoding text gives wire, digit by digit. For a client's 1.0, which is
	// printed as 1, it is false.
	exact bool

	parsed       atomic.Pointer[structural.Schema] // nil until first needed, or if parsing fails
	isStructural atomic.Bool                       // the schema passed structural.Validate
	program      atomic.Pointer[schema.Program]    // the compiled schema, which checks rules now and objects later; referring to it keeps it from being freed
}

// Compiler decodes, checks and compiles the definitions of one server. It caches the schemas that
// it decoded last, and lets equal schemas share memory. The zero value is ready to use. It is safe
// for concurrent use. A nil *Compiler caches and shares nothing.
type Compiler struct {
	// Metrics observes the rules and updates of all kinds, unless it is nil.
	Metrics *schema.Metrics
	// NoBeta: definitions are served in apiextensions.k8s.io/v1 only, as by kube-apiserver.
	NoBeta bool
	// Release is the release of Kubernetes by whose rules definitions are checked. The zero value is
	// the newest. It does not change once c is used.
	Release kubernetes.Release
	// Stored calls fn for each stored instance of a definition, until fn returns false. name is
	// namespace/name, or the name in cluster scope. If nil, nothing is stored, as for offline
	// commands. It is set before requests arrive.
	Stored func(ctx context.Context, group, plural string, fn func(name string, raw []byte) bool) error

	nodes  structural.Nodes // of parsed schemas, shared between definitions
	codes  schema.Codes     // compiled rules, shared between definitions
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
	e, err := c.language().stored()
	o := schema.Options{Resource: true, Env: e, PreserveUnknown: preserveUnknown}
	if c != nil {
		o.Codes, o.Metrics, o.NoRatcheting = &c.codes, c.Metrics, !ratchets(c.Release)
	}
	return o, err
}

// remembered returns the cache entry with that text, nil if there is none.
func (c *Compiler) remembered(text []byte) *recentSchema {
	if c == nil {
		return nil
	}
	return c.recent.get(text)
}

// rememberedWire returns the cache entry of a decoded schema, nil if there is none.
func (c *Compiler) rememberedWire(wire *apiextv1.JSONSchemaProps) *recentSchema {
	if c == nil {
		return nil
	}
	return c.recent.of(wire)
}

// remember adds a schema and its text to the cache. text must not change any more.
func (c *Compiler) remember(text []byte, wire *apiextv1.JSONSchemaProps, exact bool) {
	if c != nil {
		c.recent.put(text, wire, exact)
	}
}

// recentSchemas is the cache: a ring of the last schemas.
type recentSchemas struct {
	mu   sync.Mutex
	all  [8]*recentSchema
	next int // index of the entry to replace next
}

// find returns the first entry for which is returns true, nil if there is none.
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

// get returns the entry with that text, nil if there is none.
func (r *recentSchemas) get(text []byte) *recentSchema {
	return r.find(func(s *recentSchema) bool { return bytes.Equal(s.text, text) })
}

// of returns the entry of a decoded schema, nil if there is none.
func (r *recentSchemas) of(wire *apiextv1.JSONSchemaProps) *recentSchema {
	return r.find(func(s *recentSchema) bool { return s.wire == wire })
}

// put adds an entry. It replaces the entry with the same text, or the oldest one. text must not
// change any more.
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

// maxRecent bounds the bytes of text of the cached schemas besides the newest. A compiled schema
// can take a hundred times the memory of its text.
const maxRecent = 1 << 20

// trim drops the oldest entries until the texts of all but the newest fit into maxRecent.
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

// readSchema decodes a schema from a text that a document prints or has printed. The result is
// shared and must not be changed.
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

// isPrinted reports whether a text is in the form in which documents print schemas, so that it need
// not be decoded.
func (c *Compiler) isPrinted(text []byte) bool {
	if c.remembered(text) != nil {
		return true
	}
	_, _, ok := readSchema(text)
	return ok
}

// parsedSchema is structural.Parse with the cache.
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

// structuralErrors is structural.Validate with the cache. parsed is the result of parsing wire.
func (c *Compiler) structuralErrors(wire *apiextv1.JSONSchemaProps, parsed *structural.Schema, path *field.Path) field.ErrorList {
	known := c.rememberedWire(wire)
	if known != nil && known.isStructural.Load() {
		return nil
	}
	errs := structural.Validate(parsed, path)
	if known != nil && len(errs) == 0 {
		known.isStructural.Store(true)
	}
	return errs
}
