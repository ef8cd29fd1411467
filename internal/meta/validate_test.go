package meta

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-io/keelson/jsondoc"
)

func messages(errs field.ErrorList) string {
	var all []string
	for _, err := range errs {
		all = append(all, err.Error())
	}
	return strings.Join(all, "; ")
}

const (
	badSubdomain = `a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')`
	badName      = `name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')`
)

// metas are metadata of namespaced objects and what is wrong with them.
var metas = []struct{ src, want string }{
	{`{"name":"a","namespace":"b"}`, ``},
	{`{"name":"a.b-c.0","namespace":"b","generateName":"a.b-"}`, ``},
	{`{"name":"A","namespace":"b"}`, `metadata.name: Invalid value: "A": ` + badSubdomain},
	{`{"name":"a..b","namespace":"b"}`, `metadata.name: Invalid value: "a..b": ` + badSubdomain},
	{`{"name":"a-","namespace":"b"}`, `metadata.name: Invalid value: "a-": ` + badSubdomain},
	{`{"name":"` + strings.Repeat("a", 253) + `","namespace":"b"}`, ``},
	{`{"name":"` + strings.Repeat("a", 254) + `","namespace":"b"}`, `metadata.name: Invalid value: "` + strings.Repeat("a", 254) + `": must be no more than 253 characters`},
	{`{"namespace":"b"}`, `metadata.name: Required value: name or generateName is required`},
	{`{"name":"a"}`, `metadata.namespace: Required value`},
	{`{"name":"a","namespace":"b","generation":-1}`, `metadata.generation: Invalid value: -1: must be greater than or equal to 0`},
	{`{"name":"a","namespace":"b","labels":{"app":"x","demo.io/App_1":"A.b-c","e":""}}`, ``},
	{`{"name":"a","namespace":"b","labels":{"a b":"x"}}`, `metadata.labels: Invalid value: "a b": ` + badName},
	{`{"name":"a","namespace":"b","labels":{"Demo.io/x":"x"}}`, `metadata.labels: Invalid value: "Demo.io/x": prefix part ` + badSubdomain},
	{`{"name":"a","namespace":"b","annotations":{"Demo.io/x":"any \u0000 thing"}}`, ``},
	{`{"name":"a","namespace":"b","annotations":{"x/y/z":""}}`, `metadata.annotations: Invalid value: "x/y/z": a valid ` + strings.Replace(badName, "name part", "label key", 1) + ` with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')`},
	{`{"name":"a","namespace":"b","annotations":{"x":"` + strings.Repeat("y", 256<<10) + `"}}`, `metadata.annotations: Too long: may not be more than 262144 bytes`},
	{`{"name":"a","namespace":"b","ownerReferences":[{"apiVersion":"v1","kind":"K","name":"n","uid":"u","controller":true},{"apiVersion":"g/v1","kind":"K","name":"n","uid":"v","controller":false}]}`, ``},
	{`{"name":"a","namespace":"b","ownerReferences":[{"apiVersion":"events.k8s.io/v1","kind":"Event","name":"n","uid":"u"}]}`, ``},
	{`{"name":"a","namespace":"b","ownerReferences":[{"apiVersion":"g/","kind":"K","name":"n","uid":"u"}]}`, `metadata.ownerReferences[0].apiVersion: Invalid value: "g/": must be <group>/<version> or <version>`},
	{`{"name":"a","namespace":"b","finalizers":["a/b","c"]}`, ``},
	{`{"name":"a","namespace":"b","finalizers":["orphan","foregroundDeletion"]}`, `metadata.finalizers: Invalid value: ["orphan","foregroundDeletion"]: finalizer orphan and foregroundDeletion cannot be both set`},
	{`{"name":"a","namespace":"b","finalizers":["a b"]}`, `metadata.finalizers: Invalid value: "a b": ` + badName},
	{`{"name":"a","namespace":"b","managedFields":[{"manager":"m","operation":"Apply","fieldsType":"FieldsV1"},{"manager":"é","operation":"Update"}]}`, ``},
	{`{"name":"a","namespace":"b","managedFields":[{"manager":"m","operation":"x"}]}`, `metadata.managedFields[0].operation: Unsupported value: "x": supported values: "Apply", "Update"`},
}

func TestValidateObjectMeta(t *testing.T) {
	for _, tt := range metas {
		for _, o := range objects(t, `{"metadata":`+tt.src+`}`) {
			if got := messages(ValidateObjectMeta(o, true)); got != tt.want {
				t.Errorf("%.200s: got\n%s, want\n%s", tt.src, got, tt.want)
			}
			checkFast(t, o, true)
			checkFast(t, o, false)
		}
	}
	for _, o := range objects(t, `{"metadata":{"name":"a","namespace":"b"}}`) {
		if got := messages(ValidateObjectMeta(o, false)); got != `metadata.namespace: Forbidden: not allowed on this type` {
			t.Errorf("cluster scope: got %s", got)
		}
	}
}

// checkFast checks the fast path against apimachinery's validators.
func checkFast(t *testing.T, o Object, namespaced bool) {
	t.Helper()
	if _, err := o.ObjectMeta(); err != nil {
		return // such metadata does not get past the decoder
	}
	slow := ValidateObjectMetaWithName(o, namespaced, validation.NameIsDNSSubdomain)
	if validMeta(o.Meta(), namespaced) && len(slow) > 0 {
		t.Fatalf("%s passes, want %s", o.json(), messages(slow))
	}
}

// The common case must take the fast path.
func TestFastPathIsTaken(t *testing.T) {
	for _, src := range []string{
		`{"name":"a","namespace":"b"}`,
		`{"annotations":{"kubectl.kubernetes.io/last-applied-configuration":"{}"},"creationTimestamp":"2026-01-01T00:00:00Z","finalizers":["demo.io/x"],"generation":1,"labels":{"app.kubernetes.io/name":"x"},"managedFields":[{"apiVersion":"demo.io/v1","fieldsType":"FieldsV1","fieldsV1":{"f:spec":{}},"manager":"kubectl","operation":"Update","time":"2026-01-01T00:00:00Z"}],"name":"a","namespace":"b","ownerReferences":[{"apiVersion":"apps/v1","controller":true,"kind":"Deployment","name":"d","uid":"u"}],"resourceVersion":"5","uid":"u"}`,
	} {
		for _, o := range objects(t, `{"metadata":`+src+`}`) {
			if !validMeta(o.Meta(), true) {
				t.Errorf("%s is in doubt", src)
			}
			if n := testing.AllocsPerRun(100, func() { ValidateObjectMeta(o, true) }); n != 0 {
				t.Errorf("%s: got %v allocations, want 0", src, n)
			}
		}
	}
}

func FuzzValidateObjectMeta(f *testing.F) {
	for _, tt := range metas {
		if len(tt.src) < 1000 {
			f.Add([]byte(tt.src))
		}
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		d := new(jsondoc.Doc)
		if jsondoc.Parse(d, append(append([]byte(`{"metadata":`), src...), '}')) != nil {
			return
		}
		checkFast(t, Object{d}, true)
		checkFast(t, Object{d}, false)
	})
}

func FuzzNames(f *testing.F) {
	for _, s := range []string{"a", "a.b", "A/b", "demo.io/X_y-1.z", "a..b", "-a", "a-", "K/x", strings.Repeat("a", 63), strings.Repeat("a", 64) + "/b", "", "/", "a/", "v1", "g/v", "g/v/w"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		src := string(jsondoc.AppendQuoted(nil, s))
		for _, meta := range []string{
			`{"name":` + src + `,"namespace":"b"}`, `{"name":"a","namespace":` + src + `}`, `{"name":"a","namespace":"b","generateName":` + src + `}`,
			`{"name":"a","namespace":"b","labels":{` + src + `:""}}`, `{"name":"a","namespace":"b","labels":{"a":` + src + `}}`, `{"name":"a","namespace":"b","annotations":{` + src + `:""}}`,
			`{"name":"a","namespace":"b","finalizers":[` + src + `]}`, `{"name":"a","namespace":"b","ownerReferences":[{"apiVersion":` + src + `,"kind":"k","name":"n","uid":"u"}]}`,
			`{"name":"a","namespace":"b","managedFields":[{"manager":` + src + `,"operation":"Apply"}]}`,
		} {
			d := new(jsondoc.Doc)
			if err := jsondoc.Parse(d, []byte(`{"metadata":`+meta+`}`)); err != nil {
				t.Fatal(err)
			}
			checkFast(t, Object{d}, true)
		}
	})
}

func TestValidateObjectMetaUpdate(t *testing.T) {
	const old = `{"creationTimestamp":"2020-01-01T00:00:00Z","generation":4,"name":"n","namespace":"b","resourceVersion":"7","uid":"u"}`
	const dying = `{"creationTimestamp":"2020-01-01T00:00:00Z","deletionTimestamp":"2021-01-01T00:00:00Z","finalizers":["a/b"],"generation":4,"name":"n","namespace":"b","resourceVersion":"7","uid":"u"}`
	for _, tt := range []struct{ name, old, new, want string }{
		{"same", old, old, ``},
		{"labels", old, strings.Replace(old, `"name"`, `"labels":{"a":"b"},"name"`, 1), ``},
		{"same, dying", dying, dying, ``},
		{"uid", old, strings.Replace(old, `"u"`, `"v"`, 1), `metadata.uid: Invalid value: "v": field is immutable`},
		{"name", old, strings.Replace(old, `"n"`, `"m"`, 1), `metadata.name: Invalid value: "m": field is immutable`},
		{"no version", old, strings.Replace(old, `"resourceVersion":"7",`, ``, 1), `metadata.resourceVersion: Invalid value: "": must be specified for an update`},
		{"generation", old, strings.Replace(old, `4`, `3`, 1), `metadata.generation: Invalid value: 3: must not be decremented`},
		{"deletion", old, strings.Replace(old, `"generation"`, `"deletionTimestamp":"2021-01-01T00:00:00Z","generation"`, 1), `metadata.deletionTimestamp: Invalid value: "2021-01-01T00:00:00Z": field is immutable`},
		{"new finalizer", dying, strings.Replace(dying, `"a/b"`, `"a/b","c/d"`, 1), `metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers []string{"c/d"}`},
		{"fewer finalizers", dying, strings.Replace(dying, `"a/b"`, ``, 1), ``},
		{"same time, written otherwise", old, strings.Replace(old, `00:00:00Z`, `00:00:00+00:00`, 1), ``},
	} {
		for i, n := range objects(t, `{"metadata":`+tt.new+`}`) {
			errs := ValidateObjectMetaUpdate(n, objects(t, `{"metadata":`+tt.old+`}`)[i])
			got := ""
			if len(errs) > 0 {
				got = errs.ToAggregate().Error()
			}
			if got != tt.want {
				t.Errorf("%s: got %s, want %s", tt.name, got, tt.want)
			}
		}
	}
}
