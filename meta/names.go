package meta

import "strings"

// This file defines the shapes of names, each the plain reading of one of
// apimachinery's regular expressions. They may err on the side of refusing:
// what they do not know goes to apimachinery.

func isLower(c byte) bool { return c-'a' <= 'z'-'a' || c-'0' <= 9 }

// isLabel reports whether s is a DNS-1123 label.
func isLabel(s string) bool { return len(s) <= 63 && isDashed(s) }

// isDashed reports whether s is lower-case letters, digits and, but not at its
// ends, dashes.
func isDashed(s string) bool {
	if s == "" || s[0] == '-' || s[len(s)-1] == '-' {
		return false
	}
	for i := range len(s) {
		if !isLower(s[i]) && s[i] != '-' {
			return false
		}
	}
	return true
}

// isSubdomain reports whether s is a DNS-1123 subdomain.
func isSubdomain(s string) bool {
	if s == "" || len(s) > 253 {
		return false
	}
	edge := true // at a part's beginning, where only a letter or digit may stand
	for i := range len(s) {
		switch c := s[i]; {
		case isLower(c):
			edge = false
		case edge:
			return false
		case c == '.':
			if s[i-1] == '-' {
				return false
			}
			edge = true
		case c != '-':
			return false
		}
	}
	return isLower(s[len(s)-1])
}

// isNamePart reports whether s is letters, digits and, but not at its ends,
// dashes, dots and underscores; at most 63.
func isNamePart(s string) bool {
	if s == "" || len(s) > 63 {
		return false
	}
	for i := range len(s) {
		switch c := s[i]; {
		case isLower(c), c-'A' <= 'Z'-'A':
		case c != '-' && c != '.' && c != '_', i == 0, i == len(s)-1:
			return false
		}
	}
	return true
}

// isLabelValue reports whether s is the value of a label.
func isLabelValue(s string) bool { return s == "" || isNamePart(s) }

// isQualifiedName reports whether s is a name with or without a domain before
// it; with fold the domain may have upper-case letters.
func isQualifiedName(s string, fold bool) bool {
	domain, name, ok := strings.Cut(s, "/")
	if !ok {
		return isNamePart(s)
	}
	if fold {
		domain = strings.ToLower(domain)
	}
	return isSubdomain(domain) && isNamePart(name)
}

// isGroupVersion reports whether s is an API version, with or without a group.
func isGroupVersion(s string) bool {
	_, version, ok := strings.Cut(s, "/")
	return !ok && s != "" || ok && version != "" && !strings.Contains(version, "/")
}

// isPrintable reports whether s is the name of a field manager, in ASCII.
func isPrintable(s string) bool {
	if len(s) > 128 {
		return false
	}
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}
