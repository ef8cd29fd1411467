package suite_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/keelson-io/keelson/suite"
)

// TestDocsAreTrue runs the suite in docs/testing.md, and finds the Go there in the examples, which compile.
func TestDocsAreTrue(t *testing.T) {
	docs, err := os.ReadFile("../docs/testing.md")
	if err != nil {
		t.Fatal(err)
	}
	examples, err := os.ReadFile("example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```(yaml|go)\n(.*?)```").FindAllStringSubmatch(string(docs), -1)
	if len(blocks) != 3 {
		t.Fatalf("got %d blocks, want a suite and two of Go", len(blocks))
	}
	for _, b := range blocks {
		if b[1] == "go" {
			if !strings.Contains(string(examples), b[2]) {
				t.Errorf("not in example_test.go:\n%s", b[2])
			}
			continue
		}
		s, err := suite.Parse("testing.md", []byte(b[2]), func(string) ([]byte, error) { return []byte(definition), nil })
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		for _, r := range s.Run(t.Context(), nil) {
			if !r.Passed {
				t.Errorf("%s: %v", r.Case, r.Failures)
			}
		}
	}
}
