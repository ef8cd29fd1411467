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

func TestCatalogIsWide(t *testing.T) {
	all, err := Definitions(Catalog())
	if err != nil {
		t.Fatal(err)
	}
	projects, beta := map[string]int{}, 0
	for i := range all {
		projects[all[i].Project]++
		if all[i].Beta {
			beta++
		}
	}
	if len(projects) < 15 || len(all) < 400 || beta < 20 {
		t.Errorf("%d projects, %d definitions, %d of them v1beta1; want 15, 400 and 20", len(projects), len(all), beta)
	}
	t.Logf("%d projects, %d definitions, %d of them v1beta1: %v", len(projects), len(all), beta, projects)
}
