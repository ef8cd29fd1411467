// Package quantity bounds the texts of resource quantities, such as 500m and 1e3.
//
// A quantity is a decimal number of any size. To compare 1 with 1e2147483647, Kubernetes' code computes the power of ten, which
// takes hours and gigabytes; to read 1e-2147483647, it divides by it. The function to call is TooLong, before the text is parsed.
package quantity

// This file is the whole package.

import (
	"strconv"
	"strings"
)

// Most is the largest number of digits of a quantity, and its largest exponent, positive or negative.
const Most = 1000

// TooLong reports whether a quantity has so many digits, or such an exponent, that calculations with it take long. It does not
// report texts that are refused in any case.
func TooLong(text string) bool {
	suffix := strings.TrimLeft(strings.TrimLeft(text, "+-"), "0123456789.")
	tooMany := len(text)-len(suffix) > Most
	if len(suffix) <= 2 {
		return tooMany
	}
	exponent, ok := exponentOf(suffix)
	return ok && (tooMany || exponent > Most || exponent < -Most)
}

// exponentOf returns the exponent in the suffix of a quantity, with the number of bits that
// quantities have.
func exponentOf(suffix string) (int32, bool) {
	if suffix[0] != 'e' && suffix[0] != 'E' {
		return 0, false
	}
	n, err := strconv.ParseInt(suffix[1:], 10, 64)
	return int32(n), err == nil
}

// MayBeTooLong reports whether a text of JSON may have a quantity that is TooLong. It is a quick look at the bytes: false is certain.
func MayBeTooLong(text []byte) bool {
	const sure = 3 // digits of an exponent that is surely allowed
	number := true // a number begins here, or has begun
	digits := 0
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case '0' <= c && c <= '9' || c == '.':
			if digits++; digits >= Most {
				return true
			}
		case c == 'e' || c == 'E':
			if number && exponentDigits(text[i+1:]) > sure {
				return true
			}
			number, digits = false, 0
		default:
			// The texts of quantities are whole strings, with white space around them. Any other byte before a digit, such as
			// a letter of a hash, rules one out.
			number, digits = c < '0' && c != '/' || c == ':' || c >= 0x80, 0
		}
	}
	return false
}

// exponentDigits returns the number of digits at the beginning of a text, after a sign.
func exponentDigits(text []byte) (n int) {
	if len(text) > 0 && (text[0] == '+' || text[0] == '-') {
		text = text[1:]
	}
	for n < len(text) && '0' <= text[n] && text[n] <= '9' {
		n++
	}
	return n
}
