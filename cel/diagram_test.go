package cel

import (
	"context"
	"math"
	"strings"
	"testing"

	"github.com/keelson-io/keelson/internal/fastpath"
	"github.com/keelson-io/keelson/jsondoc"
)

// This file holds decision diagrams against the general way.

const diagramSchema = `{type: object, properties: {
	a: {type: string}, b: {type: string, nullable: true}, num: {type: integer}, z: {type: boolean}, either: {x-kubernetes-int-or-string: true},
	l: {type: array, items: {type: string}}, m: {type: object, additionalProperties: {type: string}},
	o: {type: object, properties: {s: {type: string}, p: {type: object, properties: {q: {type: string}, z: {type: boolean}}}}}}}`

// TestDiagrams compares rules over data that fit their types and that do not, with
// limits below and above what they cost.
func TestDiagrams(t *testing.T) {
	fastpath.Diagrams.Need(t)
	f := newFixture(t, testEnv(t), strings.ReplaceAll(diagramSchema, "\t", " "), "{}")
	data := []string{
		`{}`, `{a: x, num: 3}`, `{a: "", z: false}`, `{a: one, b: one, num: 1, z: true, either: one, l: [], m: {}, o: {}}`, `{a: ö, b: null, num: -7, z: null, either: 4}`,
		`{a: 5, num: one, z: 3, l: {}, o: []}`, `{l: [p, q], m: {k: v}, o: {s: one, p: {q: two}}}`, `{o: {s: null, p: {q: one, z: true}}}`, `{o: {p: 7}}`, `{o: null, z: true}`,
	}
	var docs []jsondoc.Value
	for _, text := range data {
		docs = append(docs, f.document(t, text, f.self, true), f.document(t, text, f.self, false))
	}
	answered := 0
	for _, rule := range []string{
		"has(self.a)", "!has(self.o.p.q)", "self.z", "!self.z", "self.a == 'one'", "self.a != 'one'", "self.num == 3", "self.num != 3", "self.num > 1", "self.z == true", "self.z != true", "self.z == false",
		"self.a in ['one', 'two']", "!(self.b in ['one'])", "has(self.a) && self.a != 'one'", "has(self.a) || has(self.b) || self.z", "has(self.either) && has(self.l)",
		"(has(self.a) && !has(self.b)) || (!has(self.a) && has(self.b))", "has(self.a) == has(self.b)", "(self.num == 3 && has(self.b)) != has(self.a)",
		"has(self.z) ? self.z : has(self.a)", "(self.num > 0 ? self.a == 'one' : self.z) && !self.z", "self.z ? true : has(self.a)", "true && has(self.a)", "has(self.a) || false",
		"(has(self.a) ? 1 : 0) + (has(self.b) ? 1 : 0) + (has(self.num) ? 1 : 0) == 1", "(has(self.a) ? 2 : (self.z ? 5 : -1)) + 3 <= 5",
		"((has(self.a) ? 1 : 0) + (has(self.b) ? 1 : 0) == 1 ? 3 : 4) + (self.z ? 1 : 0) != 5",
		"self.o.p.q == 'one' && self.o.p.z", "has(self.o) && has(self.o.p) && has(self.o.p.q)", "has(self.o.s) ? self.o.s == 'one' : true",
		"size(self.l) > 0", "self.m.size() == 1", "size(self.a) == 3 && self.l.size() < 2",
		"self.a == 'x" + strings.Repeat("y", 300) + "' || true", "self.a != 'ö'",
		"self.a in ['one', 'two'] ? !self.o.p.q.contains('o') : true", "self.o.s.startsWith('o') && self.b.endsWith('e')", "self.a == self.b.lowerAscii()", "self.o.p.q != self.o.p.q.upperAscii()",
		"size(self.a) >= size(self.o.s)", "self.o.p.q.split('w')[1] == self.a.substring(1) || self.z", "self.a.lowerAscii() == oldSelf.o.p.q", "oldSelf.o.s == self.o.p.q",
		"self.a == oldSelf.a", "!has(oldSelf.a) || self.a != oldSelf.a", "has(oldSelf.o) && oldSelf.o.p.q == 'one'", "self.a == oldSelf.b && has(oldSelf.num) && has(self.num)",
	} {
		p, err := f.types.Compile(rule, f.self, CompileOptions{})
		if err != nil {
			t.Fatalf("%s: %v", rule, err)
		}
		if !p.code.HasDiagram() {
			t.Errorf("%s: no diagram", rule)
		}
		both := NewTests([]*Program{p})
		for i, self := range docs {
			for _, old := range []jsondoc.Value{{}, self, docs[(i+2)%len(docs)]} {
				a := Activation{Self: self, OldSelf: old, HasOldSelf: old.Exists()}
				answered += holdsAlike(t, p, &both, &a)
			}
		}
	}
	if answered < 500 {
		t.Errorf("diagrams answered %d times", answered)
	}
}

// diagramTexts are texts that functions of one text are about, and some that only look so.
var diagramTexts = []string{
	"", "*", "/", "/a:b", "10.0.0.1", "010.0.0.1", "256.1.1.1", "1.2.3", "1.2.3.4.5", "1.2.3.", ".1.2.3.4", "1..2.3", "::1", "1.2.3.4%eth0", "fe80::1%a", "::ffff:1.2.3.4", "1::", "12345::", "0:0:0:0:0:0:0:1", "00::", "1:2:3:4:5:6:7.8.9.10", "256:1::", "999", "1%", "abc%:", "shop.example.com", "a:b",
	"1s", "0s", "0", "1h30m", "1.5s", "-1s", "+1s", "999999h", "999999h999999h999999h", "1000000s", "99999999999999999999999s", "5m3", "7m8ms9s", "1ms", "1us", "1µs", "1m1m", "1", "s", "1S", "1 s", "00001s",
	"http://a", "https://a.b:8080/c?d", "HTTP://a", "http:a", "http:/a", "http:///a", "http://", "http://a:b/", "http://a:/", "http://[::1]/", "http://u@h/", "http://a/%41", "http://a/%zz", "oci://r/i:t", "a+b://c/d", "ghcr.io/a/b:1", "a.b:80/c",
	"http://a/é", "http://a b/", "http://a/ b", "http://a/b#c", "http://a/b?c#%zz", "http://a/path/of/length%", "http://a/path/of/\x7flength", "http://a/path/of\x1f/length", "http://a/path/of/é?x#y", "\x7f", "a\x00/", "file:///etc",
	"a-b", "-a", "a-", "a.b-.c", "a.-b", "a..b", "a.", "A.b", "a_b", "example.com/Name_1", "example.com/", "/a", "a/b/c", "1a", strings.Repeat("a", 63), strings.Repeat("a", 64), strings.Repeat("a.", 126) + "a", strings.Repeat("a.", 127) + "a", "Host", "HOST", "é", "É",
}

// TestTextDiagrams compares rules about one text.
func TestTextDiagrams(t *testing.T) {
	fastpath.Diagrams.Need(t)
	f := newFixture(t, testEnv(t), "{type: string}", "x")
	answered := 0
	for _, rule := range []string{
		"self == oldSelf", "self != oldSelf", "self == 'a/b/c'", "self in ['1s', '::1', 'Host']", "self.lowerAscii() != 'host'", "self.upperAscii() == 'HOST'", "self == self.lowerAscii()",
		"self.lowerAscii() == oldSelf.lowerAscii()", "self.startsWith('http') || self.endsWith('.')", "!self.contains('//')", "self.matches('^[a-z]+$')", "self.find('^[a-z]+').size() > 3", "!isIP(self)",
		"isURL(self) ? url(self).getScheme() in ['http', 'https'] : self.size() < 9", "duration(self) >= duration('1ms')", "duration(self) == duration('1s')", "duration(self) > duration('1s') && self.size() < 4", "duration(self.substring(1)) < duration('5s')", "duration(self) != duration(oldSelf)", "duration(self) <= duration(oldSelf) && int(self) == 1",
		"int(self) < 5", "int(self) > int(oldSelf)", "self.split('/')[0] in ['a', 'http:']", "self.split('.')[1].size() == 1", "self.substring(1) == oldSelf", "isURL('http://' + self) && url('https://' + self).getScheme() == 'https'", "self + '.x' in ['a.x', '::1.x'] || isIP('1.' + self)", "!format.dns1123Label().validate(self).hasValue()",
		"format.qualifiedName().validate(self.split('/')[0]).hasValue() || size(self) == 0", "self.lowerAscii().split('/')[1].startsWith('a')",
	} {
		p, err := f.types.Compile(rule, f.self, CompileOptions{})
		if err != nil {
			t.Fatalf("%s: %v", rule, err)
		}
		if !p.code.HasDiagram() {
			t.Errorf("%s: no diagram", rule)
		}
		both := NewTests([]*Program{p})
		for i, text := range diagramTexts {
			var docs [2]jsondoc.Doc
			docs[0].SetRoot(docs[0].NewString(text))
			docs[1].SetRoot(docs[1].NewString(diagramTexts[i*7%len(diagramTexts)]))
			for _, old := range []jsondoc.Value{{}, docs[0].Root(), docs[1].Root()} {
				a := Activation{Self: docs[0].Root(), OldSelf: old, HasOldSelf: old.Exists()}
				if !a.HasOldSelf {
					a.OldSelf = docs[1].Root() // of the evaluation before, say
				}
				answered += holdsAlike(t, p, &both, &a)
			}
		}
	}
	if answered < 3000 {
		t.Errorf("diagrams answered %d times", answered)
	}
}

// holdsAlike compares a test with its program; it returns 1 if the diagram answered.
func holdsAlike(t *testing.T, p *Program, both *Tests, a *Activation) int {
	t.Helper()
	_, most, _ := p.Eval(context.Background(), a, math.MaxUint64)
	for _, limit := range []uint64{1, 4, most / 2, most - 1, most, math.MaxUint64} {
		v, want, err := p.Eval(context.Background(), a, limit)
		cost, holds := both.Hold(context.Background(), a, limit, math.MaxUint64)
		if holds != (err == nil && v.Bool()) || cost != want {
			t.Errorf("%s of %s, limit %d: got %t for %d, want %v, %v for %d", p.Source(), a.Self.AppendJSON(nil), limit, holds, cost, v, err, want)
		}
		for _, budget := range []uint64{1, want, want + 1} {
			if _, within := both.Hold(context.Background(), a, limit, budget); within != (holds && want < budget) {
				t.Errorf("%s of %s, limit %d, budget %d: got %t, cost %d", p.Source(), a.Self.AppendJSON(nil), limit, budget, within, want)
			}
		}
	}
	if of := *a; both.code.Answered(t.Context(), &of) {
		return 1
	}
	return 0
}

// TestNearQuestions looks at which tests are one diagram that is about self and oldSelf and their members.
func TestNearQuestions(t *testing.T) {
	fastpath.Diagrams.Need(t)
	f := newFixture(t, testEnv(t), strings.ReplaceAll(diagramSchema, "\t", " "), "{a: x, l: [x]}")
	for rule, near := range map[string]bool{
		"has(self.a)": true, "self.a == 'x'": true, "!self.a.contains('//')": true, "duration(self.a) > duration('1s')": true,
		"self.a == oldSelf.a": true, "self == oldSelf": true, "oldSelf.a == 'x'": true, "self.l[0] == 'x'": false,
		"self.l.size() > 0": false, "self.l.all(x, x == 'x')": false, "has(self.a) && self.a == 'x'": true, "self.a + self.a == 'xx'": false,
	} {
		p, err := f.types.Compile(rule, f.self, CompileOptions{})
		if err != nil {
			t.Fatalf("%s: %v", rule, err)
		}
		if both := NewTests([]*Program{p}); both.code.IsNear() != near {
			t.Errorf("%s: near %t", rule, !near)
		}
		if both := NewTests([]*Program{p, p}); both.code.IsNear() {
			t.Errorf("%s: twice, and near", rule)
		}
	}
}

// TestDiagramBounds compiles tests that are too long or ask about too much for a
// diagram: they run the general way.
func TestDiagramBounds(t *testing.T) {
	f := newFixture(t, testEnv(t), strings.ReplaceAll(diagramSchema, "\t", " "), "{a: x, l: [x]}")
	for _, rule := range []string{
		"has(self.a)" + strings.Repeat(" && has(self.a)", 64),
		"(has(self.a) ? 1 : 0)" + strings.Repeat(" + (has(self.b) ? 1 : 0)", 11) + " == 1",
		"isURL('é' + self.a) || self.a + self.a == 'xx'", "'x' + self.a == self.a + 'x'", "('y' + self.a).substring(1) == self.a", "self.l.all(x, x.replace('x', 'y') == 'y')", "(self.a.size() + self.l.size() < 3 ? self.a.size() : 2) + self.l.size() > -9",
	} {
		p, err := f.types.Compile(rule, f.self, CompileOptions{})
		if err != nil {
			t.Fatalf("%s: %v", rule, err)
		}
		if p.code.HasDiagram() {
			t.Errorf("%.40s: a diagram", rule)
		}
		a, both := Activation{Self: f.doc}, NewTests([]*Program{p})
		if _, holds := both.Hold(context.Background(), &a, math.MaxUint64, math.MaxUint64); !holds {
			t.Errorf("%.40s: does not hold", rule)
		}
	}
}
