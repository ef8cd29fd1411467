package rbac

import (
	"cmp"
	"hash/maphash"
	"slices"
	"sync"

	rbacv1 "k8s.io/api/rbac/v1"
)

// This file finds rules by resource or URL. A large role has a table, and so has a subject with many rules: a table for each subject
// that ever asks would take more memory than all roles do, so only some are kept.

// ruleTable finds rules by resource or URL, in lists of rules. Besides the lists, it has 12 bytes for each word that is looked for.
type ruleTable struct {
	rules  [][]rbacv1.PolicyRule
	places []place // by hash
	prefix []place // rules with a URL that ends in an asterisk
}

// place is where a rule is that a request may need.
type place struct {
	hash uint32 // of what the rule has: an API group and a resource, as spelled, or a URL
	of   uint32 // index of its list
	rule uint32 // index in the list
}

// seed is for the hashes of all tables.
var seed = maphash.MakeSeed()

// anyGroup is in place of the API groups of a rule with so many groups and resources that not each pair of them is in the table.
// No request names it.
const anyGroup = "\x00"

// hashOf returns the hash of an API group, or of nothing for a URL, with that of a resource or URL.
func hashOf(group string, resource uint64) uint32 {
	const prime = 0x9E3779B97F4A7C15
	return uint32((maphash.String(seed, group)*prime + resource) * prime >> 32)
}

// noGroup is in place of the API group of a URL.
const noGroup = "\x00/"

// add adds a list of rules. Call sort when all are there.
func (t *ruleTable) add(of uint32, rules []rbacv1.PolicyRule) {
	t.rules[of] = rules
	for i := range rules {
		r, at := &rules[i], place{of: of, rule: uint32(i)}
		groups := r.APIGroups
		if g, n := len(groups), len(r.Resources); g*n > 2*(g+n) {
			groups = []string{anyGroup}
		}
		for _, resource := range r.Resources {
			hash := maphash.String(seed, resource)
			for _, group := range groups {
				at.hash = hashOf(group, hash)
				t.places = append(t.places, at)
			}
		}
		starred := false
		for _, url := range r.NonResourceURLs {
			starred = starred || len(url) > 0 && url[len(url)-1] == '*'
			at.hash = hashOf(noGroup, maphash.String(seed, url))
			t.places = append(t.places, at)
		}
		if starred {
			t.prefix = append(t.prefix, at)
		}
	}
}

// sort makes the table ready.
func (t *ruleTable) sort() {
	slices.SortStableFunc(t.places, func(a, b place) int { return cmp.Compare(a.hash, b.hash) })
	t.places = slices.Clip(t.places)
}

// lookup returns the place of a rule that allows the request, nil if there is none.
func (t *ruleTable) lookup(q *question) *place {
	if !q.ResourceRequest {
		if p := t.find(hashOf(noGroup, maphash.String(seed, q.Path)), q); p != nil {
			return p
		}
		return t.first(t.prefix, q)
	}
	words := [3]uint64{maphash.Bytes(seed, q.combined), maphash.String(seed, rbacv1.ResourceAll)}
	n := 2
	if len(q.anyOf) > 0 {
		words[2], n = maphash.Bytes(seed, q.anyOf), 3
	}
	for _, group := range [3]string{q.Group, rbacv1.APIGroupAll, anyGroup} {
		for _, word := range words[:n] {
			if p := t.find(hashOf(group, word), q); p != nil {
				return p
			}
		}
	}
	return nil
}

// find returns the first place with a hash whose rule allows the request, nil if there is none.
func (t *ruleTable) find(hash uint32, q *question) *place {
	low, high := 0, len(t.places)
	for low < high {
		if mid := int(uint(low+high) >> 1); t.places[mid].hash < hash {
			low = mid + 1
		} else {
			high = mid
		}
	}
	end := low
	for end < len(t.places) && t.places[end].hash == hash {
		end++
	}
	return t.first(t.places[low:end], q)
}

// first returns the first of some places whose rule allows the request, nil if there is none.
func (t *ruleTable) first(places []place, q *question) *place {
	for i := range places {
		p := &places[i]
		if allows(&t.rules[p.of][p.rule], q) {
			return p
		}
	}
	return nil
}

// size returns the bytes of the table.
func (t *entryTable) size() int {
	return 12*(len(t.places)+len(t.prefix)) + 24*len(t.rules) + 4*len(t.large)
}

// tableBytes bounds the tables of all subjects together. One alone may be larger.
const tableBytes = 8 << 20

// tables are the newest tables of subjects.
type tables struct {
	mu    sync.Mutex
	kept  []*entry // with a table, the oldest first
	bytes int
}

// keep keeps the table of an entry, and drops the oldest tables in its place.
func (ts *tables) keep(e *entry, t *entryTable) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if !e.table.CompareAndSwap(nil, t) {
		return
	}
	ts.kept = append(ts.kept, e)
	ts.bytes += t.size()
	for ts.bytes > tableBytes && len(ts.kept) > 1 {
		oldest := ts.kept[0]
		ts.kept[0] = nil
		ts.kept = ts.kept[1:]
		ts.bytes -= oldest.table.Swap(nil).size()
	}
}
