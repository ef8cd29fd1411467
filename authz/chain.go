package authz

import (
	"context"
	"errors"
)

// This file has the chain of authorizers.

// Named is an authorizer with the name and type that the configuration gives it.
type Named struct {
	Name string
	Type string // such as "RBAC"; "" keeps it out of the metrics
	Authorizer
}

// MastersName is the name of the first authorizer of every chain.
const MastersName = "kubernetes.io/system-privileged-group"

// Chain asks authorizers in order until one has an opinion. The first is always [Masters].
type Chain struct{ links []link }

// link is a named authorizer of a chain.
type link struct {
	Named
	counted decisions
}

// NewChain makes a chain. Metrics may be nil.
func NewChain(m *Metrics, chain ...Named) *Chain {
	c := &Chain{links: []link{{Named: Named{Name: MastersName, Authorizer: Masters()}}}}
	for _, n := range chain {
		c.links = append(c.links, link{Named: n})
	}
	for i := range c.links {
		c.links[i].counted.metrics = m
	}
	return c
}

// Links returns the authorizers of the chain, in order.
func (c *Chain) Links() []Named {
	list := make([]Named, len(c.links))
	for i := range c.links {
		list[i] = c.links[i].Named
	}
	return list
}

// errNoUser is the error for attributes without a user.
var errNoUser = errors.New("no user on request.")

// Authorize asks the authorizers in order and returns the first opinion; earlier reasons and errors
// are then dropped. If no authorizer has an opinion, the result holds all reasons, each with the
// authorizer's name, and all errors.
func (c *Chain) Authorize(ctx context.Context, a *Attributes) Result {
	if a.User == nil {
		return Result{Reason: "Error", Err: errNoUser}
	}
	defer a.forget()
	var reasons string
	var errs []error
	for i := range c.links {
		l := &c.links[i]
		if a.Trace != nil {
			a.Trace.begin(l.Name, l.Type)
		}
		r := l.Authorize(ctx, a)
		if a.Trace != nil {
			a.Trace.end(r)
		}
		if r.Decision != NoOpinion {
			l.counted.count(&l.Named, r.Decision)
			r.By = l.Name
			return r
		}
		if r.Err != nil {
			errs = append(errs, r.Err)
		}
		if r.Reason != "" {
			if reasons != "" {
				reasons += "\n"
			}
			reasons += l.Name + ": " + r.Reason
		}
	}
	return Result{Reason: reasons, Err: aggregate(errs)}
}

// RulesFor joins the rules of the chain's authorizers. Authorizers that are no RuleResolver
// contribute none.
func (c *Chain) RulesFor(ctx context.Context, user *User, namespace string) Rules {
	var all Rules
	var errs []error
	for i := range c.links {
		resolver, ok := c.links[i].Authorizer.(RuleResolver)
		if !ok {
			continue
		}
		r := resolver.RulesFor(ctx, user, namespace)
		all.Resource = append(all.Resource, r.Resource...)
		all.NonResource = append(all.NonResource, r.NonResource...)
		all.Incomplete = all.Incomplete || r.Incomplete
		if r.Err != nil {
			errs = append(errs, r.Err)
		}
	}
	all.Err = aggregate(errs)
	return all
}
