// Package partial decides about requests with unknown parts: it returns a fixed decision, or the
// condition under which each decision is made.
//
// # Model
//
// A [Request] has attributes and the names of the [Parts] of them that are unknown. Authorizers
// that support this answer with a list of [Case]s, each a result with its condition. The first case
// whose condition holds is the answer. A [Condition] is true, false, or a CEL expression over the
// variable request, as in match conditions. [Decide] asks a chain's authorizers in order.
//
// # Invariants
//
//   - If all parts are filled in, the first case whose condition holds is the
//     chain's decision.
//   - If no part is unknown, every condition is true or false.
package partial

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/keelson-io/keelson/authz"
	"github.com/keelson-io/keelson/internal/authn"
)

// Parts lists the parts of a request that may be unknown, with the names that a review gives them.
// A request that is not for a resource has a path in place of resource, name and the like.
var Parts = []string{"user", "groups", "uid", "extra", "verb", "group", "version", "resource", "subresource", "namespace", "name", "fieldSelector", "labelSelector", "path"}

// Request describes a request with unknown parts.
type Request struct {
	*authz.Attributes
	Unknown map[string]bool // names from Parts; the values of these attributes are ignored
}

// Case is a result and the condition under which it is the answer, if no earlier case holds.
type Case struct {
	authz.Result
	When Condition
	Open bool // the result may be any
}

// Authorizer can decide while parts of a request are unknown. It leaves out cases whose condition
// is false. After an opinion whose condition is true, it returns no further cases.
type Authorizer interface {
	Cases(ctx context.Context, r *Request) []Case
}

// Decide asks authorizers in order and joins their cases. Cases without an opinion are kept if they
// have a reason or an error. The condition of the last case is true: if all authorizers abstain, it
// is NoOpinion.
func Decide(ctx context.Context, r *Request, chain []authz.Named) []Case {
	defer func() {
		if r.Memo != nil {
			r.Memo.Release()
			r.Memo = nil
		}
	}()
	var all []Case
	decided := map[string]bool{} // conditions under which an earlier case has an opinion
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

// casesOf returns the cases of one authorizer. An authorizer that does not implement Authorizer
// decides by its full result or is open.
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
	return []Case{{Result: n.Authorize(ctx, r.Attributes)}} // AlwaysAllow and AlwaysDeny do not depend on the request
}

// Condition is true, false, or depends on what is not known. The zero value is
// true.
type Condition struct {
	never bool
	text  string
}

// True reports whether the condition holds for all values of the unknown parts.
func (c Condition) True() bool { return !c.never && c.text == "" }

// False reports whether the condition holds for no values of the unknown parts.
func (c Condition) False() bool { return c.never }

// String returns the condition as a CEL expression.
func (c Condition) String() string {
	switch {
	case c.never:
		return "false"
	case c.text == "":
		return "true"
	}
	return c.text
}

// Known returns a condition that is always true or always false.
func Known(holds bool) Condition { return Condition{never: !holds} }

// Expression returns a condition given by a CEL expression.
func Expression(text string) Condition { return Condition{text: text} }

// All returns a condition that holds if all given conditions hold.
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

// Any returns a condition that holds if one of the given conditions holds.
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

// grouped adds parentheses around an expression if it may contain one of the operators, which bind
// less tightly than the surrounding ones.
func grouped(text string, operators ...string) string {
	for _, o := range operators {
		if strings.Contains(text, o) {
			return "(" + text + ")"
		}
	}
	return text
}

// Term returns the CEL expression for a part.
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

// text returns the value of a known part that is a single string.
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

// Is returns the condition that a part equals text.
func (r *Request) Is(part, text string) Condition {
	if r.Unknown[part] {
		return Expression(r.Term(part) + " == " + strconv.Quote(text))
	}
	return Known(r.text(part) == text)
}

// In returns the condition that a part is in list. If all is not "", that item
// of the list stands for any value.
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

// Begins returns the condition that a part starts with prefix.
func (r *Request) Begins(part, prefix string) Condition {
	if r.Unknown[part] && prefix != "" {
		return Expression(r.Term(part) + ".startsWith(" + strconv.Quote(prefix) + ")")
	}
	return Known(prefix == "" || strings.HasPrefix(r.text(part), prefix))
}

// Member returns the condition that the user is in a group.
func (r *Request) Member(group string) Condition {
	if r.Unknown["groups"] {
		return Expression(strconv.Quote(group) + " in request.groups")
	}
	return Known(r.User.InGroup(group))
}
