package val

import "github.com/keelson-io/keelson/cel/internal/lib"

// This file makes the values that a host binds authorizers to.

// AuthorizerValue is the value of the variable authorizer.
func AuthorizerValue(a lib.Authorizer) Value {
	return OpaqueValue(lib.Access{T: lib.AuthorizerType, By: a})
}

// ResourceAuthorizerValue is the value of the variable
// authorizer.requestResource: a check for the resource of the request, which
// check names.
func ResourceAuthorizerValue(a lib.Authorizer, check lib.AccessCheck) Value {
	return OpaqueValue(lib.Access{T: lib.ResourceCheckType, By: a, Check: check})
}
