package main

import (
	"fmt"
	"html"
	"strings"
)

// This file draws what docs/concepts.md explains: columns of boxes with arrows.

// box is a step of a drawing, with what happens beside it.
type box struct {
	text   string
	before string // left of the box: what comes in
	beside string // right of it: how it can end
}

// column draws boxes below each other, joined by arrows, with a line of text at the end.
func column(title string, boxes []box, end string) []byte {
	const step, left, width = 56, 190, 260
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 780 %d" role="img" aria-label="%s">%s`, len(boxes)*step+40, html.EscapeString(title), style)
	for i, s := range boxes {
		y := 10 + i*step
		fmt.Fprintf(&b, "\n"+`<rect class="b" x="%d" y="%d" width="%d" height="36" rx="6"/><text class="t" x="%d" y="%d" text-anchor="middle">%s</text>`,
			left, y, width, left+width/2, y+23, html.EscapeString(s.text))
		if s.before != "" {
			fmt.Fprintf(&b, `<text class="m" x="%d" y="%d" text-anchor="end">%s</text>`, left-10, y+23, html.EscapeString(s.before))
		}
		if s.beside != "" {
			fmt.Fprintf(&b, `<text class="m" x="%d" y="%d">%s</text>`, left+width+14, y+23, html.EscapeString(s.beside))
		}
		fmt.Fprintf(&b, `<path class="s" d="M%d %d v16 m-5 -6 l5 6 l5 -6"/>`, left+width/2, y+37)
	}
	fmt.Fprintf(&b, "\n"+`<text class="m" x="%d" y="%d" text-anchor="middle">%s</text>`, left+width/2, 10+len(boxes)*step+14, html.EscapeString(end))
	return []byte(b.String() + "\n</svg>\n")
}

// write draws the way of a write through the server.
func write(string) ([]byte, error) {
	return column("The way of a write", []box{
		{"authenticate", "request ──▶", "refused: 401"},
		{"authorize", "", "refused: 403"},
		{"decode, prune, default", "", "malformed: 400"},
		{"admission", "", "refused: 403"},
		{"validate, CEL rules", "", "invalid: 422"},
		{"store on disk", "", "conflict: 409"},
	}, "answer, and an event for each watcher"), nil
}

// read draws the way of a read.
func read(string) ([]byte, error) {
	return column("The way of a read", []box{
		{"authenticate", "request ──▶", "refused: 401"},
		{"authorize", "", "refused: 403"},
		{"the cache, in memory", "", "not found: 404"},
		{"select by labels and fields", "", "of a list only"},
		{"convert, prune, default", "", "once for each version"},
		{"encode", "", "JSON, table, protobuf, CBOR"},
	}, "answer; a watch goes on with each change"), nil
}

// decision draws the way of a decision about permissions.
func decision(string) ([]byte, error) {
	return column("The way of a decision", []box{
		{"system:masters?", "request ──▶", "yes: allowed"},
		{"webhook before RBAC", "if it matches", "allow, deny, or no opinion"},
		{"Node", "", "allow, or no opinion"},
		{"RBAC", "", "allow, or no opinion"},
		{"webhook after RBAC", "if it matches", "allow, deny, or no opinion"},
	}, "nobody had an opinion: refused"), nil
}

// fields draws what prunes and what fills in defaults, and when.
func fields(string) ([]byte, error) {
	return column("What prunes and what fills in defaults", []box{
		{"decode: prune, default", "write ──▶", "by the version of the request"},
		{"webhooks and policies change", "", "default again, after each"},
		{"validate", "", "by the version of the request"},
		{"convert, prune", "", "if another version is stored"},
		{"stored", "", "on disk"},
		{"decode: prune, default", "read ──▶", "by the version that is stored"},
		{"convert, prune", "", "if another version is asked for"},
	}, "answer"), nil
}

// cost draws how the cost of a rule is estimated: a loop in a loop.
func cost(string) ([]byte, error) {
	loops := []struct{ expression, bound string }{
		{"self.all(t, …)", "maxItems: 32 of tasks"},
		{"t.runAfter.all(n, …)", "maxItems: 32 of runAfter"},
		{"self.exists(o, …)", "maxItems: 32 of tasks"},
		{"o.name == n", "maxLength: 63 of a name"},
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 720 %d" role="img" aria-label="How the cost of a rule is estimated">%s`, len(loops)*48+84, style)
	for i, l := range loops {
		in := i * 24
		y, h := 10+i*48, (len(loops)-i)*48-i*4+6
		fmt.Fprintf(&b, "\n"+`<rect class="s" x="%d" y="%d" width="%d" height="%d" rx="6"/><text class="t" x="%d" y="%d">%s</text><text class="m" x="%d" y="%d" text-anchor="end">%s</text>`,
			10+in, y, 700-2*in, h, 24+in, y+26, html.EscapeString(l.expression), 696-in, y+26, html.EscapeString(l.bound))
	}
	fmt.Fprintf(&b, "\n"+`<text class="m" x="360" y="%d" text-anchor="middle">%s</text>`, len(loops)*48+44, html.EscapeString("about 32 × 32 × 32 times what is innermost: each loop multiplies"))
	fmt.Fprintf(&b, "\n"+`<text class="m" x="360" y="%d" text-anchor="middle">%s</text>`, len(loops)*48+68, html.EscapeString("without a bound: as many as fit into a request of 3 MiB"))
	return []byte(b.String() + "\n</svg>\n"), nil
}
