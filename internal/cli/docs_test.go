package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/keelson-io/keelson/internal/testpages"
)

// TestLintFindingsInTheDocs holds that the findings in docs/lint.md also occur in the test scripts.
func TestLintFindingsInTheDocs(t *testing.T) {
	docs, err := os.ReadFile("../../docs/lint.md")
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("testdata/lint*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	var scripts strings.Builder
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		scripts.Write(text)
	}
	_, table, ok := strings.Cut(string(docs), "| Finding | Example |\n| --- | --- |\n")
	if !ok {
		t.Fatal("docs/lint.md has no table of examples")
	}
	table, _, _ = strings.Cut(table, "\n\n")
	example := regexp.MustCompile("^\\| `(\\S+)`.*? \\| `(.*?)`.* \\|$")
	checks := map[string]bool{}
	for row := range strings.SplitSeq(table, "\n") {
		m := example.FindStringSubmatch(row)
		if m == nil {
			t.Errorf("no example: %s", row)
			continue
		}
		checks[m[1]] = true
		if !strings.Contains(scripts.String(), m[2]) {
			t.Errorf("no script finds: %s", m[2])
		}
	}
	for _, check := range []string{"server", "rule", "cost", "draft", "contradiction", "no-effect", "change", "type", "binding", "conflict", "unchecked"} {
		if !checks[check] {
			t.Errorf("no example of %s", check)
		}
	}
}

// TestExampleOfTheCIPage holds that docs/ci.md shows what the script ci.txtar expects.
func TestExampleOfTheCIPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/ci.md")
	if err != nil {
		t.Fatal(err)
	}
	script, err := os.ReadFile("testdata/ci.txtar")
	if err != nil {
		t.Fatal(err)
	}
	_, want, _ := strings.Cut(string(script), "-- want --\n")
	want, _, _ = strings.Cut(want, "-- ")
	if !strings.Contains(string(page), "$ keelson validate --ignore-missing .\n"+want+"keelson: 1 of 3 objects not valid\n```") {
		t.Errorf("docs/ci.md does not show\n%s", want)
	}
}

// TestExampleOfTheExplainPage holds that docs/explain.md shows what the script explain.txtar has and expects.
func TestExampleOfTheExplainPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/explain.md")
	if err != nil {
		t.Fatal(err)
	}
	script, err := os.ReadFile("testdata/explain.txtar")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"crd.yaml", "gateway.yaml", "want"} {
		_, text, found := strings.Cut(string(script), "-- "+name+" --\n")
		text, _, _ = strings.Cut(text, "-- ")
		if !found || !strings.Contains(string(page), text) {
			t.Errorf("docs/explain.md does not show the file %s of the script:\n%s", name, text)
		}
	}
}

// TestUsagesOfFlags holds that each usage names at most one value in backquotes: the help shows what is between the first two.
func TestUsagesOfFlags(t *testing.T) {
	var check func(cmd *cobra.Command)
	check = func(cmd *cobra.Command) {
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if n := strings.Count(f.Usage, "`"); n != 0 && n != 2 {
				t.Errorf("%s --%s has %d backquotes: %s", cmd.CommandPath(), f.Name, n, f.Usage)
			}
		})
		for _, c := range cmd.Commands() {
			check(c)
		}
	}
	check(newRootCommand())
	for _, program := range programs {
		check(program())
	}
}

// TestCommandsInTheDocs holds that the commands and flags of keelson that pages name exist, in code blocks and in running text.
func TestCommandsInTheDocs(t *testing.T) {
	pages, err := testpages.List("../..")
	if err != nil {
		t.Fatal(err)
	}
	// A command ends with the line, a comment, or the next command.
	call := regexp.MustCompile(`(?:^|[|&;(] ?)keelson ((?:'[^']*'|"[^"]*"|[^'"|&;#])*)`)
	word := regexp.MustCompile(`(?:'[^']*'|"[^"]*"|[^'"\s])+`)
	calls := 0
	for _, page := range pages {
		text, err := testpages.Read("../..", page)
		if err != nil {
			t.Fatal(err)
		}
		lines := testpages.Spans(text)
		for _, b := range testpages.Blocks(text) {
			lines = append(lines, b.Commands()...)
		}
		for _, line := range lines {
			for _, found := range call.FindAllStringSubmatch(line.Text, -1) {
				calls++
				if complaint := checkCall(word.FindAllString(found[1], -1)); complaint != "" {
					t.Errorf("%s:%d: %s: %s", page, line.Number, line.Text, complaint)
				}
			}
		}
	}
	if calls < 100 {
		t.Fatalf("got %d calls of keelson, want at least 100", calls)
	}
}

// checkCall returns what is wrong with the words after keelson: an unknown command or flag.
func checkCall(words []string) string {
	root := newRootCommand()
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	if len(words) > 0 && words[0] == "help" {
		words = words[1:]
	}
	cmd := root
	for len(words) > 0 && cmd.HasSubCommands() && !strings.HasPrefix(words[0], "-") {
		next, _, err := cmd.Find(words[:1])
		if err != nil || next == cmd {
			return fmt.Sprintf("%s has no command %q", cmd.CommandPath(), words[0])
		}
		cmd, words = next, words[1:]
	}
	cmd.InitDefaultHelpFlag()
	cmd.InitDefaultVersionFlag()
	for _, word := range words {
		name, _, _ := strings.Cut(word, "=")
		switch {
		case word == "-" || word == "--" || !strings.HasPrefix(word, "-"):
		case strings.HasPrefix(word, "--"):
			if cmd.Flag(name[2:]) == nil {
				return fmt.Sprintf("%s has no flag %s", cmd.CommandPath(), name)
			}
		case cmd.Flags().ShorthandLookup(word[1:2]) == nil && cmd.InheritedFlags().ShorthandLookup(word[1:2]) == nil:
			return fmt.Sprintf("%s has no flag %s", cmd.CommandPath(), word)
		}
	}
	return ""
}

// TestCheckCall holds that unknown commands and flags are found.
func TestCheckCall(t *testing.T) {
	for line, fits := range map[string]bool{
		"serve --data-dir x": true, "lint -o json crds/": true, "help snapshot save": true, "snapshot status --help": true, "eval --sql=x": true,
		"sevre": false, "serve --data-dri x": false, "snapshot sav": false, "lint -Z": false, "help snapshot sav": false,
	} {
		if got := checkCall(strings.Fields(line)); (got == "") != fits {
			t.Errorf("keelson %s: got %q", line, got)
		}
	}
}

// otherFlags lists flags of other programs that pages name on their own.
var otherFlags = map[string]string{
	"--validate":             "kubectl",
	"--allow-untrusted":      "apk",
	"--insecure-ignore-tlog": "cosign",
	"--local-crds":           "kubectl-validate",
	"--local-schemas":        "kubectl-validate",
}

// TestFlagsInTheDocs holds that each flag that pages name on its own is one of keelson, or of another program in otherFlags.
func TestFlagsInTheDocs(t *testing.T) {
	pages, err := testpages.List("../..")
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{"help": true}
	var add func(cmd *cobra.Command)
	add = func(cmd *cobra.Command) {
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) { known[f.Name] = true })
		for _, c := range cmd.Commands() {
			add(c)
		}
	}
	add(newRootCommand())
	for _, program := range programs {
		add(program())
	}
	flag := regexp.MustCompile(`^--([a-z0-9-]+)`)
	used := map[string]bool{}
	for _, page := range pages {
		text, err := testpages.Read("../..", page)
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range testpages.Spans(text) {
			found := flag.FindStringSubmatch(line.Text)
			switch {
			case found == nil || known[found[1]]:
			case otherFlags[found[0]] != "":
				used[found[0]] = true
			default:
				t.Errorf("%s:%d: no command of keelson has the flag %s", page, line.Number, found[0])
			}
		}
	}
	for name := range otherFlags {
		if !used[name] {
			t.Errorf("otherFlags: no page names %s", name)
		}
	}
}
