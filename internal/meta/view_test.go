package meta

import "testing"

func TestLabels(t *testing.T) {
	l := Labels{{"a", "1"}, {"b", ""}}
	if !l.Has("b") || l.Has("c") || l.Get("a") != "1" || l.Get("c") != "" {
		t.Error("wrong labels")
	}
}
