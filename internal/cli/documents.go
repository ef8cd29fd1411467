// This file prints documents, which programs read.

package cli

import (
	"bytes"
	"encoding/json"
	"io"

	"sigs.k8s.io/yaml"
)

// envelope identifies the JSON that a command prints. Fields may be added to a version; none changes
// its meaning or disappears.
type envelope struct {
	APIVersion string `json:"apiVersion"` // cli.keelson.io/v1
	Kind       string `json:"kind"`       // of the document, such as ValidateReport
}

// envelopeOf returns the envelope of a kind.
func envelopeOf(kind string) envelope { return envelope{"cli.keelson.io/v1", kind} }

// printJSON prints a document on several lines.
func printJSON(out io.Writer, v any) error {
	enc := json.NewEncoder(documents(out))
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// printObject writes an object. more is true unless it is the first one.
func printObject(out io.Writer, format string, more bool, object []byte) error {
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
	_, err := documents(out).Write(b.Bytes())
	return err
}
