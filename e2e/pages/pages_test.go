package pages

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/keelson-io/keelson/internal/testpages"
)

// This file finds the commands of the pages and compares what they print.

// needs lists pages that a shell in an empty folder cannot follow, with the reason.
var needs = map[string]string{
	"docs/tour.md":                 "clone", // it is followed in a clone of the repository
	"docs/start/operator-tests.md": "go",    // it compiles tests
	"docs/start/embed.md":          "go",    // it compiles a program
	"docs/comparison.md":           "go",    // it compiles another program
}

// step is one command of a page with what the page says it prints.
type step struct {
	line    int // of the page, from 1
	command string
	output  string
	script  bool // what it prints is not compared
}

// TestPages follows each page that has commands.
func TestPages(t *testing.T) {
	pages, err := testpages.List("../..")
	if err != nil {
		t.Fatal(err)
	}
	followed := 0
	for _, page := range pages {
		text, err := testpages.Read("../..", page)
		if err != nil {
			t.Fatal(err)
		}
		steps := readSteps(text)
		if len(steps) == 0 {
			continue
		}
		followed++
		t.Run(strings.TrimSuffix(page, ".md"), func(t *testing.T) {
			if needs[page] == "go" && !*long {
				t.Skip("it compiles a Go program: make site-test")
			}
			if needs[page] != "go" { // these compile one after the other
				t.Parallel()
			}
			follow(t, page, text, steps)
		})
	}
	if followed < 10 {
		t.Fatalf("got %d pages with commands, want at least 10", followed)
	}
}

// follow does what a page says.
func follow(t *testing.T, page, text string, steps []step) {
	m := newMachine(t, page)
	for i := range steps {
		s := &steps[i]
		if tool := missingTool(s.command); tool != "" {
			t.Logf("%s:%d: does not run without %s", page, s.line, tool)
			continue
		}
		command := s.command
		if s.script && !serves.MatchString(strings.TrimSpace(command)) {
			command = "trap 'failed=$?' ERR; failed=0\n" + command + "trap - ERR; (exit $failed)"
		}
		got, code := m.do(t, command)
		switch {
		case s.script:
			if code != 0 {
				t.Errorf("%s:%d: the script ended with exit code %d:\n%s", page, s.line, code, got)
			}
		case os.Getenv("UPDATE_PAGES") != "":
			s.output = got
		case plain(got) != plain(s.output):
			t.Errorf("%s:%d: $ %s\ngot:\n%s\nwant:\n%s", page, s.line, s.command, got, s.output)
		}
	}
	if os.Getenv("UPDATE_PAGES") != "" {
		if err := os.WriteFile(filepath.Join("../..", page), []byte(withOutputs(text, steps)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// tools lists programs that a command may need and a machine may lack.
var tools = []string{"jq"}

// missingTool returns the name of a program that the command needs and this machine lacks.
func missingTool(command string) string {
	for _, tool := range tools {
		if strings.Contains(command, "| "+tool+" ") {
			if _, err := exec.LookPath(tool); err != nil {
				return tool
			}
		}
	}
	return ""
}

// readSteps returns the commands of a page in order.
func readSteps(text string) []step {
	var steps []step
	block := ""
	for i, line := range strings.Split(text, "\n") {
		switch {
		case block == "" && (line == "```console" || line == "```sh"):
			block = line[3:]
			if block == "sh" {
				steps = append(steps, step{line: i + 1, script: true})
			}
		case line == "```":
			block = ""
		case block == "sh":
			steps[len(steps)-1].command += line + "\n"
		case block == "console" && strings.HasPrefix(line, "$ "):
			steps = append(steps, step{line: i + 1, command: line[2:]})
		case block == "console" && len(steps) > 0:
			steps[len(steps)-1].output += line + "\n"
		}
	}
	return steps
}

// withOutputs returns the page with the outputs of its steps.
func withOutputs(text string, steps []step) string {
	var out []string
	block := ""
	for line := range strings.SplitSeq(text, "\n") {
		switch {
		case block == "" && strings.HasPrefix(line, "```"):
			block = line
			if line == "```sh" {
				steps = steps[1:]
			}
		case line == "```":
			block = ""
		case block == "```console" && !strings.HasPrefix(line, "$ "):
			continue // the old output
		}
		out = append(out, line)
		if block == "```console" && strings.HasPrefix(line, "$ ") {
			if text := strings.TrimRight(steps[0].output, "\n"); text != "" {
				out = append(out, strings.Split(text, "\n")...)
			}
			steps = steps[1:]
		}
	}
	return strings.Join(out, "\n")
}

// TestReadSteps holds that commands, outputs and scripts are found, and that writing the same outputs changes nothing.
func TestReadSteps(t *testing.T) {
	page := "# A\n\n```console\n$ a b\nout\n\nput\n$ c\n```\n\n```sh\ncat > f <<'EOF'\n$ x\nEOF\n```\n\n```yaml\n$ no\n```\n"
	steps := readSteps(page)
	want := []step{{4, "a b", "out\n\nput\n", false}, {8, "c", "", false}, {11, "cat > f <<'EOF'\n$ x\nEOF\n", "", true}}
	if !slices.Equal(steps, want) {
		t.Errorf("got %+v, want %+v", steps, want)
	}
	if got := withOutputs(page, steps); got != page {
		t.Errorf("got %q, want %q", got, page)
	}
}

// TestPagesHaveNoOtherShell holds that no page has commands in a block that looks as if it ran.
func TestPagesHaveNoOtherShell(t *testing.T) {
	pages, err := testpages.List("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range pages {
		text, err := testpages.Read("../..", page)
		if err != nil {
			t.Fatal(err)
		}
		for _, fence := range regexp.MustCompile("(?m)^ *```(bash|shell|text)$|^ +```(sh|console)$").FindAllString(text, -1) {
			t.Errorf("%s: got a block %s, want console or sh without indentation, which this test runs", page, fence)
		}
	}
}

// variable has what differs from one run to the next, with its replacement.
var variable = []struct{ find, put string }{
	{`time=\S+`, "time=T"},
	{`"(\d{4}-\d\d-\d\d)T[0-9:.]+Z"`, `"TIME"`},
	{`\b\d+(\.\d+)?(ms|µs|s|m)\b(\d+s)?`, "AGE"},
	{`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`, "TIME"},
	{`\b\d+ bytes`, "N bytes"},
	{`values=\d+`, "values=N"},
	{`127\.0\.0\.1:\d+`, "127.0.0.1:PORT"},
	{`(kubeconfig=|KUBECONFIG=)\S*/`, "$1"},
	{`keelson (v\S+|\(devel\)), Kubernetes`, "keelson VERSION, Kubernetes"},
	{`go1\.\d+\S* \S+`, "GO PLATFORM"},
	{`( deleted) from \S+ namespace`, "$1"}, // newer versions of kubectl name it
	{` +`, " "},                             // columns are as wide as the widest age
	{` \n`, "\n"},
}

// plain replaces what differs from one run to the next.
func plain(s string) string {
	for _, r := range variable {
		s = regexp.MustCompile(r.find).ReplaceAllString(s, r.put)
	}
	return strings.TrimSpace(s)
}
