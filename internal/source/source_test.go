package source

import (
	"fmt"
	"testing"
)

func TestSplit(t *testing.T) {
	for path, want := range map[string]string{
		"":                                      "[]",
		"spec.versions[0].name":                 `["spec" "versions" "0" "name"]`,
		"metadata.annotations[a.b/c].x":         `["metadata" "annotations" "a.b/c" "x"]`,
		"a.properties[x].items.properties[y.z]": `["a" "properties" "x" "items" "properties" "y.z"]`,
		"a[":                                    `["a" "["]`,
	} {
		if got := fmt.Sprintf("%q", Split(path)); got != want {
			t.Errorf("%s: got %s, want %s", path, got, want)
		}
	}
}

func TestFind(t *testing.T) {
	text := New([]byte(`apiVersion: v1
spec: &s
  ports:
  - name: a
  - {name: b, "größe": 1, port: 2}
more: *s
`), 11)
	for path, want := range map[string]string{
		"":                     "11:1",
		"spec":                 "12:1",
		"spec.ports[1].port":   "15:27",
		"spec.ports[1].none.x": "15:5",
		"spec.ports[7].name":   "13:3",
		"more.ports[0].name":   "14:5",
		"none":                 "11:1",
	} {
		line, column := text.Find(path)
		if got := fmt.Sprintf("%d:%d", line, column); got != want {
			t.Errorf("%s: got %s, want %s", path, got, want)
		}
	}
	broken := New([]byte("a: b: c"), 3)
	if line, column := broken.Find("a"); line != 3 || column != 1 {
		t.Errorf("not YAML: got %d:%d, want 3:1", line, column)
	}
}
