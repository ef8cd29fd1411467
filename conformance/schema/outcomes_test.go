package schema_test

import (
	"os"
	"strings"
	"testing"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// TestRuleOutcomes compares what both say about the objects of package schema's own table.
func TestRuleOutcomes(t *testing.T) {
	text, err := os.ReadFile("../../schema/testdata/rules.txt")
	if err != nil {
		t.Fatal(err)
	}
	full := func(members string) []byte {
		for text, n := range map[string]int{"a5119": 5119, "a5120": 5120, "a5121": 5121} {
			members = strings.ReplaceAll(members, text, strings.Repeat("a", n))
		}
		return []byte(`{"apiVersion":"g/v1","kind":"K","metadata":{},` + members + `}`)
	}
	var p *pair
	var old []byte
	invalid := 0
	for line := range strings.Lines(string(text)) {
		switch what, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " "); what {
		case "schema":
			var s apiextv1.JSONSchemaProps
			if err := yaml.Unmarshal([]byte(rest), &s); err != nil {
				t.Fatal(err)
			}
			p, old = newPair(t, rest, &s), nil
		case "old":
			old = full(rest)
		case "new":
			before := p.invalid
			p.check(t, full(rest), old, false)
			invalid += p.invalid - before
		}
	}
	if invalid < 10 {
		t.Errorf("%d invalid objects", invalid)
	}
}
