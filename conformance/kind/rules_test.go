package kind

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// This file compares what both sides say about rules that are not quite right:
// the rules of real definitions, damaged one at a time.

var (
	identifier = regexp.MustCompile(`\b[a-zA-Z_]\w*\b`)
	literal    = regexp.MustCompile(`'[^']*'|\b\d+\b`)
)

// ruleDamages change one rule.
var ruleDamages = []damager{
	inRule("unknown name", func(r *rand.Rand, rule string) string { return replaceOne(r, rule, identifier, "nope") }),
	inRule("another type", func(r *rand.Rand, rule string) string {
		return replaceOne(r, rule, literal, []string{"1", "'a'", "1.5", "true", "[1]", "{'a': 1}", "null"}[r.IntN(7)])
	}),
	inRule("cut", func(r *rand.Rand, rule string) string { return rule[:r.IntN(len(rule))] }),
	inRule("old", func(r *rand.Rand, rule string) string {
		return replaceOne(r, rule, regexp.MustCompile(`\bself\b`), "oldSelf")
	}),
	inRule("optional old", func(_ *rand.Rand, rule string) string { return "oldSelf.hasValue() || (" + rule + ")" }),
	inRule("no bool", func(_ *rand.Rand, rule string) string { return "(" + rule + ") ? 'a' : 'b'" }),
	inRule("dear", func(r *rand.Rand, rule string) string {
		const list = "'abcdefghijklmnopqrstuvwxyz'.split('')"
		loop := "true"
		for range 2 + r.IntN(6) {
			loop = list + ".all(x, " + loop + ")"
		}
		return "(" + rule + ") && " + loop
	}),
	inRule("dearer", func(_ *rand.Rand, rule string) string {
		return "(" + rule + ") && (type(self) == string ? string(self).matches('^(a|b)*$') : true)"
	}),
	inRule("operator", func(r *rand.Rand, rule string) string {
		return strings.Replace(rule, []string{"==", "&&", "||", "size", "has"}[r.IntN(5)], []string{"<", "+", "in", "exists", "!"}[r.IntN(5)], 1)
	}),
	{"optionalOldSelf", func(r *rand.Rand, n map[string]any) { n["optionalOldSelf"] = r.IntN(2) == 0 }},
	{"messageExpression", func(r *rand.Rand, n map[string]any) {
		n["messageExpression"] = []string{"self", "'a' + 1", "string(self)", "oldSelf", "'x' + string(size(self))", "self.nope", "'a'.split('').map(x, 'abc'.split('').map(y, x + y)) == [] ? '' : 'x'"}[r.IntN(7)]
	}},
	{"fieldPath", func(r *rand.Rand, n map[string]any) {
		n["fieldPath"] = []string{".nope", "name", ".name", ".a.b", "['x']", "['x'", ".items[0]", ".a..b", ".", " ", ".spec['a\\'b']"}[r.IntN(11)]
	}},
	{"reason", func(r *rand.Rand, n map[string]any) {
		n["reason"] = []string{"FieldValueInvalid", "Odd", ""}[r.IntN(3)]
	}},
}

func inRule(name string, do func(*rand.Rand, string) string) damager {
	return damager{name, func(r *rand.Rand, n map[string]any) {
		if rule, _ := n["rule"].(string); rule != "" {
			n["rule"] = do(r, rule)
		}
	}}
}

// replaceOne replaces one match of a pattern.
func replaceOne(r *rand.Rand, text string, pattern *regexp.Regexp, by string) string {
	all := pattern.FindAllStringIndex(text, -1)
	if len(all) == 0 {
		return text
	}
	at := all[r.IntN(len(all))]
	return text[:at[0]] + by + text[at[1]:]
}

// boundless takes the bounds of a schema away, so that rules cost more.
func boundless(r *rand.Rand, n map[string]any) {
	for _, name := range []string{"maxItems", "maxLength", "maxProperties"} {
		if _, ok := n[name]; ok && r.IntN(3) > 0 {
			delete(n, name)
		}
	}
}

func TestDamagedRules(t *testing.T) {
	seed := drawn()
	if s := os.Getenv("SEED"); s != "" {
		seed, _ = strconv.ParseUint(s, 10, 64)
	}
	rounds := 2
	if s := os.Getenv("ROUNDS"); s != "" {
		rounds, _ = strconv.Atoi(s)
	}
	r := rand.New(rand.NewPCG(seed, 1))
	defs := real(t)
	var names []string
	for name, text := range defs {
		if len(text) < 250_000 && strings.Contains(string(text), "x-kubernetes-validations") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	compared, told, wrong := 0, 0, 0
	for round := range rounds {
		for _, name := range names {
			var tree map[string]any
			if err := json.Unmarshal(defs[name], &tree); err != nil {
				t.Fatal(err)
			}
			what := damageRules(r, tree)
			text, err := json.Marshal(tree)
			if err != nil {
				t.Fatal(err)
			}
			crd, whole := parse(t, text), parse(t, defs[name])
			var want field.ErrorList
			for _, update := range []bool{false, true} {
				old := whole
				if !update {
					old = nil
				}
				want = theirs(t, crd, old)
				compared++
				if len(want) > 0 && strings.Contains(want.ToAggregate().Error(), "no further validation rules") {
					continue // what else is found depends on the order of a Go map
				}
				for _, diff := range compare(ours(crd, old), want) {
					wrong++
					t.Errorf("%s\n\tseed %d round %d, %s, update %v: %s", diff, seed, round, name, update, what)
				}
			}
			if len(want) > 0 {
				told++
			}
			if wrong > 40 {
				t.Fatal("too many differences")
			}
		}
	}
	t.Logf("seed %d: %d comparisons, %d definitions with errors", seed, compared, told)
	if told == 0 {
		t.Error("nothing was damaged")
	}
}

// damageRules changes some rules of a definition and says how.
func damageRules(r *rand.Rand, tree map[string]any) string {
	var rules []map[string]any
	var schemas []map[string]any
	var paths []string
	collect(tree, "", &schemas, &paths)
	for _, s := range schemas {
		list, _ := s["x-kubernetes-validations"].([]any)
		for _, rule := range list {
			rules = append(rules, rule.(map[string]any))
		}
	}
	var what []string
	if r.IntN(4) == 0 {
		for _, s := range schemas {
			boundless(r, s)
		}
		what = append(what, "no bounds")
	}
	for range 1 + r.IntN(4) {
		d, rule := ruleDamages[r.IntN(len(ruleDamages))], rules[r.IntN(len(rules))]
		d.do(r, rule)
		text, _ := rule["rule"].(string)
		what = append(what, d.name+": "+text)
	}
	return strings.Join(what, "; ")
}

// TestNewRules compares what is said about expressions that only the newest version knows.
func TestNewRules(t *testing.T) {
	with := func(rules string) *apiextv1.CustomResourceDefinition {
		return parse(t, []byte(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"widgets.example.org","resourceVersion":"1"},
			"spec":{"group":"example.org","scope":"Namespaced","names":{"plural":"widgets","kind":"Widget"},"versions":[{"name":"v1","served":true,"storage":true,
			"schema":{"openAPIV3Schema":{"type":"object","properties":{"l":{"type":"array","maxItems":9,"items":{"type":"integer"}}},"x-kubernetes-validations":[`+rules+`]}}}]},
			"status":{"storedVersions":["v1"]}}`))
	}
	const rule, message, other = `{"rule":"self.l.includes(1)"}`, `{"rule":"self.l.size() > 1","messageExpression":"string(self.l.includes(1))"}`, `{"rule":"self.l.includes(2)"}`
	refused := 0
	for _, row := range []struct{ new, old string }{
		{rule, ""}, {message, ""}, {rule + "," + message, ""}, {rule, rule}, {rule, message}, {message, rule}, {message, message}, {rule, other},
		{rule + "," + other, rule}, {rule + "," + other, other + "," + rule}, {message, `{"rule":"string(self.l.includes(1)) == ''"}`},
	} {
		var old *apiextv1.CustomResourceDefinition
		if row.old != "" {
			old = with(row.old)
		}
		want := theirs(t, with(row.new), old)
		for _, diff := range compare(ours(with(row.new), old), want) {
			t.Errorf("%s after %s: %s", row.new, row.old, diff)
		}
		if len(want) > 0 {
			refused++
		}
	}
	if refused != 8 {
		t.Errorf("Kubernetes refuses %d, want 8", refused)
	}
}
