package rbac

import "maps"

// This file has a persistent map: versions share the parts that did not change.

// shards is the number of parts of a table. A change copies only the parts that it touches.
const shards = 512

// table maps subjects to entries. It is immutable.
type table struct {
	parts [shards]map[subject]*entry
}

// partOf returns the number of the part for a subject. It mixes the last bytes of the names, which
// is cheaper than a full hash; numbered names differ there.
func partOf(s subject) int {
	const prime = 0x9E3779B97F4A7C15
	var sum uint64
	for i := len(s.name) - 1; i >= max(0, len(s.name)-6); i-- {
		sum = sum*31 + uint64(s.name[i])
	}
	for i := len(s.scope) - 1; i >= max(0, len(s.scope)-4); i-- {
		sum = sum*31 + uint64(s.scope[i])
	}
	return int(sum * prime >> 55) // 9 bits
}

// get returns a subject's entry, nil if it has none.
func (t *table) get(s subject) *entry { return t.parts[partOf(s)][s] }

// with returns a table in which some subjects have other entries; nil removes a subject.
func (t *table) with(changed map[subject]*entry) *table {
	next := *t
	copied := map[int]bool{}
	for s, e := range changed {
		i := partOf(s)
		if !copied[i] {
			copied[i] = true
			next.parts[i] = maps.Clone(next.parts[i])
			if next.parts[i] == nil {
				next.parts[i] = map[subject]*entry{}
			}
		}
		if e == nil {
			delete(next.parts[i], s)
		} else {
			next.parts[i][s] = e
		}
	}
	return &next
}
