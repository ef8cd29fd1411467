// This file prints documents, which programs read.

package command

import (
	"bytes"
	"encoding/json"
	"io"

	"sigs.k8s.io/yaml"
)

// Envelope identifies the JSON that a command prints. Fields may be added to a version; none changes
// its meaning or disappears.
type Envelope struct {
	APIVersion string `json:"apiVersion"` // cli.keelson.io/v1
	Kind       string `json:"kind"`       // of the document, such as ValidateReport
}

// EnvelopeOf returns the envelope of a kind.
func EnvelopeOf(kind string) Envelope { return Envelope{"cli.keelson.io/v1", kind} }

// PrintJSON prints a document on several lines.
func PrintJSON(out io.Writer, v any) error {
	enc := json.NewEncoder(Documents(out))
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// PrintObject writes an object. more is true unless it is the first one.
func PrintObject(out io.Writer, format string, more bool, object []byte) error {
	var b bytes.Buffer
	if format == "json" {
		if err := json.Indent(&b, object, "", "  "); err != nil {
			return err
		}
		b.WriteByte('\n')
	} else {
		if more {
			b.WriteString("---\n")
		}
		text, err := yaml.JSONToYAML(object)
		if err != nil {
			return err
		}
		b.Write(text)
	}
	_, err := Documents(out).Write(b.Bytes())
	return err
}
