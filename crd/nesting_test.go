package crd

import (
	"fmt"
	"strings"
	"testing"

	"github.com/keelson-io/keelson/kind"
)

func TestCheckNesting(t *testing.T) {
	long := `"` + strings.Repeat("x", 1<<20) + `"`
	nested := func(n int, open, leaf, end string) string {
		return strings.Repeat(open, n) + leaf + strings.Repeat(end, n)
	}
	for name, c := range map[string]struct{ text, want string }{
		"as deep as can be":                 {nested(kind.MaxDepth, `{"items":`, "1", "}"), ""},
		"deeper":                            {nested(kind.MaxDepth+1, `{"items":`, "1", "}"), "more than 1000 levels"},
		"lists that are deeper":             {nested(kind.MaxDepth+1, `[`, "1", "]"), "more than 1000 levels"},
		"brackets in texts":                 {`{"a":"` + strings.Repeat("[{", 2000) + `","b":"\"` + strings.Repeat("[{", 2000) + `"}`, ""},
		"a long text":                       {nested(500, `{"properties":{"a":`, long, "}}"), ""},
		"a long text below items":           {nested(100, `{"items":`, long, "}"), "counted once for each such level"},
		"a long text below ITEMS":           {nested(100, `{"ITEMS" :`, long, "}"), "counted once for each such level"},
		"a long text below items, escaped":  {nested(100, `{"item\u0073":`, long, "}"), "counted once for each such level"},
		"a long text below dependencies":    {nested(100, `{"dependencies":{"a":`, long, "}}"), "counted once for each such level"},
		"no JSON":                           {`}}}"`, ""},
		"a text that does not end":          {`{"a`, ""},
		"a text that ends with a backslash": {`{"a\`, ""},
	} {
		err := checkNesting([]byte(c.text))
		if got := fmt.Sprint(err); c.want == "" && err != nil || !strings.Contains(got, c.want) {
			t.Errorf("%s: got %v, want %q in it", name, err, c.want)
		}
	}
}
