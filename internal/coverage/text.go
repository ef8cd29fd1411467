package coverage

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/keelson-io/keelson/schema"
)

// This file writes reports as text and JSON.

// Formats are the formats of reports.
var Formats = []string{"summary", "listing", "html", "lcov", "cobertura", "json"}

// Write writes the report in one of the Formats.
func (r *Report) Write(w io.Writer, format string) error {
	var b bytes.Buffer
	var err error
	switch format {
	case "summary":
		r.summary(&b)
	case "listing":
		r.listing(&b)
	case "html":
		err = r.html(&b)
	case "lcov":
		r.lcov(&b)
	case "cobertura":
		err = r.cobertura(&b)
	case "json":
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(false)
		enc.SetIndent("", "  ")
		err = enc.Encode(r)
	default:
		err = fmt.Errorf("format of coverage: got %q, want %s", format, strings.Join(Formats, ", "))
	}
	if err != nil {
		return err
	}
	_, err = w.Write(b.Bytes())
	return err
}

// maxMissing is the number of goals of a definition that a summary lists.
const maxMissing = 20

// names are the names of the kinds of goals in texts.
var names = map[schema.GoalKind]string{
	schema.GoalRule: "rules accept and refuse", schema.GoalCondition: "parts of rules", schema.GoalBound: "bounds", schema.GoalEnum: "enum values",
	schema.GoalUnion: "branches of anyOf and oneOf", schema.GoalDefault: "defaults", schema.GoalField: "fields",
}

// summary writes the counts, and the first goals that were not reached.
func (r *Report) summary(b *bytes.Buffer) {
	fmt.Fprintf(b, "coverage: %.1f %% (%d of %d goals)\n", r.Percent, r.Reached, r.Goals)
	for i := range r.Definitions {
		d := &r.Definitions[i]
		switch {
		case d.Err != "":
			fmt.Fprintf(b, "\n%s: nothing was recorded: %s\n", d.title(), d.Err)
			continue
		case d.Objects == 0:
			fmt.Fprintf(b, "\n%s: no case uses this version, which does not count\n", d.title())
			continue
		}
		fmt.Fprintf(b, "\n%s: %.1f %%, %d objects\n", d.title(), d.Percent, d.Objects)
		for _, k := range d.Kinds {
			if k.Goals > 0 {
				fmt.Fprintf(b, "  %-28s %5.1f %%  %d of %d\n", names[k.Kind], percent(k.Reached, k.Goals), k.Reached, k.Goals)
			}
		}
		missing := d.missing()
		if len(missing) == 0 {
			continue
		}
		fmt.Fprintf(b, "  not reached:\n")
		for n, g := range missing {
			if n == maxMissing {
				fmt.Fprintf(b, "    and %d more; --coverage-out listing=FILE or html=FILE lists all\n", len(missing)-n)
				break
			}
			fmt.Fprintf(b, "    %s:%d:%d  %s\n", d.File, g.Line, g.Column, g.sentence())
		}
	}
}

// sentence says what a goal is.
func (g *Goal) sentence() string {
	field := strings.TrimPrefix(g.Field, ".")
	if field == "" {
		field = "the object"
	}
	text := strings.Join(strings.Fields(g.Text), " ")
	switch g.Kind {
	case schema.GoalRule:
		return fmt.Sprintf("the rule on %s %s", field, text)
	case schema.GoalCondition:
		return fmt.Sprintf("in the rule on %s, a part %s", field, text)
	}
	return field + " " + text
}

// listing writes the text of each definition. Lines with goals begin with the number of goals that were
// reached, and of all; below them are those that were not reached.
func (r *Report) listing(b *bytes.Buffer) {
	fmt.Fprintf(b, "coverage: %.1f %% (%d of %d goals)\n", r.Percent, r.Reached, r.Goals)
	for _, defs := range r.files() {
		byLine := map[int]line{}
		for _, l := range lines(defs) {
			byLine[l.number] = l
		}
		done := map[int]bool{}
		for _, d := range defs {
			if done[d.Line] {
				continue // another version of the same definition
			}
			done[d.Line] = true
			fmt.Fprintf(b, "\n%s\n", d.title())
			number := d.Line
			for text := range bytes.Lines(d.doc.Text()) {
				mark := ""
				l, ok := byLine[number]
				if ok {
					mark = fmt.Sprintf("%d/%d", l.reached, len(l.goals))
				}
				fmt.Fprintf(b, "%5d %7s | %s\n", number, mark, bytes.TrimRight(text, "\r\n"))
				for _, g := range l.goals {
					if !g.Reached {
						fmt.Fprintf(b, "%5s %7s |   ! %s\n", "", "", g.sentence())
					}
				}
				number++
			}
		}
	}
}

// lcov writes the format of LCOV: each goal is a branch of its line.
func (r *Report) lcov(b *bytes.Buffer) {
	for _, defs := range r.files() {
		fmt.Fprintf(b, "TN:\nSF:%s\n", strings.NewReplacer("\n", " ", "\r", " ").Replace(defs[0].File))
		branches, taken, hit := 0, 0, 0
		all := lines(defs)
		for _, l := range all {
			for i, g := range l.goals {
				count := 0
				if g.Reached {
					count = 1
				}
				fmt.Fprintf(b, "BRDA:%d,0,%d,%d\n", l.number, i, count)
			}
			branches, taken = branches+len(l.goals), taken+l.reached
		}
		fmt.Fprintf(b, "BRF:%d\nBRH:%d\n", branches, taken)
		for _, l := range all {
			fmt.Fprintf(b, "DA:%d,%d\n", l.number, l.reached)
			if l.reached > 0 {
				hit++
			}
		}
		fmt.Fprintf(b, "LF:%d\nLH:%d\nend_of_record\n", len(all), hit)
	}
}
