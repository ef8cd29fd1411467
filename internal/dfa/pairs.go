package dfa

import (
	"encoding/binary"
	"math"
)

// This file reads two bytes in one step. Pairs of byte classes that lead from every state to the
// same state form a class of pairs.

// maxPairs is the largest number of entries in a table for pairs.
const maxPairs = 1 << 13

// pairTable is an automaton that reads pairs of bytes; the second byte of the last pair may be
// absent. A state is the index of its row in next. A row has an entry for each class of pairs, and
// a last one that is 1 if the text may end there, else 0.
type pairTable struct {
	classes []uint8 // class of a pair, at index (class of the first byte)*width + class of the second byte or its absence
	width   uint    // number of byte classes plus one
	next    []uint16
	start   uint
	row     uint // length of a row of next
}

// match is Matcher.Match. It tests whether the state stays the same: when the processor predicts
// that, consecutive look-ups do not depend on each other.
func (p *pairTable) match(class *[256]uint8, s string) (match, known bool) {
	row, settled, next, classes, width := p.start, unknown*p.row, p.next, p.classes, p.width
	if row <= settled {
		return next[row+p.row-1] != 0, row != settled
	}
	for len(s) >= 4 {
		a := uint(classes[uint(class[s[0]])*width+uint(class[s[1]])])
		b := uint(classes[uint(class[s[2]])*width+uint(class[s[3]])])
		s = s[4:]
		if to := uint(next[row+a]); to != row {
			if row = to; row <= settled {
				break
			}
		}
		if to := uint(next[row+b]); to != row {
			if row = to; row <= settled {
				break
			}
		}
	}
	if len(s) >= 2 {
		row = uint(next[row+uint(classes[uint(class[s[0]])*width+uint(class[s[1]])])])
		s = s[2:]
	}
	if len(s) > 0 {
		row = uint(next[row+uint(classes[uint(class[s[0]])*width+width-1])])
	}
	return next[row+p.row-1] != 0, row != settled
}

// paired returns the table for pairs, nil if it is too large.
func (t *table) paired() *pairTable {
	width := uint(t.width) // a column for each class of bytes, and one for an absent byte
	p := &pairTable{classes: make([]uint8, 0, (width-1)*width), width: width}
	states := uint(len(t.next)) / width
	known := make(map[string]uint8)
	var columns [][]uint16
	key := make([]byte, 0, 2*states)
	column := make([]uint16, states)
	for first := range width - 1 {
		for second := range width {
			key = t.column(column, key[:0], first, second)
			class, ok := known[string(key)]
			if !ok {
				if len(columns) == math.MaxUint8 || uint(len(columns)+2)*states > maxPairs {
					return nil
				}
				class = uint8(len(columns))
				known[string(key)] = class
				columns = append(columns, append([]uint16(nil), column...))
			}
			p.classes = append(p.classes, class)
		}
	}
	p.row = uint(len(columns)) + 1
	p.next = make([]uint16, 0, states*p.row)
	for s := range states {
		for _, column := range columns {
			p.next = append(p.next, column[s]*uint16(p.row))
		}
		p.next = append(p.next, t.next[s*width+width-1])
	}
	p.start = uint(t.start) / width * p.row
	return p
}

// column appends to key the numbers of the states that a pair of classes leads to from each state.
// It collects them in to.
func (t *table) column(to []uint16, key []byte, first, second uint) []byte {
	width := uint(t.width)
	for s := range to {
		row := uint(t.next[uint(s)*width+first])
		if second < width-1 {
			row = uint(t.next[row+second])
		}
		to[s] = uint16(row / width)
		key = binary.LittleEndian.AppendUint16(key, to[s])
	}
	return key
}
