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

	"github.com/keelson-io/keelson/internal/manifest"
	"github.com/keelson-io/keelson/internal/report"
	"github.com/keelson-io/keelson/internal/settings"
	"github.com/keelson-io/keelson/internal/source"
	"github.com/keelson-io/keelson/kind"
	"github.com/keelson-io/keelson/offline"
	"github.com/keelson-io/keelson/schema"
	"github.com/keelson-io/keelson/server"
	"github.com/keelson-io/keelson/status"
)

// verdict is the server's answer for one object.
type verdict struct {
	Source     string            `json:"source"` // file, or file:line if it has several objects
	APIVersion string            `json:"apiVersion,omitempty"`
	Kind       string            `json:"kind,omitempty"`
	Namespace  string            `json:"namespace,omitempty"`
	Name       string            `json:"name,omitempty"`
	Valid      bool              `json:"valid"`                // also true if the object was skipped
	Skipped    string            `json:"skipped,omitempty"`    // why the object was not checked
	Suppressed int               `json:"suppressed,omitempty"` // mistakes that the settings or the baseline drop
	Errors     []mistake         `json:"errors,omitempty"`     // why it is not valid
	Warnings   []string          `json:"warnings,omitempty"`
	Audit      map[string]string `json:"auditAnnotations,omitempty"` // those that policies add to the audit event
	Status     *metav1.Status    `json:"status,omitempty"`           // the refusal, as the server would send it
	Reasons    []schema.Reason   `json:"explanations,omitempty"`     // why rules refused the object, with --explain

	doc manifest.Document
}

// mistake is one reason why an object is not valid, with its position in the file.
type mistake struct {
	Line    int    `json:"line"`             // in the file
	Column  int    `json:"column,omitempty"` // 0 for a text that is not YAML
	Rule    string `json:"rule"`             // ID of the mistake
	Path    string `json:"path,omitempty"`   // of the field
	Message string `json:"message"`
}

// Rules of mistakes that are not reasons or causes of a Status.
const (
	ruleSyntax      = "Syntax"         // the text is neither YAML nor JSON
	ruleUnknownKind = "UnknownKind"    // nothing defines the kind, or not in that version
	ruleRemoved     = "RemovedAPI"     // Kubernetes does not serve this version of the kind any more
	ruleStrict      = "StrictDecoding" // a field is unknown, or a key is there more than once
	ruleType        = "WrongType"      // a value has the wrong type, so that the server cannot decode the object
	ruleConflict    = "Conflict"       // a definition is described differently in another file
	ruleNoVerdict   = "NoVerdict"      // there is no answer, for example because roles are missing
)

// verdictOf converts an answer to a verdict. err says why there is no answer.
func verdictOf(d manifest.Document, a *offline.Answer, err error) verdict {
	v := verdict{Source: d.String(), doc: d, Valid: true}
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
			if unknown.Removed {
				rule = ruleRemoved
			} else if len(unknown.Versions) == 0 && !unknown.Incomplete {
				err = fmt.Errorf("%w; name the file that defines it with -f", err)
			}
		}
		v.Status = &status.BadRequest("%s", err).Status
		v.add(d, rule, map[string]string{ruleUnknownKind: "apiVersion", ruleRemoved: "apiVersion"}[rule], err.Error())
		return v
	}
	if a == nil {
		return v
	}
	v.Warnings, v.Audit, v.Status, v.Reasons = a.Warnings, a.Annotations, a.Refusal, a.Reasons
	if a.Refusal != nil {
		v.refused(d, a.Refusal)
	}
	return v
}

// refused adds a mistake for each cause of a refusal, or for its message.
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

// drop removes the mistakes that the settings suppress or the baseline has. An object is valid without
// others.
func (v *validation) drop(filter *settings.Filter) {
	for i := range v.verdicts {
		one := &v.verdicts[i]
		before := len(one.Errors)
		one.Errors = slices.DeleteFunc(one.Errors, func(m mistake) bool {
			return filter.Drops(settings.Entry{ID: m.Rule, File: one.doc.File, Object: one.subject(), Path: m.Path})
		})
		one.Suppressed = before - len(one.Errors)
		if one.Suppressed > 0 && len(one.Errors) == 0 {
			one.Valid, one.Status = true, nil
		}
	}
}

// add adds a mistake and its position.
func (v *verdict) add(d manifest.Document, rule, path, message string) {
	if h, ok := d.Head(); ok && h.APIVersion == apiextv1.SchemeGroupVersion.String() {
		path = source.InCRD(path)
	}
	m := mistake{Rule: rule, Path: path, Message: message, Line: d.Line}
	if d.Err == nil {
		m.Line, m.Column = d.Position(path)
	}
	v.Valid = false
	v.Errors = append(v.Errors, m)
}

// unknownField matches the complaint about an unknown or duplicate field.
var unknownField = regexp.MustCompile(`^(?:unknown|duplicate) field "(.*)"$`)

// strict replaces the mistakes of an object with unknown or duplicate fields: one for each of these.
func (v *verdict) strict(d manifest.Document, version *kind.Version) {
	v.Errors = nil
	for _, k := range d.DuplicateKeys() {
		v.addAt(k.Line, k.Column, ruleStrict, k.Path, fmt.Sprintf("key %q is there already, in line %d", k.Key, k.First))
	}
	for _, complaint := range version.Strict(d.JSON) {
		path := ""
		if strings.HasPrefix(complaint, "duplicate field") && len(v.Errors) > 0 {
			continue // the key has been named, with its position
		}
		if m := unknownField.FindStringSubmatch(complaint); m != nil {
			path = m[1]
			if like := likeField(version, path); like != "" {
				complaint += fmt.Sprintf("; did you mean %q?", like)
			}
		}
		v.add(d, ruleStrict, path, complaint)
	}
}

// addAt adds a mistake with a known position.
func (v *verdict) addAt(line, column int, rule, path, message string) {
	v.Valid = false
	v.Errors = append(v.Errors, mistake{Rule: rule, Path: path, Message: message, Line: line, Column: column})
}

// text returns a mistake as a line: its path, unless the message has it, and its message.
func (m *mistake) text() string {
	message := source.Shorten(m.Message) // the server repeats all of a value
	if m.Path == "" || m.Rule == ruleStrict || m.Rule == ruleUnknownKind || m.Rule == ruleRemoved {
		return message
	}
	return m.Path + ": " + message
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
	return v.report().Write(documents(out), v.output)
}

func (v *validation) printJSON(out io.Writer) error {
	valid, invalid, skipped := v.counts()
	verdicts := v.verdicts
	if v.quiet {
		verdicts = slices.DeleteFunc(slices.Clone(verdicts), func(one verdict) bool { return one.Valid })
	}
	return printJSON(out, validateReport{envelopeOf("ValidateReport"), verdicts, v.skipped,
		validateCounts{Valid: valid, Invalid: invalid, Skipped: skipped, NotObjects: len(v.skipped)}})
}

func (v *validation) printText(out io.Writer) error {
	paint := painter(out)
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
			word += fmt.Sprintf(" (%s suppressed)", plural(one.Suppressed, "finding"))
		}
		subject := one.subject()
		if subject != "" {
			subject += ": "
		}
		fmt.Fprintf(&b, "%s: %s%s\n", one.Source, subject, word)
		for _, m := range one.Errors {
			at := fmt.Sprintf("%s:%d:%d: ", one.doc.File, m.Line, m.Column)
			if m.Column == 0 { // the message has the position
				at = ""
			}
			fmt.Fprintf(&b, "  %s%s\n", paint("1", at), strings.ReplaceAll(m.text(), "\n", "\n    "))
		}
		for _, line := range reasonLines(one.Reasons) {
			fmt.Fprintf(&b, "    %s\n", line)
		}
		for _, w := range one.Warnings {
			fmt.Fprintf(&b, "  %s %s\n", paint("33", "warning:"), w)
		}
	}
	if !v.quiet {
		for _, s := range v.skipped {
			fmt.Fprintf(&b, "%s: skipped (%s)\n", s.Source, s.Reason)
		}
		if n := len(v.verdicts) + len(v.skipped); n > 1 {
			valid, invalid, skipped := v.counts()
			fmt.Fprintf(&b, "%s: %d valid, %d invalid, %d skipped\n", plural(len(v.verdicts), "object"), valid, invalid, skipped)
			if len(v.skipped) > 0 {
				fmt.Fprintf(&b, "%s skipped: not for a server\n", plural(len(v.skipped), "other text"))
			}
		}
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// unknownKinds groups the objects, two at least, that have no verdict because nothing defines their kind. The result has the indices of a
// group for each of its objects.
func (v *validation) unknownKinds() map[int][]int {
	groups := map[string][]int{}
	for i, one := range v.verdicts {
		if len(one.Errors) == 1 && one.Errors[0].Rule == ruleUnknownKind && one.Kind != "" {
			groups[one.Errors[0].Message] = append(groups[one.Errors[0].Message], i)
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
	first := &v.verdicts[group[0]]
	var places []string
	for _, i := range group[:min(len(group), maxPlaces)] {
		places = append(places, fmt.Sprintf("%s:%d", v.verdicts[i].doc.File, v.verdicts[i].doc.Line))
	}
	if len(group) > maxPlaces {
		places = append(places, fmt.Sprintf("%d more", len(group)-maxPlaces))
	}
	fmt.Fprintf(b, "%d objects of kind %s: %s\n  %s; --ignore-missing leaves them out\n  %s\n", len(group), first.Kind, paint("31", "invalid"),
		first.Errors[0].Message, strings.Join(places, ", "))
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
		c := report.Case{Name: one.subject(), File: one.doc.File, Line: one.doc.Line, Skipped: one.Skipped}
		for _, m := range one.Errors {
			c.Findings = append(c.Findings, report.Finding{File: one.doc.File, Line: m.Line, Column: m.Column, Level: report.Error, Rule: m.Rule, Message: m.text()})
		}
		for _, w := range one.Warnings {
			c.Findings = append(c.Findings, report.Finding{File: one.doc.File, Line: one.doc.Line, Level: report.Warning, Rule: "Warning", Message: w})
		}
		r.Cases = append(r.Cases, c)
	}
	return r
}
