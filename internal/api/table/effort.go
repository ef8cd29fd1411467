package table

import (
	"math"
	"time"

	"k8s.io/client-go/util/jsonpath"

	"github.com/keelson-io/keelson/jsondoc"
)

// This file bounds the work and the text of one row. Columns are the author's of a definition,
// rows are another user's.

const (
	// maxEffort bounds the values that paths in the library's form look at for one row.
	maxEffort = 20_000_000

	// maxFound bounds the values that one path finds if it may find a value more than once: the
	// library holds them all, at 24 bytes each.
	maxFound = 1_000_000

	// maxCells bounds the text of a row's cells: when there is more, the cells that follow are
	// null.
	maxCells = 256 << 10
)

// row is an object whose row is printed.
type row struct {
	obj    jsondoc.Value
	now    time.Time
	effort int // what paths in the library's form have looked at so far
	copied any // obj as Go values, nil if it was not needed yet

	visits map[int]int // by number of descents, see visitsOf
}

// interfaces returns the object as Go values. All columns share it.
func (r *row) interfaces() any {
	if r.copied == nil {
		r.copied = r.obj.Interface()
	}
	return r.copied
}

// shape has the factors by which a path multiplies the values that it visits. Nested recursive
// descents find a value as often as there are ways to choose places above it, unions find it again
// for each of their members, and ranges visit everything for each item.
type shape struct {
	steps, unions, descents, ranges int
}

// shapeOf returns the shape of a path.
func shapeOf(nodes []jsonpath.Node) shape {
	s := shape{unions: 1}
	s.add(nodes)
	return s
}

// add adds the steps of a path.
func (s *shape) add(nodes []jsonpath.Node) {
	for _, n := range nodes {
		s.steps++
		switch n := n.(type) {
		case *jsonpath.ListNode:
			s.add(n.Nodes)
		case *jsonpath.RecursiveNode:
			s.descents++
		case *jsonpath.UnionNode:
			s.unions = times(s.unions, max(1, len(n.Nodes)))
			for _, member := range n.Nodes {
				s.add(member.Nodes)
			}
		case *jsonpath.FilterNode:
			s.add(n.Left.Nodes)
			s.add(n.Right.Nodes)
		case *jsonpath.IdentifierNode:
			s.ranges++
		}
	}
}

// effort returns how many values of a row's object a path of this shape visits at most. Beyond
// maxEffort it returns some larger number.
func (s *shape) effort(r *row) int {
	total := times(r.visitsOf(s.descents), s.unions)
	if (s.descents > 1 || s.unions > 1) && total > maxFound {
		return maxEffort + 1
	}
	if s.descents > 0 || s.unions > 1 { // else each step visits what is below the last one
		total = times(total, max(1, s.steps))
	}
	for range s.ranges {
		if total = times(total, r.visitsOf(0)); total > maxFound {
			return maxEffort + 1
		}
	}
	return total
}

// visitsOf returns how many values of the object a number of descents visit, and how many bytes of
// texts: the library descends into texts, too.
func (r *row) visitsOf(descents int) int {
	if n, ok := r.visits[descents]; ok {
		return n
	}
	if r.visits == nil {
		r.visits = map[int]int{}
	}
	n := visits(r.obj, 1, descents, 0)
	r.visits[descents] = n
	return n
}

// visits adds the visits of v, which is at a depth, to those so far. It ends above maxEffort.
func visits(v jsondoc.Value, depth, descents, sofar int) int {
	n := 1
	if v.Kind() == jsondoc.String {
		n += len(v.Text())
	}
	sofar += times(n, ways(depth, descents))
	switch v.Kind() {
	case jsondoc.Object:
		for _, member := range v.Members() {
			if sofar > maxEffort {
				return sofar
			}
			sofar = visits(member, depth+1, descents, sofar)
		}
	case jsondoc.Array:
		for _, item := range v.Items() {
			if sofar > maxEffort {
				return sofar
			}
			sofar = visits(item, depth+1, descents, sofar)
		}
	}
	return sofar
}

// ways returns in how many ways n descents lead to a value at a depth.
func ways(depth, n int) int {
	total := 1 // depth + n choose n
	for i := 1; i <= n && total <= maxEffort; i++ {
		total = total * (depth + i) / i
	}
	return min(total, maxEffort+1)
}

// times multiplies; a product above what fits is the greatest number that fits.
func times(a, b int) int {
	if a > 0 && b > math.MaxInt32/a {
		return math.MaxInt32
	}
	return a * b
}
