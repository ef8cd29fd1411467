package kind

import (
	"encoding/json"
	"maps"
	"slices"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// This file makes definitions smaller that show a difference.

// shrink takes parts of a definition away, and of what it replaces if there is
// such, as long as they show the difference.
func shrink(crd, old *apiextv1.CustomResourceDefinition, shows func(crd, old *apiextv1.CustomResourceDefinition) bool) (*apiextv1.CustomResourceDefinition, *apiextv1.CustomResourceDefinition) {
	pair := map[string]any{"new": tree(crd)}
	if old != nil {
		pair["old"] = tree(old)
	}
	read := func() (a, b *apiextv1.CustomResourceDefinition, ok bool) {
		if a = typed(pair["new"]); pair["old"] != nil {
			b = typed(pair["old"])
		}
		return a, b, a != nil && (b != nil || pair["old"] == nil)
	}
	for again := true; again; {
		again = false
		reduce(pair, func() bool {
			a, b, ok := read()
			if ok && shows(a, b) {
				again = true
				return true
			}
			return false
		})
	}
	a, b, _ := read()
	return a, b
}

func tree(crd *apiextv1.CustomResourceDefinition) any {
	text, err := json.Marshal(crd)
	if err != nil {
		panic("BUG: " + err.Error())
	}
	var v any
	if err := json.Unmarshal(text, &v); err != nil {
		panic("BUG: " + err.Error())
	}
	return v
}

func typed(v any) *apiextv1.CustomResourceDefinition {
	text, err := json.Marshal(v)
	crd := new(apiextv1.CustomResourceDefinition)
	if err != nil || json.Unmarshal(text, crd) != nil {
		return nil
	}
	return crd
}

// reduce tries to do without each part of v, and puts it back if it is needed.
func reduce(v any, works func() bool) {
	switch v := v.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			was := v[key]
			if delete(v, key); works() {
				continue
			}
			v[key] = was
			if list, ok := was.([]any); ok {
				for i := len(list) - 1; i >= 0; i-- {
					shorter := slices.Delete(slices.Clone(list), i, i+1)
					if v[key] = shorter; works() {
						list = shorter
					}
				}
				v[key] = list
			}
			reduce(v[key], works)
		}
	case []any:
		for i := range v {
			reduce(v[i], works)
		}
	}
}
