package policy

import (
	"context"
	"fmt"

	"github.com/keelson-io/keelson/cel"
	"github.com/keelson-io/keelson/internal/admission"
	"github.com/keelson-io/keelson/internal/admission/conditions"
	"github.com/keelson-io/keelson/internal/admission/match"
	"github.com/keelson-io/keelson/kind"
)

// This file finds the policies, bindings and parameters to evaluate for a request.

// enforcement evaluates the policies of one request.
type enforcement struct {
	*Policies
	ctx      context.Context
	r        *admission.Request
	calls    []call
	now      int // index of the current call
	denials  []denial
	failures []failureNote
	notes    map[string]annotations // audit annotations, by policy

	scratch   []decision                          // reused for each call
	inputs    map[*kind.Version]*conditions.Input // one for each version, shared by the policies
	namespace []byte
	looked    bool // the namespace was looked up
}

// call is a policy with a binding and a parameter object, to be evaluated.
type call struct {
	policy  *policy
	binding *binding
	target  match.Target
	param   param
	account cel.Account
}

// id identifies the call in both rounds of mutation.
func (c *call) id() string {
	id := c.policy.name + "/" + c.binding.name
	if c.param.object != nil {
		id += "/" + c.param.object.Key
	}
	return id
}

// denial is a decision that denies the request, and its policy and binding.
type denial struct {
	policy, binding string // binding is "" if the policy itself is broken
	decision
	// place orders denials as upstream does. A denial of call n has 2n+1, one that belongs to no
	// call has twice the number of the following call.
	place int
}

// invocations returns the policies that match a request, nil if there are none. An error ends the
// request.
func (p *Policies) invocations(ctx context.Context, r *admission.Request) (*enforcement, error) {
	s := p.load()
	found := s.index.For(r)
	if len(found) == 0 {
		return nil, nil
	}
	if match.ExemptFromPolicies(r.Version.Kind) {
		if s.own == nil || match.IsReview(r.Version.Kind) {
			return nil, nil
		}
		if found = s.own.For(r); len(found) == 0 {
			return nil, nil
		}
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

// misconfigured adds the denial for an unusable policy or binding, according to its failurePolicy.
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

// policy adds the calls of one policy.
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

// bound adds the calls of one binding of a policy.
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

// lookNamespace reads the namespace of the object. A Namespace object has none.
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
