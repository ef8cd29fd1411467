// Command try compiles keelson and runs it, with the arguments that it gets:
//
//	go run ./cmd/try serve
//
// "go run ./cmd/keelson" prints nothing while Go compiles, which takes minutes the first time. This
// command imports only small packages of the standard library, so that it starts within seconds. It
// says what it does, counts the packages that are compiled, and then runs the program.
package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"
	"time"
)

// This file has the whole command.

// program is the package that is compiled.
const program = "github.com/keelson-io/keelson/cmd/keelson"

func main() {
	code, err := try(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "try: "+err.Error())
		code = 1
	}
	os.Exit(code)
}

// try compiles the program, runs it with args, and returns its exit code.
func try(args []string) (int, error) {
	build, binary, err := buildCommand()
	if err != nil {
		return 0, err
	}
	fmt.Fprintln(os.Stderr, "Compiling keelson. This takes one to five minutes the first time, and a second from then on.")
	if err := compile(build); err != nil {
		return 0, err
	}
	cmd := exec.Command(binary, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	return supervise(cmd)
}

// buildCommand returns the command that compiles the program, and the file that it writes: in a
// clone bin/keelson, and for a published version a file in the user's cache.
func buildCommand() (*exec.Cmd, string, error) {
	name := "keelson"
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	info, ok := debug.ReadBuildInfo()
	if ok && info.Main.Sum != "" { // only a downloaded module has a checksum
		return installCommand(info.Main.Version, name)
	}
	out, err := exec.Command("go", "list", "-f", "{{.Module.Dir}}", program).Output()
	if err != nil {
		return nil, "", fmt.Errorf("got a directory outside a clone of the repository, want its root: %w", err)
	}
	binary := filepath.Join(strings.TrimSpace(string(out)), "bin", name)
	return exec.Command("go", "build", "-v", "-o", binary, program), binary, nil
}

// installCommand returns the command that installs a published version in the user's cache.
func installCommand(version, name string) (*exec.Cmd, string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil, "", err
	}
	dir := filepath.Join(cache, "keelson", version)
	cmd := exec.Command("go", "install", "-v", program+"@"+version)
	cmd.Env = append(os.Environ(), "GOBIN="+dir)
	return cmd, filepath.Join(dir, name), nil
}

// interval is the time between two reports of progress.
const interval = 5 * time.Second

// compile runs the build. It prints progress in place of the names of packages, and all other lines
// as they are: downloads and errors.
func compile(build *exec.Cmd) error {
	names, err := build.StderrPipe()
	if err != nil {
		return err
	}
	if err := build.Start(); err != nil {
		return err
	}
	report(names, os.Stderr, time.Now)
	if err := build.Wait(); err != nil {
		return fmt.Errorf("%s: %w", strings.Join(build.Args, " "), err)
	}
	return nil
}

// report reads the output of go build -v to its end and writes what a user wants to see of it.
func report(names io.Reader, out io.Writer, now func() time.Time) {
	start := now()
	last, count := start, 0
	lines := bufio.NewScanner(names)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := lines.Text()
		if strings.ContainsAny(line, " \t") || line == "" {
			fmt.Fprintln(out, line)
			continue
		}
		count++
		if t := now(); t.Sub(last) >= interval {
			last = t
			fmt.Fprintf(out, "  %3.0f s: %d packages compiled, the latest is %s\n", t.Sub(start).Seconds(), count, line)
		}
	}
	io.Copy(out, names) // a line above the buffer's limit: the build must not wait for a reader
}

// supervise runs a command until it ends, passes signals on, and returns the exit code.
func supervise(cmd *exec.Cmd) (int, error) {
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	go func() {
		for s := range signals {
			// A terminal sends Ctrl-C to both processes; a second one would end keelson at once.
			if s != os.Interrupt {
				cmd.Process.Signal(s)
			}
		}
	}()
	err := cmd.Wait()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() >= 0 {
		return exit.ExitCode(), nil
	}
	return 0, err
}
