package suite

import (
	"encoding/xml"
	"fmt"
	"io"
	"strings"
	"time"
)

// This file writes results as JUnit XML.

// Report is the result of a suite. Err is set if the suite could not run.
type Report struct {
	File    string   `json:"file"`
	Err     string   `json:"error,omitempty"`
	Line    int      `json:"line,omitempty"`   // of the error in the file; 0 if it is not known
	Column  int      `json:"column,omitempty"` // of the error
	Results []Result `json:"results"`
}

// Failed returns the number of failed cases; 1 for a suite that could not run.
func (r *Report) Failed() int {
	n := 0
	if r.Err != "" {
		n++
	}
	for i := range r.Results {
		if !r.Results[i].Passed {
			n++
		}
	}
	return n
}

type junitSuites struct {
	XMLName  xml.Name     `xml:"testsuites"`
	Tests    int          `xml:"tests,attr"`
	Failures int          `xml:"failures,attr"`
	Errors   int          `xml:"errors,attr"`
	Time     string       `xml:"time,attr"`
	Suites   []junitSuite `xml:"testsuite"`
}

type junitSuite struct {
	Name     string      `xml:"name,attr"`
	File     string      `xml:"file,attr"`
	Tests    int         `xml:"tests,attr"`
	Failures int         `xml:"failures,attr"`
	Errors   int         `xml:"errors,attr"`
	Time     string      `xml:"time,attr"`
	Cases    []junitCase `xml:"testcase"`
}

type junitCase struct {
	Name      string        `xml:"name,attr"`
	ClassName string        `xml:"classname,attr"`
	File      string        `xml:"file,attr"`
	Line      int           `xml:"line,attr,omitempty"`
	Time      string        `xml:"time,attr"`
	Failure   *junitProblem `xml:"failure,omitempty"`
	Error     *junitProblem `xml:"error,omitempty"`
}

type junitProblem struct {
	Message string `xml:"message,attr"`
	Text    string `xml:",chardata"`
}

// WriteJUnit writes reports as JUnit XML.
func WriteJUnit(w io.Writer, reports []Report) error {
	var all junitSuites
	var total time.Duration
	for i := range reports {
		r := &reports[i]
		s := junitSuite{Name: r.File, File: r.File, Tests: len(r.Results), Failures: r.Failed()}
		if r.Err != "" {
			s.Tests, s.Failures, s.Errors = 1, 0, 1
			s.Cases = append(s.Cases, junitCase{Name: "suite", ClassName: r.File, File: r.File, Time: seconds(0),
				Error: &junitProblem{Message: r.Err, Text: r.Err}})
		}
		var time time.Duration
		for _, c := range r.Results {
			j := junitCase{Name: c.Case, ClassName: r.File, File: r.File, Line: c.Line, Time: seconds(c.Duration)}
			if !c.Passed {
				first, _, _ := strings.Cut(c.Failures[0], "\n")
				j.Failure = &junitProblem{Message: first, Text: strings.Join(c.Failures, "\n")}
			}
			s.Cases = append(s.Cases, j)
			time += c.Duration
		}
		s.Time = seconds(time)
		total += time
		all.Tests, all.Failures, all.Errors = all.Tests+s.Tests, all.Failures+s.Failures, all.Errors+s.Errors
		all.Suites = append(all.Suites, s)
	}
	all.Time = seconds(total)
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	enc := xml.NewEncoder(w)
	enc.Indent("", "  ")
	if err := enc.Encode(all); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.6f", d.Seconds()) }
