package cel_test

import (
	"os"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// TestExpressions runs the table of expressions on both sides.
// Ledger: cel-functions.
func TestExpressions(t *testing.T) {
	text, err := os.ReadFile("testdata/expressions.txt")
	if err != nil {
		t.Fatal(err)
	}
	var up *upstream
	var our *subject
	var data any
	count, differ := 0, 0
	for i, line := range strings.Split(string(text), "\n") {
		switch {
		case line == "" || strings.HasPrefix(line, "# "):
		case strings.HasPrefix(line, "schema "):
			s := structural(t, line[len("schema "):])
			up, our = newUpstream(t, s, false), newSubject(t, s, false)
		case strings.HasPrefix(line, "data "):
			data = parseData(t, line[len("data "):])
		default:
			count++
			want, got := normal(up.run(line, data, data)), normal(our.run(t, line, data, data))
			if want != got && !known(line, want, got) {
				differ++
				t.Errorf("expressions.txt:%d: %s\n\tupstream %v\n\tkeelson  %v", i+1, line, want, got)
			}
		}
	}
	t.Logf("%d expressions, %d differ", count, differ)
}

// known reports whether a difference is intended: upstream panics on lists that
// are errors, and names whichever bad member Go's map order shows it first.
func known(expr string, want, got outcome) bool {
	if want.compile != "" || want.estimate != got.estimate {
		return false
	}
	if strings.HasPrefix(want.err, panicked) {
		return got.err != ""
	}
	const bad = "invalid data, "
	return expr == "self == oldSelf" && strings.HasPrefix(want.err, bad) && strings.HasPrefix(got.err, bad)
}

// parseData reads YAML as a client's body is read: integers are int64.
func parseData(t testing.TB, text string) any {
	t.Helper()
	var v any
	if err := yaml.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	return integers(v)
}

func integers(v any) any {
	switch v := v.(type) {
	case float64:
		if v == float64(int64(v)) {
			return int64(v)
		}
	case []any:
		for i := range v {
			v[i] = integers(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = integers(v[k])
		}
	}
	return v
}
