package authz_test

import (
	"context"
	"fmt"

	"github.com/keelson-io/keelson/authz"
)

// A chain of own authorizers: the first one with an opinion decides.
func ExampleNewChain() {
	readOnly := authz.Func(func(_ context.Context, a *authz.Attributes) authz.Result {
		if a.Verb == "delete" {
			return authz.Result{Decision: authz.Deny, Reason: "nothing is deleted here"}
		}
		return authz.Result{}
	})
	chain := authz.NewChain(nil, authz.Named{Name: "read-only", Authorizer: readOnly}, authz.Named{Name: "everybody", Authorizer: authz.AlwaysAllow{}})
	for _, verb := range []string{"get", "delete"} {
		r := chain.Authorize(context.Background(), &authz.Attributes{User: &authz.User{Name: "jane"}, Verb: verb, Path: "/x"})
		fmt.Printf("%s: %s by %s %q\n", verb, r.Decision, r.By, r.Reason)
	}
	// Output:
	// get: allow by everybody ""
	// delete: deny by read-only "nothing is deleted here"
}
