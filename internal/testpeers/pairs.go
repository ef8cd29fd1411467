package testpeers

import "fmt"

// This file is what corresponds between two servers.

// Pairs holds what was found to correspond between two servers so far: what one says has one counterpart. An object that one server
// wrote again and the other did not is found by that. The zero value holds nothing.
type Pairs struct {
	names [2]map[string]string // by side: what a server says → the name for it
}

// Bind makes what both servers said at one place counterparts of each other, unless one of them has another. The first pair stands.
func (p *Pairs) Bind(x, y string) {
	if p.names[0] == nil {
		p.names = [2]map[string]string{{}, {}}
	}
	if x == "" || y == "" || p.names[0][x] != "" || p.names[1][y] != "" {
		return
	}
	name := fmt.Sprintf("«%d»", len(p.names[0]))
	p.names[0][x], p.names[1][y] = name, name
}

// Also makes what the first server said, and has no counterpart, one more counterpart of what the second said before: the first wrote
// again what the second left as it was. It reports whether it did.
func (p *Pairs) Also(x, y string) bool {
	name := p.names[1][y]
	if x == "" || name == "" || p.names[0][x] != "" {
		return false
	}
	p.names[0][x] = name
	return true
}

// Name is the name that what a side said has in common with its counterpart, if it has one.
func (p *Pairs) Name(side int, said string) (string, bool) {
	name, ok := p.names[side][said]
	return name, ok
}
