package fast

import (
	"strings"
)

// This file checks whether texts fit named formats, without building a list of errors. If a text
// does not certainly fit, the format itself checks it.

// Fits has the checks of the most frequent formats by name. A check returns true if the text
// certainly has the format.
var Fits = map[string]func(string) bool{
	"DNS1123Label":     fitsLabel,
	"DNS1123Subdomain": fitsSubdomain,
	"DNS1035Label":     func(s string) bool { return fitsLabel(s) && s[0] > '9' },
	"QualifiedName":    fitsQualifiedName,
	"LabelValue":       func(s string) bool { return s == "" || fitsName(s) },
}

// Kinds of bytes in names.
const (
	byteLower  uint8 = 1 << iota // a lower-case letter or a digit
	byteUpper                    // an upper-case letter
	byteMiddle                   // - _ . which may be inside of names
)

// nameBytes has the kind of each byte.
var nameBytes = func() (kinds [256]uint8) {
	for c := range kinds {
		switch {
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9':
			kinds[c] = byteLower
		case c >= 'A' && c <= 'Z':
			kinds[c] = byteUpper
		case strings.IndexByte("-_.", byte(c)) >= 0:
			kinds[c] = byteMiddle
		}
	}
	return kinds
}()

// fitsLabel reports whether s consists of lower-case letters, digits and, inside, dashes.
func fitsLabel(s string) bool {
	if len(s) == 0 || len(s) > 63 || nameBytes[s[0]] != byteLower || nameBytes[s[len(s)-1]] != byteLower {
		return false
	}
	for i := 1; i < len(s)-1; i++ {
		if nameBytes[s[i]] != byteLower && s[i] != '-' {
			return false
		}
	}
	return true
}

// fitsSubdomain reports whether s consists of labels of any length with dots between them.
func fitsSubdomain(s string) bool {
	if len(s) == 0 || len(s) > 253 {
		return false
	}
	edge := true // the next byte must be a letter or digit
	for i := 0; i < len(s); i++ {
		switch {
		case nameBytes[s[i]] == byteLower:
			edge = false
		case edge:
			return false
		case s[i] == '.':
			if s[i-1] == '-' {
				return false
			}
			edge = true
		case s[i] != '-':
			return false
		}
	}
	return !edge && s[len(s)-1] != '-'
}

// fitsName reports whether s consists of letters, digits and, inside, dashes, dots and underscores.
func fitsName(s string) bool {
	const letter = byteLower | byteUpper
	if len(s) == 0 || len(s) > 63 || nameBytes[s[0]]&letter == 0 || nameBytes[s[len(s)-1]]&letter == 0 {
		return false
	}
	for i := 1; i < len(s)-1; i++ {
		if nameBytes[s[i]] == 0 {
			return false
		}
	}
	return true
}

// fitsQualifiedName reports whether s is a name with an optional subdomain before a slash.
func fitsQualifiedName(s string) bool {
	if at := strings.IndexByte(s, '/'); at >= 0 {
		return fitsSubdomain(s[:at]) && fitsName(s[at+1:])
	}
	return fitsName(s)
}
