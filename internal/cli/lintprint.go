// This file prints the findings of "lint".

package cli

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/keelson-io/keelson/internal/cli/command"
	"github.com/keelson-io/keelson/internal/report"
	"github.com/keelson-io/keelson/lint"
	"github.com/keelson-io/keelson/server"
)

// printReports writes the reports in a format.
func printReports(out io.Writer, o lintOptions, reports []*lint.Report) error {
	if o.output == "json" {
		return command.PrintJSON(out, lintDocument{command.EnvelopeOf("LintReport"), reports, countsOf(reports)})
	}
	if o.output != "text" {
		return lintReport(o, reports).Write(command.Documents(out), o.output)
	}
	paint := command.Painter(out)
	var b strings.Builder
	for _, r := range reports {
		printFindings(&b, r, paint)
		printLowest(&b, r, len(o.releases) > 0, paint)
	}
	var costs strings.Builder
	for _, r := range reports {
		for _, s := range sameCosts(r.Schemas) {
			printCosts(&costs, r, s, o, paint)
		}
	}
	if b.Len() > 0 && costs.Len() > 0 {
		b.WriteByte('\n')
	}
	b.WriteString(costs.String())
	if !failed(o, reports) {
		if b.Len() > 0 {
			b.WriteByte('\n')
		}
		what := counts(count(reports))
		if what == "" {
			what = "nothing to complain about"
		}
		fmt.Fprintf(&b, "%s: %s\n", checked(reports), paint("32", what))
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// lintReport returns the reports for build servers. A finding is an error if it fails the command.
func lintReport(o lintOptions, reports []*lint.Report) *report.Report {
	out := &report.Report{Command: "lint", Version: server.Version().Program}
	for _, r := range reports {
		c := report.Case{Name: strings.TrimSpace(r.Kind + " " + r.Name), File: r.File, Line: r.Line}
		for _, f := range r.Findings {
			level := report.Error
			if f.Severity == lint.Warning && !o.strict {
				level = report.Warning
			}
			message := f.ReleaseText()
			if f.Where != "" {
				message = f.Where + ": " + message
			}
			if f.Hint != "" {
				message += "\n" + f.Hint
			}
			c.Findings = append(c.Findings, report.Finding{File: f.File, Line: f.Line, Column: f.Column, Level: level, Rule: f.ID, Message: message})
		}
		out.Cases = append(out.Cases, c)
	}
	return out
}

// checked describes what was checked.
func checked(reports []*lint.Report) string {
	definitions := 0
	for _, r := range reports {
		if r.Kind == "" || r.Kind == "CustomResourceDefinition" {
			definitions++
		}
	}
	var parts []string
	if definitions > 0 {
		parts = append(parts, command.Plural(definitions, "definition"))
	}
	switch policies := len(reports) - definitions; policies {
	case 0:
	case 1:
		parts = append(parts, "1 policy or binding")
	default:
		parts = append(parts, fmt.Sprintf("%d policies and bindings", policies))
	}
	return strings.Join(parts, ", ")
}

// sameCosts merges schemas whose expressions have the same costs.
func sameCosts(schemas []lint.Schema) []lint.Schema {
	var out []lint.Schema
next:
	for _, s := range schemas {
		for i := range out {
			same := slices.EqualFunc(out[i].Costs, s.Costs, func(a, b lint.Cost) bool {
				return a.Where == b.Where && a.Expr == b.Expr && a.Each == b.Each && a.Times == b.Times
			})
			if same {
				out[i].Versions = append(slices.Clone(out[i].Versions), s.Versions...)
				continue next
			}
		}
		out = append(out, s)
	}
	return out
}

// printFindings writes findings like a compiler: position, severity, text.
func printFindings(b *strings.Builder, r *lint.Report, paint func(code, text string) string) {
	printList(b, r.Findings, paint)
}

// printLowest writes which releases accept an object. always is set if the user asked for releases;
// otherwise objects that all known releases accept are left out, and those that an older one refuses
// only because it does not serve the kind.
func printLowest(b *strings.Builder, r *lint.Report, always bool, paint func(code, text string) string) {
	low := r.Lowest
	served := func(f lint.Finding) bool { return f.ID != "version/api" }
	switch {
	case low == nil || !always && !slices.ContainsFunc(low.Findings, served):
	case low.Refused == "":
		fmt.Fprintf(b, "%s: Kubernetes %s and later accept it\n", paint("1", r.Kind+" "+r.Name), low.Kubernetes)
	default:
		fmt.Fprintf(b, "%s: Kubernetes %s and later accept it; %s refuses it:\n", paint("1", r.Kind+" "+r.Name), low.Kubernetes, low.Refused)
		var why strings.Builder
		findings := slices.Clone(low.Findings)
		for i := range findings {
			findings[i].Severity = "reason" // not an error of this run
		}
		printList(&why, findings, paint)
		fmt.Fprintf(b, "    %s\n", command.Indent(strings.TrimSuffix(why.String(), "\n"), "    "))
	}
}

// printList writes findings.
func printList(b *strings.Builder, findings []lint.Finding, paint func(code, text string) string) {
	colours := map[lint.Severity]string{lint.Error: "31", lint.Breaking: "35", lint.Warning: "33"}
	for _, f := range findings {
		at := fmt.Sprintf("%s:%d", f.File, f.Line)
		if f.Column > 0 {
			at += fmt.Sprintf(":%d", f.Column)
		}
		where := f.Where
		if where != "" {
			where += ": "
		}
		fmt.Fprintf(b, "%s: %s %s%s\n", paint("1", at), paint(colours[f.Severity], string(f.Severity)+":"), where, command.Indent(f.ReleaseText(), "    "))
		if e := f.Expression; e != nil {
			fmt.Fprintf(b, "    | %s\n    | %s%s\n", e.Text, blanks(e.Text, e.Column-1), paint("31", "^"))
		}
		if f.Hint != "" {
			fmt.Fprintf(b, "    %s %s\n", paint("36", "->"), command.Indent(f.Hint, "       "))
		}
	}
}

// blanks returns white space as wide as the first n characters of a text. Tabs stay tabs.
func blanks(text string, n int) string {
	var b strings.Builder
	for i, r := range []rune(text) {
		if i == n {
			break
		}
		if r != '\t' {
			r = ' '
		}
		b.WriteRune(r)
	}
	return b.String()
}

// worthShowing is the share of the limit above which the rules of a schema are listed by default.
const worthShowing = 0.01

// printCosts writes the table of estimated costs.
func printCosts(b *strings.Builder, r *lint.Report, s lint.Schema, o lintOptions, paint func(code, text string) string) {
	top := o.top
	if top == 0 || len(s.Costs) == 0 {
		return
	}
	shown := s.Costs
	if top > 0 && len(shown) > top {
		shown = shown[:top]
	}
	total, what := fmt.Sprintf("%s of %s (%s)", number(s.Total), number(s.Limit), percent(s.Share)), "rule"
	if s.Total > s.Limit {
		total = paint("31", total)
	}
	if s.OfPolicy() {
		what = "expression"
	}
	fmt.Fprintf(b, "%s %s: cost of %s at most %s\n", paint("1", r.Name), strings.Join(s.Versions, ", "), command.Plural(len(s.Costs), what), total)
	if !o.topSet && s.Costs[0].Share < worthShowing {
		return
	}
	rows := [][]string{{"COST", "SHARE", "EACH", "TIMES", "WHERE", "DRIVEN BY", "RULE"}}
	numbers := 4
	if s.OfPolicy() {
		rows, numbers = [][]string{{"COST", "SHARE", "WHERE", "EXPRESSION"}}, 2
	}
	for _, c := range shown {
		if s.OfPolicy() {
			rows = append(rows, []string{number(c.Total), percent(c.Share), c.Where, cut(c.Expr, 60)})
			continue
		}
		driver := "-"
		if c.Advice != nil {
			driver = c.Advice.Driver.String()
		}
		rows = append(rows, []string{number(c.Total), percent(c.Share), number(c.Each), number(c.Times), c.Where, driver, cut(c.Expr, 60)})
	}
	for i, line := range table(rows, numbers) {
		switch {
		case i > 0 && shown[i-1].Total > shown[i-1].Limit:
			line = paint("31", line)
		case i == 0:
			line = paint("1", line)
		}
		fmt.Fprintf(b, "  %s\n", line)
	}
	if more := len(s.Costs) - len(shown); more > 0 {
		fmt.Fprintf(b, "  and %d more, none above %s (--top -1 shows all)\n", more, number(s.Costs[len(shown)].Total))
	}
	for _, c := range shown {
		if c.Advice != nil && len(c.Advice.Bounds) > 0 {
			fmt.Fprintf(b, "  %s %s: %s, then it costs %s\n", paint("36", "->"), c.Where, c.Advice, number(c.Advice.Then))
		}
	}
}

// table aligns rows. The first columns, numbers of them, are aligned to the right.
func table(rows [][]string, numbers int) []string {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	var lines []string
	for _, row := range rows {
		var b strings.Builder
		for i, cell := range row {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			switch {
			case i < numbers:
				b.WriteString(pad + cell)
			case i < len(row)-1:
				b.WriteString(cell + pad)
			default:
				b.WriteString(cell)
			}
			if i < len(row)-1 {
				b.WriteString("  ")
			}
		}
		lines = append(lines, b.String())
	}
	return lines
}

// number formats a number with commas. An estimate without a bound is a word.
func number(n uint64) string {
	if n == math.MaxUint64 {
		return "unbounded"
	}
	s := strconv.FormatUint(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

func percent(share float64) string {
	switch {
	case share > 100:
		return ">10000%"
	case share >= 0.1:
		return fmt.Sprintf("%.0f%%", share*100)
	}
	return fmt.Sprintf("%.1f%%", share*100)
}

// cut returns a text on one line, shortened to most characters.
func cut(s string, most int) string {
	s = strings.Join(strings.Fields(s), " ")
	if r := []rune(s); len(r) > most {
		return string(r[:most-1]) + "…"
	}
	return s
}
