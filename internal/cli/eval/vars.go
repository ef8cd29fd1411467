// This file has the variables that "eval" gets by --var.

package eval

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/keelson-io/keelson/cel"
	"github.com/keelson-io/keelson/internal/cli/command"
	"github.com/keelson-io/keelson/internal/manifest"
	"github.com/keelson-io/keelson/jsondoc"
)

// identifier matches the name of a variable.
var identifier = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*`)

// checkGiven validates --var.
func (o options) checkGiven() error {
	var seen []string
	for _, given := range o.given {
		name, _, ok := strings.Cut(given, "=")
		switch {
		case !ok && o.sql == "" || identifier.FindString(name) != name || name == "":
			return command.UsageError(fmt.Errorf("--var: got %q, want NAME=FILE or NAME=VALUE, such as object=deployment.yaml or limit=5", given))
		case name == "self":
			return command.UsageError(errors.New("--var self: --data names the file with self"))
		case name == "oldSelf":
			return command.UsageError(errors.New("--var oldSelf: --old-data names the file with oldSelf"))
		case o.schema != "":
			return command.UsageError(fmt.Errorf("--var %s: a validation rule, as --schema says, has only self and oldSelf", name))
		case slices.Contains(seen, name):
			return command.UsageError(fmt.Errorf("--var %s: given twice", name))
		}
		seen = append(seen, name)
	}
	return nil
}

// givenFiles returns the files that --var names.
func (o options) givenFiles() []string {
	var out []string
	for _, given := range o.given {
		if _, value, _ := strings.Cut(given, "="); value == "-" {
			out = append(out, value)
		}
	}
	return out
}

// otherVariables returns the variables of --var, and those that are only unknown. A rule has none.
func (o options) otherVariables() []cel.Variable {
	if o.schema != "" {
		return nil
	}
	names := []string{"self", "oldSelf"}
	var out []cel.Variable
	for _, text := range slices.Concat(o.given, o.unknown) {
		if name := identifier.FindString(text); name != "" && !slices.Contains(names, name) {
			names = append(names, name)
			out = append(out, cel.Variable{Name: name})
		}
	}
	return out
}

// giveValues adds the values of --var.
func (o options) giveValues(vars cel.Vars, stdin io.Reader) error {
	for _, given := range o.given {
		name, value, ok := strings.Cut(given, "=")
		if !ok {
			continue // a column, of --sql
		}
		text, err := givenText(name, value, stdin)
		if err != nil {
			return err
		}
		d := &jsondoc.Doc{}
		d.Reset([]*jsondoc.Shape{nil})
		if err := jsondoc.Parse(d, text); err != nil {
			return fmt.Errorf("--var %s: %w", name, err)
		}
		vars[name] = cel.FromDoc(d.Root(), nil)
	}
	return nil
}

// givenText returns the JSON of a value of --var: that of a file, or the value itself.
func givenText(name, value string, stdin io.Reader) ([]byte, error) {
	info, err := os.Stat(value)
	if value == "-" || err == nil && !info.IsDir() {
		return command.ReadOne(value, stdin)
	}
	if slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(value)) && !strings.ContainsAny(value, "{[\"' ") {
		return nil, fmt.Errorf("--var %s: no file %s; if the value is the string %q, write --var '%s=\"%s\"'", name, value, value, name, value)
	}
	switch docs := manifest.Split("--var "+name, []byte(value)); len(docs) {
	case 0:
		return []byte("null"), nil
	case 1:
		return docs[0].JSON, docs[0].Err
	default:
		return nil, fmt.Errorf("--var %s: got %d documents, want one", name, len(docs))
	}
}

// undeclared matches the name in the error of an expression that reads a variable that is not there.
var undeclared = regexp.MustCompile(`undeclared reference to '([A-Za-z_][A-Za-z0-9_]*)'`)

// adviseVariable adds to the failure of an expression how a variable gets a value.
func (o options) adviseVariable(failure error) error {
	m := undeclared.FindStringSubmatch(failure.Error())
	switch {
	case m == nil:
		return failure
	case o.schema != "":
		return fmt.Errorf("%w\na validation rule, as --schema says, has only self and oldSelf", failure)
	}
	if o.sql != "" {
		return fmt.Errorf("%w\nno variable %s: --var %[2]s=VALUE gives it a value, and --var %[2]s a column", failure, m[1])
	}
	return fmt.Errorf("%w\nno variable %s: --var %[2]s=FILE or --var %[2]s=VALUE gives it a value", failure, m[1])
}
