package val

import "github.com/keelson-io/keelson/cel/internal/lib"

// This file makes the values of the variables for authorization checks.

// AuthorizerValue returns the value of the variable authorizer.
func AuthorizerValue(a lib.Authorizer) Value {
	return OpaqueValue(lib.Access{T: lib.AuthorizerType, By: a})
}

// ResourceAuthorizerValue returns the value of the variable authorizer.requestResource. check names
// the resource of the request.
func ResourceAuthorizerValue(a lib.Authorizer, check lib.AccessCheck) Value {
	return OpaqueValue(lib.Access{T: lib.ResourceCheckType, By: a, Check: check})
}
