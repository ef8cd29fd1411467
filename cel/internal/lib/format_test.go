package lib

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/api/validation"
)

// TestPrefixes holds the checks of prefixes equal to upstream's.
func TestPrefixes(t *testing.T) {
	upstream := map[string]validation.ValidateNameFunc{
		"dns1123LabelPrefix": validation.NameIsDNSLabel, "dns1123SubdomainPrefix": validation.NameIsDNSSubdomain, "dns1035LabelPrefix": validation.NameIsDNS1035Label,
	}
	formats := Formats()
	for name, check := range upstream {
		for _, s := range []string{"", "-", "--", "a-", "a--", "ab-", "1-", "a.-", "a.b-", "-a-", "a-b", "A-", "ä-"} {
			if got, want := formats[name].Validate(s), check(s, true); !slices.Equal(got, want) {
				t.Errorf("%s of %q: got %q, want %q", name, s, got, want)
			}
		}
	}
}
