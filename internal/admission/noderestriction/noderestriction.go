// Package noderestriction limits what nodes may write.
//
// # Model
//
// The Node authorizer lets every node create pods, update Node objects and request tokens, because
// it decides before it knows the objects. The [Step] of this package knows them: a node writes only
// its own Node, Lease, CSINode and ResourceSlices, only mirror pods that refer to no other object,
// and requests tokens and certificates only for pods that run on it. Without the Step a node reads
// any Secret: it creates a pod that mounts the Secret and is bound to the node.
//
// Only requests of nodes are checked: users system:node:NAME in the group system:nodes.
//
// # Invariants
//
//   - Decisions and texts are those of Kubernetes' admission plugin NodeRestriction with its feature
//     gates at their defaults.
//   - An update is checked as the client sent it, before the server resets what the client may not
//     change; and again if another step changed it.
//   - Objects are read as of the last acknowledged write, or later.
//
// [New] makes the Step.
//
// Source: https://kubernetes.io/docs/reference/access-authn-authz/admission-controllers/#noderestriction.
package noderestriction

import (
	"context"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-io/keelson/authz"
	"github.com/keelson-io/keelson/internal/admission"
	"github.com/keelson-io/keelson/internal/authz/node"
	"github.com/keelson-io/keelson/internal/status"
	"github.com/keelson-io/keelson/jsondoc"
)

// Name is the name of the admission plugin.
const Name = "NodeRestriction"

// Objects reads stored objects.
type Objects interface {
	// Read decodes an object into a Go value. It reports false if the object does not exist.
	Read(ctx context.Context, resource schema.GroupResource, namespace, name string, into any) (bool, error)
}

// Step checks the writes of nodes.
type Step struct {
	objects Objects
	// authz may let a node request tokens and certificates that its pods do not name.
	authz authz.Authorizer
}

// New makes a Step. The authorizer decides what nodes may request beyond what their pods name.
func New(objects Objects, z authz.Authorizer) *Step { return &Step{objects, z} }

// Mutate implements admission.Mutator. It changes nothing: upstream refuses before other steps
// change the object, and again after they have changed it.
func (s *Step) Mutate(ctx context.Context, r *admission.Request) error { return s.check(ctx, r) }

// check returns an error if a node must not make the request.
func (s *Step) check(ctx context.Context, r *admission.Request) error {
	name, isNode := node.Identity(r.User)
	if !isNode {
		return nil
	}
	if name == "" {
		return r.Forbidden(fmt.Errorf("could not determine node from user %q", r.User.Name))
	}
	check := checks[r.Version.Kind.GroupResource()]
	if check == nil {
		return nil
	}
	return check(&request{Request: r, step: s, node: name}, ctx)
}

// request is a write of a node.
type request struct {
	*admission.Request
	step *Step
	node string // the name of the node
}

// checks holds the check of each resource. Writes of other resources are left to the authorizers.
var checks = map[schema.GroupResource]func(*request, context.Context) error{
	pods:                          (*request).pod,
	nodes:                         (*request).self,
	claims:                        (*request).claim,
	{Resource: "serviceaccounts"}: (*request).serviceAccount,
	{Group: "certificates.k8s.io", Resource: "podcertificaterequests"}:     (*request).podCertificate,
	{Group: "certificates.k8s.io", Resource: "certificatesigningrequests"}: (*request).signing,
	{Group: "coordination.k8s.io", Resource: "leases"}:                     (*request).lease,
	{Group: "storage.k8s.io", Resource: "csinodes"}:                        (*request).csiNode,
	{Group: "resource.k8s.io", Resource: "resourceslices"}:                 (*request).slice,
}

var (
	pods    = schema.GroupResource{Resource: "pods"}
	nodes   = schema.GroupResource{Resource: "nodes"}
	claims  = schema.GroupResource{Resource: "persistentvolumeclaims"}
	volumes = schema.GroupResource{Resource: "persistentvolumes"}

	serviceAccounts = schema.GroupResource{Resource: "serviceaccounts"}
	drivers         = schema.GroupResource{Group: "storage.k8s.io", Resource: "csidrivers"}
)

// refuse refuses the request with a formatted reason.
func (q *request) refuse(format string, args ...any) error {
	return q.Forbidden(fmt.Errorf(format, args...))
}

// read finds an object. An absent object is an error with the singular name that client-go's
// listers use.
func (q *request) read(ctx context.Context, resource schema.GroupResource, namespace, name string, into any) error {
	found, err := q.step.objects.Read(ctx, resource, namespace, name, into)
	if err == nil && !found {
		singular := schema.GroupResource{Group: resource.Group, Resource: resource.Resource[:len(resource.Resource)-1]}
		err = status.NotFound(singular, name)
	}
	return err
}

// missing reports whether err says that an object does not exist.
func missing(err error) bool { return status.From(err).Reason == "NotFound" }

// decode decodes a document of the request. The document fits its schema.
func decode(d *jsondoc.Doc, into any) error {
	if err := json.Unmarshal(d.AppendJSON(nil, d.Root().Node), into); err != nil {
		return status.BadRequest("%v", err)
	}
	return nil
}

// both decodes the old and the new object of an update.
func (q *request) both(old, next any) error {
	if err := decode(q.Old, old); err != nil {
		return err
	}
	return decode(q.New, next)
}
