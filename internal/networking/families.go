package networking

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-io/keelson/internal/texts"
)

// This file computes the IP families of a service from its policy, its addresses and the cluster.

var (
	specPath     = field.NewPath("spec")
	ipsPath      = specPath.Child("clusterIPs")
	familiesPath = specPath.Child("ipFamilies")
	policyPath   = specPath.Child("ipFamilyPolicy")
)

// FamilyOf returns the family of an address.
func FamilyOf(a netip.Addr) corev1.IPFamily {
	if a.Is4() {
		return corev1.IPv4Protocol
	}
	return corev1.IPv6Protocol
}

// familyOf returns the family of an address as text, in any of the forms that older versions of
// Kubernetes accepted.
func familyOf(ip string) corev1.IPFamily {
	if strings.Contains(ip, ":") {
		return corev1.IPv6Protocol
	}
	return corev1.IPv4Protocol
}

// OnRead completes a service that was stored by a version without the fields for families. own is
// the first family of the cluster.
func OnRead(s *corev1.Service, own corev1.IPFamily) {
	Normalize(s, nil)
	spec := &s.Spec
	if !Addressed(s) {
		spec.InternalTrafficPolicy = nil
		return
	}
	if len(spec.IPFamilies) > 0 {
		return
	}
	single, dual := corev1.IPFamilyPolicySingleStack, corev1.IPFamilyPolicyRequireDualStack
	if spec.ClusterIP == corev1.ClusterIPNone {
		spec.IPFamilies, spec.IPFamilyPolicy = []corev1.IPFamily{own}, &single
		if len(spec.Selector) == 0 {
			spec.IPFamilies, spec.IPFamilyPolicy = append(spec.IPFamilies, other(own)), &dual
		}
		return
	}
	for _, ip := range spec.ClusterIPs {
		spec.IPFamilies = append(spec.IPFamilies, familyOf(ip))
	}
	switch len(spec.IPFamilies) {
	case 1:
		spec.IPFamilyPolicy = &single
	case 2:
		spec.IPFamilyPolicy = &dual
	}
}

// other returns the other family.
func other(f corev1.IPFamily) corev1.IPFamily {
	if f == corev1.IPv4Protocol {
		return corev1.IPv6Protocol
	}
	return corev1.IPv4Protocol
}

// Unmoved reports whether a change leaves the addresses of a service that prefers two families as
// they are. Such a service does not get a second address because the cluster has a second family
// now, and does not lose one.
func Unmoved(s, old *corev1.Service) bool {
	prefers := func(p *corev1.IPFamilyPolicy) bool { return p == nil || *p == corev1.IPFamilyPolicyPreferDualStack }
	return old != nil && s.Spec.IPFamilyPolicy != nil && s.Spec.Type == old.Spec.Type && Addressed(s) &&
		prefers(s.Spec.IPFamilyPolicy) && prefers(old.Spec.IPFamilyPolicy) &&
		slices.Equal(s.Spec.ClusterIPs, old.Spec.ClusterIPs) && slices.Equal(s.Spec.IPFamilies, old.Spec.IPFamilies)
}

// Families sets the policy and the families of a service, for a cluster with addresses of the one or
// two families in own. It returns errors for a service that cannot have such addresses.
func Families(s, old *corev1.Service, own []corev1.IPFamily) field.ErrorList {
	if !Addressed(s) || Unmoved(s, old) {
		return nil
	}
	spec := &s.Spec
	loose := spec.ClusterIP == corev1.ClusterIPNone && len(spec.Selector) == 0 // whose endpoints somebody else makes, of any family
	if spec.IPFamilyPolicy == nil {
		policy := corev1.IPFamilyPolicySingleStack
		switch {
		case old != nil && old.Spec.IPFamilyPolicy != nil:
			policy = *old.Spec.IPFamilyPolicy
		case loose:
			policy = corev1.IPFamilyPolicyRequireDualStack
		}
		spec.IPFamilyPolicy = &policy
	}
	if errs := validateAddresses(s, old); len(errs) > 0 {
		return errs
	}
	single := *spec.IPFamilyPolicy == corev1.IPFamilyPolicySingleStack
	var errs field.ErrorList
	if old != nil {
		errs = removeSecondary(s, old, single)
	}
	refuse := func(text string) { errs = append(errs, field.Invalid(policyPath, spec.IPFamilyPolicy, text)) }
	if single && len(spec.ClusterIPs) == 2 {
		refuse("must be 'RequireDualStack' or 'PreferDualStack' when multiple cluster IPs are specified")
	}
	if single && len(spec.IPFamilies) == 2 {
		refuse("must be 'RequireDualStack' or 'PreferDualStack' when multiple IP families are specified")
	}
	errs = append(errs, inferFamilies(s, own)...)
	if len(errs) > 0 {
		return errs
	}
	if loose {
		if len(spec.IPFamilies) == 0 {
			spec.IPFamilies = []corev1.IPFamily{own[0]}
		}
		if len(spec.IPFamilies) < 2 && !single {
			spec.IPFamilies = append(spec.IPFamilies, other(spec.IPFamilies[0]))
		}
		return nil
	}
	if *spec.IPFamilyPolicy == corev1.IPFamilyPolicyRequireDualStack && len(own) < 2 {
		refuse("this cluster is not configured for dual-stack services")
	}
	for i, f := range texts.Each(&errs, spec.IPFamilies) {
		if !slices.Contains(own, f) {
			errs = append(errs, field.Invalid(familiesPath.Index(i), f, "not configured on this cluster"))
		}
	}
	if len(errs) > 0 {
		return errs
	}
	if len(spec.IPFamilies) == 0 {
		spec.IPFamilies = []corev1.IPFamily{own[0]}
	}
	if !single && len(spec.IPFamilies) == 1 && len(own) == 2 {
		spec.IPFamilies = append(spec.IPFamilies, other(spec.IPFamilies[0]))
	}
	return nil
}

// removeSecondary removes the second address or family from a service that is to have one only. A
// service whose policy asks for two must keep it.
func removeSecondary(s, old *corev1.Service, single bool) (errs field.ErrorList) {
	ips, was := &s.Spec.ClusterIPs, old.Spec.ClusterIPs
	families, had := &s.Spec.IPFamilies, old.Spec.IPFamilies
	if single {
		if slices.Equal(*ips, was) && len(was) > 1 {
			*ips = was[:1]
		}
		if slices.Equal(*families, had) && len(had) > 1 {
			*families = had[:1]
		}
		return nil
	}
	if n := len(*ips); n > 0 && n < len(was) {
		errs = append(errs, field.Invalid(policyPath, s.Spec.IPFamilyPolicy, "must be 'SingleStack' to release the secondary cluster IP"))
	}
	if n := len(*families); n > 0 && n < len(had) {
		errs = append(errs, field.Invalid(policyPath, s.Spec.IPFamilyPolicy, "must be 'SingleStack' to release the secondary IP family"))
	}
	return errs
}

// inferFamilies adds the families of the requested addresses.
func inferFamilies(s *corev1.Service, own []corev1.IPFamily) (errs field.ErrorList) {
	spec := &s.Spec
	for i, ip := range texts.Each(&errs, spec.ClusterIPs) {
		if ip == corev1.ClusterIPNone {
			break
		}
		if i < len(spec.IPFamilies) {
			continue
		}
		f := familyOf(ip)
		if !slices.Contains(own, f) {
			errs = append(errs, field.Invalid(ipsPath.Index(i), spec.ClusterIPs, string(f)+" is not configured on this cluster"))
			continue
		}
		spec.IPFamilies = append(spec.IPFamilies, f)
	}
	return errs
}

// validateAddresses checks the cluster IPs of a service, its families and their policy.
func validateAddresses(s, old *corev1.Service) field.ErrorList {
	if !Addressed(s) {
		return nil
	}
	var errs field.ErrorList
	spec := &s.Spec
	ips := spec.ClusterIPs
	wrong := func(text string) { errs = append(errs, field.Invalid(ipsPath, ips, text)) }
	switch {
	case spec.ClusterIP == "" && len(ips) > 0:
		wrong("must be empty when `clusterIP` is not specified")
	case spec.ClusterIP != "" && len(ips) == 0:
		errs = append(errs, field.Required(ipsPath, ""))
	case spec.ClusterIP != "" && ips[0] != spec.ClusterIP:
		wrong("first value must match `clusterIP`")
	}
	seen := sets.Set[corev1.IPFamily]{}
	for i, f := range texts.Each(&errs, spec.IPFamilies) {
		errs = append(errs, oneOf(familiesPath.Index(i), f, corev1.IPv4Protocol, corev1.IPv6Protocol)...)
		if seen.Has(f) {
			errs = append(errs, field.Duplicate(familiesPath.Index(i), f))
		}
		seen.Insert(f)
	}
	if p := spec.IPFamilyPolicy; p != nil {
		errs = append(errs, oneOf(policyPath, *p, corev1.IPFamilyPolicyPreferDualStack, corev1.IPFamilyPolicyRequireDualStack, corev1.IPFamilyPolicySingleStack)...)
	}
	before := len(errs)
	had := sets.Set[string]{}
	if old != nil {
		had.Insert(old.Spec.ClusterIPs...)
	}
	for i, ip := range texts.Each(&errs, ips) {
		switch {
		case i == 0 && ip == corev1.ClusterIPNone && len(ips) > 1:
			wrong("'None' must be the first and only value")
		case i == 0 && ip == corev1.ClusterIPNone:
		case !had.Has(ip):
			errs = append(errs, validation.IsValidIPForLegacyField(ipsPath.Index(i), ip, true, nil)...)
		}
	}
	bad := len(errs) > before
	if len(ips) > 2 {
		wrong("may only hold up to 2 values")
	}
	if bad {
		return errs
	}
	return append(errs, validateOrder(s)...)
}

// validateOrder checks that every address has the family in the same place of the list of families.
func validateOrder(s *corev1.Service) (errs field.ErrorList) {
	ips, families := s.Spec.ClusterIPs, s.Spec.IPFamilies
	has := func(f corev1.IPFamily) bool {
		return slices.ContainsFunc(ips, func(ip string) bool { return familyOf(ip) == f })
	}
	if len(ips) > 1 && !(has(corev1.IPv4Protocol) && has(corev1.IPv6Protocol)) {
		errs = append(errs, field.Invalid(ipsPath, ips, "may specify no more than one IP for each IP family"))
	}
	if Headless(s) {
		return errs
	}
	for i := range min(len(ips), len(families)) {
		if f := families[i]; f != familyOf(ips[i]) && (f == corev1.IPv4Protocol || f == corev1.IPv6Protocol) {
			errs = append(errs, field.Invalid(ipsPath.Index(i), ips[i], fmt.Sprintf("expected an %s value as indicated by `ipFamilies[%d]`", f, i)))
		}
	}
	return errs
}

// oneOf returns an error if a value is not one of all, which are sorted.
func oneOf[T ~string](at *field.Path, value T, all ...T) field.ErrorList {
	if slices.Contains(all, value) {
		return nil
	}
	return field.ErrorList{field.NotSupported(at, value, all)}
}
