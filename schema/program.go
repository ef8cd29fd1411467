package schema

import (
	"runtime"
	"sync"
	"sync/atomic"
	"weak"

	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/schema/structural"
)

// This file defines Program, a schema that is compiled at its first use.

// Program decodes and validates by a schema. Its users cannot change it. It is safe for concurrent
// use.
type Program struct {
	source  func() (*structural.Schema, error)
	options Options

	code atomic.Pointer[program] // nil until compiled
	mu   sync.Mutex              // held while compiling
}

// program is a compiled schema.
type program struct {
	source  *structural.Schema
	options Options
	root    *node
	shapes  []*jsondoc.Shape // shapes[0] is nil
	consts  *jsondoc.Doc     // default values, in the shapes of the program
	meta    *node            // the node of every resource's metadata, nil if there is no resource

	hasRules            bool
	hasUncheckedFormats bool      // a format is declared that is not checked
	rulesOnce           sync.Once // guards the compilation of the rules of all nodes
}

// Compile compiles s. nil is the schema of an object without declared fields. Rules are compiled at
// their first use, or by CheckRules.
func Compile(s *structural.Schema, o Options) (*Program, error) {
	p := &Program{source: func() (*structural.Schema, error) { return s, nil }, options: o}
	if _, err := p.load(); err != nil {
		return nil, err
	}
	return p, nil
}

// Lazy returns a Program that is compiled at its first use, or by [Program.Load]. source returns
// the schema, which must not change. Programs of the same schema with the same options share memory
// if the options have Codes. Call Load to get compilation errors before the first use.
func Lazy(source func() (*structural.Schema, error), o Options) *Program {
	return &Program{source: source, options: o}
}

// Source returns the schema of p, without compiling it. It is nil if it cannot be parsed.
func (p *Program) Source() *structural.Schema {
	if code := p.code.Load(); code != nil {
		return code.source
	}
	s, err := p.source()
	if err != nil {
		return nil
	}
	return s
}

// Load compiles p, unless it is compiled already.
func (p *Program) Load() error {
	_, err := p.load()
	return err
}

// Shapes returns the table of shapes of decoded documents, nil if p does not compile.
func (p *Program) Shapes() []*jsondoc.Shape {
	code, err := p.load()
	if err != nil {
		return nil
	}
	return code.shapes
}

// load returns the compiled schema, which it compiles at the first call.
func (p *Program) load() (*program, error) {
	if code := p.code.Load(); code != nil {
		return code, nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if code := p.code.Load(); code != nil {
		return code, nil
	}
	source, err := p.source()
	if err != nil {
		return nil, err
	}
	key, codes := codeKey{options: p.options}, p.options.Codes
	if source == nil {
		codes = nil
	}
	if codes != nil {
		key.source = weak.Make(source)
		if code := codes.get(key); code != nil {
			p.code.Store(code)
			return code, nil
		}
	}
	code, err := newProgram(source, p.options)
	if err != nil {
		return nil, err
	}
	if codes != nil {
		code = codes.put(key, code)
	}
	p.code.Store(code)
	return code, nil
}

// Codes shares compiled schemas that are in use. Compiled schemas do not change, so that Programs
// can share them. The zero value is an empty table. It is safe for concurrent use.
type Codes struct {
	mu   sync.Mutex
	live map[codeKey]weak.Pointer[program]
}

// codeKey identifies a compiled schema. Equal schemas of one server are the same pointer
// (structural.Nodes).
type codeKey struct {
	source  weak.Pointer[structural.Schema]
	options Options
}

// get returns the compiled schema with that key, nil if there is none.
func (t *Codes) get(key codeKey) *program {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.live[key].Value()
}

// put adds code, unless the table has such code, and returns the code in the table.
func (t *Codes) put(key codeKey, code *program) *program {
	t.mu.Lock()
	defer t.mu.Unlock()
	if first := t.live[key].Value(); first != nil {
		return first
	}
	if t.live == nil {
		t.live = map[codeKey]weak.Pointer[program]{}
	}
	t.live[key] = weak.Make(code)
	runtime.AddCleanup(code, t.forget, key)
	return code
}

// forget removes an entry whose code was freed.
func (t *Codes) forget(key codeKey) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.live[key].Value() == nil {
		delete(t.live, key)
	}
}
