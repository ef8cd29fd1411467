package doc

// This file defines Shape, the declared member names of an object.

// Shape is the layout of objects whose members a schema declares. Shapes are
// immutable once used.
type Shape struct {
	Names []string // declared members, sorted bytewise, unique
	Kids  []uint16 // Kids[i]: shape of the object in slot i, 0 if a map or no object
	Open  bool     // one more slot, after the named ones, for undeclared members

	keys  []string       // keys[i]: Names[i] as printed, quotes and colon included
	index map[string]int // name to slot
}

// NewShape returns a shape of the given names, which must be sorted and unique.
func NewShape(names []string, kids []uint16, open bool) *Shape {
	s := &Shape{Names: names, Kids: kids, Open: open, index: make(map[string]int, len(names))}
	s.keys = make([]string, len(names))
	for i, name := range names {
		s.index[name] = i
		s.keys[i] = string(append(appendQuoted(nil, name), ':'))
	}
	return s
}

// Slots is the number of slots that an object of this shape takes.
func (s *Shape) Slots() int {
	if s.Open {
		return len(s.Names) + 1
	}
	return len(s.Names)
}

// Slot is the slot of a declared member, -1 if name is not declared.
func (s *Shape) Slot(name string) int {
	if i, ok := s.index[name]; ok {
		return i
	}
	return -1
}
