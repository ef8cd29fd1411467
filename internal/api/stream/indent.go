package stream

// This file prints JSON for people to read, without having all of it in memory.

// Indenter adds lines and indentation to compact JSON, as encoding/json's Indent does with an
// indentation of two spaces. The JSON may come in parts, which may end anywhere.
type Indenter struct {
	To *Pieces

	depth   int
	text    bool // inside of a string
	escaped bool // after a backslash in a string
	opened  bool // after a bracket; the line ends only if anything is in it
}

// Add adds more JSON.
func (n *Indenter) Add(json []byte) error {
	p := n.To
	for len(json) > 0 {
		if n.text {
			end := n.endOfText(json)
			if err := p.Share(json[:end]); err != nil {
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
			p.B = append(p.B, c)
		case '{', '[':
			n.opened = true
			p.B = append(p.B, c)
		case ',':
			p.B = append(p.B, c)
			err = n.line()
		case ':':
			p.B = append(p.B, ':', ' ')
		case '}', ']':
			if n.opened {
				n.opened = false // nothing is in it
			} else {
				n.depth--
				err = n.line()
			}
			p.B = append(p.B, c)
		default:
			p.B = append(p.B, c)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// endOfText returns how many bytes of json belong to the string that is open, and closes it if it
// ends there.
func (n *Indenter) endOfText(json []byte) int {
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
func (n *Indenter) line() error {
	p := n.To
	if err := p.Step(); err != nil {
		return err
	}
	p.B = append(p.B, '\n')
	for left := 2 * n.depth; left > 0; left -= len(spaces) {
		p.B = append(p.B, spaces[:min(left, len(spaces))]...)
	}
	return nil
}
