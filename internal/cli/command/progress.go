// This file shows how far a long command is.

package command

import (
	"fmt"
	"io"
	"os"
	"time"
)

// ProgressDelay is the time after which a count is shown. Tests set it.
var ProgressDelay = time.Second

// Counter shows a count on a terminal when work takes longer than ProgressDelay.
type Counter struct {
	out   *os.File // nil if it is not a terminal
	what  string
	Total int // 0 if it is not known
	n     int
	next  time.Time // when the count is shown again
	shown bool
}

// NewCounter begins to count. what is a verb in the past tense.
func NewCounter(out io.Writer, what string, total int) *Counter {
	return &Counter{out: TerminalOf(out), what: what, Total: total, next: time.Now().Add(ProgressDelay)}
}

// Step counts one more.
func (p *Counter) Step() {
	p.n++
	p.show()
}

// Add counts n more.
func (p *Counter) Add(n int) {
	p.n += n
	p.show()
}

// show shows the count, at most five times a second.
func (p *Counter) show() {
	if p.out == nil {
		return
	}
	if now := time.Now(); now.After(p.next) {
		fmt.Fprintf(p.out, "\r%s %d", p.what, p.n)
		if p.Total > 0 {
			fmt.Fprintf(p.out, " of %d", p.Total)
		}
		p.next, p.shown = now.Add(200*time.Millisecond), true
	}
}

// Done removes the count from the terminal.
func (p *Counter) Done() {
	if p.shown {
		fmt.Fprint(p.out, "\r\x1b[K")
		p.shown = false
	}
}
