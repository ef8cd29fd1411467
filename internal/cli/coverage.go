// This file has the flags of test about coverage, and writes reports of it.

package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/keelson-io/keelson/internal/cli/command"
	"github.com/keelson-io/keelson/internal/coverage"
)

// coverageOptions are the flags of test about coverage.
type coverageOptions struct {
	on    bool
	out   []string
	least float64
}

// addFlags adds the flags.
func (o *coverageOptions) addFlags(f *pflag.FlagSet) {
	f.BoolVar(&o.on, "coverage", false, "report which rules, parts of rules, bounds, enum values, defaults and fields the cases reach")
	f.StringArrayVar(&o.out, "coverage-out", nil, "write coverage to a file: FORMAT=FILE, with the format "+strings.Join(coverage.Formats, ", ")+"; repeatable")
	f.Float64Var(&o.least, "coverage-min", 0, "fail if less than this percentage of the goals is reached")
}

// enabled reports whether coverage is collected.
func (o *coverageOptions) enabled() bool { return o.on || len(o.out) > 0 || o.least != 0 }

// check refuses flags that are malformed.
func (o *coverageOptions) check() error {
	if !(o.least >= 0 && o.least <= 100) {
		return command.UsageError(fmt.Errorf("--coverage-min: got %v, want a percentage from 0 to 100", o.least))
	}
	for _, out := range o.out {
		format, file, ok := strings.Cut(out, "=")
		if !ok || file == "" || !slices.Contains(coverage.Formats, format) {
			return command.UsageError(fmt.Errorf("--coverage-out: got %q, want FORMAT=FILE with the format %s", out, strings.Join(coverage.Formats, ", ")))
		}
	}
	return nil
}

// write writes the report to the files, and its summary to out unless out is nil. The error says that
// too few goals are reached.
func (o *coverageOptions) write(r *coverage.Report, out io.Writer) error {
	for _, to := range o.out {
		format, file, _ := strings.Cut(to, "=")
		if err := writeCoverage(r, format, file, out); err != nil {
			return fmt.Errorf("--coverage-out: %w", err)
		}
	}
	if out != nil && o.on {
		if _, err := io.WriteString(out, "\n"); err != nil {
			return err
		}
		if err := r.Write(out, "summary"); err != nil {
			return err
		}
	}
	if r.Percent < o.least {
		return fmt.Errorf("coverage: got %.1f %%, want at least %v %%; --coverage lists what is not reached", r.Percent, o.least)
	}
	return nil
}

// writeCoverage writes the report to a file.
func writeCoverage(r *coverage.Report, format, name string, out io.Writer) error {
	if name == "-" {
		if out == nil {
			return errors.New("standard output has the results: name a file, or use -o text")
		}
		return r.Write(command.Documents(out), format)
	}
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	return errors.Join(r.Write(f, format), f.Close())
}
