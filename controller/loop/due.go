package loop

import (
	"container/heap"
	"time"
)

// This file keeps keys by when they are due.

// dues are keys, each once.
type dues struct {
	at    map[string]*entry
	heap  entries
	count int // of entries ever put: which was first
}

type entry struct {
	key   string
	when  time.Time // zero: at once
	retry time.Duration
	order int
	i     int // in the heap
}

// put makes a key due at a time, in place of when it was.
func (d *dues) put(key string, when time.Time) {
	e := d.at[key]
	if e == nil {
		e = &entry{key: key}
		d.push(e, when)
		return
	}
	if e.when != when {
		e.when = when
		heap.Fix(&d.heap, e.i)
	}
}

func (d *dues) push(e *entry, when time.Time) {
	if d.at == nil {
		d.at = map[string]*entry{}
	}
	d.count++
	e.when, e.order = when, d.count
	d.at[e.key] = e
	heap.Push(&d.heap, e)
}

// first is the entry that is due first, nil if there is none.
func (d *dues) first() *entry {
	if len(d.heap) == 0 {
		return nil
	}
	return d.heap[0]
}

// take takes an entry out.
func (d *dues) take(e *entry) {
	heap.Remove(&d.heap, e.i)
	delete(d.at, e.key)
}

// drop takes a key out, if it is due.
func (d *dues) drop(key string) {
	if e := d.at[key]; e != nil {
		d.take(e)
	}
}

// again puts an entry back whose work failed. If its key was put meanwhile, it is due as that says.
func (d *dues) again(e *entry, when time.Time) {
	if now := d.at[e.key]; now != nil {
		now.retry = e.retry
		return
	}
	d.push(e, when)
}

// entries implement heap.Interface.
type entries []*entry

// Len implements heap.Interface.
func (h entries) Len() int { return len(h) }

// Less implements heap.Interface.
func (h entries) Less(i, j int) bool {
	if !h[i].when.Equal(h[j].when) {
		return h[i].when.Before(h[j].when)
	}
	return h[i].order < h[j].order
}

// Swap implements heap.Interface.
func (h entries) Swap(i, j int) { h[i], h[j] = h[j], h[i]; h[i].i, h[j].i = i, j }

// Push implements heap.Interface.
func (h *entries) Push(x any) {
	e := x.(*entry)
	e.i = len(*h)
	*h = append(*h, e)
}

// Pop implements heap.Interface.
func (h *entries) Pop() any {
	last := len(*h) - 1
	e := (*h)[last]
	*h = (*h)[:last]
	return e
}
