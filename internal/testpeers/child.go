// Package testpeers runs the servers with which Keelson is compared.
//
// Upstream's servers keep state in package variables and end with the process. Each therefore runs
// in a process of its own, the child, which is the test program itself again. In a test, [Main]
// distinguishes the two, and [Start] starts the child. The server in the child has its own etcd
// member ([StartEtcd]) and certificates ([NewPKI]), and listens on loopback.
//
// UIDs and resource versions differ between two servers. [Pairs] matches them, so that real
// differences remain.
package testpeers

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// This file starts the child process.

// childDir is the environment variable that makes a process the child. Its value is the child's
// folder.
const childDir = "KEELSON_CHILD_DIR"

// addressFile is the file in the child's folder with its address.
const addressFile = "address"

// Main runs the tests. In the child process it serves until it is killed.
func Main(m *testing.M, serve func(dir string) error) {
	dir := os.Getenv(childDir)
	if dir == "" {
		os.Exit(m.Run())
	}
	if err := serve(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// Announce writes, in the child, the loopback port on which it listens.
func Announce(dir string, port int) error {
	return os.WriteFile(filepath.Join(dir, addressFile), fmt.Appendf(nil, "127.0.0.1:%d", port), 0o600)
}

// Start starts a child, which ends with the test, and waits until ready returns true for its
// address, host:port. name is the process name.
func Start(t *testing.T, name, dir string, ready func(address string) bool) {
	t.Helper()
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	tail := func() []byte {
		b, _ := os.ReadFile(log.Name())
		return b[max(0, len(b)-3000):]
	}
	cmd := exec.Command(os.Args[0])
	cmd.Args = []string{name}
	cmd.Env = append(os.Environ(), childDir+"="+dir)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() {
		cmd.Process.Kill()
		<-ended
		log.Close()
		if t.Failed() && testing.Verbose() {
			t.Logf("the log of %s ends with:\n%s", name, tail())
		}
	})
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
		select {
		case err := <-ended:
			ended <- err
			t.Fatalf("%s ended: %v\n%s", name, err, tail())
		default:
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s is not ready after two minutes:\n%s", name, tail())
		}
		address, err := os.ReadFile(filepath.Join(dir, addressFile))
		if err == nil && ready(string(address)) {
			return
		}
	}
}

// Client returns a client that neither follows redirects nor decompresses answers.
func Client(c *tls.Config) *http.Client {
	return &http.Client{
		Transport:     &http.Transport{TLSClientConfig: c, DisableCompression: true, MaxIdleConnsPerHost: 4},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}
