package cel_test

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/keelson-io/keelson/cel"
)

// A host decides what users may write about, compiles what they wrote, and
// evaluates it over data.
func ExampleLanguage() {
	language, err := cel.NewLanguage(cel.LanguageOptions{Variables: []cel.Variable{
		{Name: "user", Type: "map(string, dyn)"},
		{Name: "cost", Type: "int"},
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	rule, err := language.CompileExpression(`cost < 100 || user.role in ["admin", "owner"]`)
	if err != nil {
		fmt.Println(err)
		return
	}
	user, err := cel.FromJSON([]byte(`{"role": "owner"}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	cost, err := cel.FromGo(250)
	if err != nil {
		fmt.Println(err)
		return
	}
	allowed, used, err := rule.Eval(context.Background(), cel.Vars{"user": user, "cost": cost}, 1000)
	fmt.Println(allowed.Bool(), used, err)
	// Output: true 4 <nil>
}

// An error that was made when the expression was written points into it.
func ExampleLanguage_CompileExpression() {
	language, err := cel.NewLanguage(cel.LanguageOptions{Variables: []cel.Variable{{Name: "name", Type: "string"}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = language.CompileExpression(`name.size() > "3"`)
	fmt.Println(err)
	// Output:
	// ERROR: <input>:1:13: found no matching overload for '_>_' applied to '(int, string)'
	//  | name.size() > "3"
	//  | ............^
}

// Functions of the host, in place of what users cannot express.
func ExampleFunction() {
	language, err := cel.NewLanguage(cel.LanguageOptions{
		Variables: []cel.Variable{{Name: "email", Type: "string"}},
		Functions: []cel.Function{{
			Name: "domain", Member: true, Params: []string{"string"}, Result: "string",
			Call: func(args []cel.Value) (cel.Value, error) {
				_, domain, ok := strings.Cut(args[0].Str(), "@")
				if !ok {
					return cel.Value{}, errors.New("no address of mail")
				}
				return cel.FromGo(domain)
			},
		}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	rule, err := language.CompileExpression(`email.domain() == "example.com"`)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, address := range []string{"me@example.com", "nobody"} {
		email, _ := cel.FromGo(address)
		vars := cel.Vars{"email": email}
		v, _, err := rule.Eval(context.Background(), vars, 1000)
		if err != nil {
			explainer, _ := rule.Explainer()
			fmt.Println(explainer.Eval(context.Background(), vars, 1000).ErrorText())
			continue
		}
		fmt.Println(v)
	}
	// Output:
	// true
	// ERROR: <input>:1:13: no address of mail
	//  | email.domain() == "example.com"
	//  | ............^
}

// Why a condition is false: the value of each part, the element that decided, and where it is in the
// data.
func ExampleExplanation() {
	language, _ := cel.NewLanguage(cel.LanguageOptions{Variables: []cel.Variable{{Name: "order"}}})
	rule, _ := language.CompileExpression(`order.items.all(i, i.count > 0 && i.price < 100.0)`)
	order, _ := cel.FromJSON([]byte(`{"items": [{"count": 1, "price": 2.5}, {"count": 2, "price": 120.0}]}`))
	explainer, err := rule.Explainer()
	if err != nil {
		fmt.Println(err)
		return
	}
	explanation := explainer.Eval(context.Background(), cel.Vars{"order": order}, 1000)
	root := explanation.Root(cel.ShowOptions{})
	fmt.Println(strings.Join(root.Lines(), "\n"))
	// Output:
	// 1:1    order.items.all(i, i.count > 0 && i.price < 100.0) = false    (decided by order.items[1] = {"count":2,"price":120})
	// 1:1      order.items = [{"count":1,"price":2.5},{"count":2,"price":120}]    (order.items)
	// 1:20     i.count > 0 && i.price < 100.0 = false
	// 1:20       i.count > 0 = true
	// 1:20         i.count = 2    (order.items[1].count)
	// 1:35       i.price < 100.0 = false
	// 1:35         i.price = 120    (order.items[1].price)
}

// Exactly these functions and macros exist, whatever later versions add.
func ExampleSubset() {
	language, err := cel.NewLanguage(cel.LanguageOptions{
		Variables: []cel.Variable{{Name: "tags", Type: "list(string)"}},
		Subset: &cel.Subset{
			Functions: []string{"==", "&&", "!", "in", "size_list", "startsWith"},
			Macros:    []string{"all", "exists"},
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(language.Functions(), language.Macros())
	for _, text := range []string{
		`size(tags) == 2 && tags.all(t, t.startsWith("team-"))`,
		`tags.exists(t, size(t) == 1)`,
		`size(tags) + 1 == 2`,
	} {
		_, err := language.CompileExpression(text)
		fmt.Println(err)
	}
	// Output:
	// [! && == in size startsWith] [all exists]
	// <nil>
	// ERROR: <input>:1:20: found no matching overload for 'size' applied to '(string)'
	//  | tags.exists(t, size(t) == 1)
	//  | ...................^
	// 1:12: function "_+_" is not part of this language in "size(tags) + 1 == 2"
}

// Parts of the data are not known yet: what remains is an expression.
func ExampleExpression_Partial() {
	language, err := cel.NewLanguage(cel.LanguageOptions{Variables: []cel.Variable{{Name: "request"}, {Name: "row"}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	rule, err := language.CompileExpression(`request.admin || row.owner == request.user && row.size < request.limit * 2`)
	if err != nil {
		fmt.Println(err)
		return
	}
	row, err := language.Pattern("row")
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, text := range []string{`{"admin": true}`, `{"admin": false, "user": "ann", "limit": 10}`} {
		request, _ := cel.FromJSON([]byte(text))
		out, _, err := rule.Partial(context.Background(), cel.Vars{"request": request}, []cel.Pattern{row}, 0)
		switch {
		case err != nil:
			fmt.Println(err)
		case out.Known:
			fmt.Println(out.Value)
		default:
			fmt.Println(out.Residual, out.Unknown)
		}
	}
	// Output:
	// true
	// row.owner == dyn("ann") && row.size < 20 [row]
}

// Data with a schema: the expression is checked against it, and its cost is
// bounded before there is data.
func ExampleTypeOfSchema() {
	order, err := cel.TypeOfSchema([]byte(`{
		"type": "object",
		"properties": {
			"items": {"type": "array", "maxItems": 100, "items": {"type": "object", "properties": {"price": {"type": "integer"}}}},
			"due": {"type": "string", "format": "date-time"}
		}
	}`), false)
	if err != nil {
		fmt.Println(err)
		return
	}
	language, err := cel.NewLanguage(cel.LanguageOptions{Variables: []cel.Variable{{Name: "order", Schema: order}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = language.CompileExpression(`order.items.all(i, i.prize > 0)`)
	fmt.Println(err)
	rule, err := language.CompileExpression(`order.items.all(i, i.price > 0)`)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(rule.Type(), rule.MaxCost())
	// Output:
	// ERROR: <input>:1:21: undefined field 'prize'
	//  | order.items.all(i, i.prize > 0)
	//  | ....................^
	// bool 603
}

// What a version of Kubernetes has, and nothing later.
func ExampleLanguageOptions_kubernetes() {
	for _, version := range []string{"1.33", "1.34"} {
		language, err := cel.NewLanguage(cel.LanguageOptions{Kubernetes: version})
		if err != nil {
			fmt.Println(err)
			return
		}
		_, err = language.CompileExpression(`[2, 1].sort() == [1, 2]`)
		fmt.Println(version, err == nil)
	}
	// Output:
	// 1.33 false
	// 1.34 true
}

// asAnn answers what expressions ask about the user ann.
type asAnn struct{}

func (asAnn) Authorize(check cel.AccessCheck) (bool, string, error) {
	return check.Resource == "pods" && check.Verb == "get", "", nil
}

// A condition of admission asks an authorizer about the user.
func ExampleAdmissionConditions() {
	language, err := cel.NewLanguage(cel.AdmissionConditions(cel.AdmissionVariables{Authorizer: true}))
	if err != nil {
		fmt.Println(err)
		return
	}
	condition, err := language.CompileExpression(
		`object.spec.replicas < 5 || authorizer.group("").resource("pods").check("delete").allowed()`)
	if err != nil {
		fmt.Println(err)
		return
	}
	object, _ := cel.FromJSON([]byte(`{"spec": {"replicas": 7}}`))
	vars := cel.Vars{cel.ObjectVariable: object, cel.AuthorizerVariable: cel.AuthorizerValue(asAnn{})}
	v, cost, err := condition.Eval(context.Background(), vars, 1_000_000)
	fmt.Println(condition.Inputs(), v, cost, err)
	// Output: [object authorizer] false 350008 <nil>
}

// A variable of a policy is computed when an expression first reads it.
func ExampleLazyObject() {
	language, err := cel.NewLanguage(cel.AdmissionConditions(cel.AdmissionVariables{Composed: true}))
	if err != nil {
		fmt.Println(err)
		return
	}
	big, _ := language.CompileExpression(`object.spec.replicas > 5`)
	composition := cel.NewComposition()
	composition.Add("big", big)
	language, err = language.Compose(composition)
	if err != nil {
		fmt.Println(err)
		return
	}
	condition, err := language.CompileExpression(`!variables.big || variables.big`)
	if err != nil {
		fmt.Println(err)
		return
	}
	object, _ := cel.FromJSON([]byte(`{"spec": {"replicas": 7}}`))
	vars := cel.Vars{cel.ObjectVariable: object}
	vars[cel.ComposedVariable] = cel.LazyObject([]string{"big"}, func(string) (cel.Value, error) {
		fmt.Println("computed")
		v, _, err := big.Eval(context.Background(), vars, 1_000_000)
		return v, err
	})
	v, _, err := condition.Eval(context.Background(), vars, 1_000_000)
	fmt.Println(v, err)
	// Output:
	// computed
	// true <nil>
}
