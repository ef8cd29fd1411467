// This file measures how time grows with objects and rules, and what hostile input costs.

package main

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"time"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/keelson-io/keelson/crd"
)

// widgets is an engine for a kind with this schema of spec, written as YAML.
func widgets(spec string) (*keelsonEngine, error) {
	var props apiextv1.JSONSchemaProps
	if err := yaml.Unmarshal([]byte(spec), &props); err != nil {
		return nil, err
	}
	definition := &apiextv1.CustomResourceDefinition{Spec: apiextv1.CustomResourceDefinitionSpec{
		Group: "bench.example.org", Scope: apiextv1.ClusterScoped,
		Names: apiextv1.CustomResourceDefinitionNames{Plural: "widgets", Kind: "Widget"},
		Versions: []apiextv1.CustomResourceDefinitionVersion{{
			Name: "v1", Served: true, Storage: true,
			Schema: &apiextv1.CustomResourceValidation{OpenAPIV3Schema: &apiextv1.JSONSchemaProps{
				Type: "object", Properties: map[string]apiextv1.JSONSchemaProps{"spec": props},
			}},
		}},
	}}
	definition.Name = "widgets.bench.example.org"
	crd.Default(definition)
	return newKeelsonEngine(definition, "v1")
}

// widget is an object of that kind.
func widget(spec string) []byte {
	return []byte(`{"apiVersion":"bench.example.org/v1","kind":"Widget","metadata":{"name":"w"},"spec":` + spec + `}`)
}

// growthRows are objects from 1 KB to 1 MB, and from 1 rule to 500. 500 rules for each of 22,000 items cost more than an object may:
// so the last row has a tenth of the items, with a text of so many bytes in each.
var growthRows = []struct{ items, rules, text int }{
	{20, 1, 0}, {220, 1, 0}, {2_200, 1, 0}, {22_000, 1, 0}, {20, 10, 0}, {20, 100, 0}, {20, 500, 0}, {220, 500, 0}, {2_200, 500, 0}, {22_000, 100, 0},
	{2_200, 500, 420},
}

// growthTable shows that time grows no faster than objects and rules: for each size the time of one object, and of it per byte
// and rule that is evaluated. Short objects take turns with many others: a processor learns by heart what it does again and again.
func growthTable() (string, error) {
	var b strings.Builder
	b.WriteString("| items | bytes | rules | time | per byte | per evaluated rule |\n|" + strings.Repeat(" ---: |", 6) + "\n")
	for _, row := range growthRows {
		var rules strings.Builder
		for i := range row.rules {
			fmt.Fprintf(&rules, "{rule: \"self.name != 'm%d' || self.num > %d\"}, ", i, i)
		}
		e, err := widgets(`{type: object, properties: {l: {type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [name],
			items: {type: object, required: [name], properties: {name: {type: string, maxLength: 20, pattern: "^n[0-9]+$"}, num: {type: integer, minimum: 1}, kind: {type: string, enum: [a, b, c]}, text: {type: string, maxLength: 500}},
			x-kubernetes-validations: [` + rules.String() + `]}}}}`)
		if err != nil {
			return "", err
		}
		bodies := growthBodies(row.items, row.text)
		for _, body := range bodies {
			if errs := e.check(body); len(errs) > 0 {
				return "", errs.ToAggregate()
			}
		}
		size := float64(len(bodies[0]))
		took := leastOf(5, func() {
			for _, body := range bodies {
				e.check(body)
			}
		})[0] / float64(len(bodies))
		fmt.Fprintf(&b, "| %s | %s | %d | %s µs | %.1f ns | %.0f ns |\n", figure(float64(row.items)), figure(size), row.rules,
			figure(took), took*1e3/size, took*1e3/float64(row.items*row.rules))
	}
	return b.String(), nil
}

// growthBodies are objects of so many items, different ones, with as many items together as the largest object has;
// in each item is a text so long, if it is not 0.
func growthBodies(items, text int) [][]byte {
	const together = 22_000
	r := rand.New(rand.NewPCG(1, 2))
	bodies := make([][]byte, together/items)
	more := ""
	if text > 0 {
		more = `,"text":"` + strings.Repeat("x", text) + `"`
	}
	for i := range bodies {
		var list strings.Builder
		for j := range items {
			fmt.Fprintf(&list, `,{"kind":"%c","name":"n%08d","num":%d%s}`, "abc"[r.IntN(3)], j*1_000+r.IntN(1_000), 1_000_000+r.IntN(9_000_000), more)
		}
		bodies[i] = widget(`{"l":[` + list.String()[1:] + `]}`)
	}
	return bodies
}

// maxBody is the longest body of a request.
const maxBody = 3 << 20

// filled repeats a part until the whole is as long as a body may be.
func filled(before, part, after string) string {
	return before + strings.Repeat(part, (maxBody-200-len(before)-len(after))/len(part)) + after
}

// hostile are objects that are as long as they may be and made to be expensive.
func hostile() []struct{ name, schema, spec string } {
	names := make([]string, 10_000)
	for i := range names {
		names[i] = fmt.Sprintf("a-long-value-of-an-enum-%d", i)
	}
	list := "[" + strings.Join(names, ", ") + "]"
	var wide, branches strings.Builder
	for i := range 500 {
		fmt.Fprintf(&wide, "p%d: {type: string}, ", i)
	}
	for i := range 100 {
		fmt.Fprintf(&branches, "{required: [p%d]}, ", i)
	}
	held := strings.Repeat("{minimum: 0}, ", 50_000)
	long := strings.Repeat("k", 1<<20)
	return []struct{ name, schema, spec string }{
		{"a million integers", `{type: object, properties: {l: {type: array, items: {type: integer}}}}`, filled(`{"l":[1`, `,1`, `]}`)},
		{"each wrong by an enum of 10,000 texts", `{type: object, properties: {l: {type: array, items: {type: string, enum: ` + list + `}}}}`, filled(`{"l":["x"`, `,"y"`, `]}`)},
		{"each lacks 10,000 required members", `{type: object, properties: {l: {type: array, items: {type: object, required: ` + list + `}}}}`, filled(`{"l":[{}`, `,{}`, `]}`)},
		{"empty objects of 500 declared members", `{type: object, properties: {l: {type: array, items: {type: object, properties: {` + wide.String() + `}}}}}`, filled(`{"l":[{}`, `,{}`, `]}`)},
		{"none of 100 branches of oneOf, each", `{type: object, properties: {l: {type: array, items: {type: object, properties: {` + wide.String() + `}, oneOf: [` + branches.String() + `]}}}}`, filled(`{"l":[{}`, `,{}`, `]}`)},
		{"all of 50,000 branches of allOf, each", `{type: object, properties: {l: {type: array, items: {type: integer, allOf: [` + held + `]}}}}`, filled(`{"l":[1`, `,1`, `]}`)},
		{"members below a key of 1 MiB", `{type: object, properties: {m: {type: object, additionalProperties: {type: object, additionalProperties: {type: string}}}}}`,
			`{"m":{"` + long + `":` + filled(`{"a":1`, `,"b":1`, `}`)[1<<20:] + `}}`},
		{"the same key again and again", `{type: object, x-kubernetes-preserve-unknown-fields: true}`, filled(`{"a":1`, `,"a":1`, `}`)},
		{"unknown keys", `{type: object}`, filled(`{"a":1`, `,"a":1`, `}`)},
		{"equal items of a set", `{type: object, properties: {l: {type: array, x-kubernetes-list-type: set, items: {type: integer}}}}`, filled(`{"l":[1`, `,1`, `]}`)},
		{"a pattern that other engines backtrack in", `{type: object, properties: {s: {type: string, pattern: "^(x+x+)+y$"}}}`, filled(`{"s":"`, "x", `"}`)},
		{"the same beyond ASCII", `{type: object, properties: {s: {type: string, pattern: "^(x+x+)+y$"}}}`, filled(`{"s":"`, "xé", `"}`)},
		{"a rule that fails for each item", `{type: object, properties: {l: {type: array, items: {type: integer, x-kubernetes-validations: [{rule: self > 1}]}}}}`, filled(`{"l":[1`, `,1`, `]}`)},
		{"a rule that is quadratic", `{type: object, properties: {l: {type: array, items: {type: integer}, x-kubernetes-validations: [{rule: "self.all(x, self.all(y, x <= y))"}]}}}`, filled(`{"l":[1`, `,1`, `]}`)},
		{"100,000 levels", `{type: object, x-kubernetes-preserve-unknown-fields: true}`, strings.Repeat(`{"a":`, 100_000) + "1" + strings.Repeat("}", 100_000)},
		{"9,000 levels that are kept", `{type: object, x-kubernetes-preserve-unknown-fields: true}`, strings.Repeat(`{"a":`, 9000) + "1" + strings.Repeat("}", 9000)},
	}
}

// hostileTable shows what they cost.
func hostileTable() (string, error) {
	var b strings.Builder
	b.WriteString("| object | bytes | time | memory, all of it | answer |\n| --- |" + strings.Repeat(" ---: |", 3) + " --- |\n")
	for _, row := range hostile() {
		e, err := widgets(row.schema)
		if err != nil {
			return "", fmt.Errorf("%s: %w", row.name, err)
		}
		body := widget(row.spec)
		e.check(widget(`{}`)) // compiles
		collect()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		start := time.Now()
		errs := e.check(body)
		took := time.Since(start)
		runtime.ReadMemStats(&after)
		answer, text := "valid", 0
		for _, e := range errs {
			text += len(e.Field) + len(e.Detail)
		}
		if len(errs) > 0 {
			answer = fmt.Sprintf("%d errors, %s bytes", len(errs), figure(float64(text)))
		}
		fmt.Fprintf(&b, "| %s | %s | %s ms | %.0f MB | %s |\n", row.name, figure(float64(len(body))), figure(float64(took.Microseconds())/1e3),
			float64(after.TotalAlloc-before.TotalAlloc)/(1<<20), answer)
	}
	return b.String(), nil
}
