// Package report writes findings in the formats of build servers.
//
// # Model
//
// A [Report] has a [Case] for each checked object or file. A case has findings, each with a position
// in a file; a case without findings passed.
//
// # Invariants
//
//   - Lines and columns count from 1. 0 means that the position is not known.
//   - Rule IDs are stable: users suppress findings by them.
//
// # Calls
//
// [Report.Write].
package report

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
)

// Level is the severity of a finding.
type Level string

// The levels.
const (
	Error   Level = "error"
	Warning Level = "warning"
)

// Finding is one mistake.
type Finding struct {
	File         string // "-" is standard input
	Line, Column int
	Level        Level
	Rule         string // stable ID of the check
	Message      string // with the path of the field, without the position
}

// Case is a checked object or file.
type Case struct {
	Name     string // for readers: Gadget paint/pink
	File     string
	Line     int
	Skipped  string // why it was not checked; "" if it was
	Findings []Finding
}

// Report is the result of one run of a command.
type Report struct {
	Command string // the subcommand of keelson
	Version string // of the program
	Cases   []Case
}

// Write writes the report as junit, sarif or github.
func (r *Report) Write(out io.Writer, format string) error {
	switch format {
	case "junit":
		return r.JUnit(out)
	case "sarif":
		return r.SARIF(out)
	case "github":
		return r.GitHub(out)
	}
	return fmt.Errorf("format: got %q, want junit, sarif or github", format)
}

// failed returns the findings of a case that fail it.
func (c *Case) failed() []Finding {
	return slices.DeleteFunc(slices.Clone(c.Findings), func(f Finding) bool { return f.Level != Error })
}

// place returns file:line:col, as far as it is known.
func (f *Finding) place() string {
	at := f.File
	if f.Line > 0 {
		at += fmt.Sprintf(":%d", f.Line)
	}
	if f.Line > 0 && f.Column > 0 {
		at += fmt.Sprintf(":%d", f.Column)
	}
	return at
}

// junitSuites is the root of a JUnit file, with the elements and attributes that Jenkins' and
// GitLab's readers share.
type junitSuites struct {
	XMLName  xml.Name     `xml:"testsuites"`
	Tests    int          `xml:"tests,attr"`
	Failures int          `xml:"failures,attr"`
	Skipped  int          `xml:"skipped,attr"`
	Suites   []junitSuite `xml:"testsuite"`
}

type junitSuite struct {
	Name     string      `xml:"name,attr"`
	Tests    int         `xml:"tests,attr"`
	Failures int         `xml:"failures,attr"`
	Skipped  int         `xml:"skipped,attr"`
	Cases    []junitCase `xml:"testcase"`
}

type junitCase struct {
	Name      string        `xml:"name,attr"`
	ClassName string        `xml:"classname,attr"`
	File      string        `xml:"file,attr"`
	Line      int           `xml:"line,attr,omitempty"`
	Failure   *junitProblem `xml:"failure,omitempty"`
	Skipped   *junitProblem `xml:"skipped,omitempty"`
	Output    string        `xml:"system-out,omitempty"` // warnings
}

type junitProblem struct {
	Message string `xml:"message,attr"`
	Type    string `xml:"type,attr,omitempty"`
	Text    string `xml:",chardata"`
}

// JUnit writes a test suite for each file, with a test case for each case.
func (r *Report) JUnit(out io.Writer) error {
	all := junitSuites{Tests: len(r.Cases)}
	index := map[string]int{}
	for _, c := range r.Cases {
		at, ok := index[c.File]
		if !ok {
			at = len(all.Suites)
			index[c.File] = at
			all.Suites = append(all.Suites, junitSuite{Name: "keelson " + r.Command + " " + c.File})
		}
		s := &all.Suites[at]
		j := junitCase{Name: c.Name, ClassName: c.File, File: c.File, Line: c.Line}
		if j.Name == "" {
			j.Name = fmt.Sprintf("%s:%d", c.File, c.Line)
		}
		if bad := c.failed(); len(bad) > 0 {
			j.Failure = &junitProblem{Message: bad[0].Message, Type: bad[0].Rule, Text: lines(bad)}
			s.Failures, all.Failures = s.Failures+1, all.Failures+1
		}
		if c.Skipped != "" {
			j.Skipped = &junitProblem{Message: c.Skipped}
			s.Skipped, all.Skipped = s.Skipped+1, all.Skipped+1
		}
		j.Output = lines(slices.DeleteFunc(slices.Clone(c.Findings), func(f Finding) bool { return f.Level == Error }))
		s.Tests++
		s.Cases = append(s.Cases, j)
	}
	if _, err := io.WriteString(out, xml.Header); err != nil {
		return err
	}
	enc := xml.NewEncoder(out)
	enc.Indent("", "  ")
	if err := enc.Encode(all); err != nil {
		return err
	}
	_, err := io.WriteString(out, "\n")
	return err
}

// lines returns a line for each finding.
func lines(findings []Finding) string {
	var b strings.Builder
	for _, f := range findings {
		fmt.Fprintf(&b, "%s: %s: %s\n", f.place(), f.Level, f.Message)
	}
	return b.String()
}

// GitHub writes workflow commands, which annotate the lines of a pull request.
func (r *Report) GitHub(out io.Writer) error {
	var b strings.Builder
	for _, c := range r.Cases {
		for _, f := range c.Findings {
			fmt.Fprintf(&b, "::%s file=%s", f.Level, property(f.File))
			if f.Line > 0 {
				fmt.Fprintf(&b, ",line=%d", f.Line)
			}
			if f.Line > 0 && f.Column > 0 {
				fmt.Fprintf(&b, ",col=%d", f.Column)
			}
			title := f.Rule
			if c.Name != "" {
				title = c.Name + ": " + title
			}
			fmt.Fprintf(&b, ",title=%s::%s\n", property(title), data(f.Message))
		}
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// data escapes the message of a workflow command, so that a text from a manifest cannot begin a
// command of its own.
func data(s string) string {
	return strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A").Replace(s)
}

// property escapes a property of a workflow command.
func property(s string) string {
	return strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C").Replace(s)
}

// The part of SARIF 2.1.0 (OASIS) that code scanning services read.
type (
	sarifLog struct {
		Schema  string     `json:"$schema"`
		Version string     `json:"version"`
		Runs    []sarifRun `json:"runs"`
	}
	sarifRun struct {
		Tool       sarifTool     `json:"tool"`
		ColumnKind string        `json:"columnKind"`
		Results    []sarifResult `json:"results"`
	}
	sarifTool struct {
		Driver sarifDriver `json:"driver"`
	}
	sarifDriver struct {
		Name    string      `json:"name"`
		Version string      `json:"version,omitempty"`
		Rules   []sarifRule `json:"rules"`
	}
	sarifRule struct {
		ID string `json:"id"`
	}
	sarifResult struct {
		RuleID    string          `json:"ruleId"`
		RuleIndex int             `json:"ruleIndex"`
		Level     Level           `json:"level"`
		Message   sarifMessage    `json:"message"`
		Locations []sarifLocation `json:"locations"`
	}
	sarifMessage struct {
		Text string `json:"text"`
	}
	sarifLocation struct {
		Physical sarifPhysical `json:"physicalLocation"`
	}
	sarifPhysical struct {
		Artifact sarifArtifact `json:"artifactLocation"`
		Region   *sarifRegion  `json:"region,omitempty"`
	}
	sarifArtifact struct {
		URI string `json:"uri"`
	}
	sarifRegion struct {
		StartLine   int `json:"startLine"`
		StartColumn int `json:"startColumn,omitempty"`
	}
)

// SARIF writes one run with a result for each finding.
func (r *Report) SARIF(out io.Writer) error {
	run := sarifRun{
		Tool:       sarifTool{sarifDriver{Name: "keelson", Version: r.Version, Rules: []sarifRule{}}},
		ColumnKind: "unicodeCodePoints",
		Results:    []sarifResult{},
	}
	index := map[string]int{}
	for _, c := range r.Cases {
		for _, f := range c.Findings {
			at, ok := index[f.Rule]
			if !ok {
				at = len(run.Tool.Driver.Rules)
				index[f.Rule] = at
				run.Tool.Driver.Rules = append(run.Tool.Driver.Rules, sarifRule{f.Rule})
			}
			text := f.Message
			if c.Name != "" {
				text = c.Name + ": " + text
			}
			place := sarifPhysical{Artifact: sarifArtifact{uri(f.File)}}
			if f.Line > 0 {
				place.Region = &sarifRegion{f.Line, f.Column}
			}
			run.Results = append(run.Results, sarifResult{f.Rule, at, f.Level, sarifMessage{text}, []sarifLocation{{place}}})
		}
	}
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(sarifLog{"https://json.schemastore.org/sarif-2.1.0.json", "2.1.0", []sarifRun{run}})
}

// uri returns a file's name as a reference relative to the folder in which the command ran.
func uri(file string) string {
	if file == "-" {
		return "stdin"
	}
	return (&url.URL{Path: filepath.ToSlash(filepath.Clean(file))}).String()
}
