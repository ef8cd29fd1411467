// This file removes the fields of --ignore-path from objects.

package cli

import (
	"bytes"
	"encoding/json"
	"strconv"

	"github.com/keelson-io/keelson/internal/manifest"
)

// without returns a document without the fields at paths. The step * stands for all items of a list
// or all keys of a map.
func without(d manifest.Document, paths [][]string) (manifest.Document, error) {
	if len(paths) == 0 || d.Err != nil {
		return d, d.Err
	}
	dec := json.NewDecoder(bytes.NewReader(d.JSON))
	dec.UseNumber()
	var value any
	if err := dec.Decode(&value); err != nil {
		return d, err
	}
	for _, p := range paths {
		remove(value, p)
	}
	text, err := json.Marshal(value)
	d.SetJSON(text)
	return d, err
}

// remove removes what a path leads to.
func remove(value any, path []string) {
	step, last := path[0], len(path) == 1
	switch value := value.(type) {
	case map[string]any:
		switch {
		case last && step == "*":
			clear(value)
		case last:
			delete(value, step)
		case step == "*":
			for _, v := range value {
				remove(v, path[1:])
			}
		default:
			remove(value[step], path[1:])
		}
	case []any:
		for i, v := range value {
			if !last && (step == "*" || step == strconv.Itoa(i)) {
				remove(v, path[1:])
			}
		}
	}
}
