package crd

import (
	"fmt"
	"strings"
	"testing"
)

// TestBoundsOfDefinitions holds where the bounds of what is no schema are.
func TestBoundsOfDefinitions(t *testing.T) {
	definition := func(first, more string) string {
		const schema = `"schema":{"openAPIV3Schema":{"type":"object","properties":{"a0":{"type":"string"},"a1":{"type":"string"},"a2":{"type":"string"},"a3":{"type":"string"},
			"a4":{"type":"string"},"a5":{"type":"string"},"a6":{"type":"string"},"a7":{"type":"string"},"a8":{"type":"string"}}}}`
		return `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"widgets.example.org"},"spec":{"group":"example.org","scope":"Cluster",
			"names":{"plural":"widgets","kind":"Widget"},"versions":[{"name":"v1",` + schema + `,` + first + `}` + strings.ReplaceAll(more, "SCHEMA", schema) + `]}}`
	}
	warning := func(text string) string {
		return definition(`"served":true,"storage":true,"deprecated":true,"deprecationWarning":"`+text+`"`, ``)
	}
	selectable := func(n int) string {
		var fields []string
		for i := range n {
			fields = append(fields, fmt.Sprintf(`{"jsonPath":".a%d"}`, i))
		}
		return definition(`"served":true,"storage":true,"selectableFields":[`+strings.Join(fields, ",")+`]`, ``)
	}
	for _, row := range []struct{ name, text, want string }{
		{"256 bytes", warning(strings.Repeat("é", 128)), ""},
		{"258 bytes", warning(strings.Repeat("é", 129)), "must be <= 256 characters long"},
		{"eight fields", selectable(8), ""},
		{"nine fields", selectable(9), "must have at most 8 items"},
		{"the storage version is not served", definition(`"served":false,"storage":true`, `,{"name":"v2","served":true,"storage":false,SCHEMA}`), ""},
		{"two of them, one not served", definition(`"served":false,"storage":true`, `,{"name":"v2","served":true,"storage":true,SCHEMA}`), "must have exactly one version marked as storage version"},
	} {
		_, errs, err := New([]byte(row.text))
		if err != nil {
			t.Fatal(row.name, err)
		}
		if row.want == "" && len(errs) > 0 || row.want != "" && (len(errs) == 0 || !strings.Contains(errs[0].Detail, row.want)) {
			t.Errorf("%s: got %v, want %q", row.name, errs, row.want)
		}
	}
}
