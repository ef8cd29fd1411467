package rbac

import (
	"fmt"
	"log/slog"

	"github.com/keelson-io/keelson/authz"
)

// This file logs requests that no rule allows.

// levelRefused corresponds to verbosity 5 upstream.
const levelRefused = slog.Level(-5)

// refused describes a request that no rule allows, in upstream's words.
func refused(a *authz.Attributes) string {
	operation := fmt.Sprintf("%q nonResourceURL %q", a.Verb, a.Path)
	if a.ResourceRequest {
		resource := a.Resource
		if a.Group != "" {
			resource += "." + a.Group
		}
		if a.Subresource != "" {
			resource += "/" + a.Subresource
		}
		operation = `"` + a.Verb + `" resource "` + resource + `"`
		if a.Name != "" {
			operation += ` named "` + a.Name + `"`
		}
	}
	scope := "cluster-wide"
	if a.Namespace != "" {
		scope = fmt.Sprintf("in namespace %q", a.Namespace)
	}
	return fmt.Sprintf("RBAC: no rules authorize user %q with groups %q to %s %s", a.User.Name, a.User.Groups, operation, scope)
}
