package jsondoc

import (
	"bytes"
	gojson "encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	kjson "sigs.k8s.io/json"
)

// checkParse compares Parse and AppendJSON with what Kubernetes decodes and
// encoding/json prints.
func checkParse(t *testing.T, src []byte) {
	t.Helper()
	var want any
	wantErr := kjson.UnmarshalCaseSensitivePreserveInts(src, &want)
	d := Get()
	defer d.Release()
	err := Parse(d, src)
	if (err == nil) != (wantErr == nil) {
		t.Fatalf("Parse(%.200q): got error %v, want %v", src, err, wantErr)
	}
	checkSkip(t, src, err)
	if err != nil {
		checkError(t, src, err, wantErr)
		return
	}
	out, err := gojson.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	got := d.Root().AppendJSON(nil)
	if !bytes.Equal(got, out) {
		t.Fatalf("Parse(%.200q) prints\n%.400s, want\n%.400s", src, got, out)
	}
	checkFlags(t, d, d.Root())
	again := Get()
	defer again.Release()
	if err := Parse(again, got); err != nil {
		t.Fatalf("Parse(%.200q): %v", got, err)
	}
	if reprint := again.Root().AppendJSON(nil); !bytes.Equal(reprint, got) && !bytes.Contains(got, []byte("-0")) { // -0.0 prints as -0, an integer
		t.Fatalf("printing twice differs:\n%s\n%s", got, reprint)
	}
}

// checkSkip skips a text that Parse has an error about.
func checkSkip(t *testing.T, src []byte, want error) {
	t.Helper()
	d := Get()
	defer d.Release()
	d.Reset(nil)
	s := d.Scan(src)
	_, err := s.Kind()
	if err == nil {
		err = s.Skip()
	}
	if err == nil {
		err = s.End()
	}
	if (err == nil) != (want == nil) {
		t.Fatalf("Skip(%.200q): got error %v, want %v", src, err, want)
	}
	if err == nil && (s.Offset() != len(src) || len(d.nodes) > 0 || len(d.text) != len(src)) {
		t.Fatalf("Skip(%.200q): at %d, keeps %d nodes and %d bytes", src, s.Offset(), len(d.nodes), len(d.text))
	}
}

// TestStringsByTheirPlace reads and prints what needs a closer look in a string, at every place of the words that strings are read by.
func TestStringsByTheirPlace(t *testing.T) {
	const around = "abcdefghijklmnopq"
	for _, piece := range []string{``, `\n`, `\"`, `\\`, `\/`, `\u0041`, `\u2028`, `\ud83d\ude00`, `\ud83d`, `\x`, "<", ">", "&", "\n", "\x7f", "é", "\u2029", "\xff", `"`} {
		for before := range len(around) {
			for after := range len(around) {
				checkParse(t, []byte(`"`+around[:before]+piece+around[:after]+`"`))
				checkParse(t, []byte(`"`+around[:before]+piece+around[:after]+`\t`+piece+`"`))
				checkParse(t, []byte(`"`+around[:before]+piece+around[:after]))
			}
		}
	}
}

func checkError(t *testing.T, src []byte, err, want error) {
	t.Helper()
	if err.Error() != want.Error() {
		t.Fatalf("Parse(%.200q): got %q, want %q", src, err, want)
	}
	var syntax *SyntaxError
	is, offset := kjson.SyntaxErrorOffset(want)
	if errors.As(err, &syntax) != is {
		t.Fatalf("Parse(%.200q): got %T, want %T", src, err, want)
	}
	if is && int64(syntax.Offset) != offset {
		t.Fatalf("Parse(%.200q): got offset %d, want %d", src, syntax.Offset, offset)
	}
	var typed *gojson.UnmarshalTypeError
	var late *RangeError
	if errors.As(want, &typed) && (!errors.As(err, &late) || int64(late.Offset) != typed.Offset) {
		t.Fatalf("Parse(%.200q): got %#v, want offset %d", src, err, typed.Offset)
	}
}

// checkFlags checks that every string's flags are what its text says.
func checkFlags(t *testing.T, d *Doc, v Value) {
	t.Helper()
	switch v.Kind() {
	case String:
		if want := scanString(v.Text()); v.Node.flags() != want {
			t.Fatalf("flags of %q: got %b, want %b", v.Text(), v.Node.flags(), want)
		}
	case Array:
		for _, item := range v.Items() {
			checkFlags(t, d, item)
		}
	case Object:
		for i := range v.Node.Len() {
			key, value := d.Pair(v.Node, i)
			checkFlags(t, d, Value{d, key})
			checkFlags(t, d, Value{d, value})
		}
	}
}

var texts = []string{
	``, ` `, `null`, `true`, `false`, `nul`, `nulx`, `tru`, `fals`, `truee`, `null null`, "null\n", "\tnull\r\n ",
	`0`, `-0`, `-`, `00`, `01`, `-01`, `1`, `-1`, `12a`, `1.`, `1.5`, `-1.5e`, `1e5`, `1E+5`, `1e-5`, `1e+`, `.5`, `+1`, `1.0`, `1.0e0`, `-0.0`,
	`9223372036854775807`, `-9223372036854775808`, `9223372036854775808`, `-9223372036854775809`, `999999999999999999`, `1000000000000000000`,
	`123456789012345678901234567890`, `1e308`, `1e309`, `-1e309`, `[1e999,]`, `[1e999,2e999]`, `{"a":1e999}`, `0.000001`, `0.0000001`, `1e20`, `1e21`, `1e22`, `1.5e-9`, `123.456e-12`,
	`""`, `"a"`, `"abcdefgh"`, `"abcdefghijklmnop"`, `"a\"b"`, `"\\\/\b\f\n\r\t"`, `"\u0041\u00e9\u20ac\ud83d\ude00"`, `"\ud83d"`, `"\ud83d\u0041"`, `"\ude00"`, `"\ud83dx"`, `"\u12"`, `"\u12G4"`, `"\x"`, `"`, `"abc`, `"abc\`, `"abc\u`, `"\'"`,
	"\"a\nb\"", "\"\x00\"", "\"\x7f\"", "\"\x1f\"", "\"é€😀\"", "\"\u2028\u2029\"", "\"\\u2028\"", "\"\xff\"", "\"abc\xc3\"", "\"\xed\xa0\x80\"", "\"\xef\xbf\xbd\"", `"<a>&b"`, `"\u003ca\u003e"`, `"long enough to take the fast way <here> and on & on \n"`, `"'"`,
	`[]`, `[ ]`, `[1]`, `[1,2]`, `[ 1 , 2 ]`, `[,]`, `[1,]`, `[1 2]`, `[1`, `[`, `]`, `[1}`, `[[],[[]],{}]`, `[null,true,false,"x",1,1.5,{}]`,
	`{}`, `{ }`, `{"a":1}`, `{ "a" : 1 , "b" : 2 }`, `{"b":1,"a":2}`, `{"a":1,"a":2}`, `{"a":1,"b":2,"a":3}`, `{"a":{"x":1},"a":{"y":1}}`, `{"":1}`, `{"":1,"":2,"a":3,"":4}`, `{"\u0061":1,"a":2}`, `{"a":2,"\u0061":1}`,
	`{`, `{"a"`, `{"a":`, `{"a":1`, `{"a":1,`, `{"a":1,}`, `{"a" 1}`, `{"a":1 "b":2}`, `{a:1}`, `{1:1}`, `{,}`, `{"a":1]`, `{"a":1}x`, `{}}`, `'a'`, `{"a":'b'}`, "\xff", "\ufeff{}", "\x00", "1\x00",
	`{"z":1,"y":2,"x":3,"é":4,"\u0000":5,"~":6}`,
	`{"apiVersion":"v1","kind":"X","metadata":{"name":"a","labels":{"b":"1","a":"2"}},"spec":{"n":1,"f":1.25,"l":[1,2,{"k":"v"}]}}`,
}

func TestParse(t *testing.T) {
	for _, src := range texts {
		checkParse(t, []byte(src))
	}
}

func TestParseDepth(t *testing.T) {
	for _, n := range []int{MaxDepth - 1, MaxDepth, MaxDepth + 1} {
		checkParse(t, []byte(strings.Repeat("[", n)+strings.Repeat("]", n)))
		checkParse(t, []byte(strings.Repeat(`{"a":`, n)+"1"+strings.Repeat("}", n)))
	}
	checkParse(t, []byte(strings.Repeat("[", 3_000_000)))
	checkParse(t, []byte("["+strings.Repeat("[],{},", MaxDepth)+"1]"))
}

func TestParseManyKeys(t *testing.T) {
	var b strings.Builder
	b.WriteByte('{')
	for i := range 70_000 { // more than 16 bits count
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(`"k`)
		b.WriteString(strings.Repeat("x", i*7919%5))
		b.WriteByte(byte('a' + i*31%26))
		b.WriteString(`":`)
		b.WriteString("1" + strings.Repeat("0", i%17))
	}
	b.WriteByte('}')
	checkParse(t, []byte(b.String()))
}

func FuzzParse(f *testing.F) {
	for _, src := range texts {
		f.Add([]byte(src))
	}
	f.Fuzz(func(t *testing.T, src []byte) { checkParse(t, src) })
}

func TestParseDuplicates(t *testing.T) {
	for _, tt := range []struct {
		src  string
		want bool
	}{
		{`{"a":1,"b":1}`, false},
		{`{"b":1,"a":1}`, false},
		{`{"a":1,"a":1}`, true},
		{`[{"x":{"b":1,"a":1,"b":1}}]`, true},
	} {
		d := Get()
		s := d.Scan([]byte(tt.src))
		if err := s.Skip(); err != nil {
			t.Fatal(err)
		}
		if err := s.End(); err != nil {
			t.Fatal(err)
		}
		if s.Duplicates() != tt.want {
			t.Errorf("Duplicates(%s): got %v, want %v", tt.src, s.Duplicates(), tt.want)
		}
		if len(d.nodes) != 0 || s.Offset() != len(tt.src) {
			t.Errorf("Skip(%s) left %d nodes, stopped at %d", tt.src, len(d.nodes), s.Offset())
		}
		d.Release()
	}
}

// However hostile the text, memory stays a small multiple of its length.
func TestParseMemory(t *testing.T) {
	const size = 1 << 20
	for name, unit := range map[string]string{
		"numbers": `0,`, "empty arrays": `[],`, "empty objects": `{},`, "bad UTF-8": "\"\xff\xff\xff\xff\xff\xff\",", "escapes": `"\u0000\n",`, "members": `{"a":0,"b":0},`, "duplicates": `{"b":0,"a":0,"b":0,"a":0},`,
	} {
		src := []byte("[" + strings.Repeat(unit, size/len(unit)) + "0]")
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		d := new(Doc)
		if err := Parse(d, src); err != nil {
			t.Fatal(err)
		}
		runtime.ReadMemStats(&after)
		if got, limit := after.TotalAlloc-before.TotalAlloc, uint64(60*len(src)); got > limit {
			t.Errorf("%s: %d bytes took %d, want at most %d", name, len(src), got, limit)
		}
		d.Release()
	}
}

func TestAppendFloat(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 200_000 {
		f := math.Float64frombits(r.Uint64())
		if r.IntN(2) == 0 {
			f = math.Ldexp(r.NormFloat64(), r.IntN(140)-70) // where the forms change
		}
		if math.IsNaN(f) || math.IsInf(f, 0) {
			continue
		}
		want, err := gojson.Marshal(f)
		if err != nil {
			t.Fatal(err)
		}
		if got := appendFloat(nil, f); !bytes.Equal(got, want) {
			t.Fatalf("got %s, want %s", got, want)
		}
	}
}
