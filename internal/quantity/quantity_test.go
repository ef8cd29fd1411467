package quantity

import (
	"strings"
	"testing"
)

func TestTooLong(t *testing.T) {
	for text, want := range map[string]bool{
		"":                                    false,
		"500m":                                false,
		"1Ei":                                 false,
		"1e3":                                 false,
		"1E1000":                              false,
		"-1e-1000":                            false,
		"1e1001":                              true,
		"1E+1001":                             true,
		"1e-1001":                             true,
		"+.5e2147483647":                      true,
		"1e4294967297":                        false, // the exponent overflows to 1
		"1e99999999999999999999":              false, // refused: it has no 64 bits
		strings.Repeat("9", 1000):             false,
		strings.Repeat("9", 1001):             true,
		strings.Repeat("9", 999) + "e9":       false,
		strings.Repeat("9", 2000) + "none":    false, // refused: there is no such suffix
		strings.Repeat("9", 1001) + "e9":      true,
		"0." + strings.Repeat("0", 999) + "1": true,
	} {
		if got := TooLong(text); got != want {
			t.Errorf("TooLong(%.20s, of %d bytes): got %v, want %v", text, len(text), got, want)
		}
		if TooLong(text) && !MayBeTooLong([]byte(`{"a":" `+text+`"}`)) {
			t.Errorf("MayBeTooLong(%.20s): got false, and it is", text)
		}
	}
	if MayBeTooLong([]byte(`{"name":"fe12345","b":"12fe1234","c":"1e999","d":"sha256/3e4567"}`)) {
		t.Error("MayBeTooLong: got true for ordinary texts")
	}
}

// FuzzMayBeTooLong holds the quick look to what it promises.
func FuzzMayBeTooLong(f *testing.F) {
	f.Add("1e1001")
	f.Add("-12.5E-20000")
	f.Add(strings.Repeat("1", 1001) + "Ki")
	f.Fuzz(func(t *testing.T, text string) {
		if TooLong(text) && !MayBeTooLong([]byte(text)) {
			t.Errorf("TooLong(%q), but it may not be", text)
		}
	})
}
