// Package selector compiles label and field selectors, so that the cost of matching an object does
// not grow with the length of the selector.
//
// A selector of apimachinery checks its requirements one by one, and the values of a requirement
// one by one. Clients choose selectors, which may be as long as a request, and which are evaluated
// for each object of a list and each event of a watch. A compiled selector costs one look-up for
// each label of the object. Short selectors are not compiled.
package selector

import (
	"iter"
	"math"
	"strconv"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

// short is the number of requirements and values up to which a selector is not compiled.
const short = 16

// Labels is a set of labels that can be listed. For other sets, a compiled selector looks up each
// of its keys.
type Labels interface {
	labels.Labels
	All() iter.Seq2[string, string]
}

// Label returns a selector that matches what s matches. The result is s itself if s is short.
func Label(s labels.Selector) labels.Selector {
	if s == nil {
		return nil
	}
	requirements, selectable := s.Requirements()
	size := len(requirements)
	for i := range requirements {
		size += len(requirements[i].ValuesUnsorted())
	}
	if !selectable || size <= short {
		return s
	}
	c := &labelSelector{keys: make(map[string]*constraint, len(requirements))}
	for i := range requirements {
		c.add(&requirements[i])
	}
	forbidden := &constraint{forbidden: true}
	for key, k := range c.keys {
		switch {
		case k.required:
			c.required++
		case k.forbidden:
			c.keys[key] = forbidden // shared by all keys
		}
	}
	return c
}

// labelSelector is a compiled label selector. It implements only the methods that matching needs;
// the embedded interface is nil.
type labelSelector struct {
	labels.Selector // nil

	keys     map[string]*constraint
	required int // keys that an object must have
}

// constraint combines the requirements on one key.
type constraint struct {
	required, forbidden bool
	in                  map[string]bool // nil: any value
	notIn               map[string]bool
	least, most         *int64 // bounds of the value, which must be a number; nil: none
	never               bool   // no value is allowed
}

// add adds a requirement.
func (c *labelSelector) add(r *labels.Requirement) {
	k := c.keys[r.Key()]
	if k == nil {
		k = new(constraint)
		c.keys[r.Key()] = k
	}
	values := r.ValuesUnsorted()
	switch r.Operator() {
	case selection.In, selection.Equals, selection.DoubleEquals:
		k.required = true
		in := make(map[string]bool, len(values))
		for _, v := range values {
			if k.in == nil || k.in[v] {
				in[v] = true
			}
		}
		k.in = in
	case selection.NotIn, selection.NotEquals:
		if k.notIn == nil {
			k.notIn = make(map[string]bool, len(values))
		}
		for _, v := range values {
			k.notIn[v] = true
		}
	case selection.Exists:
		k.required = true
	case selection.DoesNotExist:
		k.forbidden = true
	case selection.GreaterThan, selection.LessThan:
		k.required = true
		k.compare(r.Operator(), values)
	default:
		k.required, k.never = true, true
	}
}

// compare adds a requirement that compares the value as a number.
func (k *constraint) compare(op selection.Operator, values []string) {
	if len(values) != 1 {
		k.never = true
		return
	}
	n, err := strconv.ParseInt(values[0], 10, 64)
	switch {
	case err != nil, op == selection.GreaterThan && n == math.MaxInt64, op == selection.LessThan && n == math.MinInt64:
		k.never = true
	case op == selection.GreaterThan:
		if n++; k.least == nil || n > *k.least {
			k.least = &n
		}
	default:
		if n--; k.most == nil || n < *k.most {
			k.most = &n
		}
	}
}

// allows reports whether a value satisfies the requirements.
func (k *constraint) allows(value string) bool {
	switch {
	case k.forbidden, k.never, k.in != nil && !k.in[value], k.notIn[value]:
		return false
	case k.least == nil && k.most == nil:
		return true
	}
	n, err := strconv.ParseInt(value, 10, 64)
	return err == nil && (k.least == nil || n >= *k.least) && (k.most == nil || n <= *k.most)
}

// Matches implements [labels.Selector].
func (c *labelSelector) Matches(ls labels.Labels) bool {
	all, ok := ls.(Labels)
	if !ok {
		for key, k := range c.keys {
			value, has := ls.Lookup(key)
			if has && !k.allows(value) || !has && k.required {
				return false
			}
		}
		return true
	}
	found := 0
	for key, value := range all.All() {
		if k := c.keys[key]; k != nil {
			if !k.allows(value) {
				return false
			}
			if k.required {
				found++
			}
		}
	}
	return found == c.required
}

// Empty implements [labels.Selector].
func (c *labelSelector) Empty() bool { return false }

// Field returns a selector that matches what s matches. The result is s itself if s is short.
func Field(s fields.Selector) fields.Selector {
	if s == nil {
		return nil
	}
	requirements := s.Requirements()
	if len(requirements) <= short {
		return s
	}
	c := &fieldSelector{fields: map[string]*constraint{}}
	for _, r := range requirements {
		k := c.fields[r.Field]
		if k == nil {
			k = new(constraint)
			c.fields[r.Field] = k
		}
		switch r.Operator {
		case selection.Equals, selection.DoubleEquals:
			k.never = k.never || k.in != nil && !k.in[r.Value]
			k.in = map[string]bool{r.Value: true}
		case selection.NotEquals:
			if k.notIn == nil {
				k.notIn = map[string]bool{}
			}
			k.notIn[r.Value] = true
		default:
			k.never = true
		}
	}
	return c
}

// fieldSelector is a compiled field selector. Like labelSelector, it implements only what matching
// needs.
type fieldSelector struct {
	fields.Selector // nil

	fields map[string]*constraint
}

// Matches implements [fields.Selector].
func (c *fieldSelector) Matches(f fields.Fields) bool {
	for field, k := range c.fields {
		if !k.allows(f.Get(field)) {
			return false
		}
	}
	return true
}

// Empty implements [fields.Selector].
func (c *fieldSelector) Empty() bool { return false }
