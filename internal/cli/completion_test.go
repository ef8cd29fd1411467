package cli

import (
	"bytes"
	"context"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// TestCompletedValues holds which values of flags a shell offers, and that the formats that are offered are accepted.
func TestCompletedValues(t *testing.T) {
	offered := func(args ...string) []string {
		var out, errs bytes.Buffer
		run(context.Background(), append([]string{"__complete"}, append(args, "")...), strings.NewReader(""), &out, &errs)
		lines := strings.Split(out.String(), "\n:")[0]
		return strings.Split(lines, "\n")
	}
	for _, row := range []struct{ command, want string }{
		{"validate -o", "text json junit sarif github"},
		{"snapshot status -o", "text json"},
		{"normalize -o", "yaml json"},
		{"validate --field-validation", "Strict Warn Ignore"},
		{"serve --logging-format", "text json"},
		{"serve --tls-min-version", "VersionTLS12 VersionTLS13"},
	} {
		if got := strings.Join(offered(strings.Fields(row.command)...), " "); got != row.want {
			t.Errorf("keelson %s: got %q, want %q", row.command, got, row.want)
		}
	}
	for _, flag := range []string{"--authorization-mode", "--enable-admission-plugins", "--controllers"} {
		if got := offered("serve", flag); len(got) < 2 {
			t.Errorf("serve %s: got %q, want several values", flag, got)
		}
	}
	word := regexp.MustCompile(`^[a-z]+$`)
	var walk func(*cobra.Command)
	walk = func(c *cobra.Command) {
		if c.Flags().Lookup("output") != nil {
			for _, v := range offered(append(strings.Fields(c.CommandPath())[1:], "-o")...) {
				if !word.MatchString(v) {
					t.Errorf("%s -o: got the value %q, want a word", c.CommandPath(), v)
				}
			}
		}
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(Command())
}
