package builtin

import (
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/keelson-io/keelson/internal/meta"
	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/kind"
	"github.com/keelson-io/keelson/schema"
)

// This file tests that the work for an object does not grow faster than the object.

var (
	linear  = flag.Bool("linear", false, "test that the work for long lists and maps grows as they do, which takes some minutes")
	largest = flag.Bool("largest", false, "with -linear, test lists and maps of 3 MiB, which may take two seconds of processor time each")
)

const (
	smallList  = 64 << 10
	listGrowth = 4  // from the small list to the large one
	mostGrowth = 10 // of the time meanwhile; quadratic work grows 16-fold
	mostParses = 40 // the time, in times of parsing the object, that needs no second look
)

// filled is an example with a long list or map.
type filled struct {
	v     *kind.Version
	where string
	text  func(size int) []byte
}

// fill returns items of a total size. Distinct items differ in all texts and numbers.
func fill(item any, size int, distinct bool) []any {
	var out []any
	for size > 0 {
		next := item
		if distinct {
			next = vary(item, len(out)+1)
		}
		text, err := json.Marshal(next)
		if err != nil {
			panic(err)
		}
		size -= len(text) + 1
		out = append(out, next)
	}
	return out
}

// vary returns a copy of a value with other texts and numbers.
func vary(value any, i int) any {
	switch x := value.(type) {
	case string:
		return fmt.Sprintf("%s%x", strings.TrimSuffix(x, "Value"), i)
	case float64:
		return i
	case []any:
		out := make([]any, len(x))
		for k := range x {
			out[k] = vary(x[k], i)
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(x))
		for k := range x {
			out[k] = vary(x[k], i)
		}
		return out
	}
	return value
}

// stretch returns a list or map of a size, with items like those of an example.
func stretch(value any, size int, distinct bool) any {
	switch x := value.(type) {
	case []any:
		return fill(x[0], size, distinct)
	case map[string]any:
		var item any
		for _, item = range x {
		}
		out := map[string]any{}
		for i, next := range fill(item, size/2, distinct) {
			out[fmt.Sprintf("k%x", i)] = next
		}
		return out
	}
	return value
}

// isMap reports whether an object in an example is a map: its only key is not a field's name.
func isMap(x map[string]any) bool {
	for key := range x {
		return len(x) == 1 && strings.HasSuffix(key, "Key")
	}
	return false
}

// lists calls fn for each object of an example that has lists or maps, with their names.
func lists(value any, path string, fn func(in map[string]any, path string, names []string)) {
	switch x := value.(type) {
	case []any:
		for _, item := range x {
			lists(item, path+"[]", fn)
		}
	case map[string]any:
		var names []string
		for _, name := range slices.Sorted(maps.Keys(x)) {
			list, is := x[name].([]any)
			m, object := x[name].(map[string]any)
			if is && len(list) > 0 || object && isMap(m) {
				names = append(names, name)
			}
			lists(x[name], path+"."+name, fn)
		}
		if len(names) > 0 {
			fn(x, path, names)
		}
	}
}

// longObjects returns examples of all kinds with a long list or map each, and with all lists and
// maps of an object. Definitions of pods in other kinds are left out.
func longObjects(t *testing.T) []filled {
	var out []filled
	dir, seen := examples(t), map[string]bool{}
	for _, v := range own() {
		var root map[string]any
		if err := json.Unmarshal(example(t, dir, v, "json"), &root); err != nil {
			t.Fatal(err)
		}
		if meta, ok := root["metadata"].(map[string]any); ok {
			clear(meta) // its lists are not tested yet
		}
		lists(root, "", func(in map[string]any, path string, names []string) {
			if v.Kind.Name != "Pod" && strings.Contains(path, ".template") || strings.Contains(path, ".metadata") {
				return
			}
			seen[path] = true
			all := [][]string{names}
			if len(names) > 1 {
				for _, name := range names {
					all = append(all, []string{name})
				}
			}
			for _, some := range all {
				for _, distinct := range []bool{false, true} {
					out = append(out, filled{v, fmt.Sprintf("%s %s %v distinct=%v", v.GVK(), path, some, distinct), func(size int) []byte {
						was := maps.Clone(in)
						for _, name := range some {
							in[name] = stretch(in[name], size/len(some), distinct)
						}
						text, err := json.Marshal(root)
						maps.Copy(in, was)
						if err != nil {
							t.Fatal(err)
						}
						return text
					}})
				}
			}
		})
	}
	return out
}

// threadTime returns the processor time of the thread.
func threadTime() time.Duration {
	var at syscall.Timespec
	const thread = 3 // CLOCK_THREAD_CPUTIME_ID
	if _, _, err := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, thread, uintptr(unsafe.Pointer(&at)), 0); err != 0 {
		panic(err)
	}
	return time.Duration(at.Nano())
}

// took returns the shortest processor time of some calls.
func took(times int, fn func()) time.Duration {
	least := time.Duration(0)
	for i := range times {
		begin := threadTime()
		fn()
		if d := threadTime() - begin; i == 0 || d < least {
			least = d
		}
	}
	return max(least, time.Microsecond)
}

// judge decodes an object and checks it as a new one, as one that did not change, and its status.
func judge(v *kind.Version, text []byte) {
	decode := func() *jsondoc.Doc {
		d := new(jsondoc.Doc)
		if _, err := v.Decode(d, text); err != nil {
			return nil
		}
		meta.Object{Doc: d}.SetUID("u")
		return d
	}
	d, old := decode(), decode()
	if d == nil {
		return
	}
	ctx := context.Background()
	v.PrepareCreate(d)
	v.Validate(ctx, d, nil, schema.Whole)
	v.Validate(ctx, d, old, schema.Whole)
	v.Validate(ctx, d, old, schema.Status)
}

// TestWorkGrowsWithTheObject holds that no list and no map of any kind makes more than linear work. The lists of metadata, and templates
// of pods in other kinds than Pod, are not tested. "make attack-lists" runs it.
func TestWorkGrowsWithTheObject(t *testing.T) {
	if !*linear {
		t.Skip("without -linear")
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	slowest := map[string]float64{}
	for _, f := range longObjects(t) {
		if *largest {
			text := f.text(3 << 20)
			if d := took(1, func() { judge(f.v, text) }); d > 2*time.Second {
				t.Errorf("%s: %d bytes took %v", f.where, len(text), d)
			}
			continue
		}
		text := f.text(smallList)
		parse := took(1, func() { jsondoc.Parse(new(jsondoc.Doc), text) })
		small := took(1, func() { judge(f.v, text) })
		slowest[f.where] = float64(small) / float64(parse)
		if small < mostParses*parse {
			continue
		}
		small = took(3, func() { judge(f.v, text) })
		text = f.text(listGrowth * smallList)
		if large := took(3, func() { judge(f.v, text) }); large > mostGrowth*small {
			t.Errorf("%s: %v for %d KiB became %v for %d KiB", f.where, small, smallList>>10, large, listGrowth*smallList>>10)
		}
	}
	names := slices.SortedFunc(maps.Keys(slowest), func(a, b string) int { return cmp.Compare(slowest[b], slowest[a]) })
	for _, name := range names[:min(20, len(names))] {
		t.Logf("%.0f times the parsing: %s", slowest[name], name)
	}
	t.Log(len(names))
}
