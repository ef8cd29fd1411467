package testpages

import (
	"slices"
	"testing"
)

const page = "# A\n\n" + // 1
	"Run `make\ntest`, or `keelson serve`.\n\n" + // 3
	"    keelson lint a   # words\n\n    more\n\n" + // 6
	"text\n    no block: `b`\n\n" + // 10
	"- item\n\n  ```yaml\n  # keelson serve --x\n  - run: kubectl apply\n  cd: 1\n  ```\n\n" + // 13
	"```console\n$ ls\nout\n```\n\n" + // 21
	"```go\ngo func() {}()\n```\n" // 26

func TestBlocks(t *testing.T) {
	blocks := Blocks(page)
	var kinds []string
	var commands []Line
	for _, b := range blocks {
		kinds = append(kinds, b.Kind)
		commands = append(commands, b.Commands()...)
		if b.Runs() != (b.Kind == "console") {
			t.Errorf("%s: got runs %v", b.Kind, b.Runs())
		}
	}
	if want := []string{"indented", "yaml", "console", "go"}; !slices.Equal(kinds, want) {
		t.Errorf("got kinds %q, want %q", kinds, want)
	}
	want := []Line{{6, "keelson lint a   # words"}, {16, "keelson serve --x"}, {17, "kubectl apply"}, {22, "ls"}}
	if !slices.Equal(commands, want) {
		t.Errorf("got commands %v, want %v", commands, want)
	}
}

func TestSpans(t *testing.T) {
	want := []Line{{3, "make test"}, {4, "keelson serve"}, {11, "b"}}
	if got := Spans(page); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
