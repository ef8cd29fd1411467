package nearest

import "testing"

func TestName(t *testing.T) {
	names := []string{"replicas", "selector", "template", "a"}
	for word, want := range map[string]string{
		"replica": "replicas", "Replicas": "replicas", "repilcas": "replicas", "templates": "template", "tmplt": "", "b": "a", "": "", "status": "",
	} {
		if got := Name(word, names); got != want {
			t.Errorf("%q: got %q, want %q", word, got, want)
		}
	}
}

func TestDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"ab", "ba", 1}, {"kitten", "sitting", 3}, {"", "abc", 3}, {"abc", "abc", 0}} {
		if got := Distance(c.a, c.b); got != c.want {
			t.Errorf("%s, %s: got %d, want %d", c.a, c.b, got, c.want)
		}
	}
}
