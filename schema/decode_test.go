package schema

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/keelson-io/keelson/jsondoc"
)

// This file tests decoding by tables. The rows of the first one are the
// examples of KEP-2332 and of the pruning and defaulting rules it settles.

// here is the position of the caller, for the rows of tables.
func here() string {
	_, file, line, _ := runtime.Caller(1)
	return fmt.Sprintf("%s:%d", filepath.Base(file), line)
}

// compileYAML compiles a schema written as YAML.
func compileYAML(t testing.TB, text string, o Options) *Program {
	t.Helper()
	var s apiextv1.JSONSchemaProps
	if err := yaml.Unmarshal([]byte(text), &s); err != nil {
		t.Fatal(err)
	}
	return compile(t, &s, o)
}

func TestDecode(t *testing.T) {
	const kep = `
type: object
properties:
  spec:
    type: object
    properties:
      a: {type: string, default: "default"}
      b: {type: string, nullable: true, default: "default"}
      c: {type: string, nullable: true}
      d: {type: string}
`
	object := func(spec string) string { return "{type: object, properties: {spec: " + spec + "}}" }
	for _, row := range []struct{ where, schema, in, want string }{
		// KEP-2332: nulls and defaults.
		{here(), kep, `{"spec":{}}`, `{"spec":{"a":"default","b":"default"}}`},
		{here(), kep, `{"spec":{"a":null,"b":null,"c":null,"d":null}}`, `{"spec":{"a":"default","b":null,"c":null}}`},
		{here(), kep, `{"spec":{"a":"x","b":"x","c":"x","d":"x"}}`, `{"spec":{"a":"x","b":"x","c":"x","d":"x"}}`},
		{here(), kep, `{}`, `{}`},
		{here(), kep, `{"spec":null}`, `{}`},
		{here(), object(`{type: object, additionalProperties: {type: string}}`), `{"spec":{"b":null,"a":"x"}}`, `{"spec":{"a":"x"}}`},
		{here(), object(`{type: object, additionalProperties: {type: string, nullable: true}}`), `{"spec":{"b":null}}`, `{"spec":{"b":null}}`},
		{here(), object(`{type: object, additionalProperties: {type: string, default: d}}`), `{"spec":{"b":null}}`, `{"spec":{"b":"d"}}`},
		{here(), object(`{type: array, items: {type: string, default: d}}`), `{"spec":[null,"a"]}`, `{"spec":["d","a"]}`},
		{here(), object(`{type: array, items: {type: string}}`), `{"spec":[null,"a"]}`, `{"spec":[null,"a"]}`},

		// Pruning.
		{here(), object(`{type: object, properties: {a: {type: string}}}`), `{"spec":{"a":"x","b":1},"other":1}`, `{"spec":{"a":"x"}}`},
		{here(), object(`{type: object, properties: {a: {type: string}}}`), `{"spec":{"a":{"b":1}}}`, `{"spec":{"a":{}}}`},
		{here(), object(`{type: object, properties: {a: {type: string}}}`), `{"spec":[{"a":1},[{"b":1}],2]}`, `{"spec":[{},[{}],2]}`},
		{here(), object(`{type: object, additionalProperties: true}`), `{"spec":{"a":{"b":1},"c":[{"d":1}],"e":1}}`, `{"spec":{"a":{},"c":[{}],"e":1}}`},
		{here(), object(`{type: object, additionalProperties: false}`), `{"spec":{"a":{"b":1}}}`, `{"spec":{"a":{}}}`},
		{here(), object(`{type: object, x-kubernetes-preserve-unknown-fields: true, properties: {a: {type: object}}}`),
			`{"spec":{"a":{"b":1},"c":{"d":{"e":1}}}}`, `{"spec":{"a":{},"c":{"d":{"e":1}}}}`},
		{here(), object(`{type: array, x-kubernetes-preserve-unknown-fields: true, items: {type: object, properties: {a: {type: object}}}}`),
			`{"spec":[{"a":{"b":1},"c":{"d":1}}]}`, `{"spec":[{"a":{},"c":{"d":1}}]}`},
		{here(), object(`{x-kubernetes-preserve-unknown-fields: true}`), `{"spec":{"b":[{"c":null}]}}`, `{"spec":{"b":[{"c":null}]}}`},

		// Nested defaults.
		{here(), object(`{type: object, default: {}, properties: {a: {type: object, default: {b: 1}, properties: {b: {type: integer}, c: {type: string, default: x}}}}}`),
			`{}`, `{"spec":{"a":{"b":1,"c":"x"}}}`},
		{here(), object(`{type: object, default: {unknown: 1}, properties: {a: {type: string, default: x}}}`), `{}`, `{"spec":{"a":"x"}}`},
		{here(), object(`{type: array, items: {type: object, properties: {a: {type: string, default: x}}}}`), `{"spec":[{},{"a":"y"},1]}`, `{"spec":[{"a":"x"},{"a":"y"},1]}`},

		// Duplicates: the last one counts, even if it is null.
		{here(), kep, `{"spec":{"d":"x","d":"y"}}`, `{"spec":{"a":"default","b":"default","d":"y"}}`},
		{here(), kep, `{"spec":{"d":"x","d":null}}`, `{"spec":{"a":"default","b":"default"}}`},
		{here(), object(`{type: object, additionalProperties: {type: string}}`), `{"spec":{"b":"1","a":"2","b":null}}`, `{"spec":{"a":"2"}}`},

		// Numbers and strings as Kubernetes stores them.
		{here(), object(`{x-kubernetes-preserve-unknown-fields: true}`), `{"spec":[1,1.0,1e3,-0,12345678901234567890,"<\u00e9>"]}`, `{"spec":[1,1,1000,0,12345678901234567000,"\u003cé\u003e"]}`},
	} {
		p := compileYAML(t, row.schema, Options{})
		var d jsondoc.Doc
		if _, err := p.Decode(&d, []byte(row.in)); err != nil {
			t.Errorf("%s: %v", row.where, err)
			continue
		}
		if got := string(d.Root().AppendJSON(nil)); got != row.want {
			t.Errorf("%s: %s\n got %s\nwant %s", row.where, row.in, got, row.want)
		}
	}
}

const embeddedSchema = `
type: object
properties:
  e:
    type: object
    x-kubernetes-embedded-resource: true
    x-kubernetes-preserve-unknown-fields: true
  l:
    type: array
    items: {type: object, x-kubernetes-embedded-resource: true, properties: {spec: {type: object}}}
`

func TestDecodeMetadata(t *testing.T) {
	p := compileYAML(t, embeddedSchema, Options{Resource: true})
	for _, row := range []struct{ where, in, want, err string }{
		{here(), `{"apiVersion":"g/v1","kind":"K","metadata":{"name":"n","labels":{"b":"c","a":null},"foo":1}}`,
			`{"apiVersion":"g/v1","kind":"K","metadata":{"labels":{"a":"","b":"c"},"name":"n"}}`, ""},
		{here(), `{"metadata":{"name":"","labels":{},"finalizers":[],"generation":0,"creationTimestamp":null}}`, `{"metadata":{}}`, ""},
		{here(), `{"metadata":{"creationTimestamp":"2024-01-01T02:00:00.5+02:00"}}`, `{"metadata":{"creationTimestamp":"2024-01-01T00:00:00Z"}}`, ""},
		{here(), `{"metadata":{"ownerReferences":[{"name":"n","controller":null}]}}`,
			`{"metadata":{"ownerReferences":[{"apiVersion":"","kind":"","name":"n","uid":""}]}}`, ""},
		{here(), `{"metadata":null}`, `{"metadata":{}}`, ""},
		{here(), `{"e":{"apiVersion":"v1","kind":"X","metadata":{"name":"n","foo":1},"spec":{"a":1}}}`,
			`{"e":{"apiVersion":"v1","kind":"X","metadata":{"name":"n"},"spec":{"a":1}}}`, ""},
		{here(), `{"l":[{"apiVersion":"v1","metadata":{},"spec":{"a":1},"x":1}]}`, `{"l":[{"apiVersion":"v1","metadata":{},"spec":{}}]}`, ""},
		{here(), `{"metadata":{"labels":{"a":1}}}`, "", "json: cannot unmarshal number into Go struct field ObjectMeta.labels of type string"},
		{here(), `{"metadata":{"creationTimestamp":"x"}}`, "", `parsing time "x" as "2006-01-02T15:04:05Z07:00": cannot parse "x" as "2006"`},
		{here(), `{"l":[{"kind":1}],"metadata":{"name":1}}`, "", "json: cannot unmarshal number into Go struct field ObjectMeta.name of type string"},
		{here(), `{"l":[{},{"kind":1}]}`, "", "l[1].kind: Invalid value: 1: must be a string"},
		{here(), `{"e":{"metadata":{"name":1}}}`, "", `e.metadata: Invalid value: {"name":1}: json: cannot unmarshal number into Go struct field ObjectMeta.name of type string`},
		{here(), `{"kind":1}`, "", "couldn't get version/kind; json parse error: json: cannot unmarshal number into Go struct field .kind of type string"},
		{here(), `{"kind":null}`, "", ".kind accessor error: <nil> is of the type <nil>, expected string"},
		{here(), `[]`, "", "couldn't get version/kind; json parse error: json: cannot unmarshal array into Go value of type struct { APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }"},
		{here(), `{"l":[{"kind":1}],`, "", "unexpected end of JSON input"},
	} {
		var d jsondoc.Doc
		_, err := p.Decode(&d, []byte(row.in))
		switch {
		case err != nil && err.Error() != row.err:
			t.Errorf("%s: got error %q, want %q", row.where, err, row.err)
		case err == nil && row.err != "":
			t.Errorf("%s: got no error, want %q", row.where, row.err)
		case err == nil:
			if got := string(d.Root().AppendJSON(nil)); got != row.want {
				t.Errorf("%s: got %s, want %s", row.where, got, row.want)
			}
		}
	}
}

func TestDecodeStored(t *testing.T) {
	p := compileYAML(t, embeddedSchema, Options{Resource: true})
	const in = `{"e":{"kind":1,"metadata":{"name":1,"uid":"u"}},"metadata":{"labels":{"a":1},"name":"n","generation":"x"}}`
	const want = `{"e":{"metadata":{"uid":"u"}},"metadata":{"name":"n"}}`
	var d jsondoc.Doc
	if _, err := p.DecodeStored(&d, []byte(in)); err != nil {
		t.Fatal(err)
	}
	if got := string(d.Root().AppendJSON(nil)); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestStrict(t *testing.T) {
	p := compileYAML(t, embeddedSchema, Options{Resource: true})
	const in = `{"apiVersion":"v1","zz":1,"e":{"metadata":{"bar":1},"ok":1},"l":[{"metadata":{"foo":1}},{"x":{"y":1},"x":2}],"metadata":{"foo":1,"name":"a","name":"b"}}`
	want := []string{`duplicate field "l[1].x"`, `duplicate field "metadata.name"`, `unknown field "metadata.foo"`,
		`unknown field "l[1].x"`, `unknown field "zz"`, `unknown field "e.metadata.bar"`, `unknown field "l[0].metadata.foo"`}
	got := jsondoc.StrictTexts(p.Strict([]byte(in)))
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	var d jsondoc.Doc
	found, err := p.Decode(&d, []byte(in))
	if err != nil || found != FoundUnknown|FoundDuplicate {
		t.Errorf("got found %d, error %v", found, err)
	}
}

// TestHostile decodes what nobody sends in good faith.
func TestHostile(t *testing.T) {
	p := compileYAML(t, `{type: object, properties: {a: {x-kubernetes-preserve-unknown-fields: true}, b: {type: object}, c: {type: array, items: {type: string}}}}`, Options{Resource: true})
	for _, row := range []struct {
		where, in string
		ok        bool
	}{
		{here(), `{"a":` + strings.Repeat("[", 9999) + strings.Repeat("]", 9999) + `}`, true},
		{here(), `{"a":` + strings.Repeat("[", 10000) + strings.Repeat("]", 10000) + `}`, false},
		{here(), `{"b":` + strings.Repeat("[", 9999) + strings.Repeat("]", 9999) + `}`, true},
		{here(), `{"x":` + strings.Repeat(`{"a":`, 9999) + `1` + strings.Repeat("}", 9999) + `}`, true},
		{here(), strings.Repeat("[", 1000000), false},
		{here(), `{"metadata":{"managedFields":[{"fieldsV1":` + strings.Repeat(`{"a":`, 9000) + `1` + strings.Repeat("}", 9000) + `}]}}`, true},
		{here(), `{"a":1e999}`, false},
		{here(), `{"a":"` + "\xff" + `"}`, true},
		{here(), ``, false},
		{here(), `{"a":1}}`, false},
		{here(), `{"a" 1}`, false},
		{here(), `{"a":` + strings.Repeat(`1,"a":`, 100000) + `2}`, true},
	} {
		var d jsondoc.Doc
		if _, err := p.Decode(&d, []byte(row.in)); (err == nil) != row.ok {
			t.Errorf("%s: got error %v", row.where, err)
		}
	}
}

// TestCrowded: a short text does not become a large document.
func TestCrowded(t *testing.T) {
	var names strings.Builder
	for i := range 100 {
		fmt.Fprintf(&names, "m%d: {type: string}, ", i)
	}
	p := compileYAML(t, `{type: object, properties: {l: {type: array, items: {type: object, properties: {`+names.String()+`}}}}}`, Options{Resource: true})
	src := []byte(`{"l":[` + strings.Repeat(`{},`, 1<<19) + `{"m1":"x"}]}`)
	var d jsondoc.Doc
	if _, err := p.Decode(&d, src); err != nil {
		t.Fatal(err)
	}
	if got, most := d.Size(), 2*len(src); got > most {
		t.Errorf("%d bytes became %d nodes, want at most %d", len(src), got, most)
	}
	if got := string(d.Root().AppendJSON(nil)); got != string(src) {
		t.Error("the document prints differently")
	}
	if r := p.Validate(context.Background(), &d, nil, Whole); len(r.Errors) > 0 {
		t.Error(r.Errors.ToAggregate())
	}
}

func TestDecodeConverted(t *testing.T) {
	p := compileYAML(t, `{type: object, properties: {a: {type: string, default: x}, b: {type: string}, c: {type: string, default: x}}}`, Options{Resource: true})
	var d jsondoc.Doc
	if _, err := p.DecodeConverted(&d, []byte(`{"b":null,"c":null,"zz":1}`)); err != nil {
		t.Fatal(err)
	}
	if got, want := string(d.Root().AppendJSON(nil)), `{"c":null}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestPreserveUnknown(t *testing.T) {
	p := compileYAML(t, `{type: object, properties: {a: {type: string}}}`, Options{Resource: true, PreserveUnknown: true})
	const in = `{"a":null,"b":{"c":null},"metadata":{"foo":1,"name":"n"}}`
	var d jsondoc.Doc
	if _, err := p.Decode(&d, []byte(in)); err != nil {
		t.Fatal(err)
	}
	if got, want := string(d.Root().AppendJSON(nil)), `{"a":null,"b":{"c":null},"metadata":{"name":"n"}}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if p, err := Compile(nil, Options{Resource: true, PreserveUnknown: true}); err != nil {
		t.Error(err)
	} else if _, err := p.Decode(&d, []byte(in)); err != nil {
		t.Error(err)
	}
}

// TestDump compares the dump of a schema that has everything with the golden
// one; UPDATE=1 writes it.
func TestDump(t *testing.T) {
	text, err := os.ReadFile("testdata/everything.yaml")
	if err != nil {
		t.Fatal(err)
	}
	got := compileYAML(t, string(text), Options{Resource: true}).String()
	const golden = "testdata/everything.golden"
	if os.Getenv("UPDATE") != "" {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("dump differs from %s:\n%s", golden, got)
	}
}

// FuzzDecode compares the decoder with a plain twin over maps.
func FuzzDecode(f *testing.F) {
	text, err := os.ReadFile("testdata/everything.yaml")
	if err != nil {
		f.Fatal(err)
	}
	p := compileYAML(f, string(text), Options{})
	for _, seed := range []string{
		`{}`, `{"spec":{"name":"a","port":null,"list":[{"name":"x"},null],"extra":{"a":{"b":1}}}}`,
		`{"spec":{"open":{"a":1,"known":{"x":1}},"free":[{"a":1,"known":{}}],"any":{"x":[{"y":1}]}},"spec":{"map":{"b":null,"a":1}}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		var d, plain jsondoc.Doc
		_, err := p.Decode(&d, src)
		if plainErr := jsondoc.Parse(&plain, src); (err == nil) != (plainErr == nil) {
			t.Fatalf("got error %v, plain parser %v", err, plainErr)
		}
		if err != nil {
			return
		}
		wantText, _ := json.Marshal(twin(p.code.Load().root, p.code.Load().root.keep, plain.Root().Interface(), false))
		if got := string(d.Root().AppendJSON(nil)); got != string(wantText) {
			t.Fatalf("%s\n got %s\nwant %s", src, got, wantText)
		}
		// The layout of objects makes no difference.
		var maps jsondoc.Doc
		if _, err := p.decode(&maps, src, decodeMode{maps: true}); err != nil {
			t.Fatal(err)
		}
		if got := string(maps.Root().AppendJSON(nil)); got != string(wantText) {
			t.Fatalf("%s as maps\n got %s\nwant %s", src, got, wantText)
		}
		ctx := context.Background()
		want, got := lines(p.Validate(ctx, &d, nil, Whole).Errors), lines(p.Validate(ctx, &maps, nil, Whole).Errors)
		if !slices.Equal(got, want) {
			t.Fatalf("%s as maps: got errors %q, want %q", src, got, want)
		}
	})
}

// twin prunes x and fills in defaults; unless it is part of a default it drops
// nulls first.
func twin(n *node, keep bool, x any, inDefault bool) any {
	switch x := x.(type) {
	case map[string]any:
		for name, v := range x {
			child := n.child(name)
			switch {
			case child != nil && v == nil && !child.nullable:
				if child.defText != nil {
					x[name] = twinDefault(child)
				} else if !inDefault {
					delete(x, name)
				}
			case child != nil:
				x[name] = twin(child, child.keep, v, inDefault)
			case n.anyOther:
				x[name] = twinEmptied(v)
			case !keep:
				delete(x, name)
			}
		}
		for _, p := range n.props {
			if _, ok := x[p.name]; !ok && p.node.defText != nil {
				x[p.name] = twinDefault(p.node)
			}
		}
	case []any:
		for i, v := range x {
			switch {
			case n.items == nil && !keep:
				x[i] = twinEmptied(v)
			case n.items != nil && v == nil && !n.items.nullable && n.items.defText != nil:
				x[i] = twinDefault(n.items)
			case n.items != nil:
				x[i] = twin(n.items, n.items.keep, v, inDefault)
			}
		}
	}
	return x
}

func twinDefault(n *node) any {
	var d jsondoc.Doc
	if err := jsondoc.Parse(&d, n.defText); err != nil {
		panic(err)
	}
	return twin(n, n.keep, d.Root().Interface(), true)
}

func twinEmptied(x any) any {
	switch x := x.(type) {
	case map[string]any:
		return map[string]any{}
	case []any:
		for i := range x {
			x[i] = twinEmptied(x[i])
		}
	}
	return x
}

// TestPathOfMalformedMetadata holds that the path leads through lists in lists.
func TestPathOfMalformedMetadata(t *testing.T) {
	p := compileYAML(t, `{type: object, properties: {a: {type: array, items: {type: array, items: {type: object, properties: {
		b: {type: object, x-kubernetes-embedded-resource: true, x-kubernetes-preserve-unknown-fields: true}}}}}}}`, Options{Resource: true})
	_, err := p.Decode(new(jsondoc.Doc), []byte(`{"apiVersion":"g/v1","kind":"K","metadata":{},"a":[[],[{},{"b":{"metadata":{"name":1}}}]]}`))
	if err == nil || !strings.HasPrefix(err.Error(), "a[1][1].b.metadata: ") {
		t.Errorf("got %v", err)
	}
}
