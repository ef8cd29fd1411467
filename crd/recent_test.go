package crd

import (
	"strings"
	"testing"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// TestRecentSchemasAreBounded reads more schemas, and longer ones, than are remembered.
func TestRecentSchemasAreBounded(t *testing.T) {
	for _, test := range []struct{ length, many, want int }{{100, 50, 8}, {300 << 10, 20, 4}, {2 << 20, 5, 1}} {
		var r recentSchemas
		for n := range test.many {
			r.put([]byte(strings.Repeat(string(rune('a'+n%26)), test.length+n)), &apiextv1.JSONSchemaProps{}, true)
		}
		held, bytes := 0, 0
		for _, s := range r.all {
			if s != nil {
				held++
				bytes += len(s.text)
			}
		}
		if held != test.want || bytes > 1<<20+test.length+test.many {
			t.Errorf("%d schemas of %d bytes: %d of them with %d bytes are held, want %d", test.many, test.length, held, bytes, test.want)
		}
	}
}
