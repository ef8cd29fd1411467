package schema

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// This file checks the rules of a schema when it is written: that they compile
// and what they may cost.

const (
	ruleCostLimit   = 10_000_000  // estimated cost of one expression
	schemaCostLimit = 100_000_000 // of all expressions of a schema
	maxRequestSize  = 3 << 20
	topRules        = 4 // how many expressions are named if the schema's limit is exceeded
)

// RuleCheck says how CheckRules checks.
type RuleCheck struct {
	// Path is the path of the root schema.
	Path *field.Path
	// KeepCost drops the errors about the cost of single expressions.
	KeepCost bool
	// Skip reports whether the rules of the schema node at path are not to be
	// looked at. nil stands for none.
	Skip func(path string) bool
}

// CheckRules compiles the rules of the schema and estimates what they cost. It
// reports what is wrong in upstream's words: for every node what is below it
// first.
func (p *Program) CheckRules(c RuleCheck) field.ErrorList {
	code, err := p.load()
	if err != nil {
		return field.ErrorList{field.Invalid(c.Path, "", err.Error())}
	}
	k := code.checkRules(c)
	return append(k.errs, k.totalErrors()...)
}

// ExprCost is what an expression is estimated to cost.
type ExprCost struct {
	Path  *field.Path // of the rule or messageExpression
	Expr  string
	Each  uint64 // at most, one evaluation
	Times uint64 // at most, evaluations that count for one object
}

// Costs estimates the cost of every expression that compiles, in the order of
// CheckRules.
func (p *Program) Costs(path *field.Path) []ExprCost {
	code, err := p.load()
	if err != nil {
		return nil
	}
	return code.checkRules(RuleCheck{Path: path}).costs
}

func (p *program) checkRules(c RuleCheck) *ruleChecker {
	k := &ruleChecker{RuleCheck: c}
	if !p.hasRules {
		return k
	}
	p.compileRules() // what is compiled for evaluation serves here, too
	one := uint64(1)
	k.node(p.root, c.Path, nil, &one)
	return k
}

type ruleChecker struct {
	RuleCheck
	errs  field.ErrorList
	total uint64
	costs []ExprCost
}

// node checks the rules at and below n. loose is the outermost list above n
// whose items are not correlated, nil if there is none. count is how many
// values of n an object can have, nil if there is no limit.
func (k *ruleChecker) node(n *node, path, loose *field.Path, count *uint64) {
	below, inItems := n.childCount(count), loose
	if n.items != nil && n.listType != "map" && loose == nil {
		inItems = path
	}
	if n.additional != nil {
		k.node(n.additional, path.Child("additionalProperties"), loose, below)
	}
	for _, p := range n.props {
		k.node(p.node, path.Child("properties").Key(p.name), loose, below)
	}
	if n.items != nil {
		k.node(n.items, path.Child("items"), inItems, below)
	}
	if n.rules != nil && (k.Skip == nil || !k.Skip(path.String())) {
		k.rules(n, path.Child("x-kubernetes-validations"), loose, count)
	}
}

// childCount is how many values the children of n can have.
func (n *node) childCount(count *uint64) *uint64 {
	if count == nil {
		return nil
	}
	max := int64(1)
	switch {
	case n.typ == "object" && n.anyOther:
		max = none
		if n.values != nil {
			max = n.values.maxProps
		}
	case n.typ == "array":
		max = none
		if n.values != nil {
			max = n.values.maxItems
		}
	}
	if max == none {
		return nil
	}
	if max < 0 {
		max = 0
	}
	product := times(*count, uint64(max))
	return &product
}

// times is a product that does not overflow.
func times(a, b uint64) uint64 {
	if a != 0 && b > math.MaxUint64/a {
		return math.MaxUint64
	}
	return a * b
}

func (k *ruleChecker) rules(n *node, path, loose *field.Path, count *uint64) {
	if n.rules.err != nil {
		k.errs = append(k.errs, field.InternalError(path, fmt.Errorf("internal error: failed to construct type information for x-kubernetes-validations rules: unable to convert structural schema to CEL declarations")))
		return
	}
	list := n.rules.list
	most := maxRequestSize / (n.rules.minSize + 1)
	if count != nil {
		most = *count
	}
	for i := range list {
		k.rule(path.Index(i), loose, &list[i], &n.rules.source[i], most)
	}
}

// rule reports what is wrong with one rule, of which an object can have most
// evaluations.
func (k *ruleChecker) rule(path, loose *field.Path, r *rule, source *apiextv1.ValidationRule, most uint64) {
	if r.program != nil {
		k.cost("estimated rule cost", ExprCost{path.Child("rule"), source.Rule, r.program.MaxCost(), most})
	}
	if r.err != nil {
		k.errs = append(k.errs, field.Invalid(path.Child("rule"), ruleValueOf(source), r.err.Error()))
	}
	if r.messageErr != nil {
		k.errs = append(k.errs, field.Invalid(path.Child("messageExpression"), ruleValueOf(source), r.messageErr.Error()))
	} else if r.message != nil {
		// Upstream does not multiply this one.
		k.cost("estimated messageExpression cost", ExprCost{path.Child("messageExpression"), source.MessageExpression, r.message.MaxCost(), 1})
	}
	switch {
	case r.usesOld && loose != nil:
		k.errs = append(k.errs, field.Invalid(path.Child("rule"), source.Rule, fmt.Sprintf("oldSelf cannot be used on the uncorrelatable portion of the schema within %v", loose)))
	case !r.usesOld && source.OptionalOldSelf != nil:
		k.errs = append(k.errs, field.Invalid(path.Child("optionalOldSelf"), *source.OptionalOldSelf, "may not be set if oldSelf is not used in rule"))
	}
}

// cost counts the cost of an expression.
func (k *ruleChecker) cost(what string, e ExprCost) {
	cost := e.total()
	if cost > ruleCostLimit && !k.KeepCost {
		k.errs = append(k.errs, field.Forbidden(e.Path, costText(what, cost, ruleCostLimit)))
	}
	if k.total += cost; k.total < cost {
		k.total = math.MaxUint64
	}
	k.costs = append(k.costs, e)
}

func (e ExprCost) total() uint64 { return times(e.Each, e.Times) }

func (k *ruleChecker) totalErrors() field.ErrorList {
	if k.total <= schemaCostLimit {
		return nil
	}
	expensive := slices.DeleteFunc(slices.Clone(k.costs), func(e ExprCost) bool { return e.total() < schemaCostLimit/100 })
	slices.SortStableFunc(expensive, func(a, b ExprCost) int { return cmp.Compare(b.total(), a.total()) })
	var errs field.ErrorList
	for _, e := range expensive[:min(len(expensive), topRules)] {
		errs = append(errs, field.Forbidden(e.Path, "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema"))
	}
	return append(errs, field.Forbidden(k.Path, costText("x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema", k.total, schemaCostLimit)))
}

// costText says by what factor a cost exceeds its limit; digits that would say
// nothing are left out.
func costText(what string, cost, limit uint64) string {
	factor := float64(cost) / float64(limit)
	text := fmt.Sprintf("%.1fx", factor)
	switch {
	case factor > 100:
		text = "more than 100x"
	case factor < 1.5:
		text = fmt.Sprintf("%fx", factor)
	}
	return what + " exceeds budget by factor of " + text + " (try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared)"
}

// ruleValue is a rule as upstream prints it in errors: by the names of a Go
// type.
type ruleValue struct {
	Rule              string
	Message           string
	MessageExpression string
	Reason            *apiextv1.FieldValueErrorReason
	FieldPath         string
	OptionalOldSelf   *bool
}

func ruleValueOf(r *apiextv1.ValidationRule) ruleValue {
	return ruleValue{r.Rule, r.Message, r.MessageExpression, r.Reason, r.FieldPath, r.OptionalOldSelf}
}
