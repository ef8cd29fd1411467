package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"sigs.k8s.io/yaml"

	"github.com/keelson-io/keelson/internal/testcrds"
	"github.com/keelson-io/keelson/internal/testkit"
)

// TestOfflineVerdicts sends objects to a server and to the commands that work without one: the same verdict, in the same words, and
// the same object. They are created, changed, and their status is changed, as they are and damaged at random.
func TestOfflineVerdicts(t *testing.T) {
	t.Parallel()
	for i, family := range []int{0, 2, 3} {
		f := testcrds.Families()[family]
		t.Run(f.Name, func(t *testing.T) {
			o := newOffline(t, uint64(i))
			o.defineFamily(f)
			for _, example := range familyObjects(t, f) {
				o.try(objectOf(t, example.YAML), 3)
			}
			o.compare()
		})
	}
	t.Run("catalog", func(t *testing.T) {
		o := newOffline(t, 11)
		for _, crd := range o.defineCatalog() {
			for _, v := range crd.Spec.Versions {
				if !v.Served || v.Schema == nil || !v.Storage && crd.Spec.Conversion.Strategy != apiextv1.NoneConverter {
					continue // the server would have to reach the webhook
				}
				made := sample(o.random, v.Schema.OpenAPIV3Schema, 0).(map[string]any)
				made["apiVersion"], made["kind"] = crd.Spec.Group+"/"+v.Name, crd.Spec.Names.Kind
				made["metadata"] = map[string]any{"name": "sample-" + v.Name}
				o.try(made, 2)
			}
		}
		o.compare()
	})
	t.Run("built-in kinds and policies", func(t *testing.T) {
		o := newOffline(t, 13)
		o.definePolicies()
		for _, text := range strings.Split(builtinObjects, "\n---\n") {
			o.try(objectOf(t, []byte(text)), 4)
		}
		o.compare()
	})
}

// offline collects what a server says to requests, and has the commands say it, too.
type offline struct {
	*testing.T
	s      *server
	dir    string
	random *rand.Rand
	paths  map[string]place // of collections, by apiVersion and kind
	tried  map[string]bool
	asked  [3][]offlineQuestion // creations, updates, updates of the status
}

// place is where objects of a kind are.
type place struct {
	path   string
	status bool
}

// offlineQuestion is a request, and what the server answers.
type offlineQuestion struct {
	body, old []byte
	answer    []byte
	warnings  []string
}

func newOffline(t *testing.T, seed uint64) *offline {
	o := &offline{T: t, s: startServer(t), dir: t.TempDir(), random: rand.New(rand.NewPCG(seed, 7)), paths: map[string]place{}, tried: map[string]bool{}}
	for kind, path := range builtinPaths {
		o.paths[kind] = place{path, strings.Contains(path, "/deployments")}
	}
	return o
}

func objectOf(t *testing.T, text []byte) map[string]any {
	t.Helper()
	var out map[string]any
	if err := yaml.Unmarshal(text, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// defineFamily installs the definitions of a family.
func (o *offline) defineFamily(f testcrds.Family) {
	crds, err := testcrds.CRDs(f)
	if err != nil {
		o.Fatal(err)
	}
	for _, d := range crds {
		text, err := yaml.YAMLToJSON(d.YAML)
		if err != nil {
			o.Fatal(err)
		}
		o.define(text)
	}
}

// defineCatalog installs two definitions of each release, those of v1beta1 included, and returns them.
func (o *offline) defineCatalog() []*apiextv1.CustomResourceDefinition {
	all, err := testcrds.Definitions(testcrds.Catalog())
	if err != nil {
		o.Fatal(err)
	}
	const most, large = 2, 60_000
	releases, names := map[string]int{}, map[string]bool{}
	var out []*apiextv1.CustomResourceDefinition
	for _, d := range all {
		release, name, _ := strings.Cut(d.Name, "/")
		if len(d.YAML) > large || releases[release] == most || names[name] {
			continue
		}
		text, err := d.JSON()
		if err != nil {
			o.Fatal(err)
		}
		if crd := o.define(text); crd != nil {
			releases[release]++
			names[name] = true
			out = append(out, crd)
		}
	}
	if len(out) < 40 {
		o.Errorf("got %d definitions of the catalog, want more", len(out))
	}
	return out
}

// define installs a definition and waits until it is served. What it says in version v1 comes back; nil if the server does not take it,
// or not at once.
func (o *offline) define(text []byte) *apiextv1.CustomResourceDefinition {
	var crd apiextv1.CustomResourceDefinition
	if err := json.Unmarshal(text, &crd); err != nil {
		o.Fatal(err)
	}
	const path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	if code, _, err := o.s.try("POST", "/apis/"+crd.APIVersion+"/customresourcedefinitions", text); err != nil || code != 201 {
		return nil
	}
	_, stored, err := o.s.try("GET", path+"/"+crd.Name, nil)
	if err != nil {
		o.Fatal(err)
	}
	crd = apiextv1.CustomResourceDefinition{}
	if err := json.Unmarshal(stored, &crd); err != nil {
		o.Fatal(err)
	}
	for _, v := range crd.Spec.Versions {
		base := "/apis/" + crd.Spec.Group + "/" + v.Name
		at := base + "/" + crd.Spec.Names.Plural
		if crd.Spec.Scope == apiextv1.NamespaceScoped {
			at = base + "/namespaces/default/" + crd.Spec.Names.Plural
		}
		if v.Served {
			testkit.EventuallySay(o, func() (string, bool) {
				code, _, err := o.s.try("GET", at, nil)
				return fmt.Sprintf("%s is served: %d, %v", at, code, err), err == nil && code == 200
			})
		}
		o.paths[crd.Spec.Group+"/"+v.Name+" "+crd.Spec.Names.Kind] = place{at, v.Subresources != nil && v.Subresources.Status != nil}
	}
	o.write("crds/"+crd.Name+".json", text)
	return &crd
}

func (o *offline) write(name string, text []byte) string {
	path := filepath.Join(o.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		o.Fatal(err)
	}
	if err := os.WriteFile(path, text, 0o600); err != nil {
		o.Fatal(err)
	}
	return path
}

// try asks the server about an object, and about damaged ones; if it is taken it is created, and asked about as an object to change.
func (o *offline) try(object map[string]any, damages int) {
	at, ok := o.paths[fmt.Sprint(object["apiVersion"], " ", object["kind"])]
	if !ok {
		return
	}
	object = maps.Clone(object)
	meta := maps.Clone(object["metadata"].(map[string]any))
	delete(meta, "namespace")
	name := fmt.Sprint(meta["name"])
	if o.tried[at.path+"/"+name] {
		meta["name"] = fmt.Sprintf("%s-%d", name, len(o.asked[0])) // examples share names
	}
	o.tried[at.path+"/"+name] = true
	object["metadata"] = meta
	o.ask(0, "POST", at.path, object, nil)
	for range damages {
		o.ask(0, "POST", at.path, damaged(o.random, object), nil)
	}
	code, stored, err := o.s.try("POST", at.path, o.text(object))
	if err != nil {
		o.Fatal(err)
	}
	if code != 201 {
		return // it is not valid, or there already
	}
	path := at.path + "/" + fmt.Sprint(objectOf(o.T, stored)["metadata"].(map[string]any)["name"])
	changed, statuses := len(o.asked[1]), len(o.asked[2])
	eventually(o.T, path+" stays as it is while changes of it are tried", func() bool {
		o.askChanges(at, path, stored, damages)
		// Controllers write some objects soon after they are there, definitions among them: then all is asked again.
		code, now, err := o.s.try("GET", path, nil)
		if err != nil {
			o.Fatal(err)
		}
		if code != 200 || bytes.Equal(now, stored) {
			return true
		}
		o.asked[1], o.asked[2], stored = o.asked[1][:changed], o.asked[2][:statuses], now
		return false
	})
}

// askChanges asks about changes of a stored object.
func (o *offline) askChanges(at place, path string, stored []byte, damages int) {
	old := objectOf(o.T, stored)
	o.ask(1, "PUT", path, old, stored)
	for range damages {
		o.ask(1, "PUT", path, damaged(o.random, old), stored)
	}
	for range damages {
		if !at.status {
			break
		}
		with := maps.Clone(old)
		with["status"] = damage(o.random, map[string]any{"conditions": []any{}, "phase": "x", "observedGeneration": 1, "replicas": 1})
		o.ask(2, "PUT", path+"/status", with, stored)
	}
}

func (o *offline) text(object map[string]any) []byte {
	body, err := json.Marshal(object)
	if err != nil {
		o.Fatal(err)
	}
	return body
}

// ask makes a dry run and notes what the server says.
func (o *offline) ask(sort int, method, path string, object map[string]any, old []byte) {
	q := offlineQuestion{body: o.text(object), old: old}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, o.s.url(path+"?dryRun=All&fieldValidation=Strict"), bytes.NewReader(q.body))
	if err != nil {
		o.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	resp, err := o.s.http.Do(r)
	if err != nil {
		o.Fatal(err)
	}
	defer resp.Body.Close()
	if q.answer, err = io.ReadAll(resp.Body); err != nil {
		o.Fatal(err)
	}
	warnings, _ := utilnet.ParseWarningHeaders(resp.Header["Warning"])
	for _, w := range warnings {
		q.warnings = append(q.warnings, w.Text)
	}
	o.asked[sort] = append(o.asked[sort], q)
}

// compare asks the commands the same.
func (o *offline) compare() {
	valid, invalid := 0, 0
	for sort, flags := range [][]string{nil, {"--old"}, {"--subresource", "status", "--old"}} {
		asked := o.asked[sort]
		if len(asked) == 0 {
			continue
		}
		args := []string{"validate", "-o", "json"}
		for _, dir := range []string{"crds", "policies"} {
			if _, err := os.Stat(filepath.Join(o.dir, dir)); err == nil {
				args = append(args, "-f", filepath.Join(o.dir, dir))
			}
		}
		var bodies, olds [][]byte
		for _, q := range asked {
			bodies, olds = append(bodies, q.body), append(olds, q.old)
		}
		if flags != nil {
			args = append(append(args, flags...), o.write("old.yaml", bytes.Join(olds, []byte("\n---\n"))))
		}
		args = append(args, o.write("objects.yaml", bytes.Join(bodies, []byte("\n---\n"))))
		var verdicts struct{ Results []offlineVerdict }
		out := o.command(-1, args...)
		if err := json.Unmarshal(out, &verdicts); err != nil {
			o.Fatalf("%v in %s", err, tail(string(out), 500))
		}
		if len(verdicts.Results) != len(asked) {
			o.Fatalf("got %d verdicts on %d objects: %s", len(verdicts.Results), len(asked), tail(string(out), 1000))
		}
		for i, v := range verdicts.Results {
			if o.equal(&asked[i], &v); v.Valid {
				valid++
			} else {
				invalid++
			}
		}
	}
	o.Logf("%d created, %d changed, %d statuses; %d valid, %d not", len(o.asked[0]), len(o.asked[1]), len(o.asked[2]), valid, invalid)
	if valid == 0 || invalid == 0 {
		o.Errorf("%d valid and %d invalid, which compares one verdict only", valid, invalid)
	}
	o.sameObjects()
}

// offlineVerdict is a result of keelson validate.
type offlineVerdict struct {
	Valid    bool
	Findings []struct{ Severity, Message string }
	Status   *metav1.Status
}

// warnings returns the texts of the warnings.
func (v *offlineVerdict) warnings() []string {
	var out []string
	for _, f := range v.Findings {
		if f.Severity == "warning" {
			out = append(out, f.Message)
		}
	}
	return out
}

// equal compares a verdict with what the server said.
func (o *offline) equal(q *offlineQuestion, v *offlineVerdict) {
	o.Helper()
	want, refused := refusal(o.T, q.answer)
	switch {
	case v.Valid == refused:
		o.Errorf("offline the verdict is %v %+v\nserver: %s\nobject: %s\nold: %s", v.Valid, v.Status, q.answer, q.body, q.old)
	case !v.Valid && !reflect.DeepEqual(*v.Status, want):
		o.Errorf("offline: %+v\nserver: %+v\nobject: %s", *v.Status, want, q.body)
	case !slices.Equal(v.warnings(), q.warnings):
		o.Errorf("offline: warnings %q\nserver: %q\nobject: %s", v.warnings(), q.warnings, q.body)
	}
}

// refusal is the Status that an answer is; ok is false if it is an object.
func refusal(t *testing.T, answer []byte) (status metav1.Status, ok bool) {
	t.Helper()
	var head metav1.TypeMeta
	if err := json.Unmarshal(answer, &head); err != nil {
		t.Fatalf("%v: %s", err, answer)
	}
	if head.Kind != "Status" {
		return status, false
	}
	if err := json.Unmarshal(answer, &status); err != nil {
		t.Fatal(err)
	}
	return status, true
}

// sameObjects compares what normalize prints of new objects that are valid with what the server stores: their specs, as the rest has
// what the server fills in, and only if no policy changes them.
func (o *offline) sameObjects() {
	if _, err := os.Stat(filepath.Join(o.dir, "policies")); err == nil {
		return
	}
	var bodies, stored [][]byte
	for _, q := range o.asked[0] {
		if _, refused := refusal(o.T, q.answer); !refused {
			bodies, stored = append(bodies, q.body), append(stored, q.answer)
		}
	}
	file := o.write("valid.yaml", bytes.Join(bodies, []byte("\n---\n")))
	dec := json.NewDecoder(bytes.NewReader(o.command(0, "normalize", "-f", filepath.Join(o.dir, "crds"), "-o", "json", file)))
	for i := range stored {
		var got, want map[string]any
		if err := dec.Decode(&got); err != nil {
			o.Fatal(err)
		}
		if err := json.Unmarshal(stored[i], &want); err != nil {
			o.Fatal(err)
		}
		if !reflect.DeepEqual(got["spec"], want["spec"]) {
			o.Errorf("normalize: %v\nserver: %s", got["spec"], stored[i])
		}
	}
}

// command runs keelson, which must end with the code unless that is negative.
func (o *offline) command(code int, args ...string) []byte {
	var out, errs bytes.Buffer
	cmd := exec.Command(keelsonBin, args...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	cmd.Run() // its exit code says it
	if got := cmd.ProcessState.ExitCode(); got != code && code >= 0 {
		o.Fatalf("keelson %s: got %d, want %d: %s", strings.Join(args, " "), got, code, tail(errs.String(), 1000))
	}
	return out.Bytes()
}

// damaged is a copy of an object with a few changes, mostly below spec.
func damaged(random *rand.Rand, object map[string]any) map[string]any {
	text, err := json.Marshal(object)
	if err != nil {
		panic(err)
	}
	var c map[string]any
	if err := json.Unmarshal(text, &c); err != nil {
		panic(err)
	}
	var parts []string
	for name := range c {
		if name != "apiVersion" && name != "kind" && name != "metadata" && name != "status" {
			parts = append(parts, name)
		}
	}
	slices.Sort(parts)
	for range 1 + random.IntN(2) {
		if len(parts) == 0 || random.IntN(20) == 0 {
			c[[]string{"spec", "data", "rules", "extra"}[random.IntN(4)]] = damage(random, nil)
			continue
		}
		part := parts[random.IntN(len(parts))]
		c[part] = damage(random, c[part])
	}
	return c
}

// damage changes one place at or below v.
func damage(random *rand.Rand, v any) any {
	values := []any{nil, "", "x", "Not A Name!", -1, 0, 70000, 1.5, true, []any{}, map[string]any{}, []any{"x", "x"}, strings.Repeat("y", 300)}
	switch v := v.(type) {
	case map[string]any:
		names := slices.Sorted(maps.Keys(v))
		if len(names) == 0 || random.IntN(6) == 0 {
			v["extra"] = values[random.IntN(len(values))]
			return v
		}
		name := names[random.IntN(len(names))]
		if random.IntN(5) == 0 {
			delete(v, name)
		} else {
			v[name] = damage(random, v[name])
		}
		return v
	case []any:
		if len(v) == 0 {
			return append(v, values[random.IntN(len(values))])
		}
		i := random.IntN(len(v))
		if random.IntN(4) == 0 {
			return append(v, v[i])
		}
		v[i] = damage(random, v[i])
		return v
	}
	return values[random.IntN(len(values))]
}
