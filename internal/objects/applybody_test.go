package objects

import (
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/keelson-io/keelson/jsondoc"
)

// This file tests that bodies of applies which are read as JSON say what they
// say as YAML.

func FuzzPlainJSON(f *testing.F) {
	for _, text := range []string{
		`{"a":1,"b":[true,null,"x"],"c":{"d":"e\n\"\\\b\f\r\t"}}`, `{}`, "{\n  \"a\" : {\n    \"b\": [\n 1\n ]\n  }\n}\n", `{"a":1.0}`, `{"a":-0}`, `{"a":-12}`,
		`{"a":1e3}`, `{"a":123456789012345678}`, `{"a":1234567890123456789012}`, `{"a":"\u00e4"}`, `{"a":"\/"}`, `{"<<":{"a":1}}`, `{"a":1,"a":2}`,
		"{\"a\"\n:1}", "{\"a\":\t1}", `{"a":"2001-01-01","b":"yes","c":"0x1f","d":"~","e":"","f":"# no comment","g":"a: b","h":"- x","i":"{y}"}`,
		`{"a":"ä"}`, `{a:1}`, `{"a":y}`, `{"a":"b"`, `{"a":[1,]}`, `{"a" : 1 , "b":{} }`, `{"a":"x  y"}`, `{"":""}`, `{"a":007}`,
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		d := jsondoc.Get()
		defer d.Release()
		if !plainJSON([]byte(text)) || !parseOnce(d, []byte(text)) {
			return
		}
		got := string(d.Root().AppendJSON(nil))
		out, err := yaml.YAMLToJSONStrict([]byte(text))
		if err != nil {
			t.Fatalf("%q: JSON says %s, YAML says %v", text, got, err)
		}
		want := jsondoc.Get()
		defer want.Release()
		if err := jsondoc.Parse(want, out); err != nil {
			t.Fatal(err)
		}
		if w := string(want.Root().AppendJSON(nil)); got != w || !jsondoc.Equal(d.Root(), want.Root()) {
			t.Errorf("%q: JSON says %s, YAML says %s", text, got, w)
		}
	})
}

func TestPlainJSON(t *testing.T) {
	for text, want := range map[string]bool{
		`{"apiVersion":"demo.io/v1","spec":{"replicas":3,"items":[{"name":"x","v":"say \"hi\""}]}}`: true,
		"{\n  \"a\": -1\n}\n": true,
		`{"a":1.0}`:           false,
		`{"a":1e9}`:           false,
		`{"a":-0}`:            false,
		`{"\u0061":1}`:        false,
		`{"a":"ä"}`:           false,
		"{\"a\":\t1}":         false,
		"a: 1\n":              false,
		`["a"]`:               false,
	} {
		if got := plainJSON([]byte(text)); got != want {
			t.Errorf("%s: got %v, want %v", text, got, want)
		}
	}
}
