package builtin

import (
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
)

// This file describes the kinds that ask something and are not kept.

func reviewKinds() []description {
	const authentication, authorization = "authentication.k8s.io", "authorization.k8s.io"
	return []description{{
		group: authentication, kind: "TokenReview", plural: "tokenreviews", cluster: true, virtual: true,
		versions: v1[authenticationv1.TokenReview](nil),
	}, {
		group: authentication, kind: "SelfSubjectReview", plural: "selfsubjectreviews", cluster: true, virtual: true,
		versions: v1[authenticationv1.SelfSubjectReview](nil),
	}, {
		group: authorization, kind: "SubjectAccessReview", plural: "subjectaccessreviews", cluster: true, virtual: true,
		versions: v1[authorizationv1.SubjectAccessReview](nil),
	}, {
		group: authorization, kind: "SelfSubjectAccessReview", plural: "selfsubjectaccessreviews", cluster: true, virtual: true,
		versions: v1[authorizationv1.SelfSubjectAccessReview](nil),
	}, {
		group: authorization, kind: "SelfSubjectRulesReview", plural: "selfsubjectrulesreviews", cluster: true, virtual: true,
		versions: v1[authorizationv1.SelfSubjectRulesReview](nil),
	}, {
		group: authorization, kind: "LocalSubjectAccessReview", plural: "localsubjectaccessreviews", virtual: true,
		versions: v1[authorizationv1.LocalSubjectAccessReview](nil),
	}}
}

// tokenRequest is what a service account's token is asked for with.
func tokenRequest() description {
	return description{
		group: "authentication.k8s.io", kind: "TokenRequest", plural: "tokenrequests",
		versions: v1(fillTokenRequest),
	}
}

// fillTokenRequest: a token is good for an hour unless something else is asked
// for.
func fillTokenRequest(r *authenticationv1.TokenRequest) {
	if r.Spec.ExpirationSeconds == nil {
		r.Spec.ExpirationSeconds = new(int64(3600))
	}
}
