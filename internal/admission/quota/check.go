package quota

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-io/keelson/internal/admission"
	"github.com/keelson-io/keelson/internal/status"
)

// This file decides whether a request fits the quotas of its namespace.

// LimitedResource is a resource of which nothing may be used without a quota. It is part of the
// plugin's configuration.
type LimitedResource struct {
	APIGroup      string                                     `json:"apiGroup,omitempty"`      // of the resource; "" is the core group
	Resource      string                                     `json:"resource"`                // such as pods
	MatchContains []string                                   `json:"matchContains,omitempty"` // parts of names that a quota limits, such as requests.cpu: a use of one needs a quota
	MatchScopes   []corev1.ScopedResourceSelectorRequirement `json:"matchScopes,omitempty"`   // scopes of a quota: objects in one need a quota
}

// demand is what a request uses.
type demand struct {
	r       *admission.Request
	measure *Measure
	is, was any // the object, and before an update
}

// readDemand decodes the objects of a request. It returns nil if quotas do not concern the request.
func readDemand(r *admission.Request, m *Measure) (*demand, error) {
	d := &demand{r: r, measure: m}
	if m.Read == nil {
		return d, nil
	}
	var err error
	if d.is, err = m.Read(r.New); err != nil {
		return nil, err
	}
	if r.Old != nil {
		if d.was, err = m.Read(r.Old); err != nil {
			return nil, err
		}
		if m.charges == nil || !m.charges(r.Subresource, d.is, d.was) {
			return nil, nil
		}
	}
	return d, nil
}

// ScopesOf returns the scopes of a quota.
func ScopesOf(q *corev1.ResourceQuota) []corev1.ScopedResourceSelectorRequirement {
	var scopes []corev1.ScopedResourceSelectorRequirement
	for _, name := range q.Spec.Scopes {
		scopes = append(scopes, corev1.ScopedResourceSelectorRequirement{ScopeName: name, Operator: corev1.ScopeSelectorOpExists})
	}
	if s := q.Spec.ScopeSelector; s != nil {
		scopes = append(scopes, s.MatchExpressions...)
	}
	return scopes
}

// InScopes returns those of some scopes that an object is in.
func (m *Measure) InScopes(scopes []corev1.ScopedResourceSelectorRequirement, object any) ([]corev1.ScopedResourceSelectorRequirement, error) {
	var in []corev1.ScopedResourceSelectorRequirement
	for i := range scopes {
		if m.InScope == nil {
			break
		}
		yes, err := m.InScope(&scopes[i], object)
		if err != nil {
			return nil, fmt.Errorf("error on matching scope %v: %w", scopes[i], err)
		}
		if yes {
			in = append(in, scopes[i])
		}
	}
	return in, nil
}

// tracked returns the names of a quota's limits under which the resource counts.
func (m *Measure) tracked(q *corev1.ResourceQuota) []corev1.ResourceName {
	return slices.DeleteFunc(Names(q.Status.Hard), func(name corev1.ResourceName) bool { return !m.Tracks(name) })
}

// concerns reports whether a quota limits an object.
func (m *Measure) concerns(q *corev1.ResourceQuota, object any) (bool, error) {
	if len(m.tracked(q)) == 0 {
		return false, nil
	}
	scopes := ScopesOf(q)
	in, err := m.InScopes(scopes, object)
	return len(in) == len(scopes), err
}

// charge returns what a quota is to be charged, nil if nothing. It returns an error if the request
// does not fit.
func (d *demand) charge(q *corev1.ResourceQuota) (corev1.ResourceList, error) {
	m := d.measure
	concerned, err := m.concerns(q, d.is)
	if err != nil || !concerned {
		return nil, err
	}
	tracked := m.tracked(q)
	if m.required != nil {
		if err := m.required(tracked, d.is); err != nil {
			return nil, d.r.Forbidden(fmt.Errorf("failed quota: %s: %v", q.Name, err))
		}
	}
	for _, name := range tracked {
		if _, ok := q.Status.Used[name]; !ok {
			return nil, d.r.Forbidden(fmt.Errorf("status unknown for quota: %s, resources: %s", q.Name, joined(tracked)))
		}
	}
	more, err := d.growth(q)
	if err != nil {
		return nil, err
	}
	more = Mask(more, Names(q.Status.Hard))
	for name, amount := range more {
		if amount.Sign() == 0 {
			delete(more, name)
		}
	}
	if len(more) == 0 || d.r.Subresource == "status" { // what a status reports is used already
		return more, nil
	}
	if over := beyond(Mask(Add(q.Status.Used, more), Names(more)), q.Status.Hard); len(over) > 0 {
		return nil, d.r.Forbidden(fmt.Errorf("exceeded quota: %s, requested: %s, used: %s, limited: %s", q.Name,
			text(Mask(more, over)), text(Mask(q.Status.Used, over)), text(Mask(q.Status.Hard, over))))
	}
	return more, nil
}

// growth returns what the request uses more than before of a quota.
func (d *demand) growth(q *corev1.ResourceQuota) (corev1.ResourceList, error) {
	use := d.measure.Use(d.is)
	var negative []corev1.ResourceName
	for name, amount := range use {
		if amount.Sign() < 0 {
			negative = append(negative, name)
		}
	}
	if len(negative) > 0 {
		return nil, d.r.Forbidden(fmt.Errorf("quota usage is negative for resource(s): %s", joined(negative)))
	}
	if d.was == nil {
		return use, nil
	}
	had := true // without a quota, the growth is against the object before
	if q != nil {
		var err error
		if had, err = d.measure.concerns(q, d.was); err != nil {
			return nil, err
		}
	}
	if had {
		return growth(use, d.measure.Use(d.was)), nil
	}
	return use, nil
}

// covered returns an error if the request uses something of which nothing may be used without a
// quota, and none of the quotas is for it.
func (d *demand) covered(quotas []*corev1.ResourceQuota, limited []LimitedResource) error {
	if len(limited) == 0 {
		return nil
	}
	more, err := d.growth(nil)
	if err != nil {
		return err
	}
	some := false
	for _, amount := range more {
		some = some || amount.Sign() != 0
	}
	if !some {
		return nil
	}
	names, err := d.coveredNames(quotas)
	if err != nil {
		return err
	}
	gr := d.r.Version.Kind.GroupResource()
	var lacking []string
	var scopes []corev1.ScopedResourceSelectorRequirement
	for i := range limited {
		l := &limited[i]
		in, err := d.measure.InScopes(l.MatchScopes, d.is)
		if err != nil {
			return nil // as in Kubernetes
		}
		scopes = append(scopes, in...)
		if l.APIGroup != gr.Group || l.Resource != gr.Resource {
			continue
		}
		for name, amount := range d.measure.Use(d.is) {
			if amount.Sign() > 0 && !names[name] && slices.ContainsFunc(l.MatchContains, func(part string) bool { return strings.Contains(string(name), part) }) {
				lacking = append(lacking, string(name))
			}
		}
	}
	if len(lacking) > 0 {
		slices.Sort(lacking)
		return d.r.Forbidden(fmt.Errorf("insufficient quota to consume: %v", strings.Join(slices.Compact(lacking), ",")))
	}
	return d.coveredScopes(quotas, scopes)
}

// coveredNames returns the names under which quotas limit the object.
func (d *demand) coveredNames(quotas []*corev1.ResourceQuota) (map[corev1.ResourceName]bool, error) {
	names := map[corev1.ResourceName]bool{}
	for _, q := range quotas {
		yes, err := d.measure.concerns(q, d.is)
		if err != nil {
			return nil, err
		}
		if yes {
			for _, name := range d.measure.tracked(q) {
				names[name] = true
			}
		}
	}
	return names, nil
}

// coveredScopes returns an error if no quota is for one of some scopes.
func (d *demand) coveredScopes(quotas []*corev1.ResourceQuota, scopes []corev1.ScopedResourceSelectorRequirement) error {
	covered := map[corev1.ResourceQuotaScope]bool{}
	for _, q := range quotas {
		in, err := d.measure.InScopes(ScopesOf(q), d.is)
		if err != nil {
			return fmt.Errorf("error matching scopes of quota %s, err: %v", q.Name, err)
		}
		for i := range in {
			covered[in[i].ScopeName] = true
		}
	}
	scopes = slices.DeleteFunc(scopes, func(s corev1.ScopedResourceSelectorRequirement) bool { return covered[s.ScopeName] })
	if len(scopes) > 0 {
		return status.Plain500(fmt.Sprintf("insufficient quota to match these scopes: %v", scopes))
	}
	return nil
}
