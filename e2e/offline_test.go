package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
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
	"sigs.k8s.io/yaml"

	"github.com/keelson-io/keelson/internal/testcrds"
)

// TestOfflineVerdicts sends the examples of several families, as they are and damaged at random, to a server and to the commands
// that work without one: the same verdict, in the same words, and the same object.
func TestOfflineVerdicts(t *testing.T) {
	s := startServer(t)
	for i, family := range []int{0, 2, 3} {
		f := testcrds.Families()[family]
		t.Run(f.Name, func(t *testing.T) {
			o := newOffline(t, s, f)
			random := rand.New(rand.NewPCG(uint64(i), 7))
			for _, example := range familyObjects(t, f) {
				var object map[string]any
				if err := yaml.Unmarshal(example.YAML, &object); err != nil {
					t.Fatal(err)
				}
				o.send(object)
				for range 3 {
					o.send(damaged(random, object))
				}
			}
			o.compare()
		})
	}
}

// offline collects what a server says to objects of a family, and has the commands say it, too.
type offline struct {
	*testing.T
	s      *server
	dir    string
	paths  map[string]string // of collections, by apiVersion and kind
	bodies [][]byte
	said   [][]byte
}

func newOffline(t *testing.T, s *server, f testcrds.Family) *offline {
	o := &offline{T: t, s: s, dir: t.TempDir(), paths: map[string]string{}}
	crds, err := testcrds.CRDs(f)
	if err != nil {
		t.Fatal(err)
	}
	for i, d := range crds {
		text, err := yaml.YAMLToJSON(d.YAML)
		if err != nil {
			t.Fatal(err)
		}
		var crd apiextv1.CustomResourceDefinition
		if err := json.Unmarshal(text, &crd); err != nil {
			t.Fatal(err)
		}
		s.do(t, 201, "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", text)
		o.write(fmt.Sprintf("crds/%02d.json", i), text)
		for _, v := range crd.Spec.Versions {
			base := "/apis/" + crd.Spec.Group + "/" + v.Name
			path := base + "/" + crd.Spec.Names.Plural
			if crd.Spec.Scope == apiextv1.NamespaceScoped {
				path = base + "/namespaces/default/" + crd.Spec.Names.Plural
			}
			o.paths[crd.Spec.Group+"/"+v.Name+" "+crd.Spec.Names.Kind] = path
			for deadline := time.Now().Add(20 * time.Second); v.Served; time.Sleep(5 * time.Millisecond) {
				if code, _, err := s.try("GET", path, nil); err == nil && code == 200 {
					break
				} else if time.Now().After(deadline) {
					t.Fatalf("%s is not served: %d, %v", path, code, err)
				}
			}
		}
	}
	return o
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

// send asks the server about a new object.
func (o *offline) send(object map[string]any) {
	path := o.paths[fmt.Sprint(object["apiVersion"], " ", object["kind"])]
	if path == "" {
		return
	}
	object = maps.Clone(object)
	meta := maps.Clone(object["metadata"].(map[string]any))
	delete(meta, "namespace")
	object["metadata"] = meta
	body, err := json.Marshal(object)
	if err != nil {
		o.Fatal(err)
	}
	_, answer, err := o.s.try("POST", path+"?dryRun=All&fieldValidation=Strict", body)
	if err != nil {
		o.Fatal(err)
	}
	o.bodies, o.said = append(o.bodies, body), append(o.said, answer)
}

// compare asks the commands about the same objects.
func (o *offline) compare() {
	file := o.write("objects.yaml", bytes.Join(o.bodies, []byte("\n---\n")))
	out := o.command(1, "validate", "-f", filepath.Join(o.dir, "crds"), "-o", "json", file)
	var verdicts struct {
		Results []struct {
			Valid  bool
			Status *metav1.Status
		}
	}
	if err := json.Unmarshal(out, &verdicts); err != nil {
		o.Fatalf("%v in %s", err, tail(string(out), 500))
	}
	if len(verdicts.Results) != len(o.said) {
		o.Fatalf("got %d verdicts on %d objects", len(verdicts.Results), len(o.said))
	}
	var valid [][]byte // bodies
	var stored [][]byte
	for i, v := range verdicts.Results {
		var want metav1.Status
		if err := json.Unmarshal(o.said[i], &want); err != nil {
			o.Fatal(err)
		}
		switch {
		case v.Valid != (want.Kind != "Status"):
			o.Errorf("offline the verdict is %v\nserver: %s\nobject: %s", v.Valid, o.said[i], o.bodies[i])
		case v.Valid:
			valid, stored = append(valid, o.bodies[i]), append(stored, o.said[i])
		case v.Status.Message != want.Message || v.Status.Code != want.Code || v.Status.Reason != want.Reason || !reflect.DeepEqual(causes(v.Status), causes(&want)):
			o.Errorf("offline: %+v\nserver: %+v\nobject: %s", *v.Status, want, o.bodies[i])
		}
	}
	o.Logf("%d objects, %d of them valid", len(o.said), len(valid))
	if len(valid) == 0 || len(valid) == len(o.said) {
		o.Errorf("%d of %d objects are valid, which compares one verdict only", len(valid), len(o.said))
	}
	o.sameObjects(valid, stored)
}

func causes(s *metav1.Status) []metav1.StatusCause {
	if s.Details == nil {
		return nil
	}
	return s.Details.Causes
}

// sameObjects compares what normalize prints of valid objects with what the server stores: their specs, as the rest has what
// the server fills in.
func (o *offline) sameObjects(bodies, stored [][]byte) {
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

func (o *offline) command(code int, args ...string) []byte {
	var out, errs bytes.Buffer
	cmd := exec.Command(keelsonBin, args...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	cmd.Run() // its exit code says it
	if got := cmd.ProcessState.ExitCode(); got != code {
		o.Fatalf("keelson %s: got %d, want %d: %s", strings.Join(args, " "), got, code, tail(errs.String(), 1000))
	}
	return out.Bytes()
}

// damaged is a copy of an object with a few changes below spec.
func damaged(random *rand.Rand, object map[string]any) map[string]any {
	text, err := json.Marshal(object)
	if err != nil {
		panic(err)
	}
	var c map[string]any
	if err := json.Unmarshal(text, &c); err != nil {
		panic(err)
	}
	for range 1 + random.IntN(2) {
		c["spec"] = damage(random, c["spec"])
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
