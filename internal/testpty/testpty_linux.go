// Package testpty opens pseudo-terminals for tests of programs that behave differently at a terminal. It is there on Linux only.
package testpty

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unsafe"
)

// Terminal is a pseudo-terminal: what is typed goes into one end, and what the program writes is collected.
type Terminal struct {
	t        *testing.T
	keyboard *os.File
	Screen   *os.File // the program's end

	mu   sync.Mutex
	text string
}

// Open opens a pseudo-terminal until the end of the test.
func Open(t *testing.T) *Terminal {
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
	p := &Terminal{t: t, keyboard: master, Screen: slave}
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

// control makes a request of a terminal.
func control(t *testing.T, f *os.File, request uintptr, argument unsafe.Pointer) {
	t.Helper()
	if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, f.Fd(), request, uintptr(argument)); errno != 0 {
		t.Fatal(errno)
	}
}

// Resize changes the size of the terminal, as a user does.
func (p *Terminal) Resize(width, height uint16) {
	p.t.Helper()
	size := [4]uint16{height, width}
	control(p.t, p.keyboard, syscall.TIOCSWINSZ, unsafe.Pointer(&size))
}

// Type types keys.
func (p *Terminal) Type(keys string) {
	p.t.Helper()
	if _, err := p.keyboard.WriteString(keys); err != nil {
		p.t.Fatal(err)
	}
}

// Take returns what is on the screen before want, for which it waits; both are gone then. It calls each while it waits.
func (p *Terminal) Take(want string, each func()) string {
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
