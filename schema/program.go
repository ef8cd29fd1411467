package schema

import (
	"runtime"
	"sync"
	"sync/atomic"
	"weak"

	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/schema/structural"
)

// This file is Program: a schema that is compiled, or will be when somebody
// uses it.

// Program is a schema to decode and validate by. It is immutable as far as its
// users can see, and safe for concurrent use.
type Program struct {
	source  func() (*structural.Schema, error)
	options Options

	code atomic.Pointer[program] // nil until it is needed
	mu   sync.Mutex              // held while compiling
}

// program is what a schema is compiled to.
type program struct {
	source  *structural.Schema
	options Options
	root    *node
	shapes  []*jsondoc.Shape // shapes[0] is nil
	consts  *jsondoc.Doc     // default values, in the program's shapes
	meta    *node            // metadata of every resource, nil unless there is one

	hasRules   bool
	oddFormats bool      // a format is declared somewhere for which values are not checked
	rulesOnce  sync.Once // guards the rules of all nodes
}

// Compile compiles s; nil stands for a schema that says nothing. Rules are
// compiled when they are needed first, or by CheckRules.
func Compile(s *structural.Schema, o Options) (*Program, error) {
	p := &Program{source: func() (*structural.Schema, error) { return s, nil }, options: o}
	if _, err := p.load(); err != nil {
		return nil, err
	}
	return p, nil
}

// Lazy returns a Program that source is compiled to when it is used first, or by
// [Program.Load]. The schema must never change. Programs of the same schema and
// the same options share memory if the options have Codes. To learn of an error
// before the Program is used, call Load.
func Lazy(source func() (*structural.Schema, error), o Options) *Program {
	return &Program{source: source, options: o}
}

// Source is the schema that p is compiled from, without compiling it; nil if it
// is not to be had.
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

// Load compiles p unless it is compiled.
func (p *Program) Load() error {
	_, err := p.load()
	return err
}

// Shapes is the table of shapes of the documents that Decode makes, nil if p
// does not compile.
func (p *Program) Shapes() []*jsondoc.Shape {
	code, err := p.load()
	if err != nil {
		return nil
	}
	return code.shapes
}

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

// Codes is a table of the compiled schemas that are in use. They never change,
// so a Program cannot tell who else uses its code. The zero value is an empty
// table. It is safe for concurrent use.
type Codes struct {
	mu   sync.Mutex
	live map[codeKey]weak.Pointer[program]
}

type codeKey struct {
	source  weak.Pointer[structural.Schema]
	options Options
}

func (t *Codes) get(key codeKey) *program {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.live[key].Value()
}

// put adds code, unless there is such code already, and returns what there is.
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

func (t *Codes) forget(key codeKey) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.live[key].Value() == nil {
		delete(t.live, key)
	}
}
