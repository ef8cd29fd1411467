package node

import (
	"slices"
	"strings"

	"github.com/keelson-io/keelson/authz"
)

// This file lists what every node may do, apart from the resources that node.go checks by name.

// everyNode holds lists of verbs, API groups ("core" is the core group) and resources, separated by
// spaces.
var everyNode = []struct{ verbs, groups, resources string }{
	{"create", "authentication.k8s.io", "tokenreviews"},
	{"create", "authorization.k8s.io", "subjectaccessreviews localsubjectaccessreviews"},
	{"get list watch", "core", "services"},
	{"create update patch", "core events.k8s.io", "events"},
	{"get", "core", "endpoints"},
	{"create get list watch", "certificates.k8s.io", "certificatesigningrequests"},
	{"get list watch", "certificates.k8s.io", "clustertrustbundles"},
	{"get list watch", "storage.k8s.io", "csidrivers"},
	{"get list watch", "node.k8s.io", "runtimeclasses"},
}

// allowedToAll reports whether everyNode allows the request.
func allowedToAll(a *authz.Attributes) bool {
	if !a.ResourceRequest || a.Subresource != "" {
		return false
	}
	group := a.Group
	if group == "" {
		group = "core"
	} else if group == "core" {
		return false
	}
	for _, r := range everyNode {
		if word(r.verbs, a.Verb) && word(r.groups, group) && word(r.resources, a.Resource) {
			return true
		}
	}
	return false
}

// word reports whether s is one of the words of list.
func word(list, s string) bool { return slices.Contains(strings.Fields(list), s) }
