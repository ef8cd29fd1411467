package jsondoc

import (
	"iter"
	"slices"
)

// This file defines partList, the items of an array that is being patched.

// chunkItems is the number of items in a chunk that was just made. A chunk is split when it has
// twice as many.
const chunkItems = 512

// partList is a list of parts in chunks, so that inserting and removing an item moves the items of
// one chunk and not those of the whole list. No chunk is empty.
type partList struct {
	chunks [][]*part
	n      int
}

// newPartList makes a list of the items, which it keeps.
func newPartList(items []*part) partList {
	l := partList{n: len(items)}
	for chunk := range slices.Chunk(items, chunkItems) {
		l.chunks = append(l.chunks, chunk)
	}
	return l
}

// find returns the place of an item: its chunk, and its index there. For the end of a list that
// is not empty it returns the place behind the last item.
func (l *partList) find(i int) (chunk, at int) {
	last := len(l.chunks) - 1
	for chunk < last && i >= len(l.chunks[chunk]) {
		i -= len(l.chunks[chunk])
		chunk++
	}
	return chunk, i
}

// at returns an item.
func (l *partList) at(i int) *part {
	chunk, at := l.find(i)
	return l.chunks[chunk][at]
}

// set replaces an item.
func (l *partList) set(i int, v *part) {
	chunk, at := l.find(i)
	l.chunks[chunk][at] = v
}

// insert inserts an item in front of item i, which may be the end.
func (l *partList) insert(i int, v *part) {
	l.n++
	if len(l.chunks) == 0 {
		l.chunks = [][]*part{{v}}
		return
	}
	chunk, at := l.find(i)
	c := slices.Insert(l.chunks[chunk], at, v)
	if len(c) >= 2*chunkItems {
		l.chunks = slices.Insert(l.chunks, chunk+1, slices.Clone(c[chunkItems:]))
		c = slices.Clip(c[:chunkItems])
	}
	l.chunks[chunk] = c
}

// remove removes an item.
func (l *partList) remove(i int) {
	l.n--
	chunk, at := l.find(i)
	l.chunks[chunk] = slices.Delete(l.chunks[chunk], at, at+1)
	if len(l.chunks[chunk]) == 0 {
		l.chunks = slices.Delete(l.chunks, chunk, chunk+1)
	}
}

// all iterates over the items.
func (l *partList) all() iter.Seq2[int, *part] {
	return func(yield func(int, *part) bool) {
		i := 0
		for _, chunk := range l.chunks {
			for _, p := range chunk {
				if !yield(i, p) {
					return
				}
				i++
			}
		}
	}
}
