package declared

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/keelson-io/keelson/jsondoc"
)

// TestCheck holds that the search finds what a conversion loses, and that declaring the loss ends it.
func TestCheck(t *testing.T) {
	all := `
both:
- move: {version: spec.replicaCount, hub: spec.replicas}
- move: {version: spec.routes, hub: spec.rules}
- move: {version: 'spec.routes[*].prefix', hub: 'spec.rules[*].path'}
`
	rows := []struct{ name, spoke, want string }{
		{"undeclared", all, `lost v1beta1: spec.routes[*].debug`},
		{"undeclared in the hub", all, `lost v1: spec.host`},
		{"values that become one", all + "- values: {version: spec.mode, hub: spec.mode, pairs: [{version: fast, hub: Fast}, {version: slow, hub: Slow}, {version: turbo, hub: Fast}]}", `lost v1beta1: spec.mode`},
		{"a value without a pair", all + "- values: {version: spec.mode, hub: spec.mode, pairs: [{version: fast, hub: Fast}, {version: slow, hub: Slow}]}", `invalid v1beta1: spec.mode: Unsupported value: "turbo"`},
		{"texts that are not what a split expects", all + "- split: {version: spec.address, hub: [spec.host, spec.port], separator: ':'}", `failed v1beta1: spec.address: got "a:b", want an integer as part 2`},
		{"a map without an order", all + "- listToMap: {version: spec.env, hub: spec.env, key: name, value: value}", `lost v1beta1: spec.env`},
		{"a list whose items have no keys", all + "- mapToList: {version: spec.labels, hub: spec.labelList, key: key, value: text}", `failed v1: spec.labelList: item 0 has no key`},
		{"only one item", all + "- move: {version: spec.template.image, hub: 'spec.images[0]'}", `lost v1: spec.images`},
		{"empty objects", all + "- move: {version: spec.template.image, hub: 'spec.images[0]'}", `lost v1beta1: spec.template`},
		{"a value that rules decide", all + `toHub: {set: [{field: spec.summary, expression: "self.spec.address == 'magic' ? [''][1] : 'x'", when: has(self.spec.address)}]}`, `failed v1beta1: index out of bounds`},
	}
	for _, row := range rows {
		report, err := compiled(t, row.spoke).Check(context.Background(), 1500)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		found := false
		for _, f := range report.Findings {
			text := string(f.Kind) + " " + f.From + ": " + f.Field() + f.Message
			got = append(got, text)
			kind, rest, _ := strings.Cut(row.want, ": ")
			found = found || strings.HasPrefix(text, kind+": ") && strings.Contains(text, rest)
			if v := f.From; f.Kind == Lost && !strings.Contains(string(f.Object), v) {
				t.Errorf("%s: the object %s is not in version %s", row.name, f.Object, v)
			}
		}
		if !found {
			t.Errorf("%s:\n got %s\nwant %s", row.name, strings.Join(got, "\n     "), row.want)
		}
	}
}

// TestCheckDeclared holds that the published example has declared all its losses, that its preserved
// fields come back, and that removing any declaration is found.
func TestCheckDeclared(t *testing.T) {
	text, err := os.ReadFile("testdata/whole.yaml")
	if err != nil {
		t.Fatal(err)
	}
	check := func(text string, objects int) *Report {
		t.Helper()
		j, err := yaml.YAMLToJSON([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		c, err := Parse(j)
		if err != nil {
			t.Fatal(err)
		}
		out, err := Compile(definition(t), c)
		if err != nil {
			return &Report{Findings: []Finding{{Message: err.Error()}}}
		}
		report, err := out.Check(context.Background(), objects)
		if err != nil {
			t.Fatal(err)
		}
		return report
	}
	report := check(string(text), 0)
	for _, f := range report.Findings {
		t.Errorf("%s %s: %s %s\n%s\n%s\n%s", f.Kind, f.From, f.Field(), f.Message, f.Object, f.Converted, f.Returned)
	}
	if report.Objects < 150 {
		t.Errorf("got %d objects, want at least 300", report.Objects)
	}
	n := 0
	for line := range strings.Lines(string(text)) {
		if !strings.Contains(line, "# lossy") {
			continue
		}
		n++
		if len(check(strings.Replace(string(text), line, "", 1), 600).Findings) == 0 {
			t.Errorf("without this line, the check finds nothing: %s", line)
		}
	}
	if n < 5 {
		t.Errorf("got %d lines with declarations, want at least 5", n)
	}
}

// TestCheckIsDeterministic holds that a check has the same result each time, and that it ends with
// its context.
func TestCheckIsDeterministic(t *testing.T) {
	c := compiled(t, "both: [{move: {version: spec.replicaCount, hub: spec.replicas}}]")
	var before []byte
	for range 2 {
		report, err := c.Check(context.Background(), 400)
		if err != nil {
			t.Fatal(err)
		}
		text, _ := json.Marshal(report)
		if before != nil && !bytes.Equal(text, before) {
			t.Errorf("got\n%s\nand\n%s", before, text)
		}
		before = text
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := c.Check(ctx, 0); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want that of the context", err)
	}
}

// TestBounds has conversions that would multiply work or memory.
func TestBounds(t *testing.T) {
	list := func(n int) string {
		return "[" + strings.TrimSuffix(strings.Repeat("{prefix: /a}, ", n), ", ") + "]"
	}
	c := compiled(t, `toHub: {set: [{field: spec.replicas, expression: "self.spec.routes.all(a, self.spec.routes.all(b, a.prefix == b.prefix)) ? 1 : 0"}]}`,
		"routes:\n                type: array", "routes:\n                maxItems: 100\n                type: array", "prefix: {type: string}", "prefix: {type: string, maxLength: 10}")
	if _, err := c.Convert(context.Background(), "example.com/v1", [][]byte{object(t, "v1beta1", "{routes: "+list(3000)+"}")}); err == nil || !strings.Contains(err.Error(), "may cost 10000000 units") {
		t.Errorf("got %v, want the cost limit", err)
	}
	set := `{field: 'spec.rules[*].path', item: 'spec.routes[*]', expression: "string(self.spec.routes.all(r, r.prefix == item.prefix))"}`
	c = compiled(t, "both: [{move: {version: spec.routes, hub: spec.rules}}]\ntoHub: {set: ["+set+"]}",
		"routes:\n                type: array", "routes:\n                maxItems: 100\n                type: array", "prefix: {type: string}", "prefix: {type: string, maxLength: 10}")
	if _, err := c.Convert(context.Background(), "example.com/v1", [][]byte{object(t, "v1beta1", "{routes: "+list(9000)+"}")}); err == nil || !strings.Contains(err.Error(), "may cost 10000000 units") {
		t.Errorf("got %v, want the cost limit of all items together", err)
	}
	if _, err := c.Convert(context.Background(), "example.com/v1", [][]byte{make([]byte, MaxObject+1)}); err == nil || !strings.Contains(err.Error(), "want at most") {
		t.Errorf("got %v, want the limit of objects", err)
	}
	deep := []byte(`{"apiVersion":"example.com/v1beta1","kind":"Widget","metadata":{"name":"a"},"spec":` + strings.Repeat(`{"a":`, 9000) + "1" + strings.Repeat("}", 9000) + "}")
	if _, err := c.Convert(context.Background(), "example.com/v1", [][]byte{deep}); err != nil {
		t.Errorf("got %v, want the undeclared members to be pruned", err)
	}
	large := object(t, "v1beta1", `{replicaCount: 3, secret: "`+strings.Repeat("a", maxKept)+`"}`)
	if _, err := published(t).Convert(context.Background(), "example.com/v1", [][]byte{large}); err == nil || !strings.Contains(err.Error(), "declare large fields under drop") {
		t.Errorf("got %v, want the limit of preserved fields", err)
	}
	// A constant, once for each item, and steps that visit very many items.
	constant := compiled(t, "both: [{move: {version: spec.routes, hub: spec.rules}}]\ntoHub: {set: [{field: 'spec.rules[*].path', value: "+strings.Repeat("a", 100_000)+"}]}")
	if _, err := constant.Convert(context.Background(), "example.com/v1", [][]byte{object(t, "v1beta1", "{routes: "+list(9000)+"}")}); err == nil || !strings.Contains(err.Error(), "the result has") {
		t.Errorf("got %v, want the limit of results", err)
	}
	many := "both: [{move: {version: spec.routes, hub: spec.rules}}]\ntoHub: {set: [" + strings.TrimSuffix(strings.Repeat("{field: 'spec.rules[*].weight', value: 1}, ", 100), ", ") + "]}"
	items := []byte(`{"apiVersion":"example.com/v1beta1","kind":"Widget","metadata":{"name":"a"},"spec":{"routes":[` + strings.TrimSuffix(strings.Repeat("{},", 100_000), ",") + "]}}")
	if _, err := compiled(t, many).Convert(context.Background(), "example.com/v1", [][]byte{items}); !errors.Is(err, errTree) {
		t.Errorf("got %v, want the limit of visited items", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := c.Convert(ctx, "example.com/v1", [][]byte{object(t, "v1beta1", "{}")}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want that of the context", err)
	}
	for _, row := range []struct{ object, want string }{
		{`{"apiVersion":"example.com/v9","kind":"Widget"}`, `want versions of example.com: v1, v1beta1`},
		{`{"apiVersion":"example.com/v1beta1","kind":"Gadget"}`, `got kind "Gadget", want Widget`},
		{`[`, `got kind "", want Widget`},
	} {
		if _, err := c.Convert(context.Background(), "example.com/v1", [][]byte{[]byte(row.object)}); err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: got %v, want %s", row.object, err, row.want)
		}
	}
}

// kilobyte returns an object of about 1 KB that most steps of the published example change.
func kilobyte(t testing.TB) []byte {
	var routes strings.Builder
	for i := range 14 {
		fmt.Fprintf(&routes, "{prefix: /some/prefix/%d, weight: %d, tags: [alpha, beta]}, ", i, i)
	}
	return object(t, "v1beta1", `{replicaCount: 3, mode: fast, address: "example.com:80", template: {image: "registry.example.com/image:v1.2.3"}, routes: [`+strings.TrimSuffix(routes.String(), ", ")+`]}`)
}

// BenchmarkConvert measures the conversion of an object of 1 KB, and, beside it, a plain copy: the
// object is parsed and printed.
func BenchmarkConvert(b *testing.B) {
	moves := `
both:
- move: {version: spec.replicaCount, hub: spec.replicas}
- values: {version: spec.mode, hub: spec.mode, pairs: [{version: fast, hub: Fast}, {version: slow, hub: Slow}, {version: turbo, hub: Fast}]}
- split: {version: spec.address, hub: [spec.host, spec.port], separator: ":"}
- move: {version: spec.routes, hub: spec.rules}
- move: {version: spec.template.image, hub: "spec.images[0]"}
`
	object := kilobyte(b)
	b.Run("copy", func(b *testing.B) {
		b.SetBytes(int64(len(object)))
		for b.Loop() {
			d := jsondoc.Get()
			if err := jsondoc.Parse(d, object); err != nil {
				b.Fatal(err)
			}
			d.AppendJSON(nil, d.Root().Node)
			d.Release()
		}
	})
	for _, row := range []struct{ name, spoke string }{
		{"moves", moves},
		{"items", moves + `- move: {version: "spec.routes[*].prefix", hub: "spec.rules[*].path"}`},
		{"expression", moves + `toHub: {set: [{field: spec.summary, expression: "self.spec.mode + ' ' + self.spec.address"}]}`},
		{"preserve", moves + `toHub: {preserve: [spec.secret]}`},
	} {
		c := compiled(b, row.spoke)
		b.Run(row.name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(object)))
			for b.Loop() {
				if _, err := c.Convert(context.Background(), "example.com/v1", [][]byte{object}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
