package schema

import (
	"math"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"k8s.io/kube-openapi/pkg/validation/strfmt"

	"github.com/keelson-io/keelson/internal/dfa"
)

// This file checks formats and patterns.

// stringFormats are the formats of strings that are checked, without dashes. Other formats are
// ignored. For nil, the check comes from strfmt's registry.
var stringFormats = map[string]func(string) bool{
	"bsonobjectid": strfmt.IsBSONObjectID,
	"uri":          nil,
	"email":        strfmt.IsEmail,
	"hostname":     strfmt.IsHostname,
	"ipv4":         nil,
	"ipv6":         nil,
	"cidr":         nil,
	"mac":          nil,
	"uuid":         strfmt.IsUUID,
	"uuid3":        strfmt.IsUUID3,
	"uuid4":        strfmt.IsUUID4,
	"uuid5":        strfmt.IsUUID5,
	"isbn":         nil,
	"isbn10":       nil,
	"isbn13":       nil,
	"creditcard":   nil,
	"ssn":          nil,
	"hexcolor":     nil,
	"rgbcolor":     nil,
	"byte":         nil,
	"password":     func(string) bool { return true },
	"date":         strfmt.IsDate,
	"duration":     strfmt.IsDuration,
	"datetime":     isDateTime,
	"k8sshortname": strfmt.IsShortName,
	"k8slongname":  strfmt.IsLongName,
}

// supportedFormat returns format if values of these types are checked for it, otherwise "".
func supportedFormat(types []string, format string) string {
	one := ""
	if len(types) == 1 {
		one = types[0]
	}
	ok := false
	switch one {
	case "", "string":
		_, ok = stringFormats[plainFormat(format)]
	case "integer":
		ok = format == "int32" || format == "int64"
	case "number":
		ok = format == "float" || format == "double"
	}
	if !ok {
		return ""
	}
	return format
}

// isDateTime is strfmt.IsDateTime, which uses a regular expression, with a fast path for the form
// that Kubernetes writes.
func isDateTime(s string) bool { return isStamp(s) || strfmt.IsDateTime(s) }

// isStamp reports whether s has the form 2006-01-02T15:04:05Z, with a day that every month has.
func isStamp(s string) bool {
	const form = "dddd-dd-ddTdd:dd:ddZ"
	if len(s) != len(form) {
		return false
	}
	for i := range len(form) {
		if form[i] == 'd' {
			if s[i]-'0' > 9 {
				return false
			}
		} else if s[i] != form[i] {
			return false
		}
	}
	month, day := s[5:7], s[8:10]
	return "01" <= month && month <= "12" && "01" <= day && day <= "28" &&
		s[11:13] <= "23" && s[14:16] <= "59" && s[17:19] <= "59"
}

// rangeFormat returns the format that bounds a number, "" if there is none.
func (n *node) rangeFormat() string { return supportedFormat([]string{n.numType}, n.format) }

// plainFormat removes the dashes of a format.
func plainFormat(format string) string { return strings.ReplaceAll(format, "-", "") }

// formatCheck returns the check of a supported format of strings. strfmt does not export all
// checks; the others go through its registry, which takes a lock.
func formatCheck(format string) func(string) bool {
	if check := stringFormats[plainFormat(format)]; check != nil {
		return check
	}
	return func(s string) bool { return strfmt.Default.Validates(format, s) }
}

// pattern is a pattern of a schema, compiled at its first use: to a table, and to a regular
// expression only if the table cannot decide a string.
type pattern struct {
	text  string
	table func() *dfa.Matcher
	re    func() (*regexp.Regexp, error)
}

// pattern returns the shared pattern with that text.
func (c *compiler) pattern(text string) *pattern {
	p, ok := c.patterns[text]
	if !ok {
		p = &pattern{
			text:  text,
			table: sync.OnceValue(func() *dfa.Matcher { return dfa.Compile(text) }),
			re:    sync.OnceValues(func() (*regexp.Regexp, error) { return regexp.Compile(text) }),
		}
		c.patterns[text] = p
	}
	return p
}

// err returns the error of an invalid pattern.
func (p *pattern) err() error {
	_, err := p.re()
	return err
}

// matches reports whether s matches, which is false for an invalid pattern.
func (p *pattern) matches(s string) bool {
	if table := p.table(); table != nil {
		if match, known := table.Match(s); known {
			return match
		}
	}
	re, err := p.re()
	return err == nil && re.MatchString(s)
}

// rangeError returns an error if a number is outside of the range of its type and format. Like
// upstream, it checks the digits. what and path are for the text.
func rangeError(v float64, typ, format, what, path string) error {
	if inRange(strconv.FormatFloat(v, 'f', -1, 64), typ, format) {
		return nil
	}
	return errRange{typ, format, what, path}
}

// inRange reports whether the digits are a number of the type and format.
func inRange(digits, typ, format string) bool {
	var err error
	switch {
	case typ == "integer" && format == "int32":
		_, err = strconv.ParseInt(digits, 10, 32)
	case typ == "integer":
		_, err = strconv.ParseInt(digits, 10, 64)
	case format == "float":
		_, err = strconv.ParseFloat(digits, 32)
	}
	return err == nil
}

// intInRange is inRange for an integer, without formatting it.
func intInRange(v int64, typ, format string) bool {
	return typ != "integer" || format != "int32" || v >= math.MinInt32 && v <= math.MaxInt32
}

// errRange is the error of a number that its type or format cannot represent.
type errRange struct{ typ, format, what, path string }

func (e errRange) Error() string {
	if e.format != "" {
		return e.what + " value must be of type " + e.typ + " with format " + e.format + " in " + e.path
	}
	return e.what + " value must be of type " + e.typ + " (default format) in " + e.path
}
