package cli

import (
	"os"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/keelson-io/keelson/internal/testdir"
)

// TestMain lets the scripts run the command in the test's process.
func TestMain(m *testing.M) {
	os.Setenv("TMPDIR", testdir.Root())
	testscript.Main(m, map[string]func(){
		"keelson": func() { os.Exit(Main(os.Args, os.Stdin, os.Stdout, os.Stderr)) },
	})
}

// TestScripts runs testdata/*.txtar. UPDATE_SCRIPTS=1 rewrites the expected output: read the
// difference before you commit it.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{Dir: "testdata", UpdateScripts: os.Getenv("UPDATE_SCRIPTS") == "1",
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"page": checkPage}})
}

// checkPage returns the command "page COMMAND…" of scripts: the page of a command has all parts of a manual, and its examples run as they
// are written.
func checkPage(ts *testscript.TestScript, _ bool, command []string) {
	ts.Check(ts.Exec("keelson", append([]string{"help"}, command...)...))
	parts := map[string]string{}
	title := ""
	for line := range strings.Lines(ts.ReadFile("stdout")) {
		if line[0] >= 'A' && line[0] <= 'Z' {
			title = strings.TrimSpace(line)
			continue
		}
		parts[title] += strings.TrimPrefix(line, "    ")
	}
	for _, want := range []string{"NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXIT STATUS", "EXAMPLES", "SEE ALSO"} {
		if strings.TrimSpace(parts[want]) == "" {
			ts.Fatalf("keelson help %s: no %s", strings.Join(command, " "), want)
		}
	}
	for line := range strings.Lines(parts["EXAMPLES"]) {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		// One may say no, if it does so without a complaint.
		if err := ts.Exec("sh", "-c", line); err != nil && ts.ReadFile("stderr") != "" {
			ts.Fatalf("%s: %v", line, err)
		}
	}
	for line := range strings.Lines(parts["SEE ALSO"]) {
		for also := range strings.SplitSeq(strings.TrimSpace(line), ", ") {
			if args, ok := strings.CutPrefix(also, "keelson help "); ok {
				ts.Check(ts.Exec("keelson", append([]string{"help"}, strings.Fields(args)...)...))
			}
		}
	}
}
