package versions

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/keelson-io/keelson/kubernetes"
	"github.com/keelson-io/keelson/lint"
)

// This file compares single rules over a schema with few bounds: the verdict, and by what factor the
// estimated cost exceeds the limit.

// rules are rules over the fields s, t (strings), n, d, l, m, o, i (int-or-string) and by.
var rules = []string{
	"self.s == self.t", "self.s != 'abc'", "self.s.contains(self.t)", "self.s.matches('^[a-z]+$')", "matches(self.s, '^[a-z]+$')", "self.s.matches(self.t)",
	"self.s.startsWith(self.t)", "self.s.endsWith('a')", "self.s + self.t == self.t", "self.s.size() > 3", "size(self.l) < 3", "self.s in self.l", "'a' in ['a', 'b']",
	"self.l.all(x, x == self.s)", "self.l.exists(x, x.startsWith('a'))", "self.l.exists_one(x, x.contains('abc'))", "self.l.map(x, x + 'a').size() > 1",
	"self.l.filter(x, x != '').all(x, x.contains('a'))", "self.l.map(x, x.upperAscii()).exists(x, x.matches('[a-z]'))", "self.l.all(x, self.l.all(y, x == y))",
	"self.m.all(k, self.m[k] == k)", "self.m.exists(k, self.m[k].contains(k))", "self.m.map(k, self.m[k]).all(v, v.contains('a'))", "self.o.all(x, x.a == x.b)",
	"self.o.map(x, x.a).all(a, a.matches('x'))", "self.o[0].a == self.s", "self.l[0].contains(self.t)", "self.m['a'].matches('b')", "(self.n > 1 ? self.s : self.t).contains('a')",
	"(self.n > 1 ? self.l : ['a']).all(x, x.contains('a'))", "(self.l + ['a']).all(x, x.contains('a'))", "dyn(self.s) == dyn(self.t)", "dyn(self.l).all(x, x == 'a')",
	"string(self.i).matches('^[0-9]+$')", "self.i == '1'", "self.i == self.i", "type(self.i) == string ? self.i.matches('a') : self.i > 1", "self.s.lowerAscii() == self.t",
	"self.s.replace('a', self.t).contains('b')", "self.s.split(',').all(x, x.contains('a'))", "self.s.split(',', 3).all(x, x.contains('a'))", "self.l.join(',').contains('a')", "self.s.substring(1).contains(self.t)",
	"self.s.indexOf(self.t) > 1", "self.s.trim() == self.t", "self.s.find('[a-z]+') == self.t", "self.s.findAll('[a-z]+').all(x, x == self.t)", "self.l.isSorted()", "self.l.indexOf(self.s) > 1", "self.l.min() == self.t",
	"url(self.s).getHost() == self.t", "isURL(self.s)", "url(self.s) == url(self.t)", "quantity(self.s).isGreaterThan(quantity('1'))", "isQuantity(self.s)", "quantity(self.s) == quantity(self.t)", "quantity(self.s).compareTo(quantity(self.t)) == 1",
	"ip(self.s) == ip(self.t)", "isIP(self.s)", "ip(self.s).family() == 4", "ip.isCanonical(self.s)", "cidr(self.s).containsIP(self.t)", "cidr(self.s).containsCIDR(self.t)", "cidr(self.s).ip() == ip(self.t)", "isCIDR(self.s)",
	"format.dns1123Label().validate(self.s).hasValue()", "format.named('dns1123Label').hasValue()", "semver(self.s).isLessThan(semver(self.t))", "isSemver(self.s)",
	"sets.contains(self.l, self.l)", "sets.equivalent(self.l, ['a'])", "sets.intersects(self.l, self.l)", "self.l.transformList(i, x, x + 'a').size() > 1", "self.m.transformMap(k, v, v + 'a').all(k, k == 'a')", "self.l.all(i, x, x == self.s)",
	"self.l.flatten().size() > 1", "self.l.distinct().size() == self.l.size()", "self.l.sort().size() > 1", "self.l.reverse()[0] == 'a'", "self.l.slice(0, 1).all(x, x.contains('a'))", "lists.range(3).all(i, i > 1)", "self.l.includes(self.s)",
	"optional.of(self.s).orValue('a').contains('b')", "self.?s.orValue('a').contains('b')", "self.?n.orValue(1) > 1", "self.l[?0].orValue('a') == self.s", "self.?s.optMap(x, x + 'a').hasValue()", "has(self.s) && self.s.contains('a')",
	"bytes(self.s).size() > 1", "string(bytes(self.s)) == self.t", "self.by == b'a'", "self.d > duration('1s')", "duration(self.s) > self.d", "timestamp(self.s) > timestamp('2020-01-01T00:00:00Z')", "self.s < self.t", "self.n == 1.0", "self.n > 1 || self.n < 0",
	"self.s.charAt(0) == 'a'", "'%s'.format([self.s]) == self.t", "self.s.format([1]) == 'a'", "strings.quote(self.s) == self.t", "{'a': self.s}['a'].contains('b')", "[self.s, self.t].all(x, x.contains('a'))", "{'a': self.s}.all(k, k.contains('a'))",
	"self.s.matches('[')", "duration('x') > self.d", "timestamp('x') > timestamp('y')", "self.namespace == 'a'", "self.__namespace__ == 'a'", "[1, 'a'].size() > 1", "self.metadata.name == self.s", "self.metadata.name.contains(self.t)",
	"self.l.exists(x, self.o.exists(y, y.a == x))", "self.ll.all(x, x.all(y, y == self.s))", "self.ll.map(x, x.filter(y, y != '')).all(x, x.size() > 1)", "self.l.all(x, x == 'a') ? self.s.contains('a') : self.t.contains('b')", "-self.n > 1", "!(self.s == 'a')", "self.u == self.u",
}

var factor = regexp.MustCompile(`estimated rule cost (exceeds budget by factor of [^ ]+( than 100x)?)`)

// TestCosts compares each rule alone, with each release.
func TestCosts(t *testing.T) {
	running := oracles(t)
	refused, expensive := 0, 0
	for _, rule := range rules {
		for _, bound := range []string{"", `"maxLength":200,`} {
			text, _ := json.Marshal(rule)
			body := fmt.Sprintf(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"widgets.example.com"},"spec":{"group":"example.com","scope":"Namespaced",
				"names":{"plural":"widgets","kind":"Widget","singular":"widget","listKind":"WidgetList"},"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object",
				"x-kubernetes-validations":[{"rule":%s}],"properties":{"s":{%[2]s"type":"string"},"t":{%[2]s"type":"string"},"n":{"type":"integer"},"d":{"type":"string","format":"duration"},"by":{%[2]s"type":"string","format":"byte"},
				"l":{"type":"array","items":{%[2]s"type":"string"}},"m":{"type":"object","additionalProperties":{%[2]s"type":"string"}},"i":{%[2]s"x-kubernetes-int-or-string":true},"namespace":{"type":"string"},
				"u":{"type":"object","properties":{"q":{"type":"string"}}},"ll":{"type":"array","items":{"type":"array","items":{"type":"string"}}},
				"o":{"type":"array","items":{"type":"object","properties":{"a":{%[2]s"type":"string"},"b":{"type":"string"}}}}}}}}]}}`, text, bound)
			d, err := lint.Load(lint.Source{Name: "x", Text: []byte(body)})
			if err != nil {
				t.Fatal(err)
			}
			for _, o := range running {
				a := o.ask(t, "Definition", json.RawMessage(body))
				report := lint.CheckReleases(context.Background(), d, nil, []kubernetes.Release{o.release})
				ours := reasons(report, o.release)
				if len(a.Errors) > 0 && strings.HasPrefix(a.Errors[0], "panic: ") {
					continue // 1.31 fails over formats that are not literals
				}
				want, got := factor.FindString(strings.Join(a.Errors, "\n")), factor.FindString(strings.Join(ours, "\n"))
				if a.refuses() {
					refused++
				}
				if want != "" {
					expensive++
				}
				// Lint goes on after errors of the newest release, so that it also finds the cost of what does not compile.
				if a.refuses() != (len(ours) > 0) || want != got && (want != "" || !o.release.IsNewest()) {
					t.Errorf("%s %s %s\n  upstream: %s\n  we: %.300s", o.release, bound, rule, clip(describe(a)), ours)
				}
			}
		}
	}
	t.Logf("%d rules, twice, with %d releases: %d refusals, %d of them by cost", len(rules), len(running), refused, expensive)
}

// clip shortens a text.
func clip(s string) string {
	if i := strings.Index(s, "compilation failed"); i > 0 {
		s = s[i:]
	}
	return s[:min(len(s), 400)]
}
