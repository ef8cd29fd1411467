// This file recognizes placeholders in objects that a server refuses.

package cli

import (
	"regexp"

	"github.com/keelson-io/keelson/internal/manifest"
	"github.com/keelson-io/keelson/lint"
)

// placeholder matches what other programs replace before an object is sent: ${NAME} of envsubst and
// Flux, {{ .Values.name }} of Helm, {% if a %} of Jinja, ($name) of Chainsaw.
var placeholder = regexp.MustCompile(`\$\{[A-Za-z_][^{}]*\}|\{\{.*?\}\}|\{%.*?%\}|^\(\$[a-z][^()]*\)$`)

// namedValue matches the value at the start of a server's complaint.
var namedValue = regexp.MustCompile(`^(?:Invalid value:|Unsupported value:|namespaces|no definition of kind) "([^"]*)"`)

// explainPlaceholders adds to each error about a value with a placeholder what to check instead.
func (v *verdict) explainPlaceholders(d manifest.Document) {
	for i := range v.Findings {
		f := &v.Findings[i]
		if f.Severity != lint.Error {
			continue
		}
		value := ""
		if m := namedValue.FindStringSubmatch(f.Message); m != nil {
			value = placeholder.FindString(m[1])
		}
		if value == "" && f.Path != "" {
			value = placeholder.FindString(d.Scalar(f.Path))
		}
		if value != "" {
			f.Message += "; " + value + " looks like a placeholder: check the output of the program that replaces it, such as envsubst or helm template"
		}
	}
}
