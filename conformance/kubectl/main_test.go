// Package kubectl runs Kubernetes' own tests of kubectl against Keelson and against kube-apiserver, and compares how they end.
//
// The tests are the functions of test/cmd in the module k8s.io/kubernetes: bash scripts that run kubectl and check what it prints. They
// are copied out of the module cache at test time, unchanged. testdata/runner.sh runs one of them, with the programs of the same module,
// against a server that only this function uses: kube-apiserver, or keelson under the name and with the flags of kube-apiserver. Both
// run without a controller manager, so that functions that wait for one end early on both.
//
// A function that passes on kube-apiserver must pass here, and one that does not must get as far. The functions that do not are listed in
// testdata/differences.txt with the reason; the test fails if another function differs, and if a listed one does not.
//
// KEELSON_BIN, KUBECTL_BIN, KUBE_APISERVER_BIN, ETCD_BIN and so on name programs to use in place of those that would be built.
package kubectl

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"
)

var (
	update  = flag.Bool("update", false, "write docs/conformance.md and testdata/differences.txt, keeping reasons")
	only    = flag.String("functions", "", "regular `expression` of the functions to run; empty for all")
	server  = flag.String("server", "", "run on one server only, without a comparison: keelson or kube-apiserver")
	logs    = flag.String("logs", "", "`folder` for the output of the functions and the logs of the servers")
	manager = flag.Bool("manager", false, "run a kube-controller-manager beside each server; the results are printed, and compared with nothing")
	limit   = flag.Duration("limit", 4*time.Minute, "how long a function may take")
)

// between is the name of what legacy-script.sh checks between the functions.
const between = "runTests"

// result is how one function ended on both servers.
type result struct {
	function    string
	there, here *outcome
}

func TestKubectl(t *testing.T) {
	if *server != "" && *server != keelson && *server != upstream {
		t.Fatalf("-server: got %q, want %s or %s", *server, keelson, upstream)
	}
	s := newSuite(t)
	wanted, err := regexp.Compile(*only)
	if err != nil {
		t.Fatalf("-functions: %v", err)
	}
	compared := *server == "" && !*manager
	var results []result
	for _, name := range s.list(t) {
		if !wanted.MatchString(name) {
			continue
		}
		r := s.runBoth(t, name)
		// What depends on time may end otherwise on a busy machine: a difference must show every time.
		for range 2 {
			if !compared || r.difference() == "" {
				break
			}
			r = s.runBoth(t, name)
		}
		results = append(results, r)
	}
	if len(results) == 0 {
		t.Fatal("no function has such a name")
	}
	if compared {
		judge(t, results, *only == "")
	}
}

// runBoth runs a function on the servers that the flag asks for.
func (s *suite) runBoth(t *testing.T, name string) result {
	t.Helper()
	r := result{function: name}
	if *server != keelson {
		r.there = s.run(t, upstream, name)
		fmt.Printf("%-46s %-15s %s\n", name, upstream, r.there)
	}
	if *server != upstream {
		r.here = s.run(t, keelson, name)
		fmt.Printf("%-46s %-15s %s\n", name, keelson, r.here)
	}
	return r
}

// keep writes a file of a run into the folder for logs, if there is one.
func keep(t *testing.T, server, function, ext, from string) {
	t.Helper()
	if *logs == "" {
		return
	}
	text, err := os.ReadFile(from)
	if os.IsNotExist(err) {
		return
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(*logs, function+"."+server+ext), text, 0o644)
	}
	if err != nil {
		t.Error(err)
	}
}
