package cache

// This file defines the log of a resource's changes, and how watchers learn about them.
//
// The main queue has all changes. Each filter with which someone watches has a group with a queue
// of the same changes, filtered: a change enters and leaves the main queue and the groups' queues
// at the same time. A watcher of one namespace is therefore neither woken nor pushed off the log by
// another namespace. A change costs look-ups for its own key only, however many groups there are.

import (
	"cmp"
	"slices"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
)

// log is the shared log of a resource.
type log struct {
	mu     sync.RWMutex
	r      *Resource
	main   *group
	groups map[string]*group // by filter
	lost   int64             // main has every change after this revision
	bytes  int64
}

// group is the queue that watchers with the same filter share.
type group struct {
	filter   string
	events   []Event // the events from index head on
	head     int
	first    uint64 // the number of the event at head; numbers start at firstEvent when the group is made
	watchers int
	waiting  atomic.Int32
	wake     chan struct{} // closed and replaced when there are events and someone waits
	err      error         // the reason why the group ended, nil while it has not
}

// firstEvent is the number of a group's first event. Events that are prepended later get lower
// numbers.
const firstEvent = 1 << 40

// newGroup returns an empty group.
func newGroup(filter string) *group {
	return &group{filter: filter, first: firstEvent, wake: make(chan struct{})}
}

// reset restarts the log at a revision. Earlier watches end, because they may have missed changes.
func (l *log) reset(r *Resource, rev int64) {
	l.end(ErrExpired)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.r, l.main, l.groups, l.lost = r, newGroup(""), nil, rev
}

// end ends all watches with an error.
func (l *log) end(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.main == nil {
		return
	}
	l.main.end(err)
	for _, g := range l.groups {
		g.end(err)
	}
	l.charge(-l.bytes)
}

// charge changes the number of bytes of this log, and of all logs. The lock is held.
func (l *log) charge(bytes int64) {
	l.bytes += bytes
	l.r.c.logged.Add(bytes)
}

// end ends the watches of the group. The lock of the log is held.
func (g *group) end(err error) {
	if g.err == nil {
		g.err = err
		g.events, g.head = nil, 0
		close(g.wake)
	}
}

// tail returns the revision after which the log has every change.
func (l *log) tail() int64 {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.lost
}

// append adds changes, drops the oldest ones that exceed its bounds, and wakes watchers.
func (l *log) append(changes []Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.main.err != nil {
		return
	}
	for i := range changes {
		e := &changes[i]
		l.main.events = append(l.main.events, *e)
		l.charge(cost(e))
		l.forGroups(e.Object.Key, func(g *group) { g.events = append(g.events, *e) })
	}
	o := &l.r.c.o
	for l.main.size() > 1 && (l.main.size() > o.LogEvents || l.bytes > o.LogBytes) {
		l.drop()
	}
	l.main.announce()
	for i := range changes {
		l.forGroups(changes[i].Object.Key, (*group).announce)
	}
}

// drop drops the oldest change. The lock is held.
func (l *log) drop() {
	e := l.main.events[l.main.head]
	l.charge(-cost(&e))
	l.lost = e.Rev
	l.main.pop()
	l.forGroups(e.Object.Key, (*group).pop)
}

// shrink drops the oldest changes until the log has at most that many bytes. It keeps the newest
// change, unless all is set.
func (l *log) shrink(bytes int64, all bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.main == nil {
		return
	}
	least := 1
	if all {
		least = 0
	}
	for l.main.size() > least && l.bytes > bytes {
		l.drop()
	}
}

// size returns the bytes of the log, and the revision of its newest change.
func (l *log) size() (bytes, newest int64) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.main != nil && l.main.size() > 0 {
		newest = l.main.events[len(l.main.events)-1].Rev
	}
	return l.bytes, newest
}

// shrinkLogs makes room if all logs together exceed Options.AllLogBytes. keep is the resource that
// was written last. All logs above a common size are cut to it, so that writes to one resource cost
// the others little. If even the newest changes of many resources are too much, the logs that were
// not written for the longest time are emptied. The common size leaves an eighth free, so that many
// changes can follow before the next call has work.
func (c *Cache) shrinkLogs(keep *Resource) { c.cutLogs(c.o.AllLogBytes, keep) }

// cutLogs is shrinkLogs with a limit in bytes.
func (c *Cache) cutLogs(most int64, keep *Resource) {
	if c.logged.Load() <= most || !c.shrinking.TryLock() {
		return
	}
	defer c.shrinking.Unlock()
	type sized struct {
		*Resource
		bytes, newest int64
	}
	var logs []sized
	for _, r := range c.all() {
		if bytes, newest := r.log.size(); bytes > 0 {
			logs = append(logs, sized{r, bytes, newest})
		}
	}
	slices.SortFunc(logs, func(a, b sized) int { return cmp.Compare(a.bytes, b.bytes) })
	room := most - most/8
	for i, l := range logs {
		if share := room / int64(len(logs)-i); l.bytes > share {
			for _, larger := range logs[i:] {
				larger.shrink(share, false)
			}
			break
		}
		room -= l.bytes
	}
	slices.SortFunc(logs, func(a, b sized) int { return cmp.Compare(a.newest, b.newest) })
	for _, l := range logs {
		if c.logged.Load() <= most {
			return
		}
		if l.Resource != keep {
			l.shrink(0, true)
		}
	}
}

// shrink cuts the log, and drops the old states that it does not reach any more.
func (r *Resource) shrink(bytes int64, all bool) {
	r.log.shrink(bytes, all)
	r.kept.forget(r.c.o.KeepFor, r.log.tail())
}

// forget drops all changes up to a revision, even if there is room for them.
func (l *log) forget(rev int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.main != nil && l.main.size() > 0 && l.main.events[l.main.head].Rev <= rev {
		l.drop()
	}
}

// cost returns approximately how many bytes of memory an event keeps alive: the replaced object,
// with a view.
func cost(e *Event) int64 {
	if e.Prev == nil {
		return 128
	}
	return 128 + 2*int64(len(e.Prev.Raw))
}

// forGroups calls fn for each group whose filter matches the key: one look-up for each of the key's
// prefixes. The lock is held.
func (l *log) forGroups(key string, fn func(*group)) {
	if len(l.groups) == 0 {
		return
	}
	for end := len(l.r.prefix); ; {
		i := strings.IndexByte(key[end:], '/')
		if i < 0 {
			break
		}
		end += i + 1
		if g := l.groups[key[:end]]; g != nil {
			fn(g)
		}
	}
	if g := l.groups[key]; g != nil {
		fn(g)
	}
}

// size returns the number of events.
func (g *group) size() int { return len(g.events) - g.head }

// pop drops the oldest event.
func (g *group) pop() {
	g.events[g.head] = Event{}
	g.head++
	g.first++
	// Move the events to the start when more than half of the array is unused.
	if g.head >= 64 && g.head > len(g.events)/2 {
		n := copy(g.events, g.events[g.head:])
		clear(g.events[n:])
		g.events, g.head = g.events[:n], 0
	}
}

// announce wakes all watchers of the group that wait.
func (g *group) announce() {
	if g.waiting.Swap(0) > 0 {
		close(g.wake)
		g.wake = make(chan struct{})
	}
}

// passes reports whether a key matches a filter: a prefix if the filter ends with a slash,
// otherwise one key.
func passes(key, filter string) bool {
	if strings.HasSuffix(filter, "/") {
		return strings.HasPrefix(key, filter)
	}
	return key == filter
}

// join adds a watcher to the group of a filter. It returns the group, and the number of its first
// event after a revision.
func (l *log) join(filter string, after int64) (*group, uint64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.main.err != nil:
		return nil, 0, l.main.err
	case after < l.lost:
		return nil, 0, ErrExpired
	}
	g := l.main
	if filter != "" && filter != l.r.prefix {
		if g = l.groups[filter]; g == nil {
			g = newGroup(filter)
			for _, e := range l.main.events[l.main.head:] {
				if passes(e.Object.Key, filter) {
					g.events = append(g.events, e)
				}
			}
			if l.groups == nil {
				l.groups = map[string]*group{}
			}
			l.groups[filter] = g
		}
	}
	g.watchers++
	i := sort.Search(g.size(), func(i int) bool { return g.events[g.head+i].Rev > after })
	return g, g.first + uint64(i), nil
}

// leave removes a watcher from its group. A group without watchers is dropped.
func (l *log) leave(g *group) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if g.watchers--; g.watchers == 0 && l.groups[g.filter] == g {
		delete(l.groups, g.filter)
	}
}

// between returns the changes after one revision up to another, if the log has all of them.
func (l *log) between(after, upTo int64) ([]Event, bool) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.main == nil || l.main.err != nil || after < l.lost {
		return nil, false
	}
	events := l.main.events[l.main.head:]
	from := sort.Search(len(events), func(i int) bool { return events[i].Rev > after })
	to := sort.Search(len(events), func(i int) bool { return events[i].Rev > upTo })
	return append([]Event(nil), events[from:to]...), true
}
