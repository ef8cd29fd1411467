// This file measures what hostile definitions cost: as long as etcd lets them be, and made to be expensive.

package main

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"time"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-io/keelson/crd"
	"github.com/keelson-io/keelson/kind"
)

// maxDefinition is about how long a definition can be: etcd takes 1.5 MiB.
const maxDefinition = 1_500_000

// many is what part makes of 0, 1, 2, … , separated by commas, as often as fits into a definition, or most times.
func many(most int, part func(i int) string) string {
	var b strings.Builder
	for i := 0; i < most && b.Len() < maxDefinition; i++ {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(part(i))
	}
	return b.String()
}

// tree is a schema of nested junctors, two in each.
func tree(depth int) string {
	if depth == 0 {
		return `{"minLength":1}`
	}
	below := tree(depth - 1)
	return `{"oneOf":[` + below + `,` + below + `]}`
}

// hostileDefinitions are schemas of spec, in JSON.
func hostileDefinitions() []struct{ name, schema string } {
	const all = 1 << 30
	return []struct{ name, schema string }{
		{"an enum of 1.5 MB", `{"type":"string","enum":[` + many(all, func(i int) string { return fmt.Sprintf(`"value-%d"`, i) }) + `]}`},
		{"oneOf of 1.5 MB", `{"type":"string","oneOf":[` + many(all, func(i int) string { return fmt.Sprintf(`{"pattern":"^a%d$"}`, i) }) + `]}`},
		{"oneOf in oneOf, 65,536 leaves", `{"type":"string",` + tree(16)[1:]},
		{"properties, 1.5 MB", `{"type":"object","properties":{` + many(all, func(i int) string { return fmt.Sprintf(`"p%d":{"type":"string"}`, i) }) + `}}`},
		{"490 levels of properties", strings.Repeat(`{"type":"object","properties":{"a":`, 490) + `{"type":"string"}` + strings.Repeat(`}}`, 490)},
		{"a required list of 1.5 MB", `{"type":"object","required":[` + many(all, func(i int) string { return fmt.Sprintf(`"p%d"`, i) }) + `]}`},
		{"a pattern of 1.5 MB", `{"type":"string","pattern":"` + many(all, func(i int) string { return fmt.Sprintf(`(a%d|b)*`, i) }) + `"}`},
		{"a pattern that repeats a million times", `{"type":"string","pattern":"((a{1000}){1000}){1000}"}`},
		{"patterns that repeat a thousand times, 1.5 MB", `{"type":"object","properties":{` + many(all, func(i int) string { return fmt.Sprintf(`"p%d":{"type":"string","pattern":"^(a|%d){1000}$"}`, i, i) }) + `}}`},
		{"a default of 1.5 MB", `{"type":"array","items":{"type":"integer"},"default":[` + many(all, func(i int) string { return "1" }) + `]}`},
		{"rules, 1.5 MB", `{"type":"object","properties":{"a":{"type":"integer"}},"x-kubernetes-validations":[` + many(all, func(i int) string { return fmt.Sprintf(`{"rule":"self.a != %d"}`, i) }) + `]}`},
		{"a rule of 1.5 MB", `{"type":"object","properties":{"a":{"type":"integer"}},"x-kubernetes-validations":[{"rule":"self.a in [` + many(all, func(i int) string { return "1" }) + `]"}]}`},
		{"a rule of 1,000 parentheses", `{"type":"object","properties":{"a":{"type":"integer"}},"x-kubernetes-validations":[{"rule":"` + strings.Repeat("(", 1000) + "self.a == 1" + strings.Repeat(")", 1000) + `"}]}`},
		{"a rule that goes through a list 20 times over", `{"type":"array","maxItems":10,"items":{"type":"integer"},"x-kubernetes-validations":[{"rule":"` + nested(20) + `"}]}`},
	}
}

func nested(depth int) string {
	if depth == 0 {
		return "true"
	}
	return fmt.Sprintf("self.all(x%d, %s)", depth, nested(depth-1))
}

// hostileDefinitionTable shows what it costs to check each as a new definition and to compile it.
func hostileDefinitionTable() (string, error) {
	var b strings.Builder
	b.WriteString("| definition | bytes | time | memory, all of it | kept | answer |\n| --- |" + strings.Repeat(" ---: |", 4) + " --- |\n")
	for _, row := range hostileDefinitions() {
		body := []byte(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"widgets.bench.example.org"},"spec":{"group":"bench.example.org","scope":"Cluster",` +
			`"names":{"plural":"widgets","kind":"Widget"},"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":` + row.schema + `}}}}]}}`)
		if !json.Valid(body) {
			return "", fmt.Errorf("%s: no JSON", row.name)
		}
		empty := heap()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		start := time.Now()
		k, errs, err := created(body)
		took := time.Since(start)
		runtime.ReadMemStats(&after)
		answer := "valid"
		switch {
		case err != nil:
			answer = fmt.Sprintf("refused, %s bytes", figure(float64(len(err.Error()))))
		case len(errs) > 0:
			answer = fmt.Sprintf("%d errors, %s bytes", len(errs), figure(float64(len(errs.ToAggregate().Error()))))
		}
		kept := heap() - empty
		runtime.KeepAlive(k)
		fmt.Fprintf(&b, "| %s | %s | %s ms | %.0f MB | %.1f MB | %s |\n", row.name, figure(float64(len(body))), figure(float64(took.Microseconds())/1e3),
			float64(after.TotalAlloc-before.TotalAlloc)/(1<<20), float64(max(kept, 0))/(1<<20), answer)
	}
	return b.String(), nil
}

// created checks a new definition and compiles all of it.
func created(body []byte) (*kind.Kind, field.ErrorList, error) {
	var definition *apiextv1.CustomResourceDefinition
	definition, errs, err := crd.New(body)
	if err != nil || len(errs) > 0 {
		return nil, errs, err
	}
	k, err := crd.Compile(definition)
	if err != nil {
		return nil, nil, err
	}
	return k, nil, k.Version("v1").Schema.Load()
}
