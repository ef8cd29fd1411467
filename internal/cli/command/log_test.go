package command

import (
	"bytes"
	"errors"
	"strings"
	"testing"
)

// TestLongTextsInLog logs long texts that clients chose.
func TestLongTextsInLog(t *testing.T) {
	long := strings.Repeat("é", 1<<19)
	for _, format := range []string{"text", "json"} {
		var b bytes.Buffer
		logger, err := NewLogger(&b, format, 0)
		if err != nil {
			t.Fatal(err)
		}
		logger.Warn("undecided", "path", "/a"+long, "error", errors.New("no b"+long), "user", "ann", "n", 5)
		got := b.String()
		if len(got) > 3*maxLogged || strings.Count(got, "é") != maxLogged-3 {
			t.Errorf("%s: %d bytes, %d letters", format, len(got), strings.Count(got, "é"))
		}
		for _, want := range []string{"/aé", "é… (1048578 bytes)", "no bé", "é… (1048580 bytes)", "ann", "5", "undecided"} {
			if !strings.Contains(got, want) {
				t.Errorf("%s: got %.300s, want in it %q", format, got, want)
			}
		}
		if strings.Contains(got, "\ufffd") {
			t.Errorf("%s: a letter is cut", format)
		}
	}
}
