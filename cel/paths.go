package cel

import "sync"

// This file lets the rules of one version share their paths: rules that stand at one place mention the same members again and again.

// paths are those that are made of variables and constant steps, one of each. The zero value is empty. It is safe for concurrent use.
type paths struct {
	mu   sync.Mutex
	made map[pathKey]*path
}

// pathKey is what makes a path out of another one.
type pathKey struct {
	from                   *path // nil: a variable
	slot                   int
	root                   uint64
	test                   bool
	typ                    *Type
	field                  *Field
	item, optional, strict bool
	kind                   Kind
	bits                   uint64
	text                   string
}

func newPath(p path) *path {
	q := &p
	q.alone = q.eval
	return q
}

// one returns the path with a key.
func (ps *paths) one(key pathKey, build func() *path) *path {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if p := ps.made[key]; p != nil {
		return p
	}
	if ps.made == nil {
		ps.made = map[pathKey]*path{}
	}
	p := build()
	ps.made[key] = p
	return p
}

// variable is the path that is a variable.
func (ps *paths) variable(slot int) *path {
	return ps.one(pathKey{slot: slot}, func() *path { return newPath(path{slot: slot, root: costSelect}) })
}

// extend is the path p with one more step. If p is of a variable and constant steps, from is where it was taken from.
func (ps *paths) extend(from *path, p path, s step) *path {
	build := func() *path {
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
	key := pathKey{from: from, slot: p.slot, root: p.root, test: p.test, typ: s.typ, field: s.field, item: s.item, optional: s.optional, strict: s.strict, kind: s.key.kind}
	switch s.key.kind {
	case KindString:
		key.text = s.key.text()
	case KindInt:
		key.bits = s.key.bits
	default:
		return build()
	}
	return ps.one(key, build)
}

// forget makes room: paths stay what they are.
func (ps *paths) forget() {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	ps.made = nil
}
