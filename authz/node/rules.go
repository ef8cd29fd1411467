package node

import (
	"slices"
	"strings"

	"github.com/keelson-io/keelson/authz"
)

// This file is what every node may do. Resources of node.go are not among it.

// everyNode is verbs, API groups ("core" is the core group) and resources.
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
	for i := range everyNode {
		r := &everyNode[i]
		if word(r.verbs, a.Verb) && word(r.groups, group) && word(r.resources, a.Resource) {
			return true
		}
	}
	return false
}

func word(list, s string) bool { return slices.Contains(strings.Fields(list), s) }
