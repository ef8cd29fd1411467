// This file has the JSON documents that commands print.

package cli

import (
	"encoding/json"
	"time"

	"github.com/keelson-io/keelson/internal/cli/command"
	"github.com/keelson-io/keelson/internal/coverage"
	"github.com/keelson-io/keelson/internal/manifest"
	"github.com/keelson-io/keelson/lint"
	"github.com/keelson-io/keelson/schema"
	"github.com/keelson-io/keelson/suite"
)

// validateReport is what keelson validate -o json prints.
type validateReport struct {
	command.Envelope
	Results []*verdict         `json:"results"`
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
	command.Envelope
	Results []*lint.Report `json:"results"`
	Summary lintCounts     `json:"summary"`
}

// lintCounts has the numbers of findings.
type lintCounts struct {
	Errors   int `json:"errors"`
	Breaking int `json:"breaking"` // changes that break stored objects or clients
	Warnings int `json:"warnings"`
}

// countsOf counts the findings of each severity.
func countsOf(reports []*lint.Report) lintCounts {
	n := count(reports)
	return lintCounts{n[lint.Error], n[lint.Breaking], n[lint.Warning]}
}

// testReport is what keelson test -o json prints.
type testReport struct {
	command.Envelope
	Results  []testResult     `json:"results"`
	Summary  testCounts       `json:"summary"`
	Coverage *coverage.Report `json:"coverage,omitempty"` // with --coverage
}

// testResult is the result of a case, or of a suite that cannot be run.
type testResult struct {
	File     string         `json:"file"`
	Line     int            `json:"line,omitempty"` // where the case begins
	Case     string         `json:"case,omitempty"` // its name; absent for a suite that cannot be run
	Passed   bool           `json:"passed"`
	Findings []lint.Finding `json:"findings"` // what was not as expected
	Duration time.Duration  `json:"nanoseconds"`

	Object           json.RawMessage   `json:"object,omitempty"` // that is stored
	Error            string            `json:"error,omitempty"`  // the server's refusal
	Warnings         []string          `json:"warnings,omitempty"`
	AuditAnnotations map[string]string `json:"auditAnnotations,omitempty"` // those that policies add to the audit event
	Reasons          []schema.Reason   `json:"explanations,omitempty"`     // why rules refused the object of a failed case
}

// testCounts has the numbers of cases, and of suites that cannot be run, which failed.
type testCounts struct {
	Passed int `json:"passed"`
	Failed int `json:"failed"`
}

// IDs of findings of test.
const (
	idCase  = "Case"  // a case is not as expected
	idSuite = "Suite" // a suite cannot be run
)

// testReportOf returns the document for reports. reached is nil without --coverage.
func testReportOf(reports []suite.Report, reached *coverage.Report) testReport {
	out := testReport{Envelope: command.EnvelopeOf("TestReport"), Results: []testResult{}, Coverage: reached}
	for _, r := range reports {
		if r.Err != "" {
			out.Results = append(out.Results, testResult{File: r.File, Line: r.Line, Findings: []lint.Finding{
				{File: r.File, Line: r.Line, Column: r.Column, Severity: lint.Error, ID: idSuite, Message: r.Err}}})
		}
		for _, c := range r.Results {
			one := testResult{File: r.File, Line: c.Line, Case: c.Case, Passed: c.Passed, Findings: []lint.Finding{}, Duration: c.Duration,
				Object: c.Object, Error: c.Error, Warnings: c.Warnings, AuditAnnotations: c.AuditAnnotations, Reasons: c.Reasons}
			for _, f := range c.Failures {
				one.Findings = append(one.Findings, lint.Finding{File: r.File, Line: c.Line, Severity: lint.Error, ID: idCase, Message: f})
			}
			out.Results = append(out.Results, one)
		}
		out.Summary.Failed += r.Failed()
	}
	out.Summary.Passed = len(out.Results) - out.Summary.Failed
	return out
}

// witnessReport is what keelson witness -o json and -o yaml print.
type witnessReport struct {
	command.Envelope
	Rules []*witnessRule `json:"rules"`
}
