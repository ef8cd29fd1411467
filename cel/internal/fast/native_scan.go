package fast

import (
	"net/netip"
	"strings"

	"github.com/keelson-io/keelson/cel/internal/val"
)

// This file has fast implementations of library functions for the usual texts. Some of them decide
// every text.

// UsualInt implements int() for up to 18 digits with an optional minus.
func UsualInt(s string, _ uint64) (n int64, units uint64, ok bool) {
	digits := strings.TrimPrefix(s, "-")
	if len(digits) == 0 || len(digits) > 18 {
		return 0, 0, false
	}
	for i := 0; i < len(digits); i++ {
		if digits[i]-'0' > 9 {
			return 0, 0, false
		}
		n = n*10 + int64(digits[i]-'0')
	}
	if len(digits) < len(s) {
		n = -n
	}
	return n, 1, true
}

// hasByte reports whether a byte of s is in a range of ASCII. It checks eight bytes at a time.
func hasByte(s string, lo, hi byte) bool {
	above, below := ones*uint64(0x7f-hi), ones*uint64(0x80-lo)
	for ; len(s) >= 8; s = s[8:] {
		x := word(s)
		low := x &^ highs
		if (low+below)&^(low+above)&^x&highs != 0 {
			return true
		}
	}
	for i := 0; i < len(s); i++ {
		if s[i] >= lo && s[i] <= hi {
			return true
		}
	}
	return false
}

// shortText is the length in bytes up to which a text is searched word by word. For longer texts
// strings.Contains, which uses larger registers, is faster.
const shortText = 48

// containsByte is strings.Contains for a part of one ASCII byte.
func containsByte(s, part string) bool {
	if len(s) > shortText {
		return strings.Contains(s, part)
	}
	return hasByte(s, part[0], part[0])
}

// containsPair is strings.Contains for a part of two bytes.
func containsPair(s, part string) bool {
	if len(s) > shortText {
		return strings.Contains(s, part)
	}
	a, b := part[0], part[1]
	for ; len(s) > 8; s = s[8:] {
		if x := (word(s) ^ ones*uint64(a)) | (word(s[1:]) ^ ones*uint64(b)); (x-ones)&^x&highs != 0 {
			return true
		}
	}
	for i := 1; i < len(s); i++ {
		if s[i-1] == a && s[i] == b {
			return true
		}
	}
	return false
}

// UsualDuration implements duration() for integers with the units h, m, s and ms.
func UsualDuration(s string, _ uint64) (sum int64, units uint64, ok bool) {
	if len(s) > val.MaxUsual {
		return 0, 0, false
	}
	for i := 0; i < len(s); i++ {
		n, start := int64(0), i
		for i < len(s) && s[i]-'0' <= 9 {
			n = n*10 + int64(s[i]-'0')
			i++
		}
		if i == start || i > start+6 || i == len(s) { // longer numbers could overflow
			return 0, 0, false
		}
		switch c := s[i]; {
		case c == 's':
			sum += n * 1e9
		case c == 'm' && i+1 < len(s) && s[i+1] == 's':
			sum += n * 1e6
			i++
		case c == 'm':
			sum += n * 60e9
		case c == 'h':
			sum += n * 3600e9
		default:
			return 0, 0, false
		}
		if sum > 1<<61 {
			return 0, 0, false
		}
	}
	return sum, 1, len(s) > 0
}

// isIP reports whether a text is an IP address without a zone that is not IPv4 mapped into IPv6.
// The text before the first dot or colon decides which family it can be.
func isIP(s string) (is, ok bool) {
	dots, digits, n := 0, 0, 0
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c-'0' <= 9 && (digits == 0 || n > 0):
			n = n*10 + int(c-'0')
			if digits++; n <= 255 {
				continue
			}
		case c == '.' && digits > 0 && dots < 3:
			dots, digits, n = dots+1, 0, 0
			continue
		}
		return dots == 0 && isIPv6(s, i), true
	}
	return dots == 3 && digits > 0, true
}

// isIPv6 is isIP for a text without a dot or colon before offset from.
func isIPv6(s string, from int) bool {
	for i := from; i < len(s); i++ {
		switch s[i] {
		case '.', '%':
			return false
		case ':':
			a, err := netip.ParseAddr(s)
			return err == nil && a.Zone() == "" && !a.Is4In6()
		}
	}
	return false
}

// hostBytes has the bytes of host names.
var hostBytes = func() (host [256]bool) {
	for c := range host {
		host[c] = c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '.'
	}
	return host
}()

// usualURL returns the scheme of an absolute URL with a host. It returns "" if the text is
// certainly not an absolute URL. ok is false if it does not know.
func usualURL(s string) (scheme string, ok bool) {
	if len(s) > val.MaxUsual {
		return "", false
	}
	at := 0
	switch {
	case strings.HasPrefix(s, "https://"):
		at = len("https")
	case strings.HasPrefix(s, "http://"):
		at = len("http")
	default:
		if at, ok = schemeEnd(s); at == 0 {
			return "", ok
		}
	}
	i := at + 3
	for i+3 < len(s) && hostBytes[s[i]] && hostBytes[s[i+1]] && hostBytes[s[i+2]] && hostBytes[s[i+3]] {
		i += 4
	}
	for i < len(s) && hostBytes[s[i]] {
		i++
	}
	if i == at+3 {
		return "", false
	}
	if i < len(s) && s[i] == ':' {
		for i++; i < len(s) && s[i]-'0' <= 9; i++ {
		}
	}
	if i < len(s) && s[i] != '/' || !unescaped(s[i:]) {
		return "", false
	}
	return s[:at], true
}

// schemeEnd returns the offset of "://" after the scheme of a URL. If it is 0, there is no scheme,
// and ok says whether the text is certainly not an absolute URL.
func schemeEnd(s string) (at int, ok bool) {
	for at < len(s) && (s[at]|0x20 >= 'a' && s[at]|0x20 <= 'z') {
		if s[at] < 'a' { // schemes are lower case in the end
			return 0, false
		}
		at++
	}
	switch {
	case at == len(s) || s == "*":
		return 0, at > 0 // no colon
	case at == 0:
		return 0, false
	case s[at] == '/':
		return 0, true
	case strings.HasPrefix(s[at:], "://"):
		return at, true
	case s[at] == '-' || s[at] == '.' || s[at] == '+' || s[at]-'0' <= 9:
		return 0, withoutScheme(s[at:])
	}
	return 0, false
}

// ones has the value 1 in each byte, highs the highest bit of each.
const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// unescaped reports whether a text has neither a percent sign nor a control character. A path,
// query and fragment without these are valid.
func unescaped(s string) bool {
	for ; len(s) >= 8; s = s[8:] {
		if escapes(word(s)) != 0 {
			return false
		}
	}
	for i := 0; i < len(s); i++ {
		if c := s[i]; c == '%' || c < ' ' || c == 0x7f {
			return false
		}
	}
	return true
}

// word returns the first eight bytes of a text.
func word(s string) uint64 {
	_ = s[7]
	return uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 | uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
}

// escapes returns 0 if none of eight bytes is a percent sign or a control character.
func escapes(x uint64) uint64 {
	percent, del := x^ones*'%', x^ones*0x7f // a byte is zero where the character occurs
	return ((x-ones*' ')&^x | (percent-ones)&^percent | (del-ones)&^del) & highs
}

// withoutScheme reports whether a text that starts with letters certainly has no scheme: a slash
// comes before any colon.
func withoutScheme(s string) bool {
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '/':
			return true
		case !hostBytes[s[i]] && s[i] != '+':
			return false
		}
	}
	return true
}

// usualScheme returns a frequent scheme as a constant, which does not refer to the text; "" for
// others.
func usualScheme(s string) string {
	switch s {
	case "https":
		return "https"
	case "http":
		return "http"
	case "oci":
		return "oci"
	case "file":
		return "file"
	case "grpc":
		return "grpc"
	case "tcp":
		return "tcp"
	}
	return ""
}

// equalCase reports whether s equals want after changing the case of the letters in a range.
func equalCase(s, want string, lo, hi byte) bool {
	if len(s) != len(want) {
		return false
	}
	for i := 0; i < len(s); i++ {
		b := s[i]
		if b >= lo && b <= hi {
			b ^= 0x20
		}
		if b != want[i] {
			return false
		}
	}
	return true
}
