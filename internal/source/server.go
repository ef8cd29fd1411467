package source

import (
	"encoding/json"
	"regexp"
	"strings"
)

// This file reads what servers say about an object.

// NoField is what servers write in place of a field.
const NoField = "<nil>"

// named matches the field at the start of a message.
var named = regexp.MustCompile(`^(?:Invalid value: (?:"(?:[^"\\]|\\.)*"|[^":]*): )?"?([^" ]*)"? (?:must|in body|should)`)

// ofFormat matches the field at the end of a message about the range of a format.
var ofFormat = regexp.MustCompile(`Checked value must be of type \w+ with format \w+ in (\S+)$`)

// FieldOf returns the field of a server's error, "" for the whole object. For alternatives, such as oneOf, servers have it only in the
// message.
func FieldOf(field, message string) string {
	if field != NoField {
		return field
	}
	for _, pattern := range []*regexp.Regexp{named, ofFormat} {
		if m := pattern.FindStringSubmatch(message); m != nil && m[1] != NoField {
			return m[1]
		}
	}
	return ""
}

// InCRD converts a path in a server's error about a CRD of apiextensions.k8s.io/v1. Servers convert a CRD first, which moves fields that all
// versions share to the top.
func InCRD(path string) string {
	for _, p := range [...][2]string{
		{"spec.validation.openAPIV3Schema", "spec.versions[0].schema.openAPIV3Schema"},
		{"spec.validation", "spec.versions[0].schema"},
		{"spec.subresources", "spec.versions[0].subresources"},
		{"spec.additionalPrinterColumns", "spec.versions[0].additionalPrinterColumns"},
		{"spec.selectableFields", "spec.versions[0].selectableFields"},
		{"spec.conversion.webhookClientConfig", "spec.conversion.webhook.clientConfig"},
		{"spec.conversion.conversionReviewVersions", "spec.conversion.webhook.conversionReviewVersions"},
		{"spec.version", "spec.versions[0].name"},
	} {
		if rest, ok := strings.CutPrefix(path, p[0]); ok && (rest == "" || rest[0] == '.' || rest[0] == '[') {
			path = p[1] + rest
			break
		}
	}
	return strings.Replace(path, ".JSONPath", ".jsonPath", 1)
}

const (
	maxValue   = 200  // bytes of a value that a message repeats
	maxMessage = 2000 // bytes of a message
)

// Shorten returns a message without the value that it repeats, if that is long: its position shows it. Of other long messages it leaves out
// the middle.
func Shorten(message string) string {
	const start = "Invalid value: "
	if rest, ok := strings.CutPrefix(message, start); ok && len(rest) > maxValue {
		var value json.RawMessage
		dec := json.NewDecoder(strings.NewReader(rest))
		if dec.Decode(&value) == nil && len(value) > maxValue {
			message = start + strings.TrimPrefix(rest[dec.InputOffset():], ": ")
		}
	}
	if len(message) > maxMessage {
		message = strings.ToValidUTF8(message[:maxMessage/2], "") + " … " + strings.ToValidUTF8(message[len(message)-maxMessage/2:], "")
	}
	return message
}
