// Package testpages reads the commands of the documents, for the tests that run or check them.
//
// [List] lists the pages. [Blocks] returns the code blocks of a page: [Block.Runs] reports whether the tests in e2e/pages run its
// commands, [Block.Commands] returns the lines that look like commands. [Spans] returns the code in running text.
package testpages

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// Others lists the pages that other tests look after, with the reason. A name with a slash at its end is
// a folder.
var Others = map[string]string{
	"CHANGELOG.md":     "it names commands of the past",
	"docs/examples.md": "examples/examples_test.go runs the examples",
	"examples/":        "examples/examples_test.go runs the examples",
}

// Line is a line or a piece of code of a page.
type Line struct {
	Number int // from 1
	Text   string
}

// Block is a code block of a page.
type Block struct {
	Kind  string // what follows the three backquotes; "indented" for an indented block
	Lines []Line // without the fences, and without the indentation of the fence or the block
}

// List returns the pages below the root of the repository, named with slashes from the root, without Others.
func List(root string) ([]string, error) {
	var pages []string
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		switch {
		case e.IsDir() && (name == "bin" || Others[name+"/"] != "" || e.Name() == "testdata" || strings.HasPrefix(e.Name(), ".") && name != "."):
			return fs.SkipDir
		case !e.IsDir() && filepath.Ext(name) == ".md" && Others[name] == "":
			pages = append(pages, name)
		}
		return nil
	})
	return pages, err
}

// Read returns the text of a page.
func Read(root, page string) (string, error) {
	text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(page)))
	return string(text), err
}

var fence = regexp.MustCompile("^( *)```(.*)$")

// Blocks returns the code blocks of a page. Indented lines are a block if an empty line is before them.
func Blocks(text string) []Block {
	var blocks []Block
	var indent string // of the fence
	fenced, indented, previous := false, false, ""
	for i, line := range strings.Split(text, "\n") {
		last := len(blocks) - 1
		found := fence.FindStringSubmatch(line)
		switch {
		case fenced && found != nil && found[2] == "":
			fenced = false
		case fenced:
			blocks[last].Lines = append(blocks[last].Lines, Line{i + 1, strings.TrimPrefix(line, indent)})
		case found != nil:
			indent, fenced, indented = found[1], true, false
			blocks = append(blocks, Block{Kind: found[2]})
		case strings.HasPrefix(line, "    ") && (indented || previous == ""):
			if !indented {
				blocks = append(blocks, Block{Kind: "indented"})
			}
			indented = true
			last = len(blocks) - 1
			blocks[last].Lines = append(blocks[last].Lines, Line{i + 1, line[4:]})
		case line != "":
			indented = false
		}
		previous = line
	}
	return blocks
}

// Runs reports whether the tests in e2e/pages run the commands of the block.
func (b Block) Runs() bool { return b.Kind == "console" || b.Kind == "sh" }

// prefix is what stands before a command: a prompt, a comment, a step of a workflow.
var prefix = regexp.MustCompile(`^\s*(- )?(run: |#+ |\$ )?\s*`)

// looks matches what looks like a command, with variables before it.
var looks = regexp.MustCompile(`^([A-Z_]+=\S* )*(apk|apt|apt-get|awk|brew|cargo|cat|cd|chmod|chown|cosign|cp|curl|docker|dpkg|echo|etcdctl|export|git|go|grep|` +
	`head|helm|jq|keelson|kubectl|kustomize|ln|ls|make|mkdir|mv|npm|openssl|pip|podman|psql|rm|rpm|sed|sha256sum|skopeo|sqlite3|ss|sudo|` +
	`systemctl|systemd-run|tar|ulimit|unzip|wget)( |$)`)

// Commands returns the lines of the block that look like commands, without what stands before the command. In a block "console",
// these are the lines with a prompt.
func (b Block) Commands() []Line {
	if b.Kind == "go" {
		return nil
	}
	var commands []Line
	for _, line := range b.Lines {
		before := prefix.FindString(line.Text)
		text := line.Text[len(before):]
		if b.Kind != "console" && looks.MatchString(text) || strings.HasPrefix(line.Text, "$ ") {
			commands = append(commands, Line{line.Number, text})
		}
	}
	return commands
}

var span = regexp.MustCompile("`([^`]+)`")

// Spans returns the code in the running text of a page: what is between two backquotes, on one line or on two.
func Spans(text string) []Line {
	lines := strings.Split(text, "\n")
	for _, b := range Blocks(text) {
		for _, line := range b.Lines {
			lines[line.Number-1] = ""
		}
	}
	for i, line := range lines {
		if fence.MatchString(line) {
			lines[i] = ""
		}
	}
	var spans []Line
	at := 1
	for paragraph := range strings.SplitSeq(strings.Join(lines, "\n"), "\n\n") {
		for _, m := range span.FindAllStringSubmatchIndex(paragraph, -1) {
			spans = append(spans, Line{at + strings.Count(paragraph[:m[0]], "\n"), strings.ReplaceAll(paragraph[m[2]:m[3]], "\n", " ")})
		}
		at += strings.Count(paragraph, "\n") + 2
	}
	return spans
}
