package kind

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// This file decides which definitions are never served, because they would hide or overlap built-in
// kinds.

// reservedGroups are the groups that kube-apiserver serves by default. There, requests for such a
// group never reach custom resources, even if the group does not have the resource. The last group
// is this server's own: a user who may create custom resources named snapshots in it could create a
// snapshot of the store.
var reservedGroups = []string{
	"", "admissionregistration.k8s.io", "apiextensions.k8s.io", "apiregistration.k8s.io", "apps", "authentication.k8s.io", "authorization.k8s.io",
	"autoscaling", "batch", "certificates.k8s.io", "coordination.k8s.io", "discovery.k8s.io", "events.k8s.io", "flowcontrol.apiserver.k8s.io",
	"networking.k8s.io", "node.k8s.io", "policy", "rbac.authorization.k8s.io", "resource.k8s.io", "scheduling.k8s.io", "storage.k8s.io",
	"storagemigration.k8s.io",
	"keelson.io",
}

// Refusal is the reason why custom resources of a definition are never served. It depends only on
// fields that clients cannot change.
type Refusal struct {
	Reason, Message string // of the condition NamesAccepted

	// Left is the prefix of store keys, with a slash at the end, below which earlier releases may
	// have stored objects of the definition. It is "" if other objects can be below that prefix,
	// too.
	Left string
}

// Refuses returns why a definition with that name, group and plural is not served, nil if it is
// served. Validation refuses most such definitions; they can only be in a store that another
// program has written.
func (r *Registry) Refuses(name, group, plural string) *Refusal {
	prefix := group + "/" + plural
	refusal := &Refusal{}
	builtins := r.Load().fixed
	valid := strings.Contains(group, ".") && len(validation.IsDNS1123Subdomain(group)) == 0 && len(validation.IsDNS1035Label(plural)) == 0
	// own: only objects of this definition can be below prefix.
	own := valid && name == plural+"."+group && !slices.ContainsFunc(builtins.prefixes, func(b string) bool { return overlap(b, prefix) })
	switch {
	case builtins.groups[group] || slices.Contains(reservedGroups, group):
		refusal.Reason, refusal.Message = "GroupReserved", reservedText(group)
	case name != plural+"."+group:
		refusal.Reason, refusal.Message = "NameConflict", fmt.Sprintf("definition of %q in group %q: got name %q, want %q", plural, group, name, plural+"."+group)
	case !own:
		refusal.Reason, refusal.Message = "InvalidNames", fmt.Sprintf("group %q and plural %q cannot be those of custom resources", group, plural)
	default:
		return nil
	}
	if own {
		refusal.Left = prefix + "/"
	}
	return refusal
}

// Reserved returns why no custom resources are served in a group, "" if they are.
func Reserved(group string) string {
	if !slices.Contains(reservedGroups, group) {
		return ""
	}
	return reservedText(group)
}

// reservedText returns the message for a reserved group.
func reservedText(group string) string {
	return fmt.Sprintf("group %q is reserved for built-in kinds: no custom resources are served in it", group)
}

// overlap reports whether a key can be below both prefixes.
func overlap(a, b string) bool {
	a, b = a+"/", b+"/"
	return strings.HasPrefix(a, b) || strings.HasPrefix(b, a)
}
