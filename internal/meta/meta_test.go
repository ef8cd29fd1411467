package meta

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/keelson-io/keelson/jsondoc"
)

// shapes is a table in which 1 is an object and 2 its metadata.
var shapes = []*jsondoc.Shape{nil,
	jsondoc.NewShape([]string{"apiVersion", "kind", "metadata", "spec"}, []uint16{0, 0, 2, 0}, false),
	jsondoc.NewShape([]string{"annotations", "creationTimestamp", "deletionGracePeriodSeconds", "deletionTimestamp", "finalizers", "generateName", "generation", "labels", "managedFields", "name", "namespace", "ownerReferences", "resourceVersion", "selfLink", "uid"}, nil, false),
}

// objects returns the object of the text in both layouts.
func objects(t testing.TB, src string) []Object {
	t.Helper()
	plain, shaped := new(jsondoc.Doc), new(jsondoc.Doc)
	if err := jsondoc.Parse(plain, []byte(src)); err != nil {
		t.Fatal(err)
	}
	shaped.Reset(shapes)
	shaped.SetRoot(shaped.ImportAs(plain.Root(), 1))
	return []Object{{plain}, {shaped}}
}

func (o Object) json() string { return string(o.Doc.Root().AppendJSON(nil)) }

func TestObjectReads(t *testing.T) {
	for _, o := range objects(t, `{"apiVersion":"demo.io/v1","kind":"Widget","metadata":{"annotations":{"k":"v"},"creationTimestamp":"2026-01-02T03:04:05Z","deletionTimestamp":"2026-01-02T03:04:06Z","finalizers":["a/b","c/d"],"generateName":"g-","generation":7,"labels":{"app":"x","empty":""},"name":"n","namespace":"ns","resourceVersion":"12","uid":"u"}}`) {
		got := []string{o.APIVersion(), o.Kind(), o.Name(), o.Namespace(), o.GenerateName(), o.UID(), o.ResourceVersion(), o.CreationTimestamp(), o.DeletionTimestamp(), o.Annotation("k"), o.Annotation("x")}
		want := []string{"demo.io/v1", "Widget", "n", "ns", "g-", "u", "12", "2026-01-02T03:04:05Z", "2026-01-02T03:04:06Z", "v", ""}
		if !slices.Equal(got, want) || o.Generation() != 7 || !slices.Equal(slices.Collect(o.Finalizers()), []string{"a/b", "c/d"}) {
			t.Errorf("got %q", got)
		}
		for selector, want := range map[string]bool{"app=x": true, "app!=x": false, "app in (x,y),empty=": true, "empty": true, "!none": true, "none": false, "app notin (x)": false, "none!=1": true} {
			s, err := labels.Parse(selector)
			if err != nil {
				t.Fatal(err)
			}
			if s.Matches(o.Labels()) != want {
				t.Errorf("%s: got %v", selector, !want)
			}
		}
		m, err := o.ObjectMeta()
		if err != nil || m.Name != "n" || m.Generation != 7 || m.Labels["app"] != "x" || m.DeletionTimestamp == nil {
			t.Errorf("ObjectMeta: got %+v, %v", m, err)
		}
	}
	for _, o := range objects(t, `{}`) {
		if o.Name() != "" || o.Generation() != 0 || o.Labels().Has("x") || len(slices.Collect(o.Finalizers())) != 0 {
			t.Error("an object without metadata has some")
		}
	}
}

func TestObjectWrites(t *testing.T) {
	for _, o := range objects(t, `{"metadata":{"finalizers":["x/y"],"labels":{"a":"b"},"selfLink":"s"}}`) {
		at := time.Date(2026, 1, 2, 3, 4, 5, 987654321, time.FixedZone("", 3600))
		o.SetAPIVersion("demo.io/v1")
		o.SetKind("Widget")
		o.SetName("n")
		o.SetNamespace("ns")
		o.SetUID("u")
		o.SetCreationTimestamp(at)
		o.SetDeletionTimestamp(at)
		o.SetGeneration(3)
		o.SetResourceVersion("9")
		o.SetDeletionGracePeriodSeconds(0)
		o.SetFinalizers([]string{"a/b", "c/d"})
		const want = `{"apiVersion":"demo.io/v1","kind":"Widget","metadata":{"creationTimestamp":"2026-01-02T02:04:05Z","deletionGracePeriodSeconds":0,"deletionTimestamp":"2026-01-02T02:04:05Z","finalizers":["a/b","c/d"],"generation":3,"labels":{"a":"b"},"name":"n","namespace":"ns","resourceVersion":"9","selfLink":"s","uid":"u"}}`
		if got := o.json(); got != want {
			t.Errorf("got %s", got)
		}
		o.SetFinalizers(nil)
		o.SetResourceVersion("")
		o.SetNamespace("")
		if o.Meta().Get("finalizers").Exists() || o.Meta().Get("resourceVersion").Exists() || o.Meta().Get("namespace").Exists() {
			t.Errorf("empty members stay: %s", o.json())
		}
	}
}

func TestNewUIDAndGenerateName(t *testing.T) {
	uid := regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
	name := regexp.MustCompile(`^[bcdfghjklmnpqrstvwxz2456789]{5}$`)
	long := strings.Repeat("a", 70)
	seen := map[string]bool{}
	for range 1000 {
		u := NewUID()
		if !uid.MatchString(u) || seen[u] {
			t.Fatalf("uid %q", u)
		}
		seen[u] = true
		if n, ok := strings.CutPrefix(GenerateName("x-"), "x-"); !ok || !name.MatchString(n) {
			t.Fatalf("name %q", n)
		}
		if n := GenerateName(long); len(n) != 63 || n[:58] != long[:58] || !name.MatchString(n[58:]) {
			t.Fatalf("name %q", n)
		}
	}
}

func TestFillCreate(t *testing.T) {
	for _, o := range objects(t, `{"metadata":{"creationTimestamp":null,"deletionGracePeriodSeconds":1,"deletionTimestamp":"2020-01-01T00:00:00Z","generateName":"g","name":"n","ownerReferences":[{"kind":"A","uid":"1"},{"kind":"B","uid":"1"},{"kind":"A","uid":"1"},{"kind":"A","uid":"2"},{"uid":"2","kind":"A"}],"selfLink":"x","uid":"mine"}}`) {
		warnings := WipeCreate(o)
		FillCreate(o, time.Unix(0, 0))
		uid := o.UID()
		if uid == "mine" || len(uid) != 36 {
			t.Errorf("uid %q", uid)
		}
		want := `{"metadata":{"creationTimestamp":"1970-01-01T00:00:00Z","generateName":"g","name":"n","ownerReferences":[{"kind":"A","uid":"1"},{"kind":"B","uid":"1"},{"kind":"A","uid":"2"}],"uid":"` + uid + `"}}`
		if got := o.json(); got != want {
			t.Errorf("got %s", got)
		}
		if len(warnings) != 1 || !strings.HasSuffix(warnings[0], "please fix your requests; duplicate UID(s) observed: 1, 2") {
			t.Errorf("warnings: %q", warnings)
		}
	}
}

func TestFillUpdate(t *testing.T) {
	const live = `{"metadata":{"creationTimestamp":"2020-01-01T00:00:00Z","generation":4,"name":"n","resourceVersion":"7","uid":"u"}}`
	const dying = `{"metadata":{"creationTimestamp":"2020-01-01T00:00:00Z","deletionGracePeriodSeconds":0,"deletionTimestamp":"2021-01-01T00:00:00Z","generation":4,"name":"n","resourceVersion":"7","uid":"u"}}`
	for _, tt := range []struct {
		name, old, new string
		changed        bool
		want           string
	}{
		{"kept", live, `{"metadata":{"name":"n"}}`, false, live},
		{"changed", live, `{"metadata":{"name":"n","generation":99}}`, true, strings.Replace(live, `"generation":4`, `"generation":5`, 1)},
		{"client's creation time", live, `{"metadata":{"creationTimestamp":"2000-01-01T00:00:00Z","name":"n","selfLink":"x"}}`, false, live},
		{"client's uid and version stay", live, `{"metadata":{"name":"n","resourceVersion":"6","uid":"v"}}`, false, strings.Replace(strings.Replace(live, `"u"`, `"v"`, 1), `"7"`, `"6"`, 1)},
		{"deletion stays", dying, `{"metadata":{"name":"n"}}`, false, dying},
		{"deletion cannot be set", live, `{"metadata":{"deletionTimestamp":"2000-01-01T00:00:00Z","name":"n"}}`, false, strings.Replace(live, `"generation"`, `"deletionTimestamp":"2000-01-01T00:00:00Z","generation"`, 1)},
		{"no generation", `{"metadata":{"name":"n"}}`, `{"metadata":{"generation":3,"name":"n"}}`, true, `{"metadata":{"name":"n"}}`},
	} {
		for i, n := range objects(t, tt.new) {
			old := objects(t, tt.old)[i]
			if w := FillUpdate(n, old, tt.changed); w != nil {
				t.Errorf("%s: warnings %q", tt.name, w)
			}
			if got := n.json(); got != tt.want {
				t.Errorf("%s: got %s, want %s", tt.name, got, tt.want)
			}
		}
	}
}

func TestWarnings(t *testing.T) {
	const slash = `prefer a domain-qualified finalizer name including a path (/) to avoid accidental conflicts with other finalizer writers`
	const domain = `prefer a domain-qualified finalizer name to avoid accidental conflicts with other finalizer writers`
	n := objects(t, `{"metadata":{"finalizers":["plain","demo.io","demo.io/x","kubernetes","orphan","foregroundDeletion","plain","old"]}}`)[0]
	old := objects(t, `{"metadata":{"finalizers":["old"]}}`)[0]
	want := []string{`metadata.finalizers: "demo.io": ` + slash, `metadata.finalizers: "plain": ` + domain}
	if got := Warnings(n, old); !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	if got := Warnings(n, Object{}); len(got) != 3 || got[1] != `metadata.finalizers: "old": `+domain {
		t.Errorf("on create: got %q", got)
	}
	if got := Warnings(old, n); got != nil {
		t.Errorf("nothing new: got %q", got)
	}
}

func BenchmarkFillAndValidate(b *testing.B) {
	o := objects(b, `{"apiVersion":"demo.io/v1","kind":"Widget","metadata":{"annotations":{"demo.io/note":"x"},"labels":{"app":"x","tier":"y"},"name":"n","namespace":"ns"}}`)[1]
	b.ReportAllocs()
	for b.Loop() {
		if ValidateObjectMeta(o, true) != nil {
			b.Fatal("invalid")
		}
	}
}
