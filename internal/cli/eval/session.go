// This file has "eval" without an expression: a session that reads an expression or command from
// each line.

package eval

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"golang.org/x/term"

	"github.com/keelson-io/keelson/cel"
	"github.com/keelson-io/keelson/internal/cli/command"
)

// session is the state of a session.
type session struct {
	o        options
	language *cel.Language
	data     *dataSchema // nil without --schema
	vars     cel.Vars
	unknown  []cel.Pattern
	failed   int // number of failed lines
}

// errQuit ends a session.
var errQuit = errors.New("quit")

// sessionHelp is what ":help" prints.
const sessionHelp = `A line is an expression, whose value is printed, or a command:

  :type EXPR       the type of the expression
  :cost EXPR       what its evaluation costs, and what it is estimated to cost at most
  :unknown PATH    mark a part of the data as unknown, such as self.items[*].name
  :unknown         list what is unknown
  :known           nothing is unknown any more
  :help            this text
  :quit            end the session (so does Ctrl-D)

Tab completes members of the data, functions and commands.
The arrows up and down go through the lines before.
Ctrl-C drops the line, or ends an evaluation that takes too long.
A pasted expression becomes one line: Enter evaluates it.
`

// openSession prepares a session.
func openSession(o options, stdin io.Reader) (*session, error) {
	if err := command.OnceStdin([]string{"-", o.schema, o.data, o.oldData}, o.givenFiles()); err != nil {
		return nil, command.UsageError(errors.New("eval: without an expression, standard input is read for them, not for data"))
	}
	if err := o.check(); err != nil {
		return nil, err
	}
	if o.output != "text" || o.explain || o.indexes != "" {
		return nil, command.UsageError(errors.New("eval: --output json, --explain and --indexes want one expression, as an argument"))
	}
	s := &session{o: o}
	var err error
	if s.language, s.data, err = o.language(stdin); err != nil {
		return nil, err
	}
	if o.sql != "" {
		return s, nil // no expression is evaluated
	}
	if s.vars, err = o.vars(s.data, stdin); err != nil {
		return nil, err
	}
	for _, text := range o.unknown {
		if err := s.mark(text); err != nil {
			return nil, command.UsageError(err)
		}
	}
	return s, nil
}

// mark makes a path unknown.
func (s *session) mark(text string) error {
	p, err := s.language.Pattern(text)
	if err == nil {
		s.unknown = append(s.unknown, p)
	}
	return err
}

// interact runs a session: with line editing on a terminal, otherwise line by line.
func interact(ctx context.Context, o options, stdin io.Reader, out io.Writer) error {
	s, err := openSession(o, stdin)
	if err != nil {
		return err
	}
	in, isFile := stdin.(*os.File)
	if screen := command.TerminalOf(out); isFile && screen != nil && term.IsTerminal(int(in.Fd())) {
		return s.edit(ctx, in, screen)
	}
	if err := s.script(ctx, stdin, out); err != nil {
		return err
	}
	if s.failed > 0 {
		return fmt.Errorf("eval: %d of the lines failed", s.failed)
	}
	return nil
}

// script executes the lines of in until in or ctx ends.
func (s *session) script(ctx context.Context, in io.Reader, out io.Writer) error {
	lines, failure := make(chan string), make(chan error, 1)
	go func() {
		scanner := bufio.NewScanner(in)
		scanner.Buffer(nil, maxLine)
		for scanner.Scan() {
			select {
			case lines <- scanner.Text():
			case <-ctx.Done():
				return
			}
		}
		failure <- scanner.Err()
		close(lines)
	}()
	for {
		select {
		case line, more := <-lines:
			if !more {
				if err := <-failure; err != nil {
					return fmt.Errorf("eval: %w", err)
				}
				return nil
			}
			if err := s.line(ctx, line, out); errors.Is(err, errQuit) {
				return nil
			} else if err != nil {
				return err
			}
		case <-ctx.Done():
			return fmt.Errorf("eval: %w", context.Cause(ctx))
		}
	}
}

// maxLine is the longest line in bytes. No expression may be that long.
const maxLine = 1 << 20

// prompt precedes each line on a terminal.
const prompt = "cel> "

// edit runs a session at a terminal.
func (s *session) edit(ctx context.Context, in, out *os.File) error {
	before, err := term.MakeRaw(int(in.Fd()))
	if err != nil {
		return fmt.Errorf("eval: %w", err)
	}
	defer func() { _ = term.Restore(int(in.Fd()), before) }()
	_, _ = io.WriteString(out, pastesShown)
	defer func() { _, _ = io.WriteString(out, pastesHidden+"\r\n") }()
	return s.converse(ctx, in, out, func() (int, int) {
		width, height, err := term.GetSize(int(out.Fd()))
		if err != nil || width <= 0 {
			return defaultWidth, defaultHeight
		}
		return width, height
	})
}

// The size of a terminal that does not report its size.
const (
	defaultWidth  = 80
	defaultHeight = 24
)

// screen is the terminal for the line editor. It updates the size with every key.
type screen struct {
	*keyboard
	io.Writer
	resize func()
}

func (s *screen) Read(b []byte) (int, error) {
	n, err := s.keyboard.Read(b)
	s.resize()
	return n, err
}

// converse reads lines from a terminal until the session ends. size returns the size of the
// terminal.
func (s *session) converse(ctx context.Context, in io.Reader, out io.Writer, size func() (width, height int)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	keys := newKeyboard(ctx, in)
	sc := &screen{keyboard: keys, Writer: out}
	t := term.NewTerminal(sc, prompt)
	keys.say = func(text string) { _, _ = io.WriteString(t, text) }
	width, height := size()
	_ = t.SetSize(width, height)
	sc.resize = func() {
		if w, h := size(); w != width || h != height {
			width, height = w, h
			_ = t.SetSize(w, h)
		}
	}
	_, _ = io.WriteString(t, "An expression of the Common Expression Language a line; :help for commands, :quit to end.\n")
	t.AutoCompleteCallback = func(line string, pos int, key rune) (string, int, bool) {
		if key != '\t' {
			return "", 0, false
		}
		line, pos, choices := s.complete(ctx, line, pos)
		if len(choices) > 1 {
			_, _ = io.WriteString(t, wrapped(choices, width))
		}
		return line, pos, true
	}
	for {
		line, err := t.ReadLine()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("eval: %w", err)
		}
		err = keys.during(func(ctx context.Context) error { return s.line(ctx, line, t) })
		if errors.Is(err, errQuit) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// wrapped returns words in lines of at most width columns.
func wrapped(words []string, width int) string {
	var b strings.Builder
	at := 0
	for _, word := range words {
		if at > 0 && at+len(word) >= width {
			b.WriteString("\n")
			at = 0
		}
		b.WriteString(word + "  ")
		at += len(word) + 2
	}
	return b.String() + "\n"
}

// line executes one line and prints its result or error. It returns errQuit, or an error of out.
func (s *session) line(ctx context.Context, line string, out io.Writer) error {
	line = strings.TrimSpace(line)
	word, rest, _ := strings.Cut(line, " ")
	rest = strings.TrimSpace(rest)
	var answer string
	var failure error
	switch {
	case line == "" || strings.HasPrefix(line, "//"):
		return nil
	case word == ":quit" || word == ":q" || line == "quit" || line == "exit":
		return errQuit
	case word == ":help" || line == "help" || line == "?":
		answer = sessionHelp
	case s.o.sql != "" && strings.HasPrefix(line, ":"):
		failure = fmt.Errorf("%s: with --sql, a line is an expression", word)
	case s.o.sql != "":
		var b strings.Builder
		failure = s.o.printSQL(line, nil, &b)
		answer = b.String()
	case word == ":type":
		answer, failure = s.typeOf(rest)
	case word == ":cost":
		answer, failure = s.cost(ctx, rest)
	case word == ":unknown":
		answer, failure = s.setUnknown(rest)
	case word == ":known":
		s.unknown = nil
		answer = "nothing is unknown"
	case !strings.HasPrefix(line, ":"):
		answer, failure = s.value(ctx, line)
	default:
		failure = fmt.Errorf("no command %s: :help lists them", word)
	}
	if failure != nil {
		s.failed++
		answer = failure.Error()
	}
	if answer != "" && !strings.HasSuffix(answer, "\n") {
		answer += "\n"
	}
	_, err := io.WriteString(command.NewEscaper(out), answer)
	return err
}

// compile compiles an expression. Errors show the position.
func (s *session) compile(expr string) (*cel.Expression, error) {
	if expr == "" {
		return nil, errors.New("want an expression")
	}
	x, err := s.language.CompileExpression(expr)
	if err != nil {
		return nil, s.o.adviseVersion(expr, s.data, err)
	}
	return x, nil
}

// value evaluates an expression and returns its value, or its residual if it depends on unknown
// paths.
func (s *session) value(ctx context.Context, expr string) (string, error) {
	x, err := s.compile(expr)
	if err != nil {
		return "", err
	}
	e, err := s.o.run(ctx, x, s.vars, s.unknown, evaluation{Type: x.Type()})
	switch {
	case err != nil:
		return "", errors.New(explained(ctx, x, s.vars, err))
	case e.Residual != "":
		return fmt.Sprintf("%s\n  unknown: %s", e.Residual, strings.Join(e.Unknown, ", ")), nil
	}
	return string(e.Value), nil
}

func (s *session) typeOf(expr string) (string, error) {
	x, err := s.compile(expr)
	if err != nil {
		return "", err
	}
	return x.Type(), nil
}

// cost returns the cost of an evaluation, even if it fails.
func (s *session) cost(ctx context.Context, expr string) (string, error) {
	x, err := s.compile(expr)
	if err != nil {
		return "", err
	}
	e, failure := s.o.run(ctx, x, s.vars, s.unknown, evaluation{})
	answer := fmt.Sprintf("%d (%s)", e.Cost, estimateText(estimateOf(x, s.data), s.data == nil))
	if failure != nil {
		answer += ", ends with an error: " + failure.Error()
	}
	return answer, nil
}

// setUnknown makes paths unknown, or lists the unknown ones.
func (s *session) setUnknown(paths string) (string, error) {
	for _, path := range strings.Fields(paths) {
		if err := s.mark(path); err != nil {
			return "", err
		}
	}
	var texts []string
	for _, p := range s.unknown {
		texts = append(texts, p.String())
	}
	if len(texts) == 0 {
		return "nothing is unknown", nil
	}
	slices.Sort(texts)
	return "unknown: " + strings.Join(slices.Compact(texts), ", "), nil
}
