package meta

import "strings"

// This file checks names without regular expressions. The checks may refuse a valid name, because
// apimachinery's validators then decide; they must never accept an invalid one.

// isLower reports whether c is a lower-case letter or a digit.
func isLower(c byte) bool { return c-'a' <= 'z'-'a' || c-'0' <= 9 }

// isLabel reports whether s is a DNS-1123 label.
func isLabel(s string) bool { return len(s) <= 63 && isDashed(s) }

// isDashed reports whether s consists of lower-case letters, digits and dashes, without a dash at
// either end.
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
	edge := true // at the start of a part, where a letter or digit must follow
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

// isNamePart reports whether s has at most 63 letters, digits, dashes, dots and underscores, and
// starts and ends with a letter or digit.
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

// isLabelValue reports whether s is a valid label value.
func isLabelValue(s string) bool { return s == "" || isNamePart(s) }

// isQualifiedName reports whether s is a name with an optional domain prefix. With fold, the domain
// may have upper-case letters.
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

// isGroupVersion reports whether s is an API version, with an optional group.
func isGroupVersion(s string) bool {
	_, version, ok := strings.Cut(s, "/")
	return !ok && s != "" || ok && version != "" && !strings.Contains(version, "/")
}

// isPrintable reports whether s is a valid field manager name in ASCII.
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
