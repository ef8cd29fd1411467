// Package node decides what kubelets may do.
//
// # Model
//
// A node is a user system:node:NAME in the group system:nodes. Every node may do what rules.go
// lists. Some kinds of objects it may only read or change if its pods need them. A [Graph] holds
// these relations between objects and nodes.
//
// # Invariants
//
//   - The authorizer never denies: roles can allow more.
//   - The reason of a refusal says, in upstream's words, what the node could
//     have done instead.
//   - The graph follows the cache. A decision takes a read lock, and does not
//     take longer if there are more pods.
//
// Source: https://kubernetes.io/docs/reference/access-authn-authz/node/.
package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-io/keelson/authz"
	"github.com/keelson-io/keelson/internal/authn"
)

// The prefix and the group of nodes as users.
const (
	Group  = "system:nodes"
	Prefix = "system:node:"
)

// Authorizer decides what nodes may do. If Graph is nil, no object is related to any node.
type Authorizer struct{ Graph *Graph }

// Identity reports whether a user is a node, and returns the node's name. The name is "" if the
// user name has none.
func Identity(u *authn.User) (name string, ok bool) {
	name, ok = strings.CutPrefix(u.Name, Prefix)
	if !ok || !u.InGroup(Group) {
		return "", false
	}
	return name, true
}

// Authorize allows what a node needs. It has no opinion about other users.
func (z *Authorizer) Authorize(_ context.Context, a *authz.Attributes) authz.Result {
	node, ok := Identity(a.User)
	switch {
	case !ok:
		return authz.Result{}
	case node == "":
		return no("unknown node for user %q", a.User.Name)
	}
	if a.ResourceRequest {
		if decide := special[schema.GroupResource{Group: a.Group, Resource: a.Resource}]; decide != nil {
			return decide(&request{a, z, node})
		}
	}
	if allowedToAll(a) {
		return yes
	}
	return authz.Result{}
}

// RulesFor returns no rules. For nodes, it marks the list as incomplete.
func (z *Authorizer) RulesFor(_ context.Context, user *authn.User, _ string) authz.Rules {
	if _, ok := Identity(user); ok {
		return authz.Rules{Incomplete: true, Err: errors.New("node authorizer does not support user rule resolution")}
	}
	return authz.Rules{}
}

var yes = authz.Result{Decision: authz.Allow}

// no returns no opinion with a formatted reason.
func no(format string, args ...any) authz.Result {
	return authz.Result{Reason: fmt.Sprintf(format, args...)}
}

// request is the request of a node.
type request struct {
	*authz.Attributes
	z    *Authorizer
	node string
}

// core returns a resource of the core group.
func core(resource string) schema.GroupResource { return schema.GroupResource{Resource: resource} }

// special holds the checks of resources that a node may use only for itself or its pods.
var special = map[schema.GroupResource]func(*request) authz.Result{
	core("secrets"):                (*request).readOne,
	core("configmaps"):             (*request).readOne,
	core("persistentvolumeclaims"): (*request).claim,
	core("persistentvolumes"):      (*request).get,
	core("serviceaccounts"):        (*request).serviceAccount,
	core("nodes"):                  (*request).self,
	core("pods"):                   (*request).pod,
	{Group: "resource.k8s.io", Resource: "resourceclaims"}:             (*request).get,
	{Group: "storage.k8s.io", Resource: "volumeattachments"}:           (*request).get,
	{Group: "coordination.k8s.io", Resource: "leases"}:                 (*request).lease,
	{Group: "storage.k8s.io", Resource: "csinodes"}:                    (*request).csiNode,
	{Group: "resource.k8s.io", Resource: "resourceslices"}:             (*request).slice,
	{Group: "certificates.k8s.io", Resource: "podcertificaterequests"}: (*request).certificate,
}

// verbIn reports whether the verb is one of verbs.
func (q *request) verbIn(verbs ...string) bool { return slices.Contains(verbs, q.Verb) }

// related allows a request for one object that is related to the node.
func (q *request) related() authz.Result {
	if q.Name == "" {
		return no("No Object name found")
	}
	return q.connected()
}

// connected allows a request for an object that is related to the node, whether it has a name or
// not.
func (q *request) connected() authz.Result {
	if q.z.Graph != nil && q.z.Graph.Related(q.node, schema.GroupResource{Group: q.Group, Resource: q.Resource}, q.Namespace, q.Name) {
		return yes
	}
	return no("no relationship found between node '%s' and this object", q.node)
}

// ofNode reports whether the field selector restricts spec.nodeName to the node.
func (q *request) ofNode() bool {
	list, _ := q.FieldRequirements()
	return slices.ContainsFunc(list, func(r metav1.FieldSelectorRequirement) bool {
		return r.Key == "spec.nodeName" && r.Operator == metav1.FieldSelectorOpIn && r.Values[0] == q.node
	})
}

// get allows to get a related object, but not to list or watch.
func (q *request) get() authz.Result {
	switch {
	case q.Verb != "get":
		return no("can only get individual resources of this type")
	case q.Subresource != "":
		return no("cannot get subresource")
	}
	return q.related()
}

// readOne allows to get, list and watch one related object of a namespace. A list of one object is
// a list with a field selector on its name.
func (q *request) readOne() authz.Result {
	switch {
	case !q.verbIn("get", "list", "watch"):
		return no("can only read resources of this type")
	case q.Subresource != "":
		return no("cannot read subresource")
	case q.Namespace == "":
		return no("can only read namespaced object of this type")
	}
	return q.related()
}

// claim allows to get a related PersistentVolumeClaim and to update its status.
func (q *request) claim() authz.Result {
	if q.Subresource != "status" {
		return q.get()
	}
	if !q.verbIn("update", "patch") {
		return no("can only get/update/patch this type")
	}
	return q.related()
}

// serviceAccount allows to read related service accounts and to create tokens for them.
func (q *request) serviceAccount() authz.Result {
	switch {
	case q.Verb == "get" && q.Subresource == "":
		return q.readOne()
	case q.Verb != "create" || q.Name == "":
		return no("can only create tokens for individual service accounts")
	case q.Subresource != "token":
		return no("can only create token subresource of serviceaccount")
	}
	return q.connected()
}

// lease allows a node its own lease in kube-node-lease. The name of a new lease is checked by
// NodeRestriction, because the URL of a POST does not have it.
func (q *request) lease() authz.Result {
	switch {
	case !q.verbIn("get", "create", "update", "patch", "delete"):
		return no("can only get, create, update, patch, or delete a node lease")
	case q.Namespace != "kube-node-lease":
		return no(`can only access leases in the "kube-node-lease" system namespace`)
	case q.Verb != "create" && q.Name != q.node:
		return no("can only access node lease with the same name as the requesting node")
	}
	return yes
}

// csiNode allows a node its own CSINode. As for leases, NodeRestriction checks the name of a new
// one.
func (q *request) csiNode() authz.Result {
	switch {
	case q.Subresource == "status":
		return no("CSINode status access requires CSIVolumeHealth feature")
	case q.Subresource != "":
		return no("cannot authorize CSINode subresources")
	case !q.verbIn("get", "create", "update", "patch", "delete"):
		return no("can only get, create, update, patch, or delete a CSINode")
	case q.Verb != "create" && q.Name != q.node:
		return no("can only access CSINode with the same name as the requesting node")
	}
	return yes
}

// slice allows related ResourceSlices, and lists and deletes of those that name the node.
func (q *request) slice() authz.Result {
	if q.Subresource != "" {
		return no("cannot authorize ResourceSlice subresources")
	}
	switch q.Verb {
	case "create":
		return yes
	case "get", "update", "patch", "delete":
		return q.related()
	case "watch", "list", "deletecollection":
		if q.ofNode() {
			return yes
		}
		return no("can only list/watch/deletecollection resourceslices with nodeName field selector")
	}
	return no("only the following verbs are allowed for a ResourceSlice: get, watch, list, create, update, patch, delete, deletecollection")
}

// certificate allows PodCertificateRequests: to create them, which NodeRestriction restricts
// further, and to read related ones.
func (q *request) certificate() authz.Result {
	if q.Subresource != "" {
		return no("nodes may not access the status subresource of PodCertificateRequests")
	}
	switch q.Verb {
	case "create":
		return yes
	case "get":
		return q.related()
	case "list", "watch":
		if q.ofNode() {
			return yes
		}
		return no("can only list/watch podcertificaterequests with nodeName field selector")
	}
	return no("nodes may not %s podcertificaterequests", q.Verb)
}

// self checks requests for Node objects: a node reads only its own.
func (q *request) self() authz.Result {
	switch {
	case q.Subresource == "" && q.verbIn("create", "update", "patch"), q.Subresource == "status" && q.verbIn("update", "patch"):
		return yes
	case q.Subresource != "" || !q.verbIn("get", "list", "watch"):
		return authz.Result{}
	case q.Name == q.node:
		return yes
	case q.Name == "":
		return no("node '%s' cannot read all nodes, only its own Node object", q.node)
	}
	return no("node '%s' cannot read '%s', only its own Node object", q.node, q.Name)
}

// pod allows to read the pods of the node, to create mirror pods and to delete pods, which
// NodeRestriction restricts further, and to update their statuses.
func (q *request) pod() authz.Result {
	switch q.Subresource {
	case "":
		switch q.Verb {
		case "get":
			return q.get()
		case "list", "watch":
			if q.ofNode() {
				return yes
			}
			if q.Name != "" {
				return q.related()
			}
			return no("can only list/watch pods with spec.nodeName field selector")
		case "create", "delete":
			return yes
		}
	case "status":
		if q.verbIn("update", "patch") {
			return yes
		}
	case "eviction":
		if q.Verb == "create" {
			return yes
		}
	}
	return authz.Result{}
}
