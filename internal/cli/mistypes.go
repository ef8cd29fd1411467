// This file lists values of the wrong type.

package cli

import (
	"strings"

	"github.com/keelson-io/keelson/internal/manifest"
	"github.com/keelson-io/keelson/internal/mistype"
	"github.com/keelson-io/keelson/internal/source"
	"github.com/keelson-io/keelson/kind"
	"github.com/keelson-io/keelson/lint"
	"github.com/keelson-io/keelson/offline"
)

// mistypes returns the values of an object that a server does not decode, and the object's JSON without them.
func mistypes(v *kind.Version, d manifest.Document) ([]lint.Finding, []byte) {
	if offline.IsDefinition(d) {
		return mistypesOfDefinition(d)
	}
	found, text := mistype.Of(v, d.JSON, d.Scalar)
	var out []lint.Finding
	for _, m := range found {
		out = append(out, lint.Finding{ID: ruleType, Path: m.Path, Message: m.Message})
	}
	return out, text
}

// mistypesOfDefinition is mistypes for a definition, whose schemas lint reads.
func mistypesOfDefinition(d manifest.Document) ([]lint.Finding, []byte) {
	definition, err := lint.Load(lint.Source{Name: d.File, Line: d.Line, Text: d.Text()})
	if err != nil {
		return nil, d.JSON
	}
	var out []lint.Finding
	for _, f := range definition.Mistyped() {
		steps := source.Split(f.Path)
		last := steps[len(steps)-1]
		if n := len(steps); n > 1 && strings.HasSuffix(f.Path, "["+last+"]") {
			last = steps[n-2] + "[" + last + "]"
		}
		message := strings.TrimPrefix(f.Message, last+": ")
		if f.Hint != "" {
			message += "; " + f.Hint
		}
		out = append(out, lint.Finding{ID: ruleType, Path: f.Path, Message: message})
	}
	return out, definition.JSON
}
