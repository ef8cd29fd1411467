package jsondoc

// This file defines Shape, the declared member names of an object.

// Shape is the layout of objects whose members a schema declares. Shapes are
// immutable once used.
type Shape struct {
	Names []string // declared members, sorted bytewise, unique
	// Kids[i] is the shape of the object in slot i, or of the objects in the
	// array in slot i; 0 if those are maps or there are none.
	Kids []uint16
	Open bool // one more slot, after the named ones, for undeclared members

	keys  []string       // keys[i]: Names[i] as printed, quotes and colon included
	index map[string]int // name to slot: the plain twin of table
	table []uint16       // slot+1 by hash, 0 for none; its length is a power of two
	probe int            // how many entries from its hash a name may be
}

// NewShape returns a shape of the given names, which must be sorted and unique.
func NewShape(names []string, kids []uint16, open bool) *Shape {
	s := &Shape{Names: names, Kids: kids, Open: open}
	s.keys = make([]string, len(names))
	for i, name := range names {
		if i > 0 && names[i-1] >= name {
			panic("BUG: names of a shape are not sorted: " + name)
		}
		s.keys[i] = string(append(appendQuoted(nil, name), ':'))
	}
	s.fill()
	return s
}

// maxProbe is the longest search in a table; a shape whose names hash worse
// looks them up in a map.
const maxProbe = 4

// fill builds the table, or the index if the names hash badly.
func (s *Shape) fill() {
	size := 4
	for size < 2*len(s.Names) {
		size *= 2
	}
	for ; size <= 16*len(s.Names)+4 && len(s.Names) < 1<<15; size *= 2 {
		s.table, s.probe = make([]uint16, size), 0
		for i, name := range s.Names {
			at, n := hash(name)&uint32(size-1), 1
			for s.table[at] != 0 {
				at = (at + 1) & uint32(size-1)
				n++
			}
			s.table[at] = uint16(i + 1)
			s.probe = max(s.probe, n)
		}
		if s.probe <= maxProbe {
			return
		}
	}
	s.table = nil
	s.index = make(map[string]int, len(s.Names))
	for i, name := range s.Names {
		s.index[name] = i
	}
}

// hash looks at a name's length and three of its bytes: names of one object
// seldom agree in all of them.
func hash(name string) uint32 {
	n := len(name)
	if n == 0 {
		return 0
	}
	h := uint32(n)<<24 | uint32(name[0])<<16 | uint32(name[n/2])<<8 | uint32(name[n-1])
	h *= 0x9E3779B1
	return h ^ h>>15
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
	if s.table == nil {
		if i, ok := s.index[name]; ok {
			return i
		}
		return -1
	}
	mask := uint32(len(s.table) - 1)
	at := hash(name) & mask
	for range s.probe {
		i := int(s.table[at]) - 1
		if i < 0 {
			return -1
		}
		if s.Names[i] == name {
			return i
		}
		at = (at + 1) & mask
	}
	return -1
}

// SlotAfter is Slot for a decoder, which can guess: members mostly come in
// order, so guess is the slot after the last member's.
func (s *Shape) SlotAfter(name string, guess int) int {
	if guess < len(s.Names) && s.Names[guess] == name {
		return guess
	}
	return s.Slot(name)
}

// Kid is the shape of slot i's object, or of the objects in its array; 0 for
// maps.
func (s *Shape) Kid(i int) uint16 {
	if i < len(s.Kids) {
		return s.Kids[i]
	}
	return 0
}
