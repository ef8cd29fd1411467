package crdsource

import (
	"encoding/json"

	"github.com/keelson-io/keelson/internal/manifest"
)

// This file joins definitions that catalogues have in parts.

// Merge joins the definitions that have one name and were made of JSON schemas, each of one version:
// the first version is stored. Equal definitions are kept once.
func Merge(docs []manifest.Document) ([]manifest.Document, error) {
	at := map[string]int{}
	var out []manifest.Document
	for _, d := range docs {
		var head struct{ Metadata struct{ Name string } }
		if json.Unmarshal(d.JSON, &head) != nil {
			out = append(out, d)
			continue
		}
		i, ok := at[head.Metadata.Name]
		if !ok {
			at[head.Metadata.Name] = len(out)
			out = append(out, d)
			continue
		}
		joined, err := join(out[i].JSON, d.JSON)
		if err != nil {
			return nil, err
		}
		out[i].SetJSON(joined)
	}
	return out, nil
}

// join adds the versions of b that a does not have to a.
func join(a, b []byte) ([]byte, error) {
	var x, y map[string]any
	if err := json.Unmarshal(a, &x); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(b, &y); err != nil {
		return nil, err
	}
	spec, _ := x["spec"].(map[string]any)
	other, _ := y["spec"].(map[string]any)
	versions, _ := spec["versions"].([]any)
	more, _ := other["versions"].([]any)
	known := map[any]bool{}
	for _, v := range versions {
		if v, ok := v.(map[string]any); ok {
			known[v["name"]] = true
		}
	}
	for _, v := range more {
		if v, ok := v.(map[string]any); ok && !known[v["name"]] {
			v["storage"] = false
			versions = append(versions, v)
		}
	}
	spec["versions"] = versions
	return json.Marshal(x)
}
