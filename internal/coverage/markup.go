package coverage

import (
	"bytes"
	_ "embed"
	"encoding/xml"
	"fmt"
	"html/template"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
)

// This file writes reports as HTML and Cobertura.

//go:embed page.html
var pageText string

// page returns the template of the page. It is parsed when the first page is written, because most
// commands write none.
var page = sync.OnceValue(func() *template.Template { return template.Must(template.New("page").Parse(pageText)) })

// pageLine is a line of a definition on the page.
type pageLine struct {
	Number  int
	Text    string
	Class   string // "" without goals, all, some, none
	Mark    string
	Missing []string
}

// pageFile is a definition on the page.
type pageFile struct {
	Definitions []Definition
	Name        string
	Lines       []pageLine
}

// Title names the version; for the page.
func (d Definition) Title() string { return d.title() }

// Share returns the percentage as text; for the page.
func (d Definition) Share() string { return fmt.Sprintf("%.1f", d.Percent) }

// Label returns the name of the kind of goals; for the page.
func (c Count) Label() string { return names[c.Kind] }

// html writes one page, which needs nothing else.
func (r *Report) html(b *bytes.Buffer) error {
	data := struct {
		Report *Report
		Share  string
		Files  []pageFile
	}{Report: r, Share: fmt.Sprintf("%.1f", r.Percent)}
	for _, defs := range r.files() {
		byLine := map[int]line{}
		for _, l := range lines(defs) {
			byLine[l.number] = l
		}
		done := map[int]bool{}
		for _, d := range defs {
			if done[d.Line] {
				continue
			}
			done[d.Line] = true
			f := pageFile{Name: d.Name + " in " + d.File}
			number := d.Line
			for text := range bytes.Lines(d.doc.Text()) {
				f.Lines = append(f.Lines, pageLineOf(byLine[number], number, string(bytes.TrimRight(text, "\r\n"))))
				number++
			}
			data.Files = append(data.Files, f)
		}
	}
	return page().Execute(b, data)
}

// pageLineOf returns a line of the page.
func pageLineOf(l line, number int, text string) pageLine {
	out := pageLine{Number: number, Text: text}
	if len(l.goals) == 0 {
		return out
	}
	out.Mark = fmt.Sprintf("%d/%d", l.reached, len(l.goals))
	switch l.reached {
	case 0:
		out.Class = "none"
	case len(l.goals):
		out.Class = "all"
	default:
		out.Class = "some"
	}
	for _, g := range l.goals {
		if !g.Reached {
			out.Missing = append(out.Missing, g.sentence())
		}
	}
	return out
}

// The elements of Cobertura's document type.
type (
	coberturaReport struct {
		XMLName         xml.Name           `xml:"coverage"`
		LineRate        string             `xml:"line-rate,attr"`
		BranchRate      string             `xml:"branch-rate,attr"`
		LinesCovered    int                `xml:"lines-covered,attr"`
		LinesValid      int                `xml:"lines-valid,attr"`
		BranchesCovered int                `xml:"branches-covered,attr"`
		BranchesValid   int                `xml:"branches-valid,attr"`
		Complexity      string             `xml:"complexity,attr"`
		Version         string             `xml:"version,attr"`
		Timestamp       string             `xml:"timestamp,attr"`
		Sources         []string           `xml:"sources>source"`
		Packages        []coberturaPackage `xml:"packages>package"`
	}
	coberturaPackage struct {
		Name       string           `xml:"name,attr"`
		LineRate   string           `xml:"line-rate,attr"`
		BranchRate string           `xml:"branch-rate,attr"`
		Complexity string           `xml:"complexity,attr"`
		Classes    []coberturaClass `xml:"classes>class"`
	}
	coberturaClass struct {
		Name       string          `xml:"name,attr"`
		Filename   string          `xml:"filename,attr"`
		LineRate   string          `xml:"line-rate,attr"`
		BranchRate string          `xml:"branch-rate,attr"`
		Complexity string          `xml:"complexity,attr"`
		Methods    struct{}        `xml:"methods"`
		Lines      []coberturaLine `xml:"lines>line"`
	}
	coberturaLine struct {
		Number    int    `xml:"number,attr"`
		Hits      int    `xml:"hits,attr"`
		Branch    bool   `xml:"branch,attr"`
		Condition string `xml:"condition-coverage,attr,omitempty"`
	}
)

// cobertura writes Cobertura's XML: a package for each file, a class for each file, and each goal is
// a branch of its line. The time is 0, so that equal inputs have equal reports.
func (r *Report) cobertura(b *bytes.Buffer) error {
	out := coberturaReport{Complexity: "0", Version: "keelson", Timestamp: "0", Sources: []string{"."}}
	for _, defs := range r.files() {
		class := coberturaClass{Name: path.Base(filepath.ToSlash(defs[0].File)), Filename: filepath.ToSlash(defs[0].File), Complexity: "0"}
		covered, branches, taken := 0, 0, 0
		for _, l := range lines(defs) {
			one := coberturaLine{Number: l.number, Hits: l.reached, Branch: len(l.goals) > 1}
			if one.Branch {
				one.Condition = fmt.Sprintf("%d%% (%d/%d)", 100*l.reached/len(l.goals), l.reached, len(l.goals))
			}
			if l.reached > 0 {
				covered++
			}
			branches, taken = branches+len(l.goals), taken+l.reached
			class.Lines = append(class.Lines, one)
		}
		class.LineRate, class.BranchRate = rate(covered, len(class.Lines)), rate(taken, branches)
		name := strings.ReplaceAll(path.Dir(class.Filename), "/", ".")
		out.Packages = append(out.Packages, coberturaPackage{Name: name, LineRate: class.LineRate, BranchRate: class.BranchRate, Complexity: "0", Classes: []coberturaClass{class}})
		out.LinesCovered, out.LinesValid = out.LinesCovered+covered, out.LinesValid+len(class.Lines)
		out.BranchesCovered, out.BranchesValid = out.BranchesCovered+taken, out.BranchesValid+branches
	}
	out.LineRate, out.BranchRate = rate(out.LinesCovered, out.LinesValid), rate(out.BranchesCovered, out.BranchesValid)
	b.WriteString(xml.Header + `<!DOCTYPE coverage SYSTEM "http://cobertura.sourceforge.net/xml/coverage-04.dtd">` + "\n")
	enc := xml.NewEncoder(b)
	enc.Indent("", "  ")
	if err := enc.Encode(out); err != nil {
		return err
	}
	b.WriteByte('\n')
	return nil
}

// rate returns a share as Cobertura writes it.
func rate(covered, valid int) string {
	if valid == 0 {
		return "1"
	}
	return strconv.FormatFloat(float64(covered)/float64(valid), 'f', 4, 64)
}
