package api

import (
	"context"

	"github.com/keelson-io/keelson/internal/api/admit"
	"github.com/keelson-io/keelson/internal/api/encoding"
	"github.com/keelson-io/keelson/internal/api/selection"
	"github.com/keelson-io/keelson/internal/api/stream"
	"github.com/keelson-io/keelson/internal/api/table"
	"github.com/keelson-io/keelson/internal/cache"
)

// This file prints lists whose items are made for one reader: tables, metadata, text for people,
// and YAML. Each item is sent before the next one is made.

// listing is how a list is printed.
type listing struct {
	q *request
	t *table.Rows // nil if the list is not sent as a table

	start, end []byte // the list as JSON around its items

	// The list's members as JSON objects, in the order in which YAML has them: by name.
	before []byte // "" for none
	items  string // the name of the items; with what follows if there are none: "items: null"
	after  []byte

	row []byte // the last row

	prefix string // of items, see kind.Version.ItemPrefix

	grown *selection.Expansion
}

// newListing prepares to print a page.
func (q *request) newListing(p *page) (*listing, error) {
	l := &listing{q: q, items: "items:", grown: selection.NewExpansion(q.ctx)}
	metadata := p.metadata(true)
	switch q.accept.Form {
	case encoding.Table:
		var err error
		if l.t, err = q.newTable(table.New(q.v)); err != nil {
			return nil, err
		}
		if l.start, err = l.t.AppendStart(nil, metadata); err != nil {
			return nil, err
		}
		l.end = []byte("]}")
		l.items = "rows:"
		l.before = append(l.start[:len(l.start)-len(`,"rows":[`):len(l.start)-len(`,"rows":[`)], '}')
	case encoding.PartialList:
		kind, version := `"kind":"`+table.PartialList+`",`, `"apiVersion":"`+table.MetaGroup+q.accept.Meta+`"`
		l.start = []byte(`{` + kind + version + `,"metadata":` + string(metadata) + `,"items":[`)
		l.end = []byte("]}")
		l.before, l.after = []byte(`{`+version+`}`), []byte(`{`+kind+`"metadata":`+string(metadata)+`}`)
		if p.count == 0 { // as upstream prints a list that is a Go struct
			l.start, l.end, l.items = append(l.start[:len(l.start)-1], "null"...), []byte("}"), "items: null"
		}
	default:
		l.start, l.end = q.listStart(p), q.listEnd(p)
		l.before = []byte(`{"apiVersion":"` + q.v.APIVersion() + `"}`)
		l.after = []byte(`{"kind":"` + q.kind.ListKind + `","metadata":` + string(p.metadata(q.kind.Behavior.PrintsGoType())) + `}`)
		l.prefix = q.v.ItemPrefix()
	}
	if p.count == 0 && l.items[len(l.items)-1] == ':' {
		l.items += " []"
	}
	return l, nil
}

// item returns an item as JSON, in parts that are joined. They are good until the next call.
func (a *reply) item(l *listing, obj *cache.Object) (head, body, tail []byte, err error) {
	view, err := obj.View(l.q.v)
	if err == nil {
		err = l.grown.Add(obj, view)
	}
	if err != nil {
		return nil, nil, nil, err
	}
	switch l.q.accept.Form {
	case encoding.Table:
		if err := a.Build(rowCost(view.JSON)); err != nil {
			return nil, nil, nil, err
		}
		if cap(l.row) > stream.PieceSize {
			l.row = nil
		}
		l.row, err = l.t.AppendRow(l.q.ctx, l.row[:0], view.JSON)
		a.Room.Shrink(len(l.row))
		return nil, l.row, nil, err
	case encoding.PartialList:
		head, body = table.AppendPartialStart(nil, view.JSON, l.q.accept.Meta)
		return head, body, []byte("}"), nil
	}
	brace, body := listItem(l.prefix, view.JSON)
	return []byte(brace), body, nil, nil
}

// jsonList adds a list as JSON, for people if they want it.
func (a *reply) jsonList(l *listing, p *page) error {
	add := a.Share
	if l.q.accept.Pretty {
		n := stream.Indenter{To: &a.Pieces}
		add = n.Add
	}
	if err := add(l.start); err != nil {
		return err
	}
	first := true
	err := p.each(func(obj *cache.Object) error {
		head, body, tail, err := a.item(l, obj)
		if err != nil {
			return err
		}
		if !first {
			err = add([]byte{','})
		}
		first = false
		for _, part := range [][]byte{head, body, tail} {
			if err == nil {
				err = add(part)
			}
		}
		if err != nil {
			return err
		}
		return a.Step()
	})
	if err != nil {
		return err
	}
	if err := add(l.end); err != nil || l.q.accept.Pretty {
		return err
	}
	return add(newline)
}

// yamlList adds a list as YAML.
func (a *reply) yamlList(l *listing, p *page) error {
	if err := a.yaml(l.before); err != nil {
		return err
	}
	a.B = append(append(a.B, l.items...), '\n')
	err := p.each(func(obj *cache.Object) error {
		head, body, tail, err := a.item(l, obj)
		if err != nil {
			return err
		}
		if err := a.yaml([]byte{'['}, head, body, tail, []byte{']'}); err != nil {
			return err
		}
		return a.Step()
	})
	if err != nil || l.after == nil {
		return err
	}
	return a.yaml(l.after)
}

// auditCost is about the number of bytes of memory for each byte of a list while the list is
// recorded.
const auditCost = 8

// wholeList prints a list as JSON for the audit log. Its room is released when the request ends.
// The rows of the list get no room of their own: they could wait for it in vain.
func (q *request) wholeList(p *page) []byte {
	q.ctx = context.WithoutCancel(q.ctx) // the answer was sent, but the record is still to be made
	one := *q
	one.accept.Pretty, one.accept.Protobuf = false, false
	l, err := one.newListing(p)
	if err != nil {
		return nil
	}
	size := 0
	err = p.each(func(obj *cache.Object) error {
		size += len(obj.Raw)
		return nil
	})
	if err != nil {
		return nil
	}
	if q.recording = q.room(context.Background()); size > admit.BuildFree/auditCost {
		q.recording.Wait(int64(size) * auditCost)
	}
	var all []byte
	a := &reply{q: &one}
	a.Pieces = stream.Pieces{Most: stream.PieceSize, Send: func(b []byte) error {
		all = append(all, b...)
		return nil
	}}
	a.Begin()
	defer a.Pieces.End()
	if a.jsonList(l, p) != nil || a.Flush() != nil {
		return nil
	}
	return all[:len(all)-len(newline)]
}
