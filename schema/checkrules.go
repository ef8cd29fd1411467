package schema

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-io/keelson/cel"
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
	// Loose reports whether the members of the schema node at path have no old
	// values, beyond what the schema says. nil stands for none.
	Loose func(path string) bool
	// New is what expressions are checked with that were not Stored before: they must be valid in the version before the newest one,
	// so that a server of that version can take over. The zero value checks all expressions as they are evaluated.
	New NewRules
}

// NewRules is the language of new expressions.
type NewRules struct {
	Env *cel.Env
	// Added are the names that only the language of stored expressions has.
	Added []string
	// Stored reports whether a rule, or a messageExpression, stood in the definition before. nil stands for none.
	Stored func(text string, message bool) bool
}

// differs reports whether an expression may mean something else in the language of new ones.
func (r *NewRules) differs(text string, message bool) bool {
	return r.Env != nil && slices.ContainsFunc(r.Added, func(name string) bool { return strings.Contains(text, name) }) &&
		(r.Stored == nil || !r.Stored(text, message))
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
	k.typing = typing{p: p, types: map[*node]*cel.Type{}}
	one := uint64(1)
	k.node(p.root, place{path: c.Path, count: &one, seen: k.seen(p.root, false, view{}, nil)})
	return k
}

type ruleChecker struct {
	RuleCheck
	typing   typing // of what rules can see
	errs     field.ErrorList
	total    uint64
	patterns int // instructions of constant patterns
	costs    []ExprCost
}

// place is where a node is found.
type place struct {
	path  *field.Path
	loose *field.Path // the outermost list above whose items are not correlated, nil if there is none
	count *uint64     // how many values of the node an object can have, nil if there is no limit
	meta  bool        // apiVersion, kind or metadata of a resource, or below
	seen  view
}

// view is how rules see a node. Upstream derives it from the node above as far up
// as there are rules, and from there on from the node's schema alone.
type view struct {
	known  bool // there are rules here or above
	typ    *cel.Type
	own    bool // not what is seen of a resource's metadata when objects are validated
	failed bool // the type cannot be made, here or above
}

// node checks the rules at and below n.
func (k *ruleChecker) node(n *node, at place) {
	below := place{path: at.path, loose: at.loose, count: n.childCount(at.count), meta: at.meta}
	if n.additional != nil {
		child := below
		child.path, child.seen = at.path.Child("additionalProperties"), k.seen(n.additional, at.meta, at.seen, at.seen.elem())
		k.node(n.additional, child)
	}
	members := below
	if at.loose == nil && k.Loose != nil && k.Loose(at.path.String()) {
		members.loose = at.path
	}
	for _, p := range n.props {
		child := members
		child.meta = at.meta || n.resource && isMeta(p.name)
		child.path, child.seen = at.path.Child("properties").Key(p.name), k.seen(p.node, child.meta, at.seen, at.seen.member(p.name))
		k.node(p.node, child)
	}
	if n.items != nil {
		child := below
		if n.listType != "map" && at.loose == nil {
			child.loose = at.path
		}
		child.path, child.seen = at.path.Child("items"), k.seen(n.items, at.meta, at.seen, at.seen.elem())
		k.node(n.items, child)
	}
	if n.rules != nil && (k.Skip == nil || !k.Skip(at.path.String())) {
		at.path = at.path.Child("x-kubernetes-validations")
		k.rules(n, at)
	}
}

// seen is the view of n, whose parent is seen as above and says that the type of
// n is inherited; nil if it does not say.
func (k *ruleChecker) seen(n *node, meta bool, above view, inherited *cel.Type) view {
	switch {
	case above.known && (above.failed || inherited != nil):
		above.typ = inherited
		return above
	case !above.known && n.rules == nil:
		return view{}
	}
	types := k.typing
	if meta {
		types.types = map[*node]*cel.Type{} // what a resource makes of n does not count
	}
	t := types.of(n)
	return view{known: true, typ: t, own: meta, failed: t == nil}
}

// elem is the type of the items of a list or map.
func (v view) elem() *cel.Type {
	switch {
	case v.typ == nil:
		return nil
	case v.typ.Elem == nil:
		return noType
	}
	return v.typ.Elem
}

func (v view) member(name string) *cel.Type {
	if v.typ == nil {
		return nil
	}
	for i := range v.typ.Fields {
		if f := &v.typ.Fields[i]; f.Name == name {
			return f.Type
		}
	}
	return nil
}

// noType stands for the type of the items of something that has none, by its
// type.
var noType = new(cel.Type)

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

func (k *ruleChecker) rules(n *node, at place) {
	t := at.seen.typ
	if at.seen.failed {
		k.errs = append(k.errs, field.InternalError(at.path, errors.New("internal error: failed to construct type information for x-kubernetes-validations rules: unable to convert structural schema to CEL declarations")))
		return
	}
	if t == noType {
		k.errs = append(k.errs, field.InternalError(at.path, errNoType))
		return
	}
	list := n.rules.list
	if at.seen.own || list == nil {
		set := k.typing.p.options.Env.Types()
		list = k.typing.p.compiledRules(n.rules, t, set)
		set.Release()
	}
	most := maxRequestSize / (t.MinSize + 1)
	if at.count != nil {
		most = *at.count
	}
	list = k.asNew(list, n, t)
	for i := range list {
		k.rule(at.path.Index(i), at.loose, &list[i], &n.rules.source[i], most)
	}
}

// asNew are the rules with those compiled again that the language of new expressions may see otherwise.
func (k *ruleChecker) asNew(list []rule, n *node, self *cel.Type) []rule {
	var stored, fresh *cel.TypeSet
	types := func(isNew bool) *cel.TypeSet {
		if isNew {
			return fresh
		}
		return stored
	}
	for i := range n.rules.source {
		source := &n.rules.source[i]
		newRule, newMessage := k.New.differs(source.Rule, false), k.New.differs(source.MessageExpression, true)
		if !newRule && !newMessage {
			continue
		}
		if fresh == nil {
			stored, fresh, list = k.typing.p.options.Env.Types(), k.New.Env.Types(), slices.Clone(list)
			defer stored.Release()
			defer fresh.Release()
		}
		list[i] = compileRule(*source, n.rules.schema, self, types(newRule), types(newMessage))
	}
	return list
}

// rule reports what is wrong with one rule, of which an object can have most
// evaluations.
func (k *ruleChecker) rule(path, loose *field.Path, r *rule, source *apiextv1.ValidationRule, most uint64) {
	if r.program != nil {
		k.patterns += r.program.PatternSize()
		k.cost("estimated rule cost", ExprCost{path.Child("rule"), source.Rule, r.program.MaxCost(), most})
	}
	more := r.more()
	if more.err != nil {
		k.errs = append(k.errs, field.Invalid(path.Child("rule"), ruleValueOf(source), more.err.Error()))
	}
	if more.messageErr != nil {
		k.errs = append(k.errs, field.Invalid(path.Child("messageExpression"), ruleValueOf(source), more.messageErr.Error()))
	} else if more.message != nil {
		k.patterns += more.message.PatternSize()
		// Upstream does not multiply this one.
		k.cost("estimated messageExpression cost", ExprCost{path.Child("messageExpression"), source.MessageExpression, more.message.MaxCost(), 1})
	}
	switch {
	case r.usesOld() && loose != nil:
		k.errs = append(k.errs, field.Invalid(path.Child("rule"), source.Rule, fmt.Sprintf("oldSelf cannot be used on the uncorrelatable portion of the schema within %v", loose)))
	case !r.usesOld() && source.OptionalOldSelf != nil:
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

// maxRulePatterns is how large the constant patterns of the rules of one schema may be
// together, in instructions.
const maxRulePatterns = 250_000

func (k *ruleChecker) totalErrors() field.ErrorList {
	if k.patterns > maxRulePatterns && !k.KeepCost {
		return field.ErrorList{field.Forbidden(k.Path, fmt.Sprintf("the patterns of the rules are too large: %d instructions, at most %d are possible", k.patterns, maxRulePatterns))}
	}
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
