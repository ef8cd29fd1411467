// This file is the keyboard of a session of "eval".

package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"unicode/utf8"
)

// keyboard hands what is typed to the line editor, with two differences. Ctrl-C drops the line, or the evaluation that is under
// way, in place of the session. A text that is pasted comes as one line, whatever lines it had, and is not yet sent.
type keyboard struct {
	ctx   context.Context
	rest  []byte // taken from what was typed, and not handed out yet
	ready []byte // to be handed out as it is
	say   func(text string)
	more  chan struct{} // there may be more that was typed

	mu        sync.Mutex
	typed     []byte
	ended     bool               // nothing more will be typed
	interrupt context.CancelFunc // of the evaluation under way, nil if there is none
}

// Control characters and sequences of a terminal.
const (
	keyInterrupt = 3             // Ctrl-C
	dropLine     = "\x05\x15"    // to the end of the line, and what is before it is deleted
	pasteBegins  = "\x1b[200~"   // before a pasted text
	pasteEnds    = "\x1b[201~"   // behind it
	pastesShown  = "\x1b[?2004h" // asks the terminal for these
	pastesHidden = "\x1b[?2004l"
)

// maxPaste is the longest line that the line editor takes, but for what may be there already.
const maxPaste = 4000

// newKeyboard reads from in until that ends, also while an expression is evaluated.
func newKeyboard(ctx context.Context, in io.Reader) *keyboard {
	k := &keyboard{ctx: ctx, more: make(chan struct{}, 1), say: func(string) {}}
	go func() {
		buffer := make([]byte, 256)
		for ended := false; !ended; {
			n, err := in.Read(buffer)
			ended = err != nil
			k.press(buffer[:n], ended)
		}
	}()
	return k
}

// press notes what was typed.
func (k *keyboard) press(typed []byte, ended bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.typed, k.ended = append(k.typed, typed...), ended
	if len(k.typed) > maxLine {
		k.typed = nil // nobody types so much while an expression is evaluated
	}
	k.interrupted()
	select {
	case k.more <- struct{}{}:
	default:
	}
}

// interrupted ends the evaluation under way if Ctrl-C was typed. Only what was typed after it counts then.
func (k *keyboard) interrupted() {
	if i := bytes.LastIndexByte(k.typed, keyInterrupt); i >= 0 && k.interrupt != nil {
		k.interrupt()
		k.typed = k.typed[i+1:]
	}
}

// during runs fn with a context that Ctrl-C ends.
func (k *keyboard) during(fn func(ctx context.Context) error) error {
	ctx, cancel := context.WithCancel(k.ctx)
	defer cancel()
	k.set(cancel)
	defer k.set(nil)
	return fn(ctx)
}

func (k *keyboard) set(interrupt context.CancelFunc) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.interrupt = interrupt
	k.interrupted()
}

// take is what was typed since the last time; io.EOF if there will be nothing more.
func (k *keyboard) take() ([]byte, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	typed := k.typed
	k.typed = nil
	if len(typed) == 0 && k.ended {
		return nil, io.EOF
	}
	return typed, nil
}

// Read hands out keys.
func (k *keyboard) Read(b []byte) (int, error) {
	for len(k.ready) == 0 {
		typed, err := k.take()
		if err != nil {
			return 0, err
		}
		if len(typed) == 0 {
			select {
			case <-k.more:
				continue
			case <-k.ctx.Done():
				return 0, io.EOF
			}
		}
		k.rest = append(k.rest, typed...)
		k.sort()
	}
	n := copy(b, k.ready)
	k.ready = k.ready[n:]
	return n, nil
}

// sort moves what was typed to what is ready, as far as it is complete.
func (k *keyboard) sort() {
	for {
		begin := bytes.Index(k.rest, []byte(pasteBegins))
		if begin < 0 {
			n := len(k.rest) - beginning(k.rest, pasteBegins)
			k.ready = append(k.ready, bytes.ReplaceAll(k.rest[:n], []byte{keyInterrupt}, []byte(dropLine))...)
			k.rest = append([]byte(nil), k.rest[n:]...)
			return
		}
		length := bytes.Index(k.rest[begin:], []byte(pasteEnds))
		if length < 0 {
			return
		}
		k.ready = append(k.ready, bytes.ReplaceAll(k.rest[:begin], []byte{keyInterrupt}, []byte(dropLine))...)
		text := oneLine(string(k.rest[begin+len(pasteBegins) : begin+length]))
		if utf8.RuneCountInString(text) > maxPaste {
			k.say(fmt.Sprintf("what was pasted has more than %d characters: keelson eval EXPR takes it\n", maxPaste))
			text = ""
		}
		k.ready = append(k.ready, text...)
		k.rest = k.rest[begin+length+len(pasteEnds):]
	}
}

// beginning is how much of the end of typed may be the beginning of a sequence.
func beginning(typed []byte, sequence string) int {
	for n := min(len(typed), len(sequence)-1); n > 0; n-- {
		if strings.HasPrefix(sequence, string(typed[len(typed)-n:])) {
			return n
		}
	}
	return 0
}

// oneLine is an expression without comments, line ends and other control characters, except where they are in a text literal: there
// a line end is written as an escape.
func oneLine(text string) string {
	var b strings.Builder
	for i := 0; i < len(text); {
		switch rest := text[i:]; {
		case strings.HasPrefix(rest, "//"):
			end := strings.IndexAny(rest, "\r\n")
			if end < 0 {
				end = len(rest)
			}
			i += end
		case rest[0] == '"' || rest[0] == '\'':
			n := literalLength(rest, i > 0 && text[i-1]|0x20 == 'r')
			literal := strings.NewReplacer("\r\n", `\n`, "\n", `\n`, "\r", `\n`, "\t", `\t`).Replace(rest[:n])
			b.WriteString(literal)
			i += n
		case rest[0] < ' ' || rest[0] == 0x7f:
			b.WriteByte(' ')
			i++
		default:
			b.WriteByte(rest[0])
			i++
		}
	}
	return strings.TrimSpace(b.String())
}

// literalLength is the length of the text literal that s begins with: all of s if it does not end.
func literalLength(s string, raw bool) int {
	quote := s[:1]
	if strings.HasPrefix(s, quote+quote+quote) {
		quote = s[:3]
	}
	for i := len(quote); i < len(s); i++ {
		switch {
		case s[i] == '\\' && !raw:
			i++
		case strings.HasPrefix(s[i:], quote):
			return i + len(quote)
		}
	}
	return len(s)
}
