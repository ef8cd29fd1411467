// Package authentication describes the kinds of the API group authentication.k8s.io. A create of
// these kinds is a question, and its response the answer; nothing is stored.
package authentication

import (
	authenticationv1 "k8s.io/api/authentication/v1"

	"github.com/keelson-io/keelson/internal/builtin/describe"
	"github.com/keelson-io/keelson/kind"
)

// This file describes the reviews that authenticate a token or describe the user of the request.

// Kinds returns the descriptions of the kinds of the group.
func Kinds() []describe.Description {
	const group = "authentication.k8s.io"
	return []describe.Description{{
		Group: group, Kind: "TokenReview", Plural: "tokenreviews", ClusterScoped: true, Traits: kind.Traits{Virtual: true},
		Versions: describe.V1[authenticationv1.TokenReview](nil),
	}, {
		Group: group, Kind: "SelfSubjectReview", Plural: "selfsubjectreviews", ClusterScoped: true, Traits: kind.Traits{Virtual: true},
		Versions: describe.V1[authenticationv1.SelfSubjectReview](nil),
	}}
}
