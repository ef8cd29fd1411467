package schema

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-io/keelson/cel"
	"github.com/keelson-io/keelson/schema/structural"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// This file reaches the bounds of rules and of default values.

// TestBudgetOfRules finds the longest list whose rule ends, and how many such rules an object may have.
func TestBudgetOfRules(t *testing.T) {
	const rule = `{rule: "self.all(x%d, x%d > 0)"},`
	valid := func(rules, items int) string {
		t.Helper()
		var all strings.Builder
		for i := range rules {
			fmt.Fprintf(&all, rule, i, i)
		}
		p := compileYAML(t, `{type: object, properties: {l: {type: array, items: {type: integer}, x-kubernetes-validations: [`+all.String()+`]}}}`, Options{Resource: true})
		errs := p.Validate(t.Context(), object(t, p, `{"l":[1`+strings.Repeat(",1", items-1)+`]}`), nil, Whole).Errors
		return strings.Join(lines(errs), "\n")
	}
	least, most := 100_000, 300_000 // the first is valid, the second is not
	for most-least > 1 {
		if middle := (least + most) / 2; valid(1, middle) == "" {
			least = middle
		} else {
			most = middle
		}
	}
	// An item costs about 4 to 6 units.
	if text := valid(1, most); valid(1, least) != "" || !strings.Contains(text, "no further validation rules will be run due to call cost exceeds limit for rule") {
		t.Errorf("a list of %d items is valid, one of %d gets %q", least, most, text)
	}
	if text := valid(10, least); text != "" {
		t.Errorf("ten rules of a million units: got %q, want none", text)
	}
	if text := valid(11, least); !strings.Contains(text, "validation failed due to running out of cost budget") {
		t.Errorf("eleven rules of a million units: got %q, want that the budget is used up", text)
	}
}

// TestBudgetOfRulesOfASchema finds the longest list that a new schema may allow its rule, and how many such rules it may have.
func TestBudgetOfRulesOfASchema(t *testing.T) {
	check := func(rules, items int) string {
		var all strings.Builder
		for i := range rules {
			fmt.Fprintf(&all, `{rule: "self.all(x%d, x%d > 0)"},`, i, i)
		}
		p := compileYAML(t, fmt.Sprintf(`{type: object, properties: {l: {type: array, maxItems: %d, items: {type: integer}, x-kubernetes-validations: [%s]}}}`, items, all.String()), Options{Resource: true})
		return strings.Join(lines(p.CheckRules(RuleCheck{Path: field.NewPath("root")})), "\n")
	}
	least, most := 1, 100_000_000
	for most-least > 1 {
		if middle := (least + most) / 2; check(1, middle) == "" {
			least = middle
		} else {
			most = middle
		}
	}
	if text := check(1, most); least < 1_000_000 || least > 5_000_000 || !strings.Contains(text, "estimated rule cost exceeds budget") {
		t.Errorf("a list of %d items is allowed, one of %d gets %q", least, most, text)
	}
	if text := check(10, least); text != "" {
		t.Errorf("ten rules of ten million units: got %q, want none", text)
	}
	if text := check(11, least); !strings.Contains(text, "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema exceeds budget") {
		t.Errorf("eleven rules of ten million units: got %q, want that the total is too large", text)
	}
}

// TestDefaultsOfOneSchemaEnd nests default values, each of which has those below it filled in.
func TestDefaultsOfOneSchemaEnd(t *testing.T) {
	refused := func(levels int) error {
		text := `{type: object, default: {}, properties: {a: {type: string, default: ` + strings.Repeat("d", 1<<20) + `}}}`
		for range levels - 1 {
			text = `{type: object, default: {}, properties: {a: ` + text + `}}`
		}
		var s apiextv1.JSONSchemaProps
		if err := yaml.Unmarshal([]byte(`{type: object, properties: {a: `+text+`}}`), &s); err != nil {
			t.Fatal(err)
		}
		parsed, errs := structural.Parse(&s, field.NewPath("schema"))
		if len(errs) > 0 {
			t.Fatal(errs)
		}
		env, err := cel.NewEnv(cel.EnvOptions{Stored: true})
		if err != nil {
			t.Fatal(err)
		}
		_, err = Compile(parsed, Options{Resource: true, Env: env})
		return err
	}
	if err := refused(60); err != nil { // 60 MiB, and the text itself
		t.Errorf("60 defaults of 1 MiB: %v", err)
	}
	if err := refused(66); err == nil || !strings.Contains(err.Error(), "the default values of the schema take more than 67108864 bytes") {
		t.Errorf("66 defaults of 1 MiB: got %v", err)
	}
}
