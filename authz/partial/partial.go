// Package partial says what authorizers would decide about a request of which
// parts are not known: always the same, or under which condition.
//
// # Model
//
// A [Request] is attributes and the names of those [Parts] of them that are not
// known. Authorizers that can do so answer with [Case]s, each a result and the
// condition under which it comes about; the first case that holds is the answer.
// A [Condition] is true, false, or an expression of CEL over the variable
// request that match conditions have. [Decide] asks a chain's authorizers in
// order.
//
// # Invariants
//
//   - With everything filled in, the first case whose condition holds is what
//     the chain would have decided.
//   - Without unknown parts every condition is true or false.
package partial

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/keelson-io/keelson/authn"
	"github.com/keelson-io/keelson/authz"
)

// Parts are the parts of a request that may be unknown, as a review names them;
// requests that are for no resource have a path in place of resource, name and
// so on.
var Parts = []string{"user", "groups", "uid", "extra", "verb", "group", "version", "resource", "subresource", "namespace", "name", "fieldSelector", "labelSelector", "path"}

// Request is a request of which parts are not known.
type Request struct {
	*authz.Attributes
	Unknown map[string]bool // of Parts; what the attributes have there does not count
}

// Case is a result that comes about under a condition, unless an earlier case
// holds.
type Case struct {
	authz.Result
	When Condition
	Open bool // whatever the result says: it may be any
}

// Authorizer can decide while parts of a request are unknown. Cases whose
// condition is false are left out; an opinion whose condition is true is the
// last.
type Authorizer interface {
	Cases(ctx context.Context, r *Request) []Case
}

// Decide asks authorizers in order. A case without an opinion is among the cases
// if it has a reason or an error. The last one is always true: if nobody has an
// opinion, it is that.
func Decide(ctx context.Context, r *Request, chain []authz.Named) []Case {
	defer func() {
		if r.Memo != nil {
			r.Memo.Release()
			r.Memo = nil
		}
	}()
	var all []Case
	decided := map[string]bool{} // conditions under which somebody has an opinion before
	for i := range chain {
		for _, c := range casesOf(ctx, r, &chain[i]) {
			if decided[c.When.text] && c.When.text != "" {
				continue
			}
			c.By = chain[i].Name
			opinion := c.Decision != authz.NoOpinion
			decided[c.When.text] = decided[c.When.text] || opinion && !c.Open
			if opinion || c.Open || c.Reason != "" || c.Err != nil {
				all = append(all, c)
			}
			if opinion && !c.Open && c.When.True() {
				return all
			}
		}
	}
	return append(all, Case{})
}

func casesOf(ctx context.Context, r *Request, n *authz.Named) []Case {
	if n.Name == authz.MastersName {
		if when := r.Member(authn.Masters); !when.False() {
			return []Case{{Result: authz.Result{Decision: authz.Allow}, When: when}}
		}
		return nil
	}
	if p, ok := n.Authorizer.(Authorizer); ok {
		return p.Cases(ctx, r)
	}
	return []Case{{Result: n.Authorize(ctx, r.Attributes)}} // AlwaysAllow and AlwaysDeny, which look at nothing
}

// Condition is true, false, or depends on what is not known. The zero value is
// true.
type Condition struct {
	never bool
	text  string
}

// True reports whether the condition holds whatever the rest is.
func (c Condition) True() bool { return !c.never && c.text == "" }

// False reports whether the condition does not hold whatever the rest is.
func (c Condition) False() bool { return c.never }

// String is the condition as an expression.
func (c Condition) String() string {
	switch {
	case c.never:
		return "false"
	case c.text == "":
		return "true"
	}
	return c.text
}

// Known is a condition that is known.
func Known(holds bool) Condition { return Condition{never: !holds} }

// Expression is a condition that an expression says.
func Expression(text string) Condition { return Condition{text: text} }

// All holds if all conditions do.
func All(list ...Condition) Condition {
	var texts []string
	for _, c := range list {
		switch {
		case c.never:
			return c
		case c.text != "":
			texts = append(texts, c.text)
		}
	}
	for i, text := range texts {
		if len(texts) > 1 {
			texts[i] = grouped(text, "||", "?")
		}
	}
	return Condition{text: strings.Join(texts, " && ")}
}

// Any holds if one of the conditions does.
func Any(list ...Condition) Condition {
	var texts []string
	for _, c := range list {
		switch {
		case c.True():
			return c
		case c.text != "" && !slices.Contains(texts, c.text):
			texts = append(texts, c.text)
		}
	}
	for i, text := range texts {
		if len(texts) > 1 {
			texts[i] = grouped(text, "?")
		}
	}
	return Condition{never: len(texts) == 0, text: strings.Join(texts, " || ")}
}

// grouped puts an expression in parentheses if it might hold an operator that
// binds less than what comes around it.
func grouped(text string, operators ...string) string {
	for _, o := range operators {
		if strings.Contains(text, o) {
			return "(" + text + ")"
		}
	}
	return text
}

// Term is the expression that stands for a part.
func (r *Request) Term(part string) string {
	switch part {
	case "user", "groups", "uid", "extra":
		return "request." + part
	}
	if r.ResourceRequest {
		return "request.resourceAttributes." + part
	}
	return "request.nonResourceAttributes." + part
}

func (r *Request) text(part string) string {
	switch part {
	case "user":
		return r.User.Name
	case "verb":
		return r.Verb
	case "group":
		return r.Group
	case "resource":
		return r.Resource
	case "subresource":
		return r.Subresource
	case "namespace":
		return r.Namespace
	case "name":
		return r.Name
	case "path":
		return r.Path
	}
	panic("BUG: no text is the part " + part)
}

// Is holds if a part is a text.
func (r *Request) Is(part, text string) Condition {
	if r.Unknown[part] {
		return Expression(r.Term(part) + " == " + strconv.Quote(text))
	}
	return Known(r.text(part) == text)
}

// In holds if a part is one of the texts; all stands for any text, "" for none.
func (r *Request) In(part, all string, list ...string) Condition {
	switch {
	case all != "" && slices.Contains(list, all):
		return Known(true)
	case !r.Unknown[part]:
		return Known(slices.Contains(list, r.text(part)))
	case len(list) == 0:
		return Known(false)
	case len(list) == 1:
		return r.Is(part, list[0])
	}
	quoted := make([]string, len(list))
	for i, s := range list {
		quoted[i] = strconv.Quote(s)
	}
	return Expression(r.Term(part) + " in [" + strings.Join(quoted, ", ") + "]")
}

// Begins holds if a part begins with a text.
func (r *Request) Begins(part, prefix string) Condition {
	if r.Unknown[part] && prefix != "" {
		return Expression(r.Term(part) + ".startsWith(" + strconv.Quote(prefix) + ")")
	}
	return Known(prefix == "" || strings.HasPrefix(r.text(part), prefix))
}

// Member holds if the user is in a group.
func (r *Request) Member(group string) Condition {
	if r.Unknown["groups"] {
		return Expression(strconv.Quote(group) + " in request.groups")
	}
	return Known(r.User.InGroup(group))
}
