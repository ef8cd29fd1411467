package cli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/term"
)

// This file holds a session at a terminal of the system.

// pty is a pseudo-terminal: what is typed goes into keyboard, and what the program writes is collected.
type pty struct {
	t                *testing.T
	keyboard, screen *os.File // screen is the program's end

	mu   sync.Mutex
	text string
}

func openPTY(t *testing.T) *pty {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	var number, unlocked int32
	control(t, master, syscall.TIOCGPTN, unsafe.Pointer(&number))
	control(t, master, syscall.TIOCSPTLCK, unsafe.Pointer(&unlocked))
	slave, err := os.OpenFile(fmt.Sprint("/dev/pts/", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	p := &pty{t: t, keyboard: master, screen: slave}
	go func() {
		buffer := make([]byte, 1024)
		for {
			n, err := master.Read(buffer)
			if err != nil {
				return
			}
			p.mu.Lock()
			p.text += string(buffer[:n])
			p.mu.Unlock()
		}
	}()
	t.Cleanup(func() { _, _ = master.Close(), slave.Close() })
	return p
}

func control(t *testing.T, f *os.File, request uintptr, argument unsafe.Pointer) {
	t.Helper()
	if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, f.Fd(), request, uintptr(argument)); errno != 0 {
		t.Fatal(errno)
	}
}

func (p *pty) resize(width, height uint16) {
	p.t.Helper()
	size := [4]uint16{height, width}
	control(p.t, p.keyboard, syscall.TIOCSWINSZ, unsafe.Pointer(&size))
}

func (p *pty) write(keys string) {
	p.t.Helper()
	if _, err := p.keyboard.WriteString(keys); err != nil {
		p.t.Fatal(err)
	}
}

// take returns what is on the screen before want, for which it waits; both are gone then. It calls each while it waits.
func (p *pty) take(want string, each func()) string {
	p.t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		p.mu.Lock()
		text := p.text
		i := strings.Index(text, want)
		if i >= 0 {
			p.text = text[i+len(want):]
		}
		p.mu.Unlock()
		switch {
		case i >= 0:
			return text[:i]
		case time.Now().After(end):
			p.t.Fatalf("the screen has no %q:\n%q", want, text)
		case each != nil:
			each()
		}
	}
}

// TestSessionAtPTY runs keelson eval on a pseudo-terminal.
func TestSessionAtPTY(t *testing.T) {
	p := openPTY(t)
	p.resize(80, 24)
	data := filepath.Join(t.TempDir(), "data.yaml")
	if err := os.WriteFile(data, []byte("spec: {replicas: 3, name: web}"), 0o600); err != nil {
		t.Fatal(err)
	}
	before, err := term.GetState(int(p.screen.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	exit := make(chan int)
	go func() {
		exit <- run(context.Background(), []string{"eval", "--data", data, "--cost-limit", "0"}, p.screen, p.screen, p.screen)
	}()
	p.take(prompt, nil)
	for _, e := range []struct{ keys, answer string }{
		{"self.spec.repl\t + 1\r", "\r\n4\r\n"},
		{"\x1b[A\x7f2\r", "\r\n5\r\n"},            // the line before, with another last character
		{"1 + 'a'\x032 + 4\r", "\r\n6\r\n"},       // Ctrl-C drops the line
		{"1 + 'a'\r", " | 1 + 'a'\r\n | ..^\r\n"}, // errors point into the expression
		{":type self.spec\r", "\r\ndyn\r\n"},
		{":cost 1 + 1\r", "\r\n1 (estimated only with --schema)\r\n"},
		{":unknown self.spec.name\r", "unknown: self.spec.name\r\n"},
		{"self.spec.replicas > 1 && self.spec.name == 'a'\r", "self.spec.name == \"a\"\r\n  unknown: self.spec.name\r\n"},
		{":known\r", prompt},
		{pasteBegins + "self.spec.replicas > 1 // enough\n  && self.spec.name == 'web'\n" + pasteEnds + "\r", "\r\ntrue\r\n"},
		{":nonsense\r", "no command :nonsense"},
	} {
		p.write(e.keys)
		p.take(e.answer, nil)
	}
	// An evaluation without end: Ctrl-C is one.
	p.write("lists.range(1000000).all(a, lists.range(1000000).all(b, a + b >= 0))\r")
	p.take("operation interrupted", func() { p.write("\x03") })
	p.write("\r7 + 1\r") // behind the last Ctrl-C
	p.take("\r\n8\r\n", nil)
	p.take(prompt, nil)
	// In a narrower window the choices have narrower lines.
	p.resize(30, 24)
	p.write("s\t\t\x03" + "1 + 2\r")
	lines := 0
	for line := range strings.SplitSeq(p.take("\r\n3\r\n", nil), "\r\n") {
		line = line[strings.LastIndex(line, "\x1b[K")+1:] // what stays of it
		if words := strings.TrimSuffix(strings.TrimPrefix(line, "[K"), "  "); strings.HasSuffix(line, "  ") {
			if lines++; len(words) > 30 {
				t.Errorf("a line of choices has %d columns: %q", len(words), line)
			}
		}
	}
	if lines < 2 {
		t.Errorf("there are %d lines of choices", lines)
	}
	p.write("\x04")
	if code := <-exit; code != 0 {
		t.Errorf("ends with %d", code)
	}
	p.take(pastesHidden, nil)
	if after, err := term.GetState(int(p.screen.Fd())); err != nil || !reflect.DeepEqual(before, after) {
		t.Errorf("the terminal is not as it was: %v", err)
	}
}
