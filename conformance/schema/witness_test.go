package schema_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/keelson-io/keelson/internal/testcrds"
	"github.com/keelson-io/keelson/internal/witness"
)

// This file searches for the witnesses of all rules of the catalogue, and lets
// upstream confirm each.

var ruleTime = flag.Duration("rule-time", 10*time.Second, "longest time that TestWitnesses spends on a rule")

// constantRules is the list of the rules that are proved constant, with a proof
// in a sentence, written by hand.
const constantRules = "testdata/constant-rules.txt"

// TestWitnesses searches for the smallest accepted and the smallest refused
// object of each rule of the catalogue. If -short, only of some projects.
func TestWitnesses(t *testing.T) {
	releases := testcrds.Catalog()
	if testing.Short() {
		releases = slices.DeleteFunc(releases, func(r testcrds.Release) bool {
			return r.Project != "external-snapshotter" && r.Project != "karpenter"
		})
	}
	all, err := testcrds.Definitions(releases)
	if err != nil {
		t.Fatal(err)
	}
	known, err := os.ReadFile(constantRules)
	if err != nil {
		t.Fatal(err)
	}
	options, err := witness.NewOptions()
	if err != nil {
		t.Fatal(err)
	}
	w := witnessRun{options: options, proofs: string(known), projects: map[string]*witnessCount{}, rest: map[string]int{}}
	for i := range all {
		if d := &all[i]; !d.Beta && strings.Contains(d.Name, *only) && strings.Contains(string(d.YAML), "x-kubernetes-validations") {
			w.definition(t, d)
		}
	}
	w.report(t)
}

// witnessCount has the figures of one project.
type witnessCount struct {
	definitions, rules, both, constant, also, fails int
	times                                           []time.Duration
}

// witnessRun is one run of TestWitnesses.
type witnessRun struct {
	options  witness.Options
	proofs   string
	projects map[string]*witnessCount
	order    []string
	rest     map[string]int // rules without both witnesses, with the reason
}

// definition searches for the witnesses of all rules of a definition.
func (w *witnessRun) definition(t *testing.T, d *testcrds.Definition) {
	text, err := d.JSON()
	if err != nil {
		t.Fatal(err)
	}
	def := new(apiextv1.CustomResourceDefinition)
	if err := json.Unmarshal(text, def); err != nil {
		t.Fatal(err)
	}
	count := w.projects[d.Project]
	if count == nil {
		count = new(witnessCount)
		w.projects[d.Project], w.order = count, append(w.order, d.Project)
	}
	count.definitions++
	versions, err := witness.Versions(def, w.options)
	if err != nil {
		t.Fatalf("%s: %v", d.Name, err)
	}
	for _, v := range versions {
		rules := v.Search.Rules()
		if len(rules) == 0 {
			continue
		}
		at := slices.IndexFunc(def.Spec.Versions, func(o apiextv1.CustomResourceDefinitionVersion) bool { return o.Name == v.Name })
		up, err := newUpstream(def.Spec.Versions[at].Schema.OpenAPIV3Schema)
		if err != nil {
			t.Fatalf("%s: upstream: %v", d.Name, err)
		}
		for _, rule := range rules {
			ctx, cancel := context.WithTimeout(context.Background(), *ruleTime)
			began := time.Now()
			pair := v.Search.Both(ctx, rule)
			count.times = append(count.times, time.Since(began))
			cancel()
			w.count(t, count, d.Name+" "+v.Name, &pair)
			confirmWitness(t, up, d.Name+" "+v.Name, &pair)
		}
	}
}

// count adds the result for a rule to the figures.
func (w *witnessRun) count(t *testing.T, count *witnessCount, name string, pair *witness.Pair) {
	count.rules++
	text := strings.Join(strings.Fields(pair.Rule.ValidationRule.Rule), " ")
	switch {
	case pair.Accepted.Object != nil && pair.Refused.Object != nil:
		count.both++
		if len(pair.Refused.Also) > 0 {
			count.also++
		}
		if pair.Fails {
			count.fails++
		}
	case pair.Missing() == "":
		count.constant++
		if !strings.Contains(w.proofs, "\n"+text+"\n") {
			t.Errorf("%s: %s: proved constant, but not in %s\naccepted: %s\nrefused: %s", name, text, constantRules, pair.Accepted.Reason, pair.Refused.Reason)
		}
	default:
		w.rest[fmt.Sprintf("%s: %s: %s", name, pair.Rule, pair.Missing())]++
	}
}

// confirmWitness lets upstream validate the witnesses of a rule.
func confirmWitness(t *testing.T, up *upstream, name string, pair *witness.Pair) {
	for _, one := range []struct {
		result *witness.Result
		accept bool
	}{{&pair.Accepted, true}, {&pair.Refused, false}} {
		if one.result.Object == nil {
			continue
		}
		obj, strict, err := up.decode(one.result.Object, false)
		if err != nil || len(strict) > 0 {
			t.Errorf("%s: %s: upstream reads %s: %v %v", name, pair.Rule, one.result.Object, strict, err)
			continue
		}
		var old map[string]any
		if one.result.Old != nil {
			if old, _, err = up.decode(one.result.Old, false); err != nil {
				t.Errorf("%s: %s: upstream reads %s: %v", name, pair.Rule, one.result.Old, err)
				continue
			}
			if errs, _ := up.validate(old, nil, false); len(errs) > 0 {
				t.Errorf("%s: %s: upstream refuses the old object %s: %v", name, pair.Rule, one.result.Old, errs)
			}
		}
		errs, _ := up.validate(obj, old, false)
		switch {
		case one.accept && len(errs) > 0:
			t.Errorf("%s: %s: upstream refuses %s: %v", name, pair.Rule, one.result.Object, errs)
		case !one.accept && !onlyOf(&pair.Rule, errs, len(one.result.Also) > 0):
			t.Errorf("%s: %s: upstream says of %s: %v, want only an error of the rule", name, pair.Rule, one.result.Object, errs)
		}
	}
}

// onlyOf reports whether errors are those of a rule. If others is set, there may
// be errors of other rules.
func onlyOf(rule *witness.Rule, errs []string, others bool) bool {
	text := strings.TrimSpace(rule.Message)
	if text == "" {
		text = strings.TrimSpace(rule.ValidationRule.Rule)
	}
	is := func(e string) bool { return rule.MessageExpression != "" || strings.Contains(e, text) }
	if others {
		return slices.ContainsFunc(errs, is)
	}
	return len(errs) > 0 && !slices.ContainsFunc(errs, func(e string) bool { return !is(e) })
}

// report prints the table, and fails if fewer than 95% of the rules have both
// witnesses.
func (w *witnessRun) report(t *testing.T) {
	var sum witnessCount
	var b strings.Builder
	row := func(name string, c *witnessCount) {
		slices.Sort(c.times)
		at := func(share float64) time.Duration {
			return c.times[int(share*float64(len(c.times)-1))].Round(time.Millisecond)
		}
		if len(c.times) > 0 {
			fmt.Fprintf(&b, "| %s | %d | %d | %d | %d | %d | %v | %v | %v |\n", name, c.definitions, c.rules, c.both, c.constant,
				c.rules-c.both-c.constant, at(0.5), at(0.9), at(1))
		}
	}
	for _, name := range w.order {
		c := w.projects[name]
		row(name, c)
		sum.definitions, sum.rules, sum.both, sum.constant = sum.definitions+c.definitions, sum.rules+c.rules, sum.both+c.both, sum.constant+c.constant
		sum.also, sum.fails, sum.times = sum.also+c.also, sum.fails+c.fails, append(sum.times, c.times...)
	}
	row("all", &sum)
	t.Logf("\n| project | definitions | rules | both witnesses | proved constant | rest | median | 90%% | most |\n| --- | --- | --- | --- | --- | --- | --- | --- | --- |\n%s", b.String())
	t.Logf("%d refused objects violate other rules, too; %d rules fail instead of being false", sum.also, sum.fails)
	var rest []string
	for reason, n := range w.rest {
		rest = append(rest, fmt.Sprintf("%d x %s", n, reason))
	}
	slices.Sort(rest)
	t.Logf("the rest:\n%s", strings.Join(rest, "\n"))
	if counted := sum.rules - sum.constant; counted == 0 || float64(sum.both) < 0.95*float64(counted) {
		t.Errorf("%d of %d rules have both witnesses, want 95%%", sum.both, counted)
	}
}
