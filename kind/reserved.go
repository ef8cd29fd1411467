package kind

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// This file decides which definitions are never served, because their kinds
// would stand where built-in kinds are.

// reservedGroups are the groups that kube-apiserver serves by default. There a
// request for any version of such a group never reaches custom resources, whether
// the group has the resource or not. The last one is this server's own: who may
// create a custom resource named snapshots there could take a snapshot of the store.
var reservedGroups = []string{
	"", "admissionregistration.k8s.io", "apiextensions.k8s.io", "apiregistration.k8s.io", "apps", "authentication.k8s.io", "authorization.k8s.io",
	"autoscaling", "batch", "certificates.k8s.io", "coordination.k8s.io", "discovery.k8s.io", "events.k8s.io", "flowcontrol.apiserver.k8s.io",
	"networking.k8s.io", "node.k8s.io", "policy", "rbac.authorization.k8s.io", "resource.k8s.io", "scheduling.k8s.io", "storage.k8s.io",
	"storagemigration.k8s.io",
	"keelson.io",
}

// Refusal is why custom resources of a definition are never served. Nothing that
// clients may change in the definition changes that.
type Refusal struct {
	Reason, Message string // of the condition NamesAccepted

	// Left is the prefix of store keys, with a slash at the end, below which
	// earlier releases stored objects of the definition. It is "" if keys below it
	// can be those of anything else.
	Left string
}

// Refuses returns why the kind of a definition with that name, group and plural
// is not served, nil if it is. Clients cannot make most of these definitions;
// they get into a store by other ways.
func (r *Registry) Refuses(name, group, plural string) *Refusal {
	prefix := group + "/" + plural
	refusal := &Refusal{}
	builtins := r.Load().fixed
	valid := strings.Contains(group, ".") && len(validation.IsDNS1123Subdomain(group)) == 0 && len(validation.IsDNS1035Label(plural)) == 0
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

// Reserved returns why no custom resources are served in a group, "" if they may be.
func Reserved(group string) string {
	if !slices.Contains(reservedGroups, group) {
		return ""
	}
	return reservedText(group)
}

func reservedText(group string) string {
	return fmt.Sprintf("group %q is reserved for built-in kinds: no custom resources are served in it", group)
}

// overlap reports whether keys below one of the prefixes can be below the other.
func overlap(a, b string) bool {
	a, b = a+"/", b+"/"
	return strings.HasPrefix(a, b) || strings.HasPrefix(b, a)
}
