package loop

import (
	"container/heap"
	"time"
)

// This file schedules keys.

// dues is a queue of keys by time. Each key is in it once.
type dues struct {
	at    map[string]*entry
	heap  entries
	count int // number of entries ever added: it orders entries of the same time
}

// entry is a key with its time.
type entry struct {
	key   string
	when  time.Time // zero: at once
	retry time.Duration
	order int
	i     int // in the heap
}

// put makes a key due at a time, in place of the time before.
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

// push adds an entry.
func (d *dues) push(e *entry, when time.Time) {
	if d.at == nil {
		d.at = map[string]*entry{}
	}
	d.count++
	e.when, e.order = when, d.count
	d.at[e.key] = e
	heap.Push(&d.heap, e)
}

// first returns the entry that is due first, nil if there is none.
func (d *dues) first() *entry {
	if len(d.heap) == 0 {
		return nil
	}
	return d.heap[0]
}

// remove removes an entry.
func (d *dues) remove(e *entry) {
	heap.Remove(&d.heap, e.i)
	delete(d.at, e.key)
}

// drop removes a key, if it is there.
func (d *dues) drop(key string) {
	if e := d.at[key]; e != nil {
		d.remove(e)
	}
}

// again adds an entry whose work failed. If its key was added meanwhile, the newer time counts.
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
