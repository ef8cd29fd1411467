package testports

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestFree holds that ports are free, and that neither this process nor another gets one twice.
func TestFree(t *testing.T) {
	const n = 200
	got, err := Free(n)
	if err != nil {
		t.Fatal(err)
	}
	if os.Getenv("TESTPORTS_CHILD") != "" {
		fmt.Println("child", strings.Trim(fmt.Sprint(got), "[]"))
		return
	}
	seen := map[string]bool{}
	for _, port := range got {
		if seen[fmt.Sprint(port)] {
			t.Errorf("port %d twice", port)
		}
		seen[fmt.Sprint(port)] = true
	}
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", got[0]))
	if err != nil {
		t.Fatal(err)
	}
	l.Close()

	// Two hundred of 12,000 ports would meet by chance in nearly every run.
	cmd := exec.Command(os.Args[0], "-test.run=^TestFree$", "-test.v")
	cmd.Env = append(os.Environ(), "TESTPORTS_CHILD=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	_, list, _ := strings.Cut(string(out), "child ")
	list, _, _ = strings.Cut(list, "\n")
	if of := strings.Fields(list); len(of) != n {
		t.Fatalf("got %d ports of another process:\n%s", len(of), out)
	}
	for _, port := range strings.Fields(list) {
		if seen[port] {
			t.Errorf("another process got port %s, too", port)
		}
	}
}
