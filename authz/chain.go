package authz

import (
	"context"
	"errors"

	"github.com/keelson-io/keelson/authn"
)

// This file is the chain of authorizers.

// Named is an authorizer with the name and the type that a configuration gives
// it.
type Named struct {
	Name string
	Type string // such as "RBAC"; "" keeps it out of the metrics
	Authorizer
}

// MastersName is the name of the authorizer that every chain begins with.
const MastersName = "kubernetes.io/system-privileged-group"

// Chain asks authorizers in order until one has an opinion. It begins with
// [Masters], whatever else is in it.
type Chain struct{ links []link }

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

// Links are the authorizers of the chain, in order.
func (c *Chain) Links() []Named {
	list := make([]Named, len(c.links))
	for i := range c.links {
		list[i] = c.links[i].Named
	}
	return list
}

// errNoUser is the answer to attributes that are nobody's.
var errNoUser = errors.New("no user on request.")

// Authorize asks until somebody has an opinion, which is final: what was said
// before does not matter any more. If nobody has one, the result holds all
// reasons, each with its authorizer's name, and all errors.
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

// RulesFor joins what the chain's authorizers list. Those that cannot list
// anything contribute nothing.
func (c *Chain) RulesFor(ctx context.Context, user *authn.User, namespace string) Rules {
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
