// This file shows how far a long command is.

package cli

import (
	"fmt"
	"io"
	"os"
	"time"
)

// progressDelay is the time after which a count is shown. Tests set it.
var progressDelay = time.Second

// counter shows a count on a terminal when work takes longer than progressDelay.
type counter struct {
	out   *os.File // nil if it is not a terminal
	what  string
	total int // 0 if it is not known
	n     int
	next  time.Time // when the count is shown again
	shown bool
}

// newCounter begins to count. what is a verb in the past tense.
func newCounter(out io.Writer, what string, total int) *counter {
	return &counter{out: terminalOf(out), what: what, total: total, next: time.Now().Add(progressDelay)}
}

// step counts one more.
func (p *counter) step() {
	p.n++
	p.show()
}

// add counts n more.
func (p *counter) add(n int) {
	p.n += n
	p.show()
}

// show shows the count, at most five times a second.
func (p *counter) show() {
	if p.out == nil {
		return
	}
	if now := time.Now(); now.After(p.next) {
		fmt.Fprintf(p.out, "\r%s %d", p.what, p.n)
		if p.total > 0 {
			fmt.Fprintf(p.out, " of %d", p.total)
		}
		p.next, p.shown = now.Add(200*time.Millisecond), true
	}
}

// done removes the count from the terminal.
func (p *counter) done() {
	if p.shown {
		fmt.Fprint(p.out, "\r\x1b[K")
		p.shown = false
	}
}
