package api

// This file prints JSON for people to read, without having all of it in memory.

// indenter adds lines and indentation to compact JSON, as encoding/json's Indent does with an
// indentation of two spaces. The JSON may come in parts, which may end anywhere.
type indenter struct {
	p       *pieces
	depth   int
	text    bool // inside of a string
	escaped bool // after a backslash in a string
	opened  bool // after a bracket; the line ends only if anything is in it
}

// add adds more JSON.
func (n *indenter) add(json []byte) error {
	p := n.p
	for len(json) > 0 {
		if n.text {
			end := n.endOfText(json)
			if err := p.share(json[:end]); err != nil {
				return err
			}
			json = json[end:]
			continue
		}
		c := json[0]
		json = json[1:]
		if n.opened && c != ']' && c != '}' {
			n.opened = false
			n.depth++
			if err := n.line(); err != nil {
				return err
			}
		}
		var err error
		switch c {
		case '"':
			n.text = true
			p.b = append(p.b, c)
		case '{', '[':
			n.opened = true
			p.b = append(p.b, c)
		case ',':
			p.b = append(p.b, c)
			err = n.line()
		case ':':
			p.b = append(p.b, ':', ' ')
		case '}', ']':
			if n.opened {
				n.opened = false // nothing is in it
			} else {
				n.depth--
				err = n.line()
			}
			p.b = append(p.b, c)
		default:
			p.b = append(p.b, c)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// endOfText returns how many bytes of json belong to the string that is open, and closes it if it
// ends there.
func (n *indenter) endOfText(json []byte) int {
	for i, c := range json {
		switch {
		case n.escaped:
			n.escaped = false
		case c == '\\':
			n.escaped = true
		case c == '"':
			n.text = false
			return i + 1
		}
	}
	return len(json)
}

// spaces are those of one step of a line's indentation.
const spaces = "                                                                "

// line begins a line.
func (n *indenter) line() error {
	p := n.p
	if err := p.step(); err != nil {
		return err
	}
	p.b = append(p.b, '\n')
	for left := 2 * n.depth; left > 0; left -= len(spaces) {
		p.b = append(p.b, spaces[:min(left, len(spaces))]...)
	}
	return nil
}
