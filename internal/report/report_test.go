package report

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"io"
	"strings"
	"testing"
)

var sample = Report{Command: "validate", Version: "v1", Cases: []Case{
	{Name: "Gadget a/b", File: "x y.yaml", Line: 3, Findings: []Finding{
		{"x y.yaml", 4, 7, Error, "FieldValueInvalid", "spec: 100%\n::error::forged"},
		{"x y.yaml", 3, 0, Warning, "Warning", "deprecated"},
	}},
	{Name: "Gadget a/c", File: "x y.yaml", Line: 9},
	{File: "z.yaml", Line: 1, Skipped: "no definition"},
}}

func write(t *testing.T, f func(io.Writer) error) string {
	t.Helper()
	var b bytes.Buffer
	if err := f(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// A message cannot begin a workflow command of its own.
func TestGitHub(t *testing.T) {
	want := "::error file=x y.yaml,line=4,col=7,title=Gadget a/b%3A FieldValueInvalid::spec: 100%25%0A::error::forged\n" +
		"::warning file=x y.yaml,line=3,title=Gadget a/b%3A Warning::deprecated\n"
	if got := write(t, sample.GitHub); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

func TestJUnit(t *testing.T) {
	got := write(t, sample.JUnit)
	var all junitSuites
	if err := xml.Unmarshal([]byte(got), &all); err != nil {
		t.Fatalf("%v\n%s", err, got)
	}
	if all.Tests != 3 || all.Failures != 1 || all.Skipped != 1 || len(all.Suites) != 2 || all.Suites[0].Tests != 2 {
		t.Errorf("counts are wrong:\n%s", got)
	}
	first := all.Suites[0].Cases[0]
	if first.Failure == nil || !strings.Contains(first.Failure.Text, "x y.yaml:4:7: error: spec: 100%") || !strings.Contains(first.Output, "deprecated") {
		t.Errorf("the first case is wrong:\n%s", got)
	}
	if name := all.Suites[1].Cases[0].Name; name != "z.yaml:1" {
		t.Errorf("a case without a name: got %q", name)
	}
}

func TestSARIF(t *testing.T) {
	got := write(t, sample.SARIF)
	var log sarifLog
	if err := json.Unmarshal([]byte(got), &log); err != nil {
		t.Fatal(err)
	}
	run := log.Runs[0]
	if len(run.Results) != 2 || len(run.Tool.Driver.Rules) != 2 || log.Version != "2.1.0" {
		t.Fatalf("got %s", got)
	}
	at := run.Results[0].Locations[0].Physical
	if at.Artifact.URI != "x%20y.yaml" || *at.Region != (sarifRegion{4, 7}) || run.Results[1].RuleIndex != 1 {
		t.Errorf("got %+v in\n%s", at, got)
	}
	empty := Report{Command: "validate"}
	if got := write(t, empty.SARIF); !strings.Contains(got, `"results": []`) || !strings.Contains(got, `"rules": []`) {
		t.Errorf("without findings, the lists are not empty lists:\n%s", got)
	}
}
