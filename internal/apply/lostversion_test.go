package apply

import (
	"strings"
	"testing"

	"github.com/keelson-io/keelson/jsondoc"
)

// This file tests managed fields of versions that the kind no longer has.

// lost is an object with managed fields of demo.io/v1, of which the kind has only v2.
const lost = `{"apiVersion":"demo.io/v2","kind":"Widget","metadata":{"name":"a","uid":"u","managedFields":[` +
	`{"manager":"m","operation":"Apply","apiVersion":"demo.io/v1","time":"2026-01-02T03:04:05Z","fieldsType":"FieldsV1","fieldsV1":{"f:spec":{"f:a":{}}}},` +
	`{"manager":"n","operation":"Update","apiVersion":"demo.io/v2","time":"2026-01-02T03:04:05Z","fieldsType":"FieldsV1","fieldsV1":{"f:spec":{"f:b":{}}}}]},` +
	`"spec":{"a":1,"b":2}}`

func lostManager(t *testing.T, drop bool) *Manager {
	t.Helper()
	m, err := New(Config{Group: "demo.io", Kind: "Widget", Version: "v2", Versions: []Version{{Name: "v2"}}, DropLostVersions: drop})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func mustParse(t *testing.T, text string) *jsondoc.Doc {
	t.Helper()
	d := new(jsondoc.Doc)
	if err := jsondoc.Parse(d, []byte(text)); err != nil {
		t.Fatal(err)
	}
	return d
}

// TestLostVersionsFail holds that an apply over fields of a lost version fails with upstream's text, by which migrators
// recognize it, whoever applies; and that an update keeps such managed fields for the migrator.
func TestLostVersionsFail(t *testing.T) {
	m := lostManager(t, false)
	const text = "request to convert CR to an invalid group/version: demo.io/v1"
	for _, manager := range []string{"m", "n", "other", "kubectl"} {
		patch := []byte(`{"apiVersion":"demo.io/v2","kind":"Widget","metadata":{"name":"a"},"spec":{"c":3}}`)
		if _, err := m.Apply(mustParse(t, lost), patch, Options{Manager: manager, Force: true}); err == nil || err.Error() != text {
			t.Errorf("apply by %s: got %v, want %s", manager, err, text)
		}
	}
	live, d := mustParse(t, lost), mustParse(t, strings.Replace(lost, `"b":2`, `"b":3`, 1))
	if err := m.Update(live, d, Options{Manager: "other"}); err != nil {
		t.Fatal(err)
	}
	if got, want := managedFieldsOf(d), managedFieldsOf(live); !jsondoc.Equal(got, want) {
		t.Errorf("update: got managed fields %s, want those of the live object", got.AppendJSON(nil))
	}
	// The way out: managed fields that a client sends without those of the lost version.
	sent := mustParse(t, strings.Replace(lost, `"apiVersion":"demo.io/v1"`, `"apiVersion":"demo.io/v2"`, 1))
	if err := m.Update(live, sent, Options{Manager: "migrator"}); err != nil {
		t.Fatal(err)
	}
	if text := string(sent.Root().AppendJSON(nil)); strings.Contains(text, "demo.io/v1") {
		t.Errorf("update with managed fields of v2: got %s", text)
	}
}

// TestLostVersionsAreDropped holds that managed fields of built-in kinds go with their version.
func TestLostVersionsAreDropped(t *testing.T) {
	m := lostManager(t, true)
	patch := []byte(`{"apiVersion":"demo.io/v2","kind":"Widget","metadata":{"name":"a"},"spec":{"c":3}}`)
	out, err := m.Apply(mustParse(t, lost), patch, Options{Manager: "other"})
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(out), "demo.io/v1") || !strings.Contains(string(out), `"manager":"n"`) {
		t.Errorf("got %s, want the managers n and other", out)
	}
}
