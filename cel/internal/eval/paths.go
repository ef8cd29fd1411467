package eval

import (
	"sync"

	"github.com/keelson-io/keelson/cel/internal/val"
)

// This file lets the rules of one version share their paths and constants: rules that stand at one place mention the same members again and again.

// Paths are those that are made of variables and constant steps, one of each, and constants. The zero value is empty. It is safe for concurrent use.
type Paths struct {
	mu        sync.Mutex
	made      map[pathKey]madePath
	constants map[constKey]code
}

// constKey is a constant text or number.
type constKey struct {
	kind val.Kind
	bits uint64
	text string
}

// pathKey is what makes a path out of another one.
type pathKey struct {
	from                   *path // nil: a variable
	slot                   int32
	root                   uint64
	test                   bool
	typ                    *val.Type
	field                  *val.Field
	item, optional, strict bool
	key                    constKey
}

// madePath is a path and the closures over it. It does not hold them itself: what
// no program uses is gone with the paths.
type madePath struct {
	*path
	alone           val.EvalFn // eval
	present, absent val.TestFn // has() and its opposite where they can be read directly, else nil
}

func newPath(p path) madePath {
	q := madePath{path: &p, alone: p.eval}
	if p.test {
		q.present, q.absent = directPresence(&p, p.presence)
	}
	return q
}

// one returns the path with a key.
func (ps *Paths) one(key pathKey, build func() madePath) madePath {
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

// variable is the path that is a variable.
func (ps *Paths) variable(slot int) madePath {
	at := int32(slot)
	return ps.one(pathKey{slot: at}, func() madePath { return newPath(path{slot: at, root: val.CostSelect}) })
}

// extend is the path p with one more step. If p is of a variable and constant steps, from is where it was taken from.
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
	return ps.one(pathKey{from: from, slot: p.slot, root: p.root, test: p.test, typ: s.typ, field: s.field, item: s.item, optional: s.optional, strict: s.strict, key: key}, build)
}

func constKeyOf(v val.Value) (key constKey, ok bool) {
	switch v.K {
	case val.KindString:
		return constKey{kind: v.K, text: v.Text()}, true
	case val.KindInt, val.KindBool:
		return constKey{kind: v.K, bits: v.Bits}, true
	}
	return constKey{}, false
}

// constant is the code of a constant, which texts and numbers share.
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

// Forget makes room: paths stay what they are.
func (ps *Paths) Forget() {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	ps.made, ps.constants = nil, nil
}
