package cache

// This file counts the memory of the cache, and frees what can be computed again.

import (
	"slices"
	"time"
)

// objectBytes is the memory of an object besides its key and its stored bytes: the Object, its
// entries in the tree and in the store's index. Measured with 100,000 objects in an embedded etcd.
const objectBytes = 700

// memory returns approximately how many bytes the stored object takes, without its views.
func (o *Object) memory() int64 { return int64(len(o.Key)+len(o.Raw)) + objectBytes }

// Memory returns how many bytes are kept for an object with those stored bytes: the bytes themselves,
// or what is made of them if that is more, and what is kept beside them.
func (r *Resource) Memory(raw []byte) int64 {
	n := int64(len(raw))
	if r.keeps != nil {
		n = max(n, r.keeps(raw))
	}
	if r.c.o.Beside != nil {
		n += r.c.o.Beside(raw)
	}
	return n
}

// MemoryOf is Memory for an object of the cache, which remembers it.
func (r *Resource) MemoryOf(o *Object) int64 { return int64(len(o.Raw)) + r.beside(o) }

// beside returns how many bytes are kept for an object beside its stored bytes.
func (r *Resource) beside(o *Object) int64 {
	if kept := o.kept.Load(); kept > 0 {
		return kept - 1
	}
	n := r.Memory(o.Raw) - int64(len(o.Raw))
	o.kept.Store(n + 1)
	return n
}

// Stored returns approximately how many bytes the objects of the newest states take, without their
// views.
func (c *Cache) Stored() int64 { return c.stored.Load() }

// Stored returns the part of [Cache.Stored] for this resource.
func (r *Resource) Stored() int64 { return r.stored.Load() }

// Made returns approximately how many bytes of [Cache.Stored] are not stored, but made of what is, such
// as compiled definitions.
func (c *Cache) Made() (n int64) {
	for _, r := range c.all() {
		n += r.made.Load()
	}
	return n
}

// charge counts an object, or with a sign of -1 counts it no longer. The resource's lock is held.
func (r *Resource) charge(o *Object, sign int64) {
	made := r.beside(o)
	n := sign * (o.memory() + made)
	r.made.Add(sign * made)
	r.stored.Add(n)
	r.c.stored.Add(n)
}

// uncharge counts none of the resource's objects any longer. Its lock is held.
func (r *Resource) uncharge() {
	r.c.stored.Add(-r.stored.Swap(0))
	r.made.Store(0)
}

// LogBytes returns how many bytes the changes in all logs keep alive.
func (c *Cache) LogBytes() int64 { return c.logged.Load() }

// StateBytes returns how many bytes only old states refer to.
func (c *Cache) StateBytes() int64 { return c.states.Load() }

// ShedLogs cuts the logs to a quarter of their limit. Watchers that are further behind must list
// again.
func (c *Cache) ShedLogs() { c.cutLogs(c.o.AllLogBytes/4, nil) }

// ShedStates drops the old states. Continued lists read them from the store again.
func (c *Cache) ShedStates() {
	for _, r := range c.all() {
		r.kept.shed()
	}
}

// shedEvery is the least time between two calls of ShedViews that visit all objects to drop their
// views.
const shedEvery = 2 * time.Second

// ShedViews drops most of the large views, and the other views of all objects. The next readers
// render them again.
func (c *Cache) ShedViews() {
	c.views.shrink(c.o.ViewBytes / 8)
	if now := time.Now(); now.Sub(c.shed) > shedEvery {
		c.shed = now
		for _, r := range c.all() {
			if st := r.state.Load(); st != nil {
				st.root.ascend("", func(o *Object) bool { o.forgetFree(); return true })
			}
		}
	}
}

// forgetFree drops the views that are not charged, unless a view of the object is charged.
func (o *Object) forgetFree() {
	if m := o.memo.Load(); m != nil && m.more == nil {
		o.memo.CompareAndSwap(m, nil)
	}
}

// shrink drops large views until they take at most that many bytes.
func (v *Views) shrink(bytes int64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.makeRoom(max(0, v.limit-bytes))
}

// roomForState drops the old states that were not used for the longest time, until a state of that
// many bytes fits into Options.StateBytes. A single state may be larger: otherwise every page of a
// long list would read the whole list from the store.
func (c *Cache) roomForState(bytes int64) {
	if c.states.Load()+bytes <= c.o.StateBytes {
		return
	}
	type place struct {
		*keeper
		used time.Time
	}
	var all []place
	for _, r := range c.all() {
		for _, used := range r.kept.times() {
			all = append(all, place{&r.kept, used})
		}
	}
	slices.SortFunc(all, func(a, b place) int { return a.used.Compare(b.used) })
	for _, p := range all {
		if c.states.Load()+bytes <= c.o.StateBytes {
			return
		}
		p.dropBefore(p.used)
	}
}
