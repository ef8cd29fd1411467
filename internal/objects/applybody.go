package objects

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/keelson-io/keelson/internal/fastpath"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-io/keelson/internal/meta"
	"github.com/keelson-io/keelson/internal/status"
	"github.com/keelson-io/keelson/internal/yamljson"
	"github.com/keelson-io/keelson/jsondoc"
)

// This file reads the bodies of applies. They are YAML. Most clients send JSON, which is read as
// JSON where it means the same as YAML.

// configuration has the parts of an apply patch that decide its further way.
type configuration struct {
	text  []byte       // in JSON
	said  *jsondoc.Doc // the text, parsed
	twice error        // names the duplicate keys; nil if there are none, or field validation ignores them
}

// strictly refuses a configuration that names a key twice, or returns warnings of it. It is of
// interest once the configuration could be merged.
func (c *configuration) strictly(o *meta.WriteOptions) (warnings []string, err error) {
	switch {
	// The YAML reader finds duplicate keys. In plain JSON, parseOnce does.
	case c.twice == nil:
		return nil, nil
	case o.FieldValidation == metav1.FieldValidationStrict:
		return nil, status.BadRequest("error strict decoding patch: error converting YAML to JSON: %v", c.twice)
	}
	return yamljson.Messages(c.twice), nil
}

// readConfiguration reads an apply patch, and refuses one with members that it must not have.
func readConfiguration(ctx context.Context, body []byte, o *meta.WriteOptions) (*configuration, error) {
	c := &configuration{said: jsondoc.Get()}
	if err := c.read(ctx, body, o); err != nil {
		c.said.Release()
		return nil, err
	}
	return c, nil
}

// read reads an apply patch.
func (c *configuration) read(ctx context.Context, body []byte, o *meta.WriteOptions) error {
	d := c.said
	c.text = body
	if !fastpath.PlainJSON.On() || !plainJSON(body) || !parseOnce(d, body) {
		if err := c.readYAML(ctx, body, o); err != nil {
			return err
		}
		if err := jsondoc.Parse(d, c.text); err != nil {
			return status.BadRequest("error decoding patch: %v", err)
		}
	}
	root := d.Root()
	switch root.Kind() {
	case jsondoc.Object:
	case jsondoc.Null:
		return status.BadRequest("invalid object type: /, Kind=")
	default:
		// As in upstream, the message is that of json.Unmarshal.
		var object map[string]json.RawMessage
		err := json.Unmarshal(c.text, &object)
		text := strings.Replace(fmt.Sprint(err), "map[string]json.RawMessage", "map[string]interface {}", 1)
		return status.BadRequest("error decoding patch: error unmarshaling JSON: while decoding JSON: %s", text)
	}
	c.dropMalformed()
	return nil
}

// dropMalformed removes members of the metadata that belong to the server and that cannot be read. An
// update with them would be refused, an apply ignores them.
func (c *configuration) dropMalformed() {
	d := c.said
	metadata := d.Root().Get("metadata")
	for _, name := range []string{"creationTimestamp", "generation", "managedFields"} {
		malformed := false
		switch v := metadata.Get(name); v.Kind() {
		case jsondoc.Bool, jsondoc.Int, jsondoc.String:
			malformed = name == "creationTimestamp" && !isTime(v.Text())
		case jsondoc.Float:
			malformed = name != "managedFields"
		case jsondoc.Array:
			malformed = name == "managedFields" && !areEntries(v)
		}
		if malformed {
			d.Remove("metadata", name)
			c.text = d.AppendJSON(nil, d.Root().Node)
		}
	}
}

// areEntries reports whether an array can be read as entries of managedFields.
func areEntries(v jsondoc.Value) bool {
	// Upstream reads the list into its Go type, and ignores it if that fails.
	for _, entry := range v.Items() {
		if entry.Kind() != jsondoc.Object {
			return false
		}
	}
	var entries []metav1.ManagedFieldsEntry
	return json.Unmarshal(v.AppendJSON(nil), &entries) == nil
}

// isTime reports whether a text is a time as objects have it.
func isTime(text string) bool {
	_, err := time.Parse(time.RFC3339, text)
	return err == nil
}

// readYAML turns a body into JSON.
func (c *configuration) readYAML(ctx context.Context, body []byte, o *meta.WriteOptions) error {
	var err error
	c.text, c.twice, err = yamljson.JSON(ctx, body, o.FieldValidation != metav1.FieldValidationIgnore)
	if err != nil {
		if bad := YAMLBound(err); bad != nil {
			return bad
		}
	}
	switch {
	// Upstream has a text of its own for bodies that look like JSON.
	case err != nil && bytes.HasPrefix(bytes.TrimSpace(body), []byte("{")):
		return status.BadRequest("error decoding patch: error converting YAML to JSON: %v", err)
	case err != nil:
		return notYAMLError{status.BadRequest("error encoding patch: %v", err)}
	}
	return nil
}

// notYAMLError is the refusal of a body that is neither JSON nor YAML.
type notYAMLError struct{ refusal *status.Error }

// Unwrap returns the refusal as clients see it.
func (e notYAMLError) Unwrap() error { return e.refusal }

// Error returns the text of the refusal.
func (e notYAMLError) Error() string { return e.refusal.Error() }

// isNotYAML reports whether readConfiguration found that a body is neither JSON nor YAML.
func isNotYAML(err error) bool {
	_, ok := errors.AsType[notYAMLError](err)
	return ok
}

// parseOnce parses JSON that names no member twice.
func parseOnce(d *jsondoc.Doc, text []byte) bool {
	// Duplicates have to be reported with their names, which only the plain path knows.
	d.Reset(nil)
	s := d.Scan(text)
	n, err := s.Value()
	if err != nil || s.End() != nil || s.Duplicates() {
		return false
	}
	d.SetRoot(n)
	return true
}

// Limits of plainJSON.
const (
	plainKey    = 1000 // bytes of a key; a YAML key ends within 1024
	plainDigits = 18   // of a number
)

// plainJSON reports whether a text, if it is JSON, means the same as YAML. It returns false for
// everything that YAML may read differently: fractions (1.0 is 1), large numbers, tabs, characters
// outside ASCII, escapes that only YAML has, merge keys, and keys that are long or on another line
// than their colon.
func plainJSON(text []byte) bool {
	if len(text) == 0 || text[0] != '{' {
		return false
	}
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			// Strings differ most between YAML and JSON.
			end, ok := plainString(text, i)
			if !ok {
				return false
			}
			i = end
		case c >= '0' && c <= '9' || c == '-':
			// YAML reads 012 as octal and rounds long numbers.
			start := i
			for i+1 < len(text) && text[i+1] >= '0' && text[i+1] <= '9' {
				i++
			}
			if i-start >= plainDigits || c == '-' && (i == start || text[start+1] == '0') {
				return false
			}
			if i+1 < len(text) && (text[i+1] == '.' || text[i+1]|0x20 == 'e') {
				return false
			}
		// Letters outside strings are true, false and null, which mean the same in YAML.
		case c >= 'a' && c <= 'z', c == '{', c == '}', c == '[', c == ']', c == ',', c == ':', c == ' ', c == '\n':
		default:
			return false
		}
	}
	return true
}

// plainString is plainJSON for the string that begins at a quote; it returns
// where the string ends.
func plainString(text []byte, start int) (end int, ok bool) {
	i := start + 1
	for ; i < len(text) && text[i] != '"'; i++ {
		switch c := text[i]; {
		// Control characters end a YAML text; some characters beyond ASCII are line breaks in it.
		case c < 0x20 || c > 0x7e:
			return 0, false
		case c == '\\':
			i++
			if i == len(text) {
				return 0, false
			}
			switch text[i] {
			// The escapes that YAML and JSON have in common; JSON's \/ and \u are read in other ways.
			case '"', '\\', 'b', 'f', 'n', 'r', 't':
			default:
				return 0, false
			}
		}
	}
	if i >= len(text) {
		return 0, false
	}
	// The colon after a key must follow on the same line, and within a bound.
	after := i + 1
	for after < len(text) && text[after] == ' ' {
		after++
	}
	if after < len(text) && text[after] == ':' && i-start > plainKey {
		return 0, false
	}
	if after < len(text) && text[after] == '\n' {
		for after < len(text) && (text[after] == ' ' || text[after] == '\n') {
			after++
		}
		if after < len(text) && text[after] == ':' {
			return 0, false
		}
	}
	return i, string(text[start+1:i]) != "<<"
}
