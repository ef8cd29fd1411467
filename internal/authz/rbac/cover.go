package rbac

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/keelson-io/keelson/internal/authn"
)

// This file prevents privilege escalation: users can only give rules that they hold themselves.

// maxSteps bounds the work of comparing rules: a role of 1.5 MB can name 10⁹ combinations.
const maxSteps = 20_000_000

// errTooMany refuses rules whose comparison needs more than maxSteps.
var errTooMany = errors.New("rules have too many combinations of groups, resources, names and verbs to be compared with those held; split them")

// ConfirmHeld returns nil if RBAC gives the user every permission of the rules, in a namespace or
// ("") in the cluster. Otherwise the error lists the permissions that the user lacks.
func (ix *Index) ConfirmHeld(user *authn.User, namespace string, rules []rbacv1.PolicyRule) error {
	held, unresolved := ix.PolicyRules(user, namespace)
	missing, err := Uncovered(held, rules)
	if err != nil {
		return err
	}
	if len(missing) == 0 {
		return nil
	}
	lines := make([]string, 0, len(missing))
	for _, r := range compact(missing) {
		lines = append(lines, describe(&r))
	}
	slices.Sort(lines)
	text := fmt.Sprintf("user %q (groups=%q) is attempting to grant RBAC permissions not currently held:\n%s",
		user.Name, user.Groups, strings.Join(listed(slices.Compact(lines)), "\n"))
	if unresolved != nil {
		text += fmt.Sprintf("; resolution errors: %v", []error{unresolved})
	}
	return errors.New(text)
}

// maxListed bounds the text of an error, in bytes.
const maxListed = 1 << 20

// listed returns as many lines as an error has room for, and a last one that counts the others.
func listed(lines []string) []string {
	size := 0
	for i, line := range lines {
		if size += len(line); size > maxListed {
			return append(lines[:i:i], fmt.Sprintf("and %d more that are not listed", len(lines)-i))
		}
	}
	return lines
}

// Uncovered returns the parts of rules that held does not cover. Each part has one verb, and one
// resource (and name) or URL.
func Uncovered(held, rules []rbacv1.PolicyRule) ([]rbacv1.PolicyRule, error) {
	u := uncovered{held: held}
	for i := range rules {
		if u.rule(&rules[i]); u.steps > maxSteps {
			return nil, errTooMany
		}
	}
	return u.missing, nil
}

// uncovered searches for the parts of rules that the held rules do not allow.
type uncovered struct {
	held    []rbacv1.PolicyRule
	missing []rbacv1.PolicyRule
	steps   int
}

// part is the smallest unit of a rule: one verb on one resource or URL.
type part struct {
	group, resource, name, verb string
	named                       bool
	url                         string // "" for a resource
	isURL                       bool
}

// rule checks every part of a rule.
func (u *uncovered) rule(r *rbacv1.PolicyRule) {
	for _, group := range r.APIGroups {
		for _, resource := range r.Resources {
			u.steps++ // counts a rule without verbs, which has no parts; validation refuses it later
			for _, verb := range r.Verbs {
				if u.steps > maxSteps {
					return
				}
				if len(r.ResourceNames) == 0 {
					u.part(part{group: group, resource: resource, verb: verb})
				}
				for _, name := range r.ResourceNames {
					if u.part(part{group: group, resource: resource, verb: verb, name: name, named: true}); u.steps > maxSteps {
						return
					}
				}
			}
			if u.steps > maxSteps {
				return
			}
		}
	}
	for _, url := range r.NonResourceURLs {
		for _, verb := range r.Verbs {
			if u.part(part{url: url, isURL: true, verb: verb}); u.steps > maxSteps {
				return
			}
		}
	}
}

// part records p unless a held rule covers it.
func (u *uncovered) part(p part) {
	for i := range u.held {
		if u.steps > maxSteps {
			return
		}
		h := &u.held[i]
		u.steps += 1 + len(h.Verbs) + len(h.APIGroups) + len(h.Resources) + len(h.ResourceNames) + len(h.NonResourceURLs)
		if p.coveredBy(h) {
			return
		}
	}
	// A part that is not covered costs its memory and its text in the error.
	u.steps += 100 + len(p.group) + len(p.resource) + len(p.name) + len(p.verb) + len(p.url)
	r := rbacv1.PolicyRule{Verbs: []string{p.verb}}
	if p.isURL {
		r.NonResourceURLs = []string{p.url}
	} else {
		r.APIGroups, r.Resources = []string{p.group}, []string{p.resource}
		if p.named {
			r.ResourceNames = []string{p.name}
		}
	}
	u.missing = append(u.missing, r)
}

// coveredBy reports whether a rule allows everything that p does.
func (p *part) coveredBy(h *rbacv1.PolicyRule) bool {
	switch {
	case !has(h.Verbs, p.verb, rbacv1.VerbAll):
		return false
	case len(h.ResourceNames) > 0 && !(p.named && slices.Contains(h.ResourceNames, p.name)):
		return false
	case p.isURL:
		return slices.ContainsFunc(h.NonResourceURLs, func(url string) bool { return urlHolds(url, p.url) })
	}
	return has(h.APIGroups, p.group, rbacv1.APIGroupAll) && p.resourceCoveredBy(h.Resources)
}

// resourceCoveredBy reports whether a rule's resources include that of p. A subresource is covered
// by */subresource.
func (p *part) resourceCoveredBy(list []string) bool {
	_, sub, hasSub := strings.Cut(p.resource, "/")
	for _, s := range list {
		if s == rbacv1.ResourceAll || s == p.resource {
			return true
		}
		if rest, ok := strings.CutPrefix(s, "*/"); hasSub && ok && rest == sub {
			return true
		}
	}
	return false
}

// urlHolds reports whether a rule's URL covers another rule's URL.
func urlHolds(held, url string) bool {
	return held == url || strings.HasSuffix(held, "*") && strings.HasPrefix(url, trimStars(held))
}

// compact joins parts that differ only in their verbs.
func compact(parts []rbacv1.PolicyRule) []rbacv1.PolicyRule {
	type target struct {
		group, resource, name string
		named                 bool
	}
	at := map[target]int{}
	var out []rbacv1.PolicyRule
	for _, p := range parts {
		if len(p.Resources) == 0 {
			out = append(out, p)
			continue
		}
		t := target{group: p.APIGroups[0], resource: p.Resources[0], named: len(p.ResourceNames) > 0}
		if t.named {
			t.name = p.ResourceNames[0]
		}
		if i, ok := at[t]; ok {
			out[i].Verbs = append(out[i].Verbs, p.Verbs...)
			continue
		}
		at[t] = len(out)
		out = append(out, p)
	}
	return out
}

// describe returns a rule in one line, in upstream's form.
func describe(r *rbacv1.PolicyRule) string {
	var parts []string
	for _, f := range []struct {
		name string
		list []string
	}{
		{"APIGroups", r.APIGroups}, {"Resources", r.Resources}, {"NonResourceURLs", r.NonResourceURLs},
		{"ResourceNames", r.ResourceNames}, {"Verbs", r.Verbs},
	} {
		if len(f.list) > 0 {
			parts = append(parts, fmt.Sprintf("%s:%q", f.name, f.list))
		}
	}
	return "{" + strings.Join(parts, ", ") + "}"
}
