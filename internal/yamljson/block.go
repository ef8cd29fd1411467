package yamljson

import (
	"bytes"
	"slices"
	"sync"
)

// This file converts the part of YAML that most manifests are written in: block mappings and lists
// of plain and quoted scalars on one line, and lists of such scalars in brackets, in ASCII. It gives
// up where it is not certain that the library would say the same: other flow style, block scalars,
// anchors, tags, escapes, scalars that may be floats or times, repeated keys. FuzzEqualsUpstream and
// FuzzBlock hold it equal to the library.

// maxBlock is the length in bytes of a text that is converted here. Longer ones are left to the
// library, which looks at its context.
const maxBlock = 64 << 10

// maxBlockDepth is the number of nested mappings and lists.
const maxBlockDepth = 100

// maxBlockKeys is the number of keys of one mapping: each is compared with those before it.
const maxBlockKeys = 256

// block converts a text. ok is false if the library must.
func block(text []byte) (json []byte, ok bool) {
	if len(text) > maxBlock {
		return nil, false
	}
	b := blockPool.Get().(*blocks)
	defer b.release()
	b.rest = text
	// A document of another form, such as a scalar, is rare, and the library's errors are upstream's.
	if !b.next() || b.line == nil || b.indent != 0 {
		return nil, false
	}
	root, ok := b.mapping(0, 0)
	if !ok || b.line != nil {
		return nil, false
	}
	b.print(root)
	return bytes.Clone(b.out.b), true
}

// blockPool has readers whose memory is used again: their nodes and their JSON take several times as
// much as the JSON of one document.
var blockPool = sync.Pool{New: func() any { return new(blocks) }}

// release gives the reader back to the pool, without references to the text.
func (b *blocks) release() {
	clear(b.nodes)
	*b = blocks{nodes: b.nodes[:0], out: printer{b: b.out.b[:0]}}
	blockPool.Put(b)
}

// blockKind is the kind of a node.
type blockKind uint8

const (
	blockText   blockKind = iota
	blockPlain            // a number, true, false or null, which JSON writes the same
	blockMap              // of its children, which have keys
	blockList             // of its children
	blockEmptyM           // {}
	blockEmptyL           // []
)

// blockNode is a value. Its children are a linked list.
type blockNode struct {
	kind        blockKind
	key, text   []byte
	first, next int32 // 0 is none: the root is nobody's child
}

// blocks is a text while it is read.
type blocks struct {
	rest   []byte
	line   []byte // the current line without its indentation; nil at the end of the text
	indent int
	nodes  []blockNode
	out    printer // of the JSON
}

// blockChars are the characters of texts that are read here, as a set of ASCII characters. Tabs,
// carriage returns and everything beyond ASCII have rules of their own in YAML.
var blockChars = charSet(" !\"$%&'()*+,-./0123456789:;<=>?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_abcdefghijklmnopqrstuvwxyz{|}~#`")

// keyChars are the characters of keys. None of them needs an escape in JSON.
var keyChars = charSet("-./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz")

// numberChars are the characters of numbers and times.
var numberChars = charSet("0123456789_.eE+-:TtZz ")

// escapedChars are those of blockChars that JSON, as Go writes it, escapes.
var escapedChars = charSet(`"\&<>`)

// charSet returns the bytes of a text as a set.
func charSet(all string) (set [256]bool) {
	for i := range len(all) {
		set[all[i]] = true
	}
	return set
}

// next moves to the next line that is neither empty nor a comment. ok is false if the line has
// characters that the library must judge.
func (b *blocks) next() (ok bool) {
	for len(b.rest) > 0 {
		line := b.rest
		if end := bytes.IndexByte(line, '\n'); end >= 0 {
			line, b.rest = line[:end], line[end+1:]
		} else {
			b.rest = nil
		}
		for _, c := range line {
			if !blockChars[c] {
				return false
			}
		}
		indent := 0
		for indent < len(line) && line[indent] == ' ' {
			indent++
		}
		line = bytes.TrimRight(line[indent:], " ")
		if len(line) == 0 || line[0] == '#' {
			continue
		}
		b.line, b.indent = line, indent
		return true
	}
	b.line, b.indent = nil, -1
	return true
}

// add appends a node and returns its index.
func (b *blocks) add(n blockNode) int32 {
	b.nodes = append(b.nodes, n)
	return int32(len(b.nodes) - 1)
}

// link appends a child to a parent, after the last one.
func (b *blocks) link(parent, last, child int32) {
	if last == 0 {
		b.nodes[parent].first = child
	} else {
		b.nodes[last].next = child
	}
}

// mapping reads a mapping whose keys are at an indentation, from the current line on.
func (b *blocks) mapping(indent, depth int) (self int32, ok bool) {
	if depth > maxBlockDepth {
		return 0, false
	}
	self = b.add(blockNode{kind: blockMap})
	last, keys := int32(0), 0
	for b.line != nil && b.indent == indent {
		key, rest, ok := cutKey(b.line)
		if !ok {
			return 0, false
		}
		var child int32
		if rest = withoutComment(rest); len(rest) > 0 {
			child, ok = b.scalar(rest)
			// A deeper line would continue the scalar.
			if !ok || !b.next() || b.indent > indent {
				return 0, false
			}
		} else if child, ok = b.below(indent, depth); !ok {
			return 0, false
		}
		for c := b.nodes[self].first; c != 0; c = b.nodes[c].next {
			if bytes.Equal(b.nodes[c].key, key) {
				return 0, false
			}
		}
		if keys++; keys > maxBlockKeys {
			return 0, false
		}
		b.nodes[child].key = key
		b.link(self, last, child)
		last = child
	}
	return self, b.indent < indent
}

// below reads the value of a key without a value on its line, which is the current one.
func (b *blocks) below(indent, depth int) (self int32, ok bool) {
	if !b.next() {
		return 0, false
	}
	isItem := b.line != nil && (b.line[0] == '-' && (len(b.line) == 1 || b.line[1] == ' '))
	switch {
	case isItem && b.indent >= indent:
		return b.list(b.indent, depth+1)
	case b.indent > indent:
		return b.mapping(b.indent, depth+1)
	}
	return b.add(blockNode{kind: blockPlain, text: []byte("null")}), true
}

// list reads a list whose dashes are at an indentation, from the current line on.
func (b *blocks) list(indent, depth int) (self int32, ok bool) {
	if depth > maxBlockDepth {
		return 0, false
	}
	self = b.add(blockNode{kind: blockList})
	last := int32(0)
	for b.line != nil && b.indent == indent && b.line[0] == '-' {
		// One space and a value follow; other forms are rare.
		if len(b.line) < 3 || b.line[1] != ' ' || b.line[2] == ' ' || b.line[2] == '-' {
			return 0, false
		}
		item := b.line[2:]
		var child int32
		if _, _, isKey := cutKey(item); isKey {
			b.line, b.indent = item, indent+2
			if child, ok = b.mapping(indent+2, depth+1); !ok {
				return 0, false
			}
		} else {
			child, ok = b.scalar(withoutComment(item))
			if !ok || !b.next() || b.indent > indent {
				return 0, false
			}
		}
		b.link(self, last, child)
		last = child
	}
	// A key at the same indentation belongs to the mapping around the list.
	return self, b.indent <= indent
}

// cutKey cuts a line after its key and colon. ok is false if the key is not a plain text.
func cutKey(line []byte) (key, rest []byte, ok bool) {
	end := 0
	for end < len(line) && keyChars[line[end]] {
		end++
	}
	if end == 0 || end > 200 || end == len(line) || line[end] != ':' || !isLetter(line[0]) || isWord(line[:end]) {
		return nil, nil, false
	}
	key, rest = line[:end], line[end+1:]
	if len(rest) > 0 && rest[0] != ' ' {
		return nil, nil, false
	}
	return key, bytes.TrimLeft(rest, " "), true
}

// isLetter reports whether c is an ASCII letter.
func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }

// isWord reports whether a plain scalar may be something else than a text: a boolean or null in one
// of the spellings of YAML 1.1.
func isWord(s []byte) bool {
	if len(s) > 5 {
		return false
	}
	var space [5]byte
	lower := space[:copy(space[:], s)]
	for i, c := range lower {
		if c >= 'A' && c <= 'Z' {
			lower[i] = c | 0x20
		}
	}
	switch string(lower) {
	case "y", "n", "yes", "no", "on", "off", "true", "false", "null":
		return true
	}
	return false
}

// withoutComment cuts a value before the spaces and the comment at its end. A list in brackets is
// left as it is: see flowList.
func withoutComment(s []byte) []byte {
	if len(s) == 0 || s[0] == '[' {
		return s
	}
	at := 0 // the comment is behind it
	if s[0] == '"' || s[0] == '\'' {
		at = 1 + bytes.IndexByte(s[1:], s[0])
		if at == 0 || at+1 < len(s) && !isEnd(s[at+1:]) {
			return s
		}
		return s[:at+1]
	}
	if s[0] == '#' {
		return nil
	}
	if at = bytes.Index(s, []byte(" #")); at < 0 {
		return s
	}
	return bytes.TrimRight(s[:at], " ")
}

// isEnd reports whether the rest of a line after a value has only spaces, and a comment after them.
func isEnd(rest []byte) bool {
	comment := bytes.TrimLeft(rest, " ")
	return len(comment) == 0 || comment[0] == '#' && rest[0] == ' '
}

// flowList adds a list in brackets that ends on its line. Its items are quoted scalars, and plain
// ones of the characters of keys.
func (b *blocks) flowList(s []byte) (self int32, ok bool) {
	self = b.add(blockNode{kind: blockList})
	last := int32(0)
	for s = bytes.TrimLeft(s[1:], " "); ; s = bytes.TrimLeft(s[1:], " ") {
		end := 0
		if len(s) > 0 && (s[0] == '"' || s[0] == '\'') {
			end = 2 + bytes.IndexByte(s[1:], s[0])
		} else {
			for end < len(s) && keyChars[s[end]] {
				end++
			}
		}
		if end < 1 || end == 1 && (s[0] == '"' || s[0] == '\'') {
			return 0, false
		}
		child, ok := b.scalar(s[:end])
		if !ok {
			return 0, false
		}
		b.link(self, last, child)
		last = child
		s = bytes.TrimLeft(s[end:], " ")
		switch {
		case len(s) > 0 && s[0] == ',':
		case len(s) > 0 && s[0] == ']':
			return self, isEnd(s[1:])
		default:
			return 0, false
		}
	}
}

// scalar adds a scalar on one line, or a list in brackets.
func (b *blocks) scalar(s []byte) (self int32, ok bool) {
	if len(s) == 0 {
		return 0, false
	}
	switch c := s[0]; {
	// In quotes, only escapes, line breaks and doubled quotes mean something else than themselves.
	case c == '"' || c == '\'':
		end := len(s) - 1
		if end < 1 || s[end] != c || bytes.IndexByte(s[1:end], c) >= 0 || c == '"' && bytes.IndexByte(s, '\\') >= 0 {
			return 0, false
		}
		return b.add(blockNode{kind: blockText, text: s[1:end]}), true
	case string(s) == "{}":
		return b.add(blockNode{kind: blockEmptyM}), true
	case string(s) == "[]":
		return b.add(blockNode{kind: blockEmptyL}), true
	case c == '[':
		return b.flowList(s)
	case c >= '0' && c <= '9':
		return b.digits(s)
	case !isLetter(c) && c != '/' && c != '_':
		return 0, false
	}
	if !isPlain(s) {
		return 0, false
	}
	switch string(s) {
	case "true", "false", "null":
		return b.add(blockNode{kind: blockPlain, text: s}), true
	}
	// Texts that begin with another letter, a slash or an underscore are never numbers or times.
	if isWord(s) {
		return 0, false
	}
	return b.add(blockNode{kind: blockText, text: s}), true
}

// isPlain reports whether a plain scalar ends with its line: without a comment, and without a colon
// that would make it a key.
func isPlain(s []byte) bool {
	return bytes.IndexByte(s, '#') < 0 && s[len(s)-1] != ':' && !bytes.Contains(s, []byte(": "))
}

// digits adds a scalar that begins with a digit: an integer, or a text that can be neither a number
// nor a time.
func (b *blocks) digits(s []byte) (self int32, ok bool) {
	number, other := true, bytes.Count(s, []byte(".")) > 1 // 1.14.2 is a text
	for _, c := range s {
		number = number && c >= '0' && c <= '9'
		other = other || !numberChars[c]
	}
	switch {
	case number && len(s) <= 18 && (s[0] != '0' || len(s) == 1):
		return b.add(blockNode{kind: blockPlain, text: s}), true
	case other && s[0] != '0' && isPlain(s):
		return b.add(blockNode{kind: blockText, text: s}), true
	}
	return 0, false
}

// print appends a node as JSON, with sorted keys.
func (b *blocks) print(at int32) {
	n, p := &b.nodes[at], &b.out
	switch n.kind {
	case blockText:
		b.printText(n.text)
	case blockPlain:
		p.b = append(p.b, n.text...)
	case blockEmptyM:
		p.b = append(p.b, "{}"...)
	case blockEmptyL:
		p.b = append(p.b, "[]"...)
	case blockList:
		p.b = append(p.b, '[')
		for c := n.first; c != 0; c = b.nodes[c].next {
			if c != n.first {
				p.b = append(p.b, ',')
			}
			b.print(c)
		}
		p.b = append(p.b, ']')
	case blockMap:
		var space [16]int32
		p.b = append(p.b, '{')
		for i, c := range b.sorted(n, space[:0]) {
			if i > 0 {
				p.b = append(p.b, ',')
			}
			p.b = append(append(append(p.b, '"'), b.nodes[c].key...), '"', ':')
			b.print(c)
		}
		p.b = append(p.b, '}')
	}
}

// sorted appends the children of a mapping to members, sorted by key.
func (b *blocks) sorted(n *blockNode, members []int32) []int32 {
	byKey := func(x, y int32) int { return bytes.Compare(b.nodes[x].key, b.nodes[y].key) }
	isSorted := true
	for c := n.first; c != 0; c = b.nodes[c].next {
		isSorted = isSorted && (c == n.first || byKey(members[len(members)-1], c) < 0)
		members = append(members, c)
	}
	if !isSorted {
		slices.SortFunc(members, byKey)
	}
	return members
}

// printText appends a text as JSON.
func (b *blocks) printText(s []byte) {
	for _, c := range s {
		if escapedChars[c] {
			b.out.text(string(s)) // a text can always be printed
			return
		}
	}
	b.out.b = append(append(append(b.out.b, '"'), s...), '"')
}
