package gc

import (
	"bytes"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/store"
)

// This file has the memory of the controller: dependents, and owners that wait.

// node is an object that refers to owners, or waits for its dependents.
type node struct {
	key, uid   string
	namespace  string
	rev        int64
	refs       []reference
	deleting   bool // it has a deletion timestamp
	foreground bool // and waits until its dependents are gone
	orphan     bool // and waits until its dependents do not refer to it any more
}

// reference is an owner reference.
type reference struct {
	apiVersion, kind, name, uid string
	block                       bool   // the owner waits for this dependent
	key                         string // of the owner; "" if its kind is not known
}

// waits reports whether a node waits for its dependents.
func (n *node) waits() bool { return n.deleting && (n.foreground || n.orphan) }

// graph has all nodes, with indexes.
type graph struct {
	nodes   map[string]*node           // by key
	byOwner map[string]map[string]bool // keys of dependents, by the owner's uid
	byPlace map[string]map[string]bool // keys of dependents, by the owner's key
	unknown map[string]bool            // keys of nodes with unknown kinds
}

func newGraph() *graph {
	return &graph{map[string]*node{}, map[string]map[string]bool{}, map[string]map[string]bool{}, map[string]bool{}}
}

// put adds a node, or replaces the one at its key.
func (g *graph) put(n *node) {
	g.drop(n.key)
	g.nodes[n.key] = n
	for _, r := range n.refs {
		add(g.byOwner, r.uid, n.key)
		if r.key != "" {
			add(g.byPlace, r.key, n.key)
		}
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
	for _, r := range n.refs {
		remove(g.byOwner, r.uid, key)
		remove(g.byPlace, r.key, key)
	}
	return n
}

func add(m map[string]map[string]bool, at, key string) {
	if m[at] == nil {
		m[at] = map[string]bool{}
	}
	m[at][key] = true
}

func remove(m map[string]map[string]bool, at, key string) {
	if delete(m[at], key); len(m[at]) == 0 {
		delete(m, at)
	}
}

// dependents returns the nodes that refer to an owner, in the order of their keys.
func (g *graph) dependents(uid string) []*node {
	var out []*node
	for key := range g.byOwner[uid] {
		out = append(out, g.nodes[key])
	}
	slices.SortFunc(out, func(a, b *node) int { return strings.Compare(a.key, b.key) })
	return out
}

// blocks reports whether n keeps the owner with a uid from going.
func (n *node) blocks(uid string) bool {
	return slices.ContainsFunc(n.refs, func(r reference) bool { return r.uid == uid && r.block })
}

// see applies a change to the graph. The lock is held.
func (c *Controller) see(e *store.Event) {
	if e.Deleted {
		for key := range c.graph.byPlace[e.Key] {
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
	c.graph.put(n)
	switch {
	case had == nil, had.uid != n.uid, !slices.Equal(had.refs, n.refs):
		c.queue.Add(n.key)
		if had != nil {
			c.wakeOwners(had)
		}
	case n.waits() && !had.waits(), had.foreground != n.foreground, had.orphan != n.orphan:
		c.queue.Add(n.key)
	}
}

// wakeOwners queues the owners that wait for n. The lock is held.
func (c *Controller) wakeOwners(n *node) {
	for _, r := range n.refs {
		if owner := c.graph.nodes[r.key]; owner != nil && owner.waits() {
			c.queue.Add(owner.key)
		}
	}
}

// words are texts of which every object that concerns the controller has one.
var words = [][]byte{[]byte(`"ownerReferences"`), []byte(`"` + metav1.FinalizerDeleteDependents + `"`), []byte(`"` + metav1.FinalizerOrphanDependents + `"`)}

// parse returns the node of an object, nil if it needs none.
func (c *Controller) parse(key string, raw []byte, rev int64) *node {
	if len(raw) > 0 && raw[0] == '{' && !slices.ContainsFunc(words, func(w []byte) bool { return bytes.Contains(raw, w) }) {
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
	for _, o := range m.Get("ownerReferences").Items() {
		r := reference{
			apiVersion: strings.Clone(o.Get("apiVersion").Text()), kind: strings.Clone(o.Get("kind").Text()),
			name: strings.Clone(o.Get("name").Text()), uid: strings.Clone(o.Get("uid").Text()), block: o.Get("blockOwnerDeletion").Bool(),
		}
		r.key, _ = c.ownerKey(&r, namespace)
		n.refs = append(n.refs, r)
	}
	return n
}
