package policy

import (
	"context"
	"fmt"

	"github.com/keelson-io/keelson/admission"
	"github.com/keelson-io/keelson/admission/conditions"
	"github.com/keelson-io/keelson/admission/match"
	"github.com/keelson-io/keelson/cel"
	"github.com/keelson-io/keelson/kind"
)

// This file finds what is to be evaluated for a request.

// enforcement is policies at work on one request.
type enforcement struct {
	*Policies
	ctx      context.Context
	r        *admission.Request
	calls    []call
	now      int // the call that is decided
	denials  []denial
	failures []failureNote
	notes    map[string]annotations // by policy

	scratch   []decision                          // of the call that is decided
	inputs    map[*kind.Version]*conditions.Input // what is made for one policy is good for the others
	namespace []byte
	looked    bool // for the namespace
}

// call is a policy, a binding and a parameter object to evaluate it with.
type call struct {
	policy  *policy
	binding *binding
	target  match.Target
	param   param
	account cel.Account
}

// id names the call in both rounds of mutation.
func (c *call) id() string {
	id := c.policy.name + "/" + c.binding.name
	if c.param.object != nil {
		id += "/" + c.param.object.Key
	}
	return id
}

// denial is a decision that denies, and whose it is.
type denial struct {
	policy, binding string // binding is "" if the policy itself is broken
	decision
	// place orders denials as policies and bindings are: twice the number of
	// the call, and one more; twice the number of the next if it is no call's.
	place int
}

// invocations are the policies that are for a request; nil if there are none.
// An error ends the request.
func (p *Policies) invocations(ctx context.Context, r *admission.Request) (*enforcement, error) {
	s := p.load()
	found := s.index.For(r)
	if len(found) == 0 || match.ExemptFromPolicies(r.Version.Kind) {
		return nil, nil
	}
	v := &enforcement{Policies: p, ctx: ctx, r: r, calls: make([]call, 0, len(found))}
	for i := range found {
		v.policy(s.items[found[i].Item], &found[i])
	}
	if len(v.calls) == 0 {
		return v, nil
	}
	return v, v.lookNamespace()
}

// misconfigured is the denial that an unusable policy or binding is.
func (v *enforcement) misconfigured(p *policy, b *binding, err error) {
	if p.ignore {
		return
	}
	d := denial{policy: p.name, decision: decision{failed: true}, place: 2 * len(v.calls)}
	if b == nil {
		d.message = fmt.Sprintf("failed to configure policy: %v", err)
	} else {
		d.binding, d.message = b.name, fmt.Sprintf("failed to configure binding: %v", err)
	}
	v.denials = append(v.denials, d)
}

// policy finds what is to be evaluated of one policy.
func (v *enforcement) policy(p *policy, c *match.Candidate) {
	if p.err != nil {
		v.misconfigured(p, nil, p.err)
		return
	}
	target, ok, err := c.Selects(v.ctx, v.r, v.Host)
	switch {
	case err != nil:
		v.misconfigured(p, nil, err)
		return
	case !ok:
		return
	}
	params, err := p.params.version(v.Kinds())
	if err != nil {
		v.misconfigured(p, nil, err)
		return
	}
	if p.index == nil {
		for _, b := range p.bindings {
			v.bound(p, b, target, params)
		}
		return
	}
	for _, c := range p.index.For(v.r) {
		b := p.bindings[c.Item]
		if b.err != nil {
			v.misconfigured(p, b, b.err)
			continue
		}
		switch _, ok, err := c.Selects(v.ctx, v.r, v.Host); {
		case err != nil:
			v.misconfigured(p, b, err)
		case ok:
			v.bound(p, b, target, params)
		}
	}
}

// bound finds what is to be evaluated of a policy for a binding.
func (v *enforcement) bound(p *policy, b *binding, target match.Target, params *kind.Version) {
	if params == nil || b.ref == nil {
		v.calls = append(v.calls, call{policy: p, binding: b, target: target, param: param{value: null}})
		return
	}
	found, err := v.collect(b, params)
	if err != nil {
		v.misconfigured(p, b, err)
		return
	}
	for _, param := range found {
		v.calls = append(v.calls, call{policy: p, binding: b, target: target, param: param})
	}
}

// lookNamespace looks the object's namespace up; a namespace has none itself.
func (v *enforcement) lookNamespace() error {
	if v.looked || v.r.Namespace == "" || v.r.Version.Kind.IsNamespaces() {
		return nil
	}
	v.looked = true
	view, err := v.Host.Namespace(v.ctx, v.r.Namespace)
	if err != nil {
		return err
	}
	v.namespace = view.JSON
	return nil
}
