package apply

import (
	"encoding/json"
	"maps"
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/client-go/applyconfigurations"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/keelson-io/keelson/internal/apply"
	"github.com/keelson-io/keelson/internal/builtin"
	"github.com/keelson-io/keelson/kind"
)

// This file compares the built-in kinds: which of their lists and maps are atomic, sets, or merged by which keys, upstream knows from
// schemas of its own, and Keelson from the published ones. The objects are those that module k8s.io/api has of each kind, with a value
// in every field, and random changes of them.

// builtinSides are both sides for a version of a built-in kind.
func builtinSides(t *testing.T, v *kind.Version, types managedfields.TypeConverter) *sides {
	t.Helper()
	s := &sides{gvk: v.GVK(), theirs: map[string]*managedfields.FieldManager{}}
	var err error
	s.theirs[""], err = managedfields.NewDefaultCRDFieldManager(types, nop{}, noDefaults{}, creater{}, s.gvk, s.gvk.GroupVersion(), "", nil)
	if err != nil {
		t.Fatal(err)
	}
	s.ours, err = apply.New(apply.Config{Group: s.gvk.Group, Kind: s.gvk.Kind, Version: s.gvk.Version,
		Versions: []apply.Version{{Name: s.gvk.Version, Schema: v.Structural(), Reset: map[string][]string{}}}})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// examples is the folder of upstream's examples.
func examples(t *testing.T) string {
	t.Helper()
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/api").Output()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(strings.TrimSpace(string(dir)), "testdata", "HEAD")
}

// example is upstream's example of a version, as a client would write it; nil if there is none.
func example(t *testing.T, dir string, v *kind.Version) map[string]any {
	t.Helper()
	group := v.Kind.Group
	if group == "" {
		group = "core"
	}
	text, err := os.ReadFile(filepath.Join(dir, group+"."+v.Name+"."+v.Kind.Name+".json"))
	if err != nil {
		return nil
	}
	u := toUnstructured(t, text)
	u.SetManagedFields(nil)
	return u.Object
}

func TestBuiltinKindsEqualUpstream(t *testing.T) {
	dir, types := examples(t), applyconfigurations.NewTypeConverter(scheme.Scheme)
	compared, seeds := 0, 8
	if testing.Short() {
		seeds = 1
	}
	for _, k := range builtin.All(nil) {
		if k.Behavior.Virtual {
			continue // nobody applies it, and upstream has no schema of that kind for it
		}
		for _, v := range k.Versions {
			o := example(t, dir, v)
			if o == nil {
				continue // of another module
			}
			compared++
			t.Run(v.GVK().String(), func(t *testing.T) {
				s := builtinSides(t, v, types)
				for seed := range seeds {
					changeBuiltin(t, s, marshal(t, o), changes{rand.New(rand.NewSource(int64(seed)))})
				}
			})
		}
	}
	if compared < 60 {
		t.Errorf("%d versions were compared", compared)
	}
}

// changeBuiltin has one manager create an object, another one change it, and two apply what they think of it.
func changeBuiltin(t *testing.T, s *sides, o []byte, c changes) {
	t.Helper()
	live := withUID(t, s.update(t, nil, o, "", "m1"))
	next := clone(t, live)
	c.object(next)
	live = withUID(t, s.update(t, live, marshal(t, next), "", "m2"))
	for _, manager := range []string{"m3", "m4", "m3"} {
		config := clone(t, o)
		c.object(config)
		config["metadata"] = map[string]any{"name": next["metadata"].(map[string]any)["name"], "namespace": next["metadata"].(map[string]any)["namespace"]}
		s.apply(t, live, marshal(t, config), "", manager, false)
		if applied := s.apply(t, live, marshal(t, config), "", manager, true); applied != nil {
			live = withUID(t, applied)
		}
	}
}

// changes makes random changes.
type changes struct{ *rand.Rand }

// object changes an object below its metadata.
func (c changes) object(o map[string]any) {
	for _, name := range keys(o) {
		switch name {
		case "apiVersion", "kind", "metadata":
		default:
			if v, keep := c.value(o[name], false); keep {
				o[name] = v
			} else {
				delete(o, name)
			}
		}
	}
}

// value is a value with some changes, and whether it stays. Simple values in items of lists do, because they may be an item's key, which
// objects of Go types always have.
func (c changes) value(v any, inItem bool) (any, bool) {
	_, isMap := v.(map[string]any)
	_, isList := v.([]any)
	if (isMap || isList || !inItem) && c.Intn(12) == 0 {
		return nil, false
	}
	switch v := v.(type) {
	case map[string]any:
		for _, name := range keys(v) {
			if next, keep := c.value(v[name], inItem); keep {
				v[name] = next
			} else {
				delete(v, name)
			}
		}
	case []any:
		out := []any{}
		for _, item := range v {
			next, keep := c.value(runtime.DeepCopyJSONValue(item), true)
			if keep {
				out = append(out, next)
			}
			if c.Intn(3) == 0 {
				if other := c.another(runtime.DeepCopyJSONValue(item)); string(mustJSON(other)) != string(mustJSON(next)) {
					out = append(out, other)
				}
			}
		}
		return out, true
	default:
		if c.Intn(4) == 0 {
			return c.another(v), true
		}
	}
	return v, true
}

// another is a value of the same form, in which every part is another one.
func (c changes) another(v any) any {
	switch v := v.(type) {
	case string:
		return v + "x"
	case int64:
		return v + 1
	case float64:
		return v + 1
	case bool:
		return !v
	case map[string]any:
		for name, m := range v {
			v[name] = c.another(m)
		}
	case []any:
		for i := range v {
			v[i] = c.another(v[i])
		}
	}
	return v
}

func mustJSON(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic("BUG: " + err.Error())
	}
	return b
}

// keys are an object's members by name, so that the same seed makes the same changes.
func keys(o map[string]any) []string { return slices.Sorted(maps.Keys(o)) }
