package jsondoc

import (
	"context"
	gojson "encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	kjson "sigs.k8s.io/json"
)

// sameJSON compares texts by what Kubernetes decodes from them.
func sameJSON(a, b []byte) bool {
	x, y := Get(), Get()
	defer x.Release()
	defer y.Release()
	return Parse(x, a) == nil && Parse(y, b) == nil && Equal(x.Root(), y.Root())
}

func checkMergePatch(t *testing.T, target, patch []byte) {
	t.Helper()
	want, wantErr := jsonpatch.MergePatch(target, patch)
	got, err := MergePatch(target, patch)
	if late := (*RangeError)(nil); errors.As(err, &late) {
		return // upstream notices when it decodes the result
	}
	var v any
	if kjson.UnmarshalCaseSensitivePreserveInts(target, &v) != nil && gojson.Valid(target) {
		return // likewise, in the target
	}
	if (err == nil) != (wantErr == nil) || err != nil && err.Error() != wantErr.Error() {
		t.Fatalf("MergePatch(%q, %q): got error %v, want %v", target, patch, err, wantErr)
	}
	if err == nil && !sameJSON(got, want) {
		t.Fatalf("MergePatch(%q, %q): got %q, want %q", target, patch, got, want)
	}
}

var mergePatches = [][2]string{
	{`{"a":1}`, `{"a":2}`}, {`{"a":1}`, `{"b":2}`}, {`{"a":1}`, `{"a":null}`}, {`{"a":1,"b":2}`, `{"c":null,"b":null}`},
	{`{"a":{"b":1}}`, `{"a":{"b":null,"c":{"d":null,"e":1}}}`}, {`{"a":[1]}`, `{"a":[{"x":null}]}`}, {`{"a":{}}`, `{"a":[{"x":null}]}`},
	{`{"a":null}`, `{"a":[{"x":null}]}`}, {`{}`, `{"a":[{"x":null},null]}`}, {`{"a":null}`, `{}`}, {`{"a":1}`, `{"a":{"b":null}}`}, {`{"a":{"b":null}}`, `{"a":{"c":1}}`},
	{`{}`, `[1,{"a":null}]`}, {`[1]`, `{"a":null,"b":{"c":null}}`}, {`[1]`, `[2]`}, {`1`, `{"a":1}`}, {`{}`, `null`}, {`null`, `{}`}, {`{}`, `1`}, {`{}`, `"x"`}, {`{`, `{}`}, {`{}`, `{`}, {`null`, `{`},
	{`{"a":1.0,"b":1e3,"z":0.5}`, `{"c":2.0,"d":1e30,"e":[1.0]}`}, {`{"a":"<"}`, `{"b":"\u2028&"}`}, {`{"a":1}`, `{"a":1,"a":2}`}, {`{"a":{"x":1}}`, `{"a":null,"a":{"y":1}}`},
	{`{"metadata":{"labels":{"a":"1"}},"spec":{"x":1}}`, `{"metadata":{"labels":{"b":"2","a":null}},"spec":null}`}, {`{"a":1}`, `{"b":1e999}`}, {`{"a":-0.0}`, `{"b":-0}`},
}

func TestMergePatch(t *testing.T) {
	for _, tt := range mergePatches {
		checkMergePatch(t, []byte(tt[0]), []byte(tt[1]))
	}
}

func FuzzMergePatch(f *testing.F) {
	for _, tt := range mergePatches {
		f.Add([]byte(tt[0]), []byte(tt[1]))
	}
	f.Fuzz(func(t *testing.T, target, patch []byte) { checkMergePatch(t, target, patch) })
}

// upstreamJSONPatch applies a patch with Kubernetes' library. It crashes on a
// few patches; ok is false then.
func upstreamJSONPatch(target, patch []byte) (out []byte, err error, ok bool) {
	defer func() {
		if recover() != nil {
			ok = false
		}
	}()
	p, err := jsonpatch.DecodePatch(patch)
	if err == nil {
		out, err = p.Apply(target)
	}
	return out, err, true
}

func checkJSONPatch(t *testing.T, target, patch []byte) {
	t.Helper()
	var v any
	if kjson.UnmarshalCaseSensitivePreserveInts(target, &v) != nil || len(target) == 0 || target[0] != '{' {
		return
	}
	want, wantErr, ok := upstreamJSONPatch(target, patch)
	if !ok || wantErr == nil && kjson.UnmarshalCaseSensitivePreserveInts(want, &v) != nil {
		return
	}
	got, err := JSONPatch(context.Background(), target, patch)
	var late *RangeError
	switch {
	case wantErr != nil && strings.HasPrefix(wantErr.Error(), "testing value"):
		return // see TestJSONPatchComparesMeaning
	case errors.As(err, &late):
		return
	case (err == nil) != (wantErr == nil) || err != nil && err.Error() != wantErr.Error():
		t.Fatalf("JSONPatch(%q, %q): got error %v, want %v", target, patch, err, wantErr)
	case err == nil && !sameJSON(got, want):
		t.Fatalf("JSONPatch(%q, %q): got %q, want %q", target, patch, got, want)
	}
}

const jsonPatchTarget = `{"a":1,"b":{"c":"x","~t/":true,"":5},"l":[1,2,{"m":"n"}],"n":null,"f":1.0,"s":"<"}`

func jsonPatches() []string {
	patches := []string{`[]`, `null`, `{}`, `1`, `"x"`, `true`, `[1]`, `[null]`, `["x"]`, `[[]]`, `[{}]`, `[{"op":1}]`, `[{"op":null}]`, `[{"op":"bogus","path":"/a"}]`, `[`, `[{"op":"add","path":"/x","value":1e3}]`,
		`[{"op":"replace","path":"","value":{"x":1}},{"op":"add","path":"/y","value":[1]},{"op":"add","path":"/y/0","value":{}}]`, `[{"op":"replace","path":"","value":[1]}]`, `[{"op":"replace","path":"","value":1}]`, `[{"op":"replace","path":"","value":null}]`,
		`[{"op":"test","path":"","value":{}}]`, `[{"op":"test","path":"","value":` + jsonPatchTarget + `}]`,
		`[{"op":"copy","from":"/b","path":"/l/0"},{"op":"add","path":"/l/0/c","value":"y"},{"op":"test","path":"/b/c","value":"x"}]`,
		`[{"op":"move","from":"/b","path":"/b/c"}]`, `[{"op":"add","path":"/q","value":{"r":{}}},{"op":"add","path":"/q/r/s","value":1},{"op":"remove","path":"/q/r"}]`,
	}
	paths := []string{`"/a"`, `"/a/x"`, `"/b"`, `"/b/c"`, `"/b/x"`, `"/b/~0t~1"`, `"/b/"`, `"/x"`, `"/x/y"`, `"/l/0"`, `"/l/3"`, `"/l/4"`, `"/l/-"`, `"/l/-1"`, `"/l/-3"`, `"/l/-4"`, `"/l/-5"`, `"/l/x"`, `"/l/00"`, `"/l/+1"`, `"/l/2/m"`, `"/l/9/m"`, `"/n"`, `"/n/x"`, `""`, `"a"`, `"a/b"`, `"/"`, `1`, `null`, `[]`, `true`}
	for _, op := range []string{"add", "remove", "replace", "test", "move", "copy"} {
		for _, path := range paths {
			for _, value := range []string{``, `,"value":1`, `,"value":null`, `,"value":{"c":[1]}`, `,"value":"x"`, `,"value":[]`} {
				if op == "move" || op == "copy" {
					break
				}
				patches = append(patches, fmt.Sprintf(`[{"op":%q,"path":%s%s}]`, op, path, value))
			}
			for _, other := range paths {
				if op == "move" || op == "copy" {
					patches = append(patches, fmt.Sprintf(`[{"op":%q,"path":%s,"from":%s}]`, op, path, other))
				}
			}
		}
		patches = append(patches, fmt.Sprintf(`[{"op":%q}]`, op), fmt.Sprintf(`[{"op":%q,"path":"/a"}]`, op), fmt.Sprintf(`[{"op":%q,"from":"/a"}]`, op))
	}
	return patches
}

func TestJSONPatch(t *testing.T) {
	for _, patch := range jsonPatches() {
		checkJSONPatch(t, []byte(jsonPatchTarget), []byte(patch))
	}
}

func FuzzJSONPatch(f *testing.F) {
	for _, patch := range jsonPatches() {
		f.Add([]byte(jsonPatchTarget), []byte(patch))
	}
	f.Fuzz(func(t *testing.T, target, patch []byte) { checkJSONPatch(t, target, patch) })
}

// Where upstream's library compares how values are written, Keelson compares
// what they mean.
// Ledger: json-patch-test.
func TestJSONPatchComparesMeaning(t *testing.T) {
	for _, patch := range []string{
		`[{"op":"test","path":"/s","value":"\u003c"}]`,
		`[{"op":"test","path":"/s","value":"<"}]`,
		`[{"op":"test","path":"/f","value":1.00}]`,
		`[{"op":"test","path":"/l","value":[1, 2, {"m" : "\u006e"}]}]`,
		`[{"op":"test","path":"/n"}]`,
	} {
		if _, err := JSONPatch(context.Background(), []byte(jsonPatchTarget), []byte(patch)); err != nil {
			t.Errorf("JSONPatch(%s): %v", patch, err)
		}
	}
	for _, patch := range []string{
		`[{"op":"test","path":"/s","value":"x"}]`,
		`[{"op":"test","path":"/f","value":1}]`,
		`[{"op":"test","path":"/l","value":[1,2]}]`,
		`[{"op":"test","path":"/b","value":{"c":"x"}}]`,
	} {
		if _, err := JSONPatch(context.Background(), []byte(jsonPatchTarget), []byte(patch)); !errors.Is(err, ErrTestFailed) {
			t.Errorf("JSONPatch(%s): got %v, want a failed test", patch, err)
		}
	}
}

// TestJSONPatchKeepsTwins holds that what a patch says twice is there twice, so that it is complained of, unless something in it was changed.
func TestJSONPatchKeepsTwins(t *testing.T) {
	for patch, want := range map[string]string{
		`[{"op":"add","path":"/x","value":{"a":1, "a":2}}]`:                                                               `{"x":{"a":1,"a":2}}`,
		`[{"op":"add","path":"/x","value":[{"a":1,"a":2}]},{"op":"copy","from":"/x","path":"/y"}]`:                        `{"x":[{"a":1,"a":2}],"y":[{"a":1,"a":2}]}`,
		`[{"op":"add","path":"/x","value":{"a":1,"a":2,"b":{"c":1,"c":2}}},{"op":"add","path":"/x/d","value":1.0}]`:       `{"x":{"a":2,"b":{"c":1,"c":2},"d":1.0}}`,
		`[{"op":"add","path":"/x","value":[{"c":1,"c":2},0]},{"op":"remove","path":"/x/1"}]`:                              `{"x":[{"c":1,"c":2}]}`,
		`[{"op":"add","path":"/x","value":1,"value":2}]`:                                                                  `{"x":2}`,
		`[{"op":"add","op":"add","path":"/x"},{"op":"add","path":"/y","value":{}}]`:                                       `{"x":null,"y":{}}`,
		`[{"op":"add","path":"/x","value":{"a":1,"a":2}},{"op":"replace","path":"/x","value":{"b":1}}]`:                   `{"x":{"b":1}}`,
		`[{"op":"add","path":"/x","value":{"a":"<","a":"\u003e"}},{"op":"move","from":"/x","path":"/y"}]`:                 `{"y":{"a":"\u003c","a":"\u003e"}}`,
		`[{"op":"add","path":"/x","value":{"a":{"b":[1]},"a":{"b":[2]}}},{"op":"add","path":"/x/a/b/-","value":{"c":3}}]`: `{"x":{"a":{"b":[2,{"c":3}]}}}`,
	} {
		got, err := JSONPatch(context.Background(), []byte(`{}`), []byte(patch))
		if err != nil || string(got) != want {
			t.Errorf("JSONPatch(%s): got %s, %v, want %s", patch, got, err, want)
		}
	}
	// However deep a value is that operations go down into, it is not read for each of the levels.
	const levels = 4000
	deep := strings.Repeat(`{"a":`, levels) + `{"b":1,"b":2,"c":"` + strings.Repeat("x", 100000) + `"}` + strings.Repeat("}", levels)
	patch := `[{"op":"add","path":"/x","value":` + deep + `},{"op":"add","path":"/x` + strings.Repeat("/a", levels) + `/d","value":1}]`
	p := writtenValues([]byte(patch))
	root := &part{v: parsed(t, deep), written: p[0]}
	at := root
	for range levels {
		at, _ = at.get("a")
	}
	if left := *p[0].left; left > 0 || at.written != nil {
		t.Errorf("after %d levels: %d bytes left, %v written", levels, left, at.written)
	}
}

func parsed(t *testing.T, text string) Value {
	d := Get()
	if err := Parse(d, []byte(text)); err != nil {
		t.Fatal(err)
	}
	return d.Root()
}

func TestJSONPatchCopyLimit(t *testing.T) {
	ops := []string{`{"op":"add","path":"/x","value":{"k":"` + strings.Repeat("v", 1000) + `"}}`}
	for i := range 20 {
		ops = append(ops, fmt.Sprintf(`{"op":"copy","from":"/x","path":"/x/c%d"}`, i))
	}
	_, err := JSONPatch(context.Background(), []byte(`{}`), []byte("["+strings.Join(ops, ",")+"]"))
	if err == nil || !strings.HasPrefix(err.Error(), "Unable to complete the copy, the accumulated size increase of copy is ") {
		t.Errorf("got %v, want the copy limit", err)
	}
}

func TestJSONPatchLen(t *testing.T) {
	for patch, want := range map[string]int{`[]`: 0, `[{},{}]`: 2, `{}`: 0, `[`: 0} {
		if got, _ := JSONPatchLen([]byte(patch)); got != want {
			t.Errorf("JSONPatchLen(%s): got %d, want %d", patch, got, want)
		}
	}
}

func checkDuplicates(t *testing.T, src []byte) {
	t.Helper()
	var v any
	errs, err := kjson.UnmarshalStrict(src, &v, kjson.DisallowDuplicateFields)
	if err != nil {
		errs = nil
	}
	got := Duplicates(src)
	if len(got) != len(errs) {
		t.Fatalf("Duplicates(%q): got %q, want %q", src, got, errs)
	}
	for i := range got {
		if got[i].Error() != errs[i].Error() {
			t.Fatalf("Duplicates(%q): got %q, want %q", src, got, errs)
		}
	}
	d := Get()
	defer d.Release()
	s := d.Scan(src)
	if _, err := s.Value(); err == nil && s.End() == nil && s.Duplicates() != (len(errs) > 0) {
		t.Fatalf("Scanner.Duplicates of %q: got %v, want %v", src, s.Duplicates(), len(errs) > 0)
	}
}

var duplicateTexts = []string{
	`{"a":1,"a":2}`, `{"a":1,"a":2,"a":3}`, `{"spec":{"x":1,"y":{"z":1,"z":2},"x":{"q":1,"q":2}}}`, `[{"a":1,"a":1},{"a":1,"a":2}]`, `{"l":[{"a":1,"a":1},[{"b":1,"b":1}]]}`,
	`{"":1,"":2}`, `{"":{"a":1,"a":2}}`, `{"a.b":{"c\n":1,"c\n":2}}`, `{"a":1,"a":{`, `{"a":1,"\u0061":2}`, `{"a":{"b":1,"b":2},"a":{"b":1,"b":2}}`, `{"a":1e999,"a":1}`,
	"{" + strings.Repeat(`"a":{"b":1,"b":1},`, 300) + `"z":1}`,
	"[" + strings.Repeat(`{"b":1,"b":1},`, 300) + `1]`,
}

func TestDuplicates(t *testing.T) {
	for _, src := range duplicateTexts {
		checkDuplicates(t, []byte(src))
	}
}

func FuzzDuplicates(f *testing.F) {
	for _, src := range duplicateTexts {
		f.Add([]byte(src))
	}
	f.Fuzz(func(t *testing.T, src []byte) { checkDuplicates(t, src) })
}

func FuzzEqual(f *testing.F) {
	for i, a := range texts {
		f.Add([]byte(a), []byte(texts[(i+1)%len(texts)]))
		f.Add([]byte(a), []byte(a))
	}
	f.Fuzz(func(t *testing.T, a, b []byte) {
		x, y := Get(), Get()
		defer x.Release()
		defer y.Release()
		if Parse(x, a) != nil || Parse(y, b) != nil {
			return
		}
		// Printed exactly, equal values are equal texts. (-0.0 equals 0.0.)
		p, q := string(x.appendExact(nil, x.root)), string(y.appendExact(nil, y.root))
		p, q = strings.ReplaceAll(p, "-0.0", "0.0"), strings.ReplaceAll(q, "-0.0", "0.0")
		if got := Equal(x.Root(), y.Root()); got != (p == q) {
			t.Fatalf("Equal(%q, %q): got %v", a, b, got)
		}
		shaped := reshape(t, x)
		if !Equal(shaped.Root(), x.Root()) || !Equal(x.Root(), shaped.Root()) {
			t.Fatalf("%q differs from itself in another layout", a)
		}
		if got := shaped.Root().AppendJSON(nil); string(got) != string(x.Root().AppendJSON(nil)) {
			t.Fatalf("%q prints differently in another layout: %s", a, got)
		}
	})
}

// reshape is d copied into objects that have one shape, open, with some names.
func reshape(t *testing.T, d *Doc) *Doc {
	t.Helper()
	shapes := []*Shape{nil, NewShape([]string{"a", "c", "metadata", "spec", "é"}, []uint16{1, 1, 0, 1, 1}, true)}
	out := new(Doc)
	out.Reset(shapes)
	out.SetRoot(out.ImportAs(d.Root(), 1))
	if _, err := gojson.Marshal(out.Root().Interface()); err != nil {
		t.Fatal(err)
	}
	return out
}
