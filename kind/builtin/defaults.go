package builtin

// This file holds the defaults that depend on nothing but where they stand.

// defaults are by field, as JSON. They come on top of those that the published
// schemas have.
var defaults = map[string]string{
	"core.v1.Secret.type": `"Opaque"`,

	"rbac.v1.RoleRef.apiGroup": `"rbac.authorization.k8s.io"`,
}
