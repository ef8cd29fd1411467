// This file reads the keyboard in an interactive session of "eval".

package eval

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"unicode/utf8"
)

// keyboard passes keys to the line editor, with two exceptions. Ctrl-C deletes the line, or cancels
// the evaluation in progress, instead of ending the session. A pasted text becomes one line,
// whatever line ends it has, and is not submitted.
type keyboard struct {
	ctx   context.Context
	rest  []byte // typed, but not yet passed on
	ready []byte // passed on unchanged
	say   func(text string)
	more  chan struct{} // signals that more was typed

	mu        sync.Mutex
	typed     []byte
	ended     bool               // the input has ended
	interrupt context.CancelFunc // cancels the evaluation in progress; nil if there is none
}

// Control characters and sequences of a terminal.
const (
	keyInterrupt = 3             // Ctrl-C
	dropLine     = "\x05\x15"    // deletes to both ends of the line
	pasteBegins  = "\x1b[200~"   // before a pasted text
	pasteEnds    = "\x1b[201~"   // after it
	pastesShown  = "\x1b[?2004h" // makes the terminal send them
	pastesHidden = "\x1b[?2004l"
)

// maxPaste is the longest pasted line, in bytes. The line editor has a fixed limit for a line.
const maxPaste = 4000

// newKeyboard reads from in until it ends, also during evaluations.
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

// press stores typed bytes.
func (k *keyboard) press(typed []byte, ended bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.typed, k.ended = append(k.typed, typed...), ended
	if len(k.typed) > maxLine {
		k.typed = nil // no user types that much during an evaluation
	}
	k.interrupted()
	select {
	case k.more <- struct{}{}:
	default:
	}
}

// interrupted cancels the evaluation in progress if Ctrl-C was typed, and drops what was typed
// before it.
func (k *keyboard) interrupted() {
	if i := bytes.LastIndexByte(k.typed, keyInterrupt); i >= 0 && k.interrupt != nil {
		k.interrupt()
		k.typed = k.typed[i+1:]
	}
}

// during runs fn with a context that Ctrl-C cancels.
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

// take returns the bytes typed since the last call; io.EOF after the end of the input.
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

// Read passes on keys.
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

// sort moves complete keys from typed to ready.
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

// beginning returns the length of the longest end of typed that is a prefix of sequence.
func beginning(typed []byte, sequence string) int {
	for n := min(len(typed), len(sequence)-1); n > 0; n-- {
		if strings.HasPrefix(sequence, string(typed[len(typed)-n:])) {
			return n
		}
	}
	return 0
}

// oneLine removes comments, line ends and control characters from an expression. In string literals
// it replaces line ends by escapes.
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

// literalLength returns the length of the string literal at the start of s; the length of s if the
// literal does not end.
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
