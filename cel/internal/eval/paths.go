package eval

import (
	"sync"

	"github.com/keelson-io/keelson/cel/internal/val"
)

// This file lets the rules of one version share paths and constants: rules at one place refer to
// the same members again and again.

// Paths has the paths that consist of a variable and constant steps, and constants, one of each.
// The zero value is empty. It is safe for concurrent use.
type Paths struct {
	mu        sync.Mutex
	made      map[pathKey]madePath
	constants map[constKey]code
}

// constKey identifies a constant string or number.
type constKey struct {
	kind val.Kind
	bits uint64
	text string
}

// pathKey identifies a path by the path that it extends and its last step.
type pathKey struct {
	from                   *path // nil for a variable
	slot                   int32
	root                   uint64
	test                   bool
	typ                    *val.Type
	field                  *val.Field
	item, optional, strict bool
	key                    constKey
}

// madePath is a path with the closures over it. The path does not refer to them, so that closures
// that no program uses are freed with the Paths.
type madePath struct {
	*path
	alone           val.EvalFn // path.eval
	present, absent val.TestFn // has() and !has() if they can be read directly, otherwise nil
}

// newPath returns a path with its closures.
func newPath(p path) madePath {
	q := madePath{path: &p, alone: p.eval}
	if p.test {
		q.present, q.absent = directPresence(&p, p.presence)
	}
	return q
}

// shared returns the path with a key, which build makes if it is new.
func (ps *Paths) shared(key pathKey, build func() madePath) madePath {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if p, ok := ps.made[key]; ok {
		return p
	}
	if ps.made == nil {
		ps.made = map[pathKey]madePath{}
	}
	p := build()
	ps.made[key] = p
	return p
}

// variable returns the path of a variable.
func (ps *Paths) variable(slot int) madePath {
	at := int32(slot)
	return ps.shared(pathKey{slot: at}, func() madePath { return newPath(path{slot: at, root: val.CostSelect}) })
}

// extend returns the path p with one more step. from is the path that p copies, if it may be
// shared.
func (ps *Paths) extend(from *path, p path, s step) madePath {
	build := func() madePath {
		p.steps = append(append(make([]step, 0, len(p.steps)+1), p.steps...), s)
		return newPath(p)
	}
	if from == nil || from.slot < 0 || from.init != nil || s.index != nil {
		return build()
	}
	for i := range p.steps {
		if p.steps[i].index != nil {
			return build()
		}
	}
	key, ok := constKeyOf(*s.key)
	if !ok {
		return build()
	}
	return ps.shared(pathKey{from: from, slot: p.slot, root: p.root, test: p.test, typ: s.typ, field: s.field, item: s.item, optional: s.optional, strict: s.strict, key: key}, build)
}

// constKeyOf returns the key of a constant, false for kinds that are not shared.
func constKeyOf(v val.Value) (key constKey, ok bool) {
	switch v.K {
	case val.KindString:
		return constKey{kind: v.K, text: v.Text()}, true
	case val.KindInt, val.KindBool:
		return constKey{kind: v.K, bits: v.Bits}, true
	}
	return constKey{}, false
}

// constant returns the code of a constant. Strings and numbers are shared.
func (ps *Paths) constant(v val.Value) *code {
	key, ok := constKeyOf(v)
	if !ok {
		return constant(v)
	}
	ps.mu.Lock()
	defer ps.mu.Unlock()
	c, ok := ps.constants[key]
	if !ok {
		if ps.constants == nil {
			ps.constants = map[constKey]code{}
		}
		c = *constant(v)
		ps.constants[key] = c
	}
	return &c
}

// Forget frees the table. Paths stay valid.
func (ps *Paths) Forget() {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	ps.made, ps.constants = nil, nil
}
