package atrest

import (
	"context"
	"fmt"
	"iter"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/keelson-io/keelson/jsondoc"
)

var widgets = Kind{Group: "example.com", Kind: "Widget"}

// widget returns the JSON of a Widget.
func widget(name, spec string) string {
	return `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"` + name + `","namespace":"n","labels":{"a":"b"}},"spec":` + spec + `}`
}

func texts(list ...string) iter.Seq[Text] {
	return func(yield func(Text) bool) {
		for i, s := range list {
			if !yield(Text{JSON: []byte(s), Place: fmt.Sprint("f:", i)}) {
				return
			}
		}
	}
}

func openTest(t testing.TB) *Database {
	t.Helper()
	d, err := Open(t.Context(), "sqlite://"+filepath.Join(t.TempDir(), "a b?#%41.db"), Write)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

// mirror mirrors texts, and returns the errors of objects.
func mirror(t *testing.T, d *Database, list ...string) (Written, []string) {
	t.Helper()
	var errs []string
	n, err := d.Mirror(t.Context(), widgets, texts(list...), func(err error) { errs = append(errs, err.Error()) }, func(int) {})
	if err != nil {
		t.Fatal(err)
	}
	return n, errs
}

// selected returns the names of the objects for which an expression is true.
func selected(t *testing.T, d *Database, expr string) (names []string, n Selected) {
	t.Helper()
	tables, err := d.Tables(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	f, err := NewFilter(d.Dialect(), expr, nil)
	if err != nil {
		t.Fatal(err)
	}
	n, err = d.Select(t.Context(), tables[0], f, func(_, name string, _ []byte) error {
		names = append(names, name)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	count, err := d.Count(t.Context(), tables[0], f)
	if err != nil || count != n {
		t.Errorf("%s: Count %v, %v, want %v", expr, count, err, n)
	}
	return names, n
}

func TestMirror(t *testing.T) {
	d := openTest(t)
	if n, errs := mirror(t, d, widget("a", `{"x":1}`), widget("b", `{"x":2}`)); n != (Written{2, 0}) || errs != nil {
		t.Fatal(n, errs)
	}
	n, errs := mirror(t, d, widget("b", `{"x":3}`), widget("c", `{"x":4}`), widget("c", `{"x":5}`),
		widget("d", `{"x":"\u0000"}`), widget("e", `{"x":"\\u0000"}`), `{"a":`, strings.Replace(widget("f", "{}"), `"n"`, `true`, 1), widget("deep", strings.Repeat("[", 1500)+strings.Repeat("]", 1500)))
	if n != (Written{3, 1}) {
		t.Error(n)
	}
	want := []string{"f:2: Widget.example.com n/c: it is there twice", "Widget.example.com n/d: it has the character U+0000 in a text", "f:5: ", "f:6: Widget.example.com f: metadata.namespace: got a boolean, want a string", "Widget.example.com n/deep: SQLite cannot read it as JSON"}
	if len(errs) != len(want) {
		t.Fatal(errs)
	}
	for i, text := range want {
		if !strings.HasPrefix(errs[i], text) {
			t.Errorf("got %s, want %s", errs[i], text)
		}
	}
	if names, _ := selected(t, d, "self.spec.x >= 3"); !slices.Equal(names, []string{"b", "c"}) {
		t.Error(names)
	}
	if n, err := d.RemoveOthers(t.Context(), nil); n != 3 || err != nil {
		t.Error(n, err)
	}
}

func TestSelect(t *testing.T) {
	d := openTest(t)
	mirror(t, d, widget("a", `{"x":1,"s":"abc"}`), widget("b", `{"x":2,"s":"xyz"}`), widget("c", `{"x":3}`), widget("d", `{}`))
	for expr, want := range map[string]string{
		"self.spec.x > 1":                                  "b c 0",
		"self.spec.s.matches('^[a-b]')":                    "a 2",
		"self.spec.x < 3 && self.spec.s.matches('^[a-b]')": "a 0",
		"self.spec.x > 1 && self.spec.s.matches('z$')":     "b 1",
		"has(self.spec.x) && !(self.spec.x > 1)":           "a 0",
		"self.metadata.name in ['a', 'd']":                 "a d 0",
	} {
		names, n := selected(t, d, expr)
		if got := strings.Join(append(names, fmt.Sprint(n.Failed)), " "); got != want {
			t.Errorf("%s: got %s, want %s", expr, got, want)
		}
	}
	if _, err := NewFilter(d.Dialect(), "1 + 1", nil); err == nil {
		t.Error("an expression without a boolean result is accepted")
	}
}

func TestContinue(t *testing.T) {
	d := openTest(t)
	mirror(t, d, widget("gone", "{}"))
	doc := &jsondoc.Doc{}
	write := func(l *List, token string, list ...string) {
		t.Helper()
		var objects []*Object
		for _, s := range list {
			o, err := Parse(doc, Text{JSON: []byte(s)})
			if err != nil {
				t.Fatal(err)
			}
			objects = append(objects, o)
		}
		if refused, err := l.Write(t.Context(), objects, "7", token); err != nil || refused != nil {
			t.Fatal(refused, err)
		}
	}
	list := func(source, token string) *List {
		t.Helper()
		l, err := d.List(t.Context(), widgets, source)
		if err != nil || l.Token != token {
			t.Fatalf("got the token %q, %v, want %q", l.Token, err, token)
		}
		return l
	}
	write(list("s", ""), "t1", widget("a", "{}"))
	if tables, err := d.Tables(t.Context()); err != nil || tables[0].Complete {
		t.Error("a part of a list is complete", err)
	}
	l := list("s", "t1") // as another process
	write(l, "", widget("b", "{}"))
	if n, err := l.Finish(t.Context()); n != 1 || err != nil {
		t.Error(n, err)
	}
	if tables, err := d.Tables(t.Context()); err != nil || !tables[0].Complete || tables[0].ResourceVersion != "7" || tables[0].Version != "v1" {
		t.Error(tables[0], err)
	}
	if names, _ := selected(t, d, "true"); !slices.Equal(names, []string{"a", "b"}) {
		t.Error(names)
	}
	write(list("s", ""), "t2", widget("a", "{}"))
	list("another", "") // its resource versions and tokens mean nothing there
}

// TestTwoExports holds that of two exports to one table, the one that began first fails, and that the
// other one is complete.
func TestTwoExports(t *testing.T) {
	address := "sqlite://" + filepath.Join(t.TempDir(), "a.db")
	begin := func() (*Database, *List) {
		d, err := Open(t.Context(), address, Write)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { d.Close() })
		l, err := d.List(t.Context(), widgets, "")
		if err != nil {
			t.Fatal(err)
		}
		return d, l
	}
	object := func(name string) []*Object {
		o, err := Parse(&jsondoc.Doc{}, Text{JSON: []byte(widget(name, "{}"))})
		if err != nil {
			t.Fatal(err)
		}
		return []*Object{o}
	}
	_, first := begin()
	if _, err := first.Write(t.Context(), object("a"), "", ""); err != nil {
		t.Fatal(err)
	}
	d, second := begin()
	if _, err := second.Write(t.Context(), object("b"), "", ""); err != nil {
		t.Fatal(err)
	}
	const want = "another export has begun to write the objects of Widget.example.com; this one stops"
	_, err := first.Write(t.Context(), object("c"), "", "")
	if err == nil || !strings.HasSuffix(err.Error(), want) || !IsDatabaseError(err) {
		t.Errorf("got %v, want %s", err, want)
	}
	if _, err := first.Finish(t.Context()); err == nil || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("got %v, want %s", err, want)
	}
	if n, err := second.Finish(t.Context()); n != 1 || err != nil {
		t.Error(n, err)
	}
	if names, _ := selected(t, d, "true"); !slices.Equal(names, []string{"b"}) {
		t.Error(names)
	}
}

func TestTableNames(t *testing.T) {
	for k, want := range map[Kind]string{
		{"", "ConfigMap"}:                          "configmap",
		{"gateway.networking.k8s.io", "HTTPRoute"}: "httproute_gateway_networking_k8s_io",
		{"x", "Keelson"}:                           "keelson_x",
		{"x", "Sqlite"}:                            "k_sqlite_x",
		{"", "3D"}:                                 "k_3d",
		{strings.Repeat("g", 80), "W"}:             "w_" + strings.Repeat("g", 52) + "_85ac973b",
	} {
		if k.Kind == "Keelson" {
			want = "k_" + want
		}
		if got := tableName(k); got != want || len(got) > maxName {
			t.Errorf("%v: got %s, want %s", k, got, want)
		}
	}
	d := openTest(t)
	for i, want := range []string{"w_a_b", "w_a_b_2"} {
		table, err := d.table(t.Context(), Kind{[]string{"a.b", "a-b"}[i], "W"})
		if err != nil || table.Name != want {
			t.Errorf("got %v, %v, want %s", table, err, want)
		}
	}
}

func TestOpen(t *testing.T) {
	for address, want := range map[string]string{
		"mysql://u:secret@h/d":    "got a database mysql://, want sqlite://FILE or postgres://…",
		"objects.db":              `got the database "objects.db", want sqlite://FILE or postgres://…`,
		"sqlite://":               "got sqlite:// without a file, want sqlite://FILE",
		"sqlite:///missing/a.db":  "stat /missing: no such file or directory",
		"sqlite://atrest_test.go": "sqlite://atrest_test.go: file is not a database (26)",
	} {
		d, err := Open(t.Context(), address, Write)
		if err == nil {
			d.Close()
		}
		if err == nil || err.Error() != want {
			t.Errorf("%s: got %v, want %s", address, err, want)
		}
	}
}

// BenchmarkMirror writes objects of 1 KB.
func BenchmarkMirror(b *testing.B) {
	d := openTest(b)
	all := func(yield func(Text) bool) {
		for i := range b.N {
			if !yield(Text{JSON: []byte(widget(fmt.Sprintf("object-%08d", i), `{"text":"`+strings.Repeat("x", 850)+`"}`))}) {
				return
			}
		}
	}
	if _, err := d.Mirror(context.Background(), widgets, all, func(err error) { b.Error(err) }, func(int) {}); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "objects/s")
}
