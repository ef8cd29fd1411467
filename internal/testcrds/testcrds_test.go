package testcrds

import "testing"

func TestFamiliesHoldWhatTestsRunOn(t *testing.T) {
	for _, f := range Families() {
		t.Run(f.Name, func(t *testing.T) {
			crds, err := CRDs(f)
			if err != nil {
				t.Fatal(err)
			}
			examples, err := Examples(f)
			if err != nil {
				t.Fatal(err)
			}
			if f.Examples != nil && len(examples) == 0 {
				t.Errorf("%s: no example object in %v", f.Name, f.Examples)
			}
			t.Logf("%d definitions, %d examples", len(crds), len(examples))
		})
	}
}
