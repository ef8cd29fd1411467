package declared

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/keelson-io/keelson/jsondoc"
)

// This file has the steps, which run in both directions.

// step is a compiled step. forward is the direction to the hub.
type step interface {
	run(w *work, root *node, forward bool) error
}

// places are two paths of a field, with the same lists: version[i] corresponds to hub[i].
type places struct {
	prefix       path // ends in the last [*] of both; empty if there is none
	version, hub path // below prefix
}

// pair returns the places of the field before and after the step.
func (p *places) pair(forward bool) (from, to path) {
	if forward {
		return p.version, p.hub
	}
	return p.hub, p.version
}

// moveStep moves a field, and possibly changes its value.
type moveStep struct {
	places
	table  *valueTable                                         // nil: the step has none
	change func(w *work, n *node, forward bool) (*node, error) // nil: the value stays as it is
}

// run implements step.
func (s *moveStep) run(w *work, root *node, forward bool) error {
	from, to := s.pair(forward)
	return w.items(root, s.prefix, func(n *node) error {
		v := w.detach(n, from)
		if v == nil {
			return nil
		}
		if s.change != nil {
			var err error
			if v, err = s.change(w, v, forward); err != nil {
				return fmt.Errorf("%s: %w", append(s.prefix[:len(s.prefix):len(s.prefix)], from...), err)
			}
		}
		if v == nil {
			return nil
		}
		return w.attach(n, to, v)
	})
}

// valueTable replaces values. Both documents have the values in the order of the pairs.
type valueTable struct {
	version, hub []jsondoc.Value
}

// change is the change of a moveStep.
func (t *valueTable) change(w *work, n *node, forward bool) (*node, error) {
	from, to := t.version, t.hub
	if !forward {
		from, to = to, from
	}
	if n.open {
		return n, nil
	}
	for i := range from {
		if jsondoc.Equal(n.value, from[i]) {
			return w.new(to[i]), nil
		}
	}
	return n, nil
}

// splitStep has a text on one side, and its parts on the other one.
type splitStep struct {
	prefix    path
	text      path
	parts     []path
	integers  []bool // whether a part is an integer
	separator string
	isJoin    bool // the way to the hub joins
}

// run implements step.
func (s *splitStep) run(w *work, root *node, forward bool) error {
	return w.items(root, s.prefix, func(n *node) error {
		if forward == s.isJoin {
			return s.join(w, n)
		}
		return s.split(w, n)
	})
}

// split replaces the text by its parts. A text with few separators has few parts; the last part has
// the rest of the text.
func (s *splitStep) split(w *work, n *node) error {
	v := w.get(n, s.text)
	if v == nil || v.open || v.value.Kind() != jsondoc.String {
		return nil
	}
	whole := v.value.Text()
	w.detach(n, s.text)
	for i, part := range strings.SplitN(whole, s.separator, len(s.parts)) {
		out := w.text(part)
		if s.integers[i] {
			number, err := strconv.ParseInt(part, 10, 64)
			if err != nil {
				return fmt.Errorf("%s: got %q, want an integer as part %d of the text", s.text, whole, i+1)
			}
			out = w.new(jsondoc.Value{Doc: w.scratch, Node: jsondoc.IntNode(number)})
		}
		if err := w.attach(n, s.parts[i], out); err != nil {
			return err
		}
	}
	return nil
}

// join replaces the parts by their text. Parts behind a missing one are not in it.
func (s *splitStep) join(w *work, n *node) error {
	var texts []string
	missing := false
	for _, p := range s.parts {
		v := w.detach(n, p)
		if v == nil || v.open || missing {
			missing = true
			continue
		}
		switch v.value.Kind() {
		case jsondoc.String:
			texts = append(texts, v.value.Text())
		case jsondoc.Int:
			texts = append(texts, strconv.FormatInt(v.value.Int(), 10))
		default:
			missing = true
		}
	}
	if len(texts) == 0 {
		return nil
	}
	return w.attach(n, s.text, w.text(strings.Join(texts, s.separator)))
}

// keyed converts between a list of objects and a map. It is the change of a moveStep.
type keyed struct {
	key, value string
	isList     bool // the version has the list
}

// change is the change of a moveStep.
func (k *keyed) change(w *work, n *node, forward bool) (*node, error) {
	if forward == k.isList {
		return k.toMap(w, n)
	}
	return k.toList(w, n)
}

// toMap returns the map of a list.
func (k *keyed) toMap(w *work, n *node) (*node, error) {
	if !w.openList(n) {
		return n, nil
	}
	out := w.missing(nil)
	for i, item := range n.items {
		name := ""
		if v := w.get(item, path{{name: k.key}}); v != nil && !v.open {
			name = v.value.Text()
		}
		if name == "" {
			return nil, fmt.Errorf("item %d has no %s, which is the key of the map", i, k.key)
		}
		value := item
		if k.value == "" {
			w.detach(item, path{{name: k.key}})
		} else if value = w.get(item, path{{name: k.value}}); value == nil {
			return nil, fmt.Errorf("item %d has no %s, which is the value of the map", i, k.value)
		}
		out.members = append(out.members, member{name, value})
	}
	slices.SortStableFunc(out.members, func(a, b member) int { return strings.Compare(a.name, b.name) })
	for i := 1; i < len(out.members); i++ {
		if out.members[i].name == out.members[i-1].name {
			return nil, fmt.Errorf("two items have the %s %q, which is the key of the map", k.key, out.members[i].name)
		}
	}
	return out, w.full()
}

// toList returns the list of a map, sorted by key.
func (k *keyed) toList(w *work, n *node) (*node, error) {
	if !w.openObject(n) {
		return n, nil
	}
	out := w.missing(path{{kind: each}})
	for _, m := range n.members {
		item := m.node
		if k.value != "" {
			item = w.missing(nil)
			item.members = []member{{k.value, m.node}}
		}
		if err := w.attach(item, path{{name: k.key}}, w.text(m.name)); err != nil {
			return nil, err
		}
		out.items = append(out.items, item)
	}
	return out, w.full()
}

// values returns the values that a step replaces, and those that it writes.
func (s *moveStep) values() []jsondoc.Value {
	if s.table == nil {
		return nil
	}
	return slices.Concat(s.table.version, s.table.hub)
}
