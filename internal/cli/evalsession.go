// This file is "eval" without an expression: a session that reads one expression, or command, a line.

package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/term"

	"github.com/keelson-io/keelson/cel"
)

// session is what the lines of a session have in common.
type session struct {
	o        evalOptions
	language *cel.Language
	self     *cel.Type
	vars     cel.Vars
	unknown  []cel.Pattern
	failed   int // lines
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
`

// openSession prepares a session of the flags.
func openSession(o evalOptions, stdin io.Reader) (*session, error) {
	if err := onceStdin([]string{"-", o.schema, o.data, o.oldData}); err != nil {
		return nil, &usageError{errors.New("eval: without an expression, standard input is read for them, not for data")}
	}
	s := &session{o: o}
	var err error
	if s.language, s.self, err = o.language(stdin); err != nil {
		return nil, err
	}
	if s.vars, err = o.vars(s.self, stdin); err != nil {
		return nil, err
	}
	for _, text := range o.unknown {
		if err := s.mark(text); err != nil {
			return nil, &usageError{err}
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

// interact runs a session: with line editing if both ends are a terminal, else line by line.
func interact(ctx context.Context, o evalOptions, stdin io.Reader, out io.Writer) error {
	s, err := openSession(o, stdin)
	if err != nil {
		return err
	}
	in, isFile := stdin.(*os.File)
	screen, isScreen := out.(*os.File)
	if isFile && isScreen && term.IsTerminal(int(in.Fd())) && term.IsTerminal(int(screen.Fd())) {
		return s.edit(ctx, in, screen)
	}
	lines := bufio.NewScanner(stdin)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		if err := s.line(ctx, lines.Text(), out); errors.Is(err, errQuit) {
			break
		} else if err != nil {
			return err
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("eval: %w", err)
	}
	if s.failed > 0 {
		return fmt.Errorf("eval: %d of the lines failed", s.failed)
	}
	return nil
}

// maxLine is the longest line that is read, longer than any expression may be.
const maxLine = 1 << 20

// prompt is what a terminal shows before a line.
const prompt = "cel> "

// edit runs a session at a terminal.
func (s *session) edit(ctx context.Context, in, out *os.File) error {
	before, err := term.MakeRaw(int(in.Fd()))
	if err != nil {
		return fmt.Errorf("eval: %w", err)
	}
	defer func() { _ = term.Restore(int(in.Fd()), before) }()
	t := term.NewTerminal(struct {
		io.Reader
		io.Writer
	}{in, out}, prompt)
	fmt.Fprint(t, "An expression of the Common Expression Language a line; :help for commands, :quit to end.\n")
	err = s.converse(ctx, t, func() int {
		width, height, err := term.GetSize(int(out.Fd()))
		if err != nil || width <= 0 || t.SetSize(width, height) != nil {
			return defaultWidth
		}
		return width
	})
	_, _ = io.WriteString(out, "\r\n")
	return err
}

// defaultWidth is the width of a terminal that does not tell its own.
const defaultWidth = 80

// converse reads lines from a terminal until the session ends. resize is called before each and returns the width.
func (s *session) converse(ctx context.Context, t *term.Terminal, resize func() int) error {
	width := defaultWidth
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
		width = resize()
		line, err := t.ReadLine()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil && !errors.Is(err, term.ErrPasteIndicator):
			return fmt.Errorf("eval: %w", err)
		}
		if err := s.line(ctx, line, t); errors.Is(err, errQuit) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// wrapped is words in lines of at most width columns.
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

// line carries out one line. Errors of expressions are printed; the error is errQuit or that of out.
func (s *session) line(ctx context.Context, line string, out io.Writer) error {
	line = strings.TrimSpace(line)
	word, rest, _ := strings.Cut(line, " ")
	rest = strings.TrimSpace(rest)
	var answer string
	var failure error
	switch {
	case line == "" || strings.HasPrefix(line, "//"):
		return nil
	case !strings.HasPrefix(line, ":"):
		answer, failure = s.value(ctx, line)
	case word == ":quit" || word == ":q":
		return errQuit
	case word == ":help":
		answer = sessionHelp
	case word == ":type":
		answer, failure = s.typeOf(rest)
	case word == ":cost":
		answer, failure = s.cost(ctx, rest)
	case word == ":unknown":
		answer, failure = s.setUnknown(rest)
	case word == ":known":
		s.unknown = nil
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
	_, err := io.WriteString(out, answer)
	return err
}

// compile is an expression; the error points into it.
func (s *session) compile(expr string) (*cel.Expression, error) {
	if expr == "" {
		return nil, errors.New("want an expression")
	}
	return s.language.CompileExpression(expr)
}

// value evaluates an expression and prints its value, or what remains of it.
func (s *session) value(ctx context.Context, expr string) (string, error) {
	x, err := s.compile(expr)
	if err != nil {
		return "", err
	}
	e, err := s.o.run(ctx, x, s.vars, s.unknown, evaluation{Type: x.Type()})
	switch {
	case err != nil:
		return "", errors.New(x.Explain(ctx, s.vars, err))
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

// cost is what an evaluation costs, also of one that fails.
func (s *session) cost(ctx context.Context, expr string) (string, error) {
	x, err := s.compile(expr)
	if err != nil {
		return "", err
	}
	e, failure := s.o.run(ctx, x, s.vars, s.unknown, evaluation{})
	estimate := "without bound"
	if most := x.MaxCost(); most < math.MaxInt64/4 {
		estimate = strconv.FormatUint(most, 10)
	}
	answer := fmt.Sprintf("%d (estimated: %s)", e.Cost, estimate)
	if failure != nil {
		answer += ", ends with an error: " + failure.Error()
	}
	return answer, nil
}

// setUnknown marks paths as unknown, or lists them.
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
