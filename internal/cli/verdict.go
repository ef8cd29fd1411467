// This file has the verdicts of validate, and prints them.

package cli

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-io/keelson/internal/cli/command"
	"github.com/keelson-io/keelson/internal/manifest"
	"github.com/keelson-io/keelson/internal/report"
	"github.com/keelson-io/keelson/internal/settings"
	"github.com/keelson-io/keelson/internal/source"
	"github.com/keelson-io/keelson/internal/status"
	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/kind"
	"github.com/keelson-io/keelson/lint"
	"github.com/keelson-io/keelson/offline"
	"github.com/keelson-io/keelson/schema"
	"github.com/keelson-io/keelson/server"
)

// verdict is the server's answer for one object.
type verdict struct {
	File       string            `json:"file"`
	Line       int               `json:"line"` // of the object's first line
	APIVersion string            `json:"apiVersion,omitempty"`
	Kind       string            `json:"kind,omitempty"`
	Namespace  string            `json:"namespace,omitempty"`
	Name       string            `json:"name,omitempty"`
	Valid      bool              `json:"valid"`                      // also true if the object was skipped
	Skipped    string            `json:"skipped,omitempty"`          // why the object was not checked
	Suppressed int               `json:"suppressed,omitempty"`       // findings that the settings or the baseline drop
	Findings   []lint.Finding    `json:"findings"`                   // errors, which say why it is not valid, and warnings
	Audit      map[string]string `json:"auditAnnotations,omitempty"` // those that policies add to the audit event
	Status     *metav1.Status    `json:"status,omitempty"`           // the refusal, as the server would send it
	Reasons    []schema.Reason   `json:"explanations,omitempty"`     // why rules refused the object, with --explain

	doc manifest.Document
}

// IDs of findings that are not reasons or causes of a Status.
const (
	ruleSyntax      = "Syntax"         // the text is neither YAML nor JSON
	ruleUnknownKind = "UnknownKind"    // nothing defines the kind, or not in that version
	ruleRemoved     = "RemovedAPI"     // Kubernetes does not serve this version of the kind any more
	ruleStrict      = "StrictDecoding" // a field is unknown, or a key is there more than once
	ruleType        = "WrongType"      // a value has the wrong type, so that the server cannot decode the object
	ruleConflict    = "Conflict"       // a definition is described differently in another file
	ruleNoVerdict   = "NoVerdict"      // there is no answer, for example because roles are missing
	ruleWarning     = "Warning"        // the server stores the object with a warning
	ruleBooleanKey  = "BooleanKey"     // YAML reads a key such as on as true
)

// verdictOf converts an answer to a verdict. err says why there is no answer.
func verdictOf(d manifest.Document, a *offline.Answer, err error) *verdict {
	v := &verdict{File: d.File, Line: d.Line, doc: d, Valid: true, Findings: []lint.Finding{}}
	if a != nil {
		v.APIVersion, v.Kind, v.Namespace, v.Name = a.Version.APIVersion(), a.Version.Kind.Name, a.Namespace, a.Name
	} else if s := offline.SubjectOf(d, ""); s.Kind != "" {
		v.Kind, v.Name = s.Kind, s.Name
	}
	if err != nil {
		rule := ruleNoVerdict
		var unknown *offline.UnknownKindError
		switch {
		case d.Err != nil:
			rule = ruleSyntax
		case errors.As(err, &unknown):
			rule = ruleUnknownKind
			tool := manifest.ToolOf(d)
			switch {
			case unknown.Removed:
				rule = ruleRemoved
			case tool != "" && !unknown.Incomplete:
				err = fmt.Errorf("%w: it is %s", err, tool)
			case len(unknown.Versions) == 0 && !unknown.Incomplete && unknown.Subresource == "":
				err = fmt.Errorf("%w; name the file that defines it with -f", err)
			}
		}
		v.Status = &status.BadRequest("%s", err).Status
		if d.Err != nil {
			line, column, message := syntaxError(d)
			v.addAt(line, column, rule, "", message)
			return v
		}
		v.add(d, rule, map[string]string{ruleUnknownKind: "apiVersion", ruleRemoved: "apiVersion"}[rule], err.Error())
		return v
	}
	if a == nil {
		return v
	}
	v.Audit, v.Status, v.Reasons = a.Annotations, a.Refusal, a.Reasons
	for _, w := range a.Warnings {
		v.warn(ruleWarning, pathOf(w), w)
	}
	if a.Refusal != nil {
		v.refused(d, a.Refusal)
	}
	return v
}

// refused adds an error for each cause of a refusal, or for its message.
func (v *verdict) refused(d manifest.Document, s *metav1.Status) {
	if s.Details == nil || len(s.Details.Causes) == 0 {
		v.add(d, string(s.Reason), "", s.Message)
		return
	}
	for _, c := range s.Details.Causes {
		v.add(d, ruleOf(c), source.FieldOf(c.Field, c.Message), c.Message)
	}
}

// denial matches what a policy says of an object that it denies, or cannot decide about.
var denial = regexp.MustCompile(`^(?:ValidatingAdmissionPolicy|MutatingAdmissionPolicy|policy) '([a-z0-9.-]+)' with binding '[a-z0-9.-]+' `)

// rulePolicy is the start of the rules of denials. The name of the policy follows.
const rulePolicy = "Policy/"

// ruleOf returns the rule of a cause.
func ruleOf(c metav1.StatusCause) string {
	if m := denial.FindStringSubmatch(c.Message); m != nil && c.Field == "" {
		return rulePolicy + m[1]
	}
	return string(c.Type)
}

// drop removes the findings that the settings suppress or the baseline has. An object is valid without
// other errors.
func (v *validation) drop(filter *settings.Filter) {
	for _, one := range v.verdicts {
		before := len(one.Findings)
		one.Findings = slices.DeleteFunc(one.Findings, func(f lint.Finding) bool {
			return filter.Drops(settings.Entry{ID: f.ID, File: one.File, Object: one.subject(), Path: f.Path})
		})
		one.Suppressed = before - len(one.Findings)
		if one.Suppressed > 0 && lint.Worst(one.Findings) != lint.Error {
			one.Valid, one.Status = true, nil
		}
	}
}

// add adds an error and its position.
func (v *verdict) add(d manifest.Document, id, path, message string) {
	path, line, column := positionOf(d, path)
	v.addAt(line, column, id, path, message)
}

// addAt adds an error with a known position.
func (v *verdict) addAt(line, column int, id, path, message string) {
	v.Valid = false
	v.found(lint.Error, line, column, id, path, message)
}

func (v *verdict) found(severity lint.Severity, line, column int, id, path, message string) {
	v.Findings = append(v.Findings, lint.Finding{File: v.File, Line: line, Column: column, Severity: severity, ID: id, Path: path, Message: message})
}

// warn adds a warning and its position.
func (v *verdict) warn(id, path, message string) {
	path, line, column := positionOf(v.doc, path)
	v.found(lint.Warning, line, column, id, path, message)
}

// positionOf returns the path in the document of a path in a server's answer, and its position.
func positionOf(d manifest.Document, path string) (in string, line, column int) {
	if h, ok := d.Head(); ok && h.APIVersion == apiextv1.SchemeGroupVersion.String() {
		path = source.InCRD(path)
	}
	line, column = d.Position(path)
	return path, line, column
}

// warnedField matches a warning about a field that begins with its path.
var warnedField = regexp.MustCompile(`^([a-z][A-Za-z0-9]*(?:\.[A-Za-z0-9_-]+|\[[^]]*\])*): `)

// pathOf returns the path of the field that a warning of a server names; "" if it names none.
func pathOf(warning string) string {
	for _, form := range []*regexp.Regexp{unknownField, warnedField} {
		if m := form.FindStringSubmatch(warning); m != nil {
			return m[1]
		}
	}
	return ""
}

// unknownField matches the complaint about an unknown or duplicate field.
var unknownField = regexp.MustCompile(`^(?:unknown|duplicate) field "(.*)"$`)

// dropErrors removes the errors.
func (v *verdict) dropErrors() {
	v.Findings = slices.DeleteFunc(v.Findings, func(f lint.Finding) bool { return f.Severity == lint.Error })
}

// strict replaces the errors of an object with unknown or duplicate fields: one for each of these.
func (v *verdict) strict(d manifest.Document, version *kind.Version) {
	v.dropErrors()
	for _, k := range d.DuplicateKeys() {
		v.addAt(k.Line, k.Column, ruleStrict, k.Path, fmt.Sprintf("key %q is there already, in line %d", k.Key, k.First))
	}
	for _, e := range version.Strict(d.JSON) {
		if e.Kind == jsondoc.DuplicateField && lint.Worst(v.Findings) == lint.Error {
			continue // the key has been named, with its position
		}
		message := e.Error()
		if like := likeField(version, e.Path); like != "" {
			message += fmt.Sprintf("; did you mean %q?", like)
		}
		v.add(d, ruleStrict, e.Path, message)
	}
}

// lineOf returns a finding as a line: its path, unless the message has it, and its message.
func lineOf(f *lint.Finding) string {
	message := source.Shorten(f.Message) // the server repeats all of a value
	switch {
	case f.Path == "", f.Severity == lint.Warning, f.ID == ruleStrict, f.ID == ruleUnknownKind, f.ID == ruleRemoved:
		return message
	}
	return f.Path + ": " + message
}

// subject returns kind and name of the object; "" if the document is not an object.
func (v *verdict) subject() string {
	if v.Kind == "" {
		return ""
	}
	name := v.Name
	if v.Namespace != "" {
		name = v.Namespace + "/" + name
	}
	return strings.TrimSpace(v.Kind + " " + name)
}

// counts returns the numbers of valid, invalid and skipped objects.
func (v *validation) counts() (valid, invalid, skipped int) {
	for _, one := range v.verdicts {
		switch {
		case one.Skipped != "":
			skipped++
		case one.Valid:
			valid++
		default:
			invalid++
		}
	}
	return valid, invalid, skipped
}

// summary returns an error with the number of invalid objects, nil if there are none.
func (v *validation) summary() error {
	valid, invalid, skipped := v.counts()
	switch {
	case invalid > 0:
		return fmt.Errorf("%d of %d objects not valid", invalid, valid+invalid)
	case valid+skipped == 0:
		return errors.New("no object to validate")
	}
	return nil
}

// print writes the verdicts in the format of --output.
func (v *validation) print(out io.Writer) error {
	switch v.output {
	case "json":
		return v.printJSON(out)
	case "text":
		return v.printText(out)
	}
	return v.report().Write(command.Documents(out), v.output)
}

func (v *validation) printJSON(out io.Writer) error {
	valid, invalid, skipped := v.counts()
	verdicts := v.verdicts
	if v.quiet {
		verdicts = slices.DeleteFunc(slices.Clone(verdicts), func(one *verdict) bool { return one.Valid })
	}
	return command.PrintJSON(out, validateReport{command.EnvelopeOf("ValidateReport"), verdicts, v.skipped,
		validateCounts{Valid: valid, Invalid: invalid, Skipped: skipped, NotObjects: len(v.skipped)}})
}

func (v *validation) printText(out io.Writer) error {
	paint := command.Painter(out)
	var b strings.Builder
	unknown := v.unknownKinds()
	for i, one := range v.verdicts {
		if v.quiet && one.Valid {
			continue
		}
		if group := unknown[i]; group != nil {
			if group[0] == i {
				v.printUnknown(&b, group, paint)
			}
			continue
		}
		word := paint("32", "valid")
		switch {
		case one.Skipped != "":
			word = "skipped (" + one.Skipped + ")"
		case !one.Valid:
			word = paint("31", "invalid")
		}
		if one.Suppressed > 0 {
			word += fmt.Sprintf(" (%s suppressed)", command.Plural(one.Suppressed, "finding"))
		}
		subject := one.subject()
		if subject != "" {
			subject += ": "
		}
		fmt.Fprintf(&b, "%s: %s%s\n", one.doc, subject, word)
		printOf(&b, one.Findings, lint.Error, paint)
		for _, line := range reasonLines(one.Reasons) {
			fmt.Fprintf(&b, "    %s\n", line)
		}
		printOf(&b, one.Findings, lint.Warning, paint)
	}
	if !v.quiet {
		for _, s := range v.skipped {
			fmt.Fprintf(&b, "%s: skipped (%s)\n", s, s.Reason)
		}
		if n := len(v.verdicts) + len(v.skipped); n > 1 {
			valid, invalid, skipped := v.counts()
			fmt.Fprintf(&b, "%s: %d valid, %d invalid, %d skipped\n", command.Plural(len(v.verdicts), "object"), valid, invalid, skipped)
			if len(v.skipped) > 0 {
				fmt.Fprintf(&b, "%s skipped: not for a server\n", command.Plural(len(v.skipped), "other text"))
			}
		}
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// printOf writes the findings of a severity.
func printOf(b *strings.Builder, findings []lint.Finding, severity lint.Severity, paint func(code, text string) string) {
	for _, f := range findings {
		if f.Severity != severity {
			continue
		}
		at := fmt.Sprintf("%s:%d:", f.File, f.Line)
		if f.Column > 0 {
			at += fmt.Sprintf("%d:", f.Column)
		}
		what := ""
		if severity == lint.Warning {
			what = " " + paint("33", "warning:")
		}
		fmt.Fprintf(b, "  %s%s %s\n", paint("1", at), what, strings.ReplaceAll(lineOf(&f), "\n", "\n    "))
	}
}

// unknownKinds groups the objects, two at least, that have no verdict because nothing defines their kind. The result has the indices of a
// group for each of its objects.
func (v *validation) unknownKinds() map[int][]int {
	groups := map[string][]int{}
	for i, one := range v.verdicts {
		if len(one.Findings) == 1 && one.Findings[0].ID == ruleUnknownKind && one.Kind != "" {
			groups[one.Findings[0].Message] = append(groups[one.Findings[0].Message], i)
		}
	}
	out := map[int][]int{}
	for _, group := range groups {
		for _, i := range group {
			if len(group) > 1 {
				out[i] = group
			}
		}
	}
	return out
}

// maxPlaces is the number of objects of an unknown kind whose places are listed.
const maxPlaces = 5

// printUnknown writes a line for all objects of an unknown kind.
func (v *validation) printUnknown(b *strings.Builder, group []int, paint func(code, text string) string) {
	first := v.verdicts[group[0]]
	var places []string
	for _, i := range group[:min(len(group), maxPlaces)] {
		places = append(places, fmt.Sprintf("%s:%d", v.verdicts[i].File, v.verdicts[i].Line))
	}
	if len(group) > maxPlaces {
		places = append(places, fmt.Sprintf("%d more", len(group)-maxPlaces))
	}
	fmt.Fprintf(b, "%d objects of kind %s: %s\n  %s; --ignore-missing leaves them out\n  %s\n", len(group), first.Kind, paint("31", "invalid"),
		first.Findings[0].Message, strings.Join(places, ", "))
}

// reasonLines returns explanations as text.
func reasonLines(reasons []schema.Reason) []string {
	var out []string
	for i := range reasons {
		at := reasons[i].Field
		if at == "" || at == source.NoField {
			at = "the object"
		}
		out = append(out, "why a rule of "+at+" refuses it:")
		for _, line := range reasons[i].Explanation.Lines() {
			out = append(out, "  "+line)
		}
	}
	return out
}

// report returns the verdicts for build servers.
func (v *validation) report() *report.Report {
	r := &report.Report{Command: "validate", Version: server.Version().Program}
	for _, one := range v.verdicts {
		if v.quiet && one.Valid {
			continue
		}
		c := report.Case{Name: one.subject(), File: one.File, Line: one.Line, Skipped: one.Skipped}
		for _, f := range one.Findings {
			level := report.Error
			if f.Severity == lint.Warning {
				level = report.Warning
			}
			c.Findings = append(c.Findings, report.Finding{File: f.File, Line: f.Line, Column: f.Column, Level: level, Rule: f.ID, Message: lineOf(&f)})
		}
		r.Cases = append(r.Cases, c)
	}
	return r
}
