// Package testprogram builds and runs the programs of tests. A program ends with the test's process,
// even if that is killed, so that no server stays behind.
//
// [Build] builds a program. [Start] starts one, and [Process.Stop] ends it.
package testprogram

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"
)

// patience is how long a program may take to end after a signal.
const patience = time.Minute

// Build builds the program of a folder into the file to. The folder may be a module of its own. If
// the environment variable names a program, that is used instead. It returns the program's path.
func Build(variable, folder, to string) (string, error) {
	if given := os.Getenv(variable); given != "" {
		return given, nil
	}
	cmd := exec.Command("go", "build", "-o", to, ".")
	cmd.Dir = folder
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building %s: %w\n%s", folder, err, out)
	}
	return to, nil
}

// Process is a program that was started.
type Process struct {
	*exec.Cmd
	ended chan struct{} // closed when the process has ended
}

// Start starts a program as the command says.
func Start(t testing.TB, cmd *exec.Cmd) *Process {
	t.Helper()
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &Process{cmd, make(chan struct{})}
	go func() { defer close(p.ended); cmd.Wait() }()
	return p
}

// Ended returns a channel that is closed when the program has ended.
func (p *Process) Ended() <-chan struct{} { return p.ended }

// IsRunning reports whether the program has not ended.
func (p *Process) IsRunning() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// Stop sends a signal, and returns the exit code when the program has ended: -1 if the signal killed
// it. A program that has ended before gets no signal.
func (p *Process) Stop(t testing.TB, signal os.Signal) int {
	t.Helper()
	if err := p.Process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Fatal(err)
	}
	select {
	case <-p.ended:
	case <-time.After(patience):
		p.Process.Kill()
		<-p.ended
		t.Fatalf("%s did not end within %v of signal %v", p.Path, patience, signal)
	}
	return p.ProcessState.ExitCode()
}
