// Package authorization describes the kinds of the API group authorization.k8s.io. A create of
// these kinds is a question, and its response the answer; nothing is stored.
package authorization

import (
	authorizationv1 "k8s.io/api/authorization/v1"

	"github.com/keelson-io/keelson/internal/builtin/describe"
	"github.com/keelson-io/keelson/kind"
)

// This file describes the reviews that authorize a request without making it.

// Kinds returns the descriptions of the kinds of the group.
func Kinds() []describe.Description {
	const group = "authorization.k8s.io"
	return []describe.Description{{
		Group: group, Kind: "SubjectAccessReview", Plural: "subjectaccessreviews", ClusterScoped: true, Traits: kind.Traits{Virtual: true},
		Versions: describe.V1[authorizationv1.SubjectAccessReview](nil),
	}, {
		Group: group, Kind: "SelfSubjectAccessReview", Plural: "selfsubjectaccessreviews", ClusterScoped: true, Traits: kind.Traits{Virtual: true},
		Versions: describe.V1[authorizationv1.SelfSubjectAccessReview](nil),
	}, {
		Group: group, Kind: "SelfSubjectRulesReview", Plural: "selfsubjectrulesreviews", ClusterScoped: true, Traits: kind.Traits{Virtual: true},
		Versions: describe.V1[authorizationv1.SelfSubjectRulesReview](nil),
	}, {
		Group: group, Kind: "LocalSubjectAccessReview", Plural: "localsubjectaccessreviews", Traits: kind.Traits{Virtual: true},
		Versions: describe.V1[authorizationv1.LocalSubjectAccessReview](nil),
	}}
}
