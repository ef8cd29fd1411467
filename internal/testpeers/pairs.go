package testpeers

import "fmt"

// This file matches values that differ between two servers.

// Pairs matches values of two servers, such as resource versions. Each value has one counterpart.
// If one server wrote an object again and the other did not, that shows as a value without a
// counterpart. The zero value is empty.
type Pairs struct {
	names [2]map[string]string // by side: value -> common name
}

// Bind makes two values counterparts, unless one of them already has another.
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

// Also makes x, a value of the first server without a counterpart, an additional counterpart of y:
// the first server wrote an object again that the second did not. It reports whether it did.
func (p *Pairs) Also(x, y string) bool {
	name := p.names[1][y]
	if x == "" || name == "" || p.names[0][x] != "" {
		return false
	}
	p.names[0][x] = name
	return true
}

// Name returns the common name of a value and its counterpart, if it has one.
func (p *Pairs) Name(side int, said string) (string, bool) {
	name, ok := p.names[side][said]
	return name, ok
}
