package jsondoc

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
)

// This file defines part, the tree that a JSON patch works on.

// part is a value of a document that is being patched. It opens only when
// something inside is looked at, so that a patch costs what it touches. A nil
// part is a member that is missing; it reads as null.
type part struct {
	v       Value
	written *written // nil means as v
	open    bool
	members map[string]*part // of an open object
	items   partList         // of an open array
}

// kind is Null for a nil part.
func (p *part) kind() Kind {
	if p == nil {
		return Null
	}
	return p.v.Kind()
}

// holds reports whether p is an array or object.
func (p *part) holds() bool { return p.kind() == Array || p.kind() == Object }

// expand opens p, an array or object.
func (p *part) expand() {
	if p.open {
		return
	}
	p.open = true
	if p.kind() == Array {
		parts := make([]part, p.v.Len())
		items := make([]*part, len(parts))
		for i, item := range p.v.Items() {
			parts[i].v = item
			items[i] = &parts[i]
		}
		p.items = newPartList(items)
	} else {
		p.members = make(map[string]*part, p.v.Len())
		for name, member := range p.v.Members() {
			p.members[name] = &part{v: member}
		}
	}
	if p.written != nil {
		p.divide()
	}
}

// written is the text of a value that may have duplicate keys.
type written struct {
	text []byte
	left *int // bytes that may still be parsed again, for the whole patch
}

// rereads bounds how often the values of a patch are parsed again: on average so many times.
const rereads = 8

// divide gives the children of p their texts, unless the bound of rereads is used up.
func (p *part) divide() {
	w := p.written
	if *w.left -= len(w.text); *w.left < 0 {
		return
	}
	var items []json.RawMessage
	var members map[string]json.RawMessage
	if p.kind() == Array && json.Unmarshal(w.text, &items) == nil {
		for i, item := range p.items.all() {
			item.written = &written{items[i], w.left}
		}
	} else if p.kind() == Object && json.Unmarshal(w.text, &members) == nil {
		for name, member := range p.members {
			member.written = &written{members[name], w.left}
		}
	}
}

// index is the item that the key names in an array with the given number of
// places; a negative one counts from the end.
func index(key string, places int) (int, error) {
	i, err := strconv.Atoi(key)
	if err != nil {
		return 0, err
	}
	if i >= places || i < -places {
		return 0, fmt.Errorf("Unable to access invalid index: %d: %w", i, errInvalidIndex)
	}
	if i < 0 {
		i += places
	}
	return i, nil
}

// get is the member or item; a missing member is nil.
func (p *part) get(key string) (*part, error) {
	p.expand()
	if p.kind() == Object {
		return p.members[key], nil
	}
	i, err := index(key, p.items.n)
	if err != nil {
		return nil, err
	}
	return p.items.at(i), nil
}

// set replaces a member, which need not be there, or an item.
func (p *part) set(key string, v *part) error {
	p.expand()
	if p.kind() == Object {
		p.members[key] = v
		return nil
	}
	i, err := index(key, p.items.n)
	if err == nil {
		p.items.set(i, v)
	}
	return err
}

// add sets a member or inserts an item.
func (p *part) add(key string, v *part) error {
	p.expand()
	if p.kind() == Object {
		p.members[key] = v
		return nil
	}
	if key == "-" {
		p.items.insert(p.items.n, v)
		return nil
	}
	if _, err := strconv.Atoi(key); err != nil {
		return fmt.Errorf("value was not a proper array index: '%s': %w", key, err)
	}
	i, err := index(key, p.items.n+1)
	if err == nil {
		p.items.insert(i, v)
	}
	return err
}

func (p *part) remove(key string) error {
	p.expand()
	if p.kind() == Object {
		if _, ok := p.members[key]; !ok {
			return fmt.Errorf("Unable to remove nonexistent key: %s: %w", key, errMissing)
		}
		delete(p.members, key)
		return nil
	}
	i, err := index(key, p.items.n)
	if err == nil {
		p.items.remove(i)
	}
	return err
}

// clone is a copy that shares nothing that can change.
func (p *part) clone() *part {
	if p == nil || !p.open {
		if p == nil {
			return nil
		}
		return &part{v: p.v, written: p.written}
	}
	c := &part{v: p.v, open: true}
	if p.kind() == Array {
		items := make([]*part, p.items.n)
		for i, item := range p.items.all() {
			items[i] = item.clone()
		}
		c.items = newPartList(items)
		return c
	}
	c.members = make(map[string]*part, len(p.members))
	for name, member := range p.members {
		c.members[name] = member.clone()
	}
	return c
}

// equal reports whether p and o mean the same.
func (p *part) equal(o *part) bool {
	if p.kind() != o.kind() {
		return false
	}
	if !p.holds() {
		return p == nil || o == nil || Equal(p.v, o.v)
	}
	if !p.open && !o.open {
		return Equal(p.v, o.v)
	}
	p.expand()
	o.expand()
	if p.kind() == Array {
		if p.items.n != o.items.n {
			return false
		}
		return slices.EqualFunc(slices.Concat(p.items.chunks...), slices.Concat(o.items.chunks...), (*part).equal)
	}
	return maps.EqualFunc(p.members, o.members, (*part).equal)
}

// append appends p as JSON to b, numbers so that they read as the kind that
// they are.
func (p *part) append(b []byte) []byte {
	if p == nil {
		return append(b, "null"...)
	}
	if !p.open && p.written != nil && p.holds() {
		if text, err := json.Marshal(json.RawMessage(p.written.text)); err == nil {
			return append(b, text...)
		}
	}
	if !p.open {
		return p.v.Doc.appendExact(b, p.v.Node)
	}
	if p.kind() == Array {
		b = append(b, '[')
		for i, item := range p.items.all() {
			if i > 0 {
				b = append(b, ',')
			}
			b = item.append(b)
		}
		return append(b, ']')
	}
	b = append(b, '{')
	for i, name := range slices.Sorted(maps.Keys(p.members)) {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(appendQuoted(b, name), ':')
		b = p.members[name].append(b)
	}
	return append(b, '}')
}
