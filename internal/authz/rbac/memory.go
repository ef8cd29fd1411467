package rbac

import (
	"bytes"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
)

// This file keeps what an index holds small, and says how much that is.

// compactSubjects returns the subjects in a list that has room for no more, with shared texts for what they have in common.
func compactSubjects(subjects []rbacv1.Subject) []rbacv1.Subject {
	out := slices.Clone(subjects)
	for i := range out {
		s := &out[i]
		for _, known := range []string{rbacv1.UserKind, rbacv1.GroupKind, rbacv1.ServiceAccountKind} {
			if s.Kind == known {
				s.Kind = known
			}
		}
		if s.APIGroup == rbacv1.GroupName {
			s.APIGroup = rbacv1.GroupName
		}
		if i > 0 && s.Namespace == out[i-1].Namespace {
			s.Namespace = out[i-1].Namespace
		}
	}
	return slices.Clip(out)
}

// compactRules returns the rules in lists that have room for no more.
func compactRules(rules []rbacv1.PolicyRule) []rbacv1.PolicyRule {
	out := compactList(rules)
	for i := range out {
		r := &out[i]
		r.Verbs, r.APIGroups, r.Resources = compactList(r.Verbs), compactList(r.APIGroups), compactList(r.Resources)
		r.ResourceNames, r.NonResourceURLs = compactList(r.ResourceNames), compactList(r.NonResourceURLs)
	}
	return out
}

// compactList returns a list that has room for no more.
func compactList[T any](list []T) []T {
	if len(list) == cap(list) {
		return list
	}
	out := make([]T, len(list))
	copy(out, list)
	return out
}

// Bytes that an index has for each part of what is stored, measured with a million of them: for a subject (its text, its key, its entry
// and its grant, and the reason that is kept if the binding is short), for each word of a rule, with its place in the role's table, and
// for each selector of an aggregation rule.
const (
	subjectBytes  = 350
	wordBytes     = 48
	selectorBytes = 300
)

// BindingMemory returns how many bytes are kept for a RoleBinding or ClusterRoleBinding, by its stored JSON.
func BindingMemory(raw []byte) int64 {
	return int64(len(raw)) + subjectBytes*int64(bytes.Count(raw, []byte(`"kind"`)))
}

// RoleMemory returns how many bytes are kept for a Role or ClusterRole, by its stored JSON.
func RoleMemory(raw []byte) int64 {
	words, selectors := bytes.Count(raw, []byte(`"`))/2, bytes.Count(raw, []byte(`"match`))
	return int64(len(raw)) + wordBytes*int64(words) + selectorBytes*int64(selectors)
}
