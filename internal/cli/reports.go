// This file has the JSON documents that commands print.

package cli

import (
	"encoding/json"
	"io"

	"github.com/keelson-io/keelson/coverage"
	"github.com/keelson-io/keelson/internal/manifest"
	"github.com/keelson-io/keelson/lint"
	"github.com/keelson-io/keelson/suite"
)

// envelope identifies the JSON that a command prints. Fields may be added to a version; none changes
// its meaning or disappears.
type envelope struct {
	APIVersion string `json:"apiVersion"` // cli.keelson.io/v1
	Kind       string `json:"kind"`       // of the document, such as ValidateReport
}

func envelopeOf(kind string) envelope { return envelope{"cli.keelson.io/v1", kind} }

// validateReport is what keelson validate -o json prints.
type validateReport struct {
	envelope
	Results []verdict          `json:"results"`
	Skipped []manifest.Skipped `json:"skipped,omitempty"` // texts that are not objects
	Summary validateCounts     `json:"summary"`
}

// validateCounts has the numbers of objects and texts.
type validateCounts struct {
	Invalid    int `json:"invalid"`
	NotObjects int `json:"notObjects"` // texts that are not objects
	Skipped    int `json:"skipped"`    // objects that were not checked
	Valid      int `json:"valid"`
}

// lintDocument is what keelson lint -o json prints.
type lintDocument struct {
	envelope
	Results []*lint.Report `json:"results"`
}

// testReport is what keelson test -o json prints.
type testReport struct {
	envelope
	Suites   []suite.Report   `json:"suites"`
	Coverage *coverage.Report `json:"coverage,omitempty"` // with --coverage
}

// witnessReport is what keelson witness -o json and -o yaml print.
type witnessReport struct {
	envelope
	Rules []*witnessRule `json:"rules"`
}

// snapshotStatus is what keelson snapshot status -o json prints.
type snapshotStatus struct {
	envelope
	File      string         `json:"file"`
	Bytes     int64          `json:"bytes"`
	Revision  int64          `json:"revision"`
	Objects   int            `json:"objects"`
	Resources []snapshotPart `json:"resources"`
}

// printJSON prints a document on several lines.
func printJSON(out io.Writer, v any) error {
	enc := json.NewEncoder(documents(out))
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}
