package gc

import (
	"bytes"
	"hash/maphash"
	"iter"
	"slices"
	"strings"
	"unique"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-io/keelson/internal/store"
	"github.com/keelson-io/keelson/jsondoc"
)

// This file has the memory of the controller: dependents, and owners that wait.

// node is an object that refers to owners, or waits for its dependents. The references of a node in the graph are guarded by the lock of
// the graph.
type node struct {
	key, uid   string
	namespace  string
	rev        int64
	refs       []reference
	deleting   bool // it has a deletion timestamp
	foreground bool // and waits until its dependents are gone
	orphan     bool // and waits until its dependents do not refer to it any more
}

// reference is an owner reference. If its place is known, it is in the graph's list of the references with this place.
type reference struct {
	of        unique.Handle[ownerType]
	name, uid string // parts of one string for all references of the node
	node      *node
	place     uint64     // of the owner, see graph.placeOf; 0 if its kind is not known
	block     bool       // the owner waits for this dependent
	gone      bool       // the owner was seen to go in a served version: it is absent, whatever becomes of its kind
	before    *reference // in the list
	after     *reference
}

// ownerType is what an owner reference says of the owner's kind.
type ownerType struct{ apiVersion, kind string }

// equals reports whether two references say the same.
func (r *reference) equals(o *reference) bool {
	return r.of == o.of && r.name == o.name && r.uid == o.uid && r.block == o.block
}

// waits reports whether a node waits for its dependents.
func (n *node) waits() bool { return n.deleting && (n.foreground || n.orphan) }

// sameRefs reports whether two nodes have the same references.
func (n *node) sameRefs(o *node) bool {
	return slices.EqualFunc(n.refs, o.refs, func(a, b reference) bool { return a.equals(&b) })
}

// graph has all nodes, with lists of references. An editor can write very many of them: see referenceBytes.
type graph struct {
	seed    maphash.Seed
	nodes   map[string]*node      // by key
	first   map[uint64]*reference // of each list, by place
	unknown map[string]bool       // keys of nodes with unknown kinds, their own or their owners'
	waiting map[string]*node      // nodes that wait for their dependents, by uid
	defined definitions
}

func newGraph() *graph {
	return &graph{
		seed: maphash.MakeSeed(), nodes: map[string]*node{}, first: map[uint64]*reference{}, unknown: map[string]bool{}, waiting: map[string]*node{},
		defined: definitions{map[string]*definition{}, map[groupKind]*definition{}},
	}
}

// placeOf returns a hash of an owner's key, which is not 0.
func (g *graph) placeOf(key string) uint64 { return max(1, maphash.String(g.seed, key)) }

// put adds a node, or replaces the one at its key, and keeps what was seen of its owners. A node that was unknown stays so: it is only tried
// once more than it must be.
func (g *graph) put(n *node) {
	unknown := g.unknown[n.key]
	if old := g.drop(n.key); old != nil {
		n.inherit(old)
	}
	g.nodes[n.key] = n
	if n.waits() {
		g.waiting[n.uid] = n
	}
	for i := range n.refs {
		r := &n.refs[i]
		r.node = n
		unknown = unknown || r.place == 0
		if r.place == 0 {
			continue
		}
		if head := g.first[r.place]; head != nil {
			r.after, head.before = head, r
		}
		g.first[r.place] = r
	}
	if unknown {
		g.unknown[n.key] = true
	}
}

// inherit takes over from an older node with the same key which owners are gone.
func (n *node) inherit(old *node) {
	gone := old.lost()
	for i := range n.refs {
		n.refs[i].gone = n.refs[i].gone || gone[n.refs[i].uid]
	}
}

// drop removes the node at a key, and returns it.
func (g *graph) drop(key string) *node {
	n := g.nodes[key]
	if n == nil {
		return nil
	}
	delete(g.nodes, key)
	delete(g.unknown, key)
	if g.waiting[n.uid] == n {
		delete(g.waiting, n.uid)
	}
	for i := range n.refs {
		r := &n.refs[i]
		switch {
		case r.place == 0:
			continue
		case r.before != nil:
			r.before.after = r.after
		case r.after != nil:
			g.first[r.place] = r.after
		default:
			delete(g.first, r.place)
		}
		if r.after != nil {
			r.after.before = r.before
		}
		r.before, r.after = nil, nil
	}
	return n
}

// referring returns the references to the object at a key, in no order, whatever their uids are.
func (g *graph) referring(key string) iter.Seq[*reference] {
	return func(yield func(*reference) bool) {
		for r := g.first[g.placeOf(key)]; r != nil; r = r.after {
			if strings.HasSuffix(key, r.name) && !yield(r) { // it has it, but for a collision of hashes
				return
			}
		}
	}
}

// dependent is what is known of an object that refers to an owner.
type dependent struct {
	key, uid             string
	deleting, foreground bool
	blocks               bool // it keeps the owner from going
}

// dependents returns the objects that refer to an owner, in the order of their keys. A reference with the owner's uid and another group,
// kind or name, or in a namespace that is not the owner's, does not refer to it: an editor elsewhere can write one.
func (g *graph) dependents(owner *node) []dependent {
	var out []dependent
	for r := range g.referring(owner.key) {
		if r.uid == owner.uid {
			out = append(out, dependent{r.node.key, r.node.uid, r.node.deleting, r.node.foreground, r.block})
		}
	}
	slices.SortFunc(out, func(a, b dependent) int {
		if c := strings.Compare(a.key, b.key); c != 0 || a.blocks == b.blocks {
			return c
		}
		if a.blocks { // of two references to an owner, that which blocks it counts
			return -1
		}
		return 1
	})
	return slices.CompactFunc(out, func(a, b dependent) bool { return a.key == b.key })
}

// lose notes that the object at a key is gone, and returns the keys of the nodes that refer to it.
// References of which readable reports false stay as they are.
func (g *graph) lose(key string, readable func(*reference) bool) (dependents []string) {
	for r := range g.referring(key) {
		r.gone = r.gone || readable(r)
		dependents = append(dependents, r.node.key)
	}
	return dependents
}

// lost returns the uids of the owners of an object that were seen to go; nil if there are none.
func (n *node) lost() map[string]bool {
	var gone map[string]bool
	for i := range n.refs {
		if n.refs[i].gone {
			if gone == nil {
				gone = map[string]bool{}
			}
			gone[n.refs[i].uid] = true
		}
	}
	return gone
}

// see applies a change to the graph. The lock is held.
func (c *Controller) see(e *store.Event) {
	switch {
	case !c.isCRD(e.Key):
	case e.Deleted:
		c.graph.defined.drop(e.Key)
	default:
		c.define(c.graph.defined, e)
	}
	if e.Deleted {
		for _, key := range c.graph.lose(e.Key, c.readable) {
			c.queue.Add(key)
		}
		if n := c.graph.drop(e.Key); n != nil {
			c.wakeOwners(n)
		}
		return
	}
	had := c.graph.nodes[e.Key]
	if had != nil && had.rev >= e.Rev {
		return
	}
	n := c.parse(e.Key, e.Value, e.Rev)
	if n == nil {
		if c.graph.drop(e.Key) != nil {
			c.wakeOwners(had)
		}
		return
	}
	c.locate(c.graph, n)
	c.graph.put(n)
	if n.deleting && n.foreground && (had == nil || had.uid != n.uid || !had.deleting || !had.foreground) {
		// Dependents that do not block it go in the foreground, too, if they are looked at before it is gone.
		for _, dep := range c.graph.dependents(n) {
			c.queue.Add(dep.key)
		}
	}
	switch {
	case had == nil, had.uid != n.uid, !had.sameRefs(n), c.graph.unknown[n.key]:
		c.queue.Add(n.key)
		if had != nil {
			c.wakeOwners(had)
		}
	case n.waits() && !had.waits(), had.foreground != n.foreground, had.orphan != n.orphan:
		c.queue.Add(n.key)
	default:
		c.retryFailed(n)
	}
}

// retryFailed queues a node that was changed, and the owners that wait for it, as far as they could not be processed: the change may have
// removed the cause. The lock is held.
func (c *Controller) retryFailed(n *node) {
	if c.queue.NumRequeues(n.key) > 0 {
		c.queue.Add(n.key)
	}
	for owner := range c.graph.waitingFor(n) {
		if c.queue.NumRequeues(owner) > 0 {
			c.queue.Add(owner)
		}
	}
}

// wakeOwners queues the owners that wait for n. The lock is held.
func (c *Controller) wakeOwners(n *node) {
	for owner := range c.graph.waitingFor(n) {
		c.queue.Add(owner)
	}
}

// waitingFor returns the keys of the owners that wait for n, which is one of their dependents.
func (g *graph) waitingFor(n *node) iter.Seq[string] {
	return func(yield func(string) bool) {
		for i := range n.refs {
			r := &n.refs[i]
			if owner := g.waiting[r.uid]; owner != nil && r.place == g.placeOf(owner.key) && !yield(owner.key) {
				return
			}
		}
	}
}

// word is a text to find in stored objects, in two parts. rest begins with a character that is rare in them, because bytes.Index is as
// fast as finding its first character.
type word struct{ begin, rest []byte }

var (
	ownerReferences    = word{[]byte(`"owner`), []byte(`References"`)}
	finalizers         = word{[]byte(`"finali`), []byte(`zers"`)}
	foregroundDeletion = []byte(`"` + metav1.FinalizerDeleteDependents + `"`)
	orphanDependents   = []byte(`"` + metav1.FinalizerOrphanDependents + `"`)
)

// in returns where a word first occurs in a text, -1 if nowhere.
func (w word) in(text []byte) int {
	for from := 0; ; {
		i := bytes.Index(text[from:], w.rest)
		if i < 0 {
			return -1
		}
		from += i
		if bytes.HasSuffix(text[:from], w.begin) {
			return from - len(w.begin)
		}
		from += len(w.rest)
	}
}

// concerns reports whether a JSON text may be an object that the controller keeps a node of.
func concerns(raw []byte) bool {
	if ownerReferences.in(raw) >= 0 {
		return true
	}
	at := finalizers.in(raw)
	return at >= 0 && (bytes.Contains(raw[at:], foregroundDeletion) || bytes.Contains(raw[at:], orphanDependents))
}

// parse returns the node of an object, nil if it needs none. Events need none: they expire, and block no owner.
func (c *Controller) parse(key string, raw []byte, rev int64) *node {
	if len(raw) > 0 && raw[0] == '{' && !concerns(raw) {
		return nil
	}
	if k, _, _ := c.kindOf(key); k != nil && k.Behavior.TTL > 0 {
		return nil
	}
	n := c.read(key, raw, rev)
	if n == nil || len(n.refs) == 0 && !n.waits() {
		return nil
	}
	return n
}

// read decodes an object into a node, nil if it cannot be decoded.
func (c *Controller) read(key string, raw []byte, rev int64) *node {
	d := jsondoc.Get()
	defer d.Release()
	k, namespace, _ := c.kindOf(key)
	if len(raw) > 0 && raw[0] == '{' {
		if jsondoc.Parse(d, raw) != nil {
			return nil
		}
	} else if k == nil || k.Storage.Load(d, raw, rev) != nil {
		return nil
	}
	m := d.Root().Get("metadata")
	if k == nil { // the kind is about to come, or gone
		namespace = strings.Clone(m.Get("namespace").Text())
	}
	n := &node{key: key, rev: rev, namespace: namespace, uid: strings.Clone(m.Get("uid").Text()), deleting: m.Get("deletionTimestamp").Text() != ""}
	for _, f := range m.Get("finalizers").Items() {
		switch f.Text() {
		case metav1.FinalizerDeleteDependents:
			n.foreground = true
		case metav1.FinalizerOrphanDependents:
			n.orphan = true
		}
	}
	n.refs = readReferences(m.Get("ownerReferences"))
	return n
}

// readReferences decodes owner references.
func readReferences(list jsondoc.Value) []reference {
	count := 0
	var text strings.Builder
	for _, o := range list.Items() {
		count++
		text.WriteString(o.Get("name").Text())
		text.WriteString(o.Get("uid").Text())
	}
	refs, all := make([]reference, count), text.String()
	for i, o := range list.Items() {
		r := &refs[i]
		r.of = unique.Make(ownerType{o.Get("apiVersion").Text(), o.Get("kind").Text()})
		name, uid := len(o.Get("name").Text()), len(o.Get("uid").Text())
		r.name, r.uid, all = all[:name], all[name:name+uid], all[name+uid:]
		r.block = o.Get("blockOwnerDeletion").Bool()
	}
	return refs
}

// locate finds the places of a node's owners in a graph, as far as their kinds are known.
func (c *Controller) locate(g *graph, n *node) {
	for i := range n.refs {
		r := &n.refs[i]
		r.place = 0
		key, known := g.defined.ownerKey(r, n.namespace)
		if !known {
			key, known = c.ownerKey(r, n.namespace)
		}
		if known {
			r.place = g.placeOf(key)
		}
	}
}

// referenceBytes is the memory of a reference in the graph, besides its texts, which are at most as long as in the object: the reference
// (80), and an entry with its share of empty ones in the map of the lists. Measured with a million references to different owners.
const referenceBytes = 135

// Memory returns how many bytes the graph keeps for an object, by its stored text. It may count too much for a text that has the words of owner
// references elsewhere.
func Memory(raw []byte) int64 {
	from := ownerReferences.in(raw)
	if from < 0 {
		return 0
	}
	uid := []byte(`"uid"`)
	to := max(from, bytes.LastIndex(raw, uid))
	return int64(to-from) + referenceBytes*int64(bytes.Count(raw[from:], uid))
}
