package authn

import (
	"strings"

	"k8s.io/apimachinery/pkg/api/validation"
)

// This file is how service accounts are called as users.

// Keys of the extra of a service account's user, by what its token is bound to.
const (
	PodName  = "authentication.kubernetes.io/pod-name"
	PodUID   = "authentication.kubernetes.io/pod-uid"
	NodeName = "authentication.kubernetes.io/node-name"
	NodeUID  = "authentication.kubernetes.io/node-uid"
)

const accountPrefix = "system:serviceaccount:"

// ServiceAccountName is the user name of a service account.
func ServiceAccountName(namespace, name string) string { return accountPrefix + namespace + ":" + name }

// ServiceAccountGroups are the groups of every service account of a namespace.
func ServiceAccountGroups(namespace string) []string {
	return []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace}
}

// ServiceAccountOf is the service account that a user of a name is.
func ServiceAccountOf(user string) (namespace, name string, ok bool) {
	rest, ok := strings.CutPrefix(user, accountPrefix)
	if !ok {
		return "", "", false
	}
	namespace, name, ok = strings.Cut(rest, ":")
	if !ok || strings.Contains(name, ":") || len(validation.ValidateNamespaceName(namespace, false)) > 0 ||
		len(validation.ValidateServiceAccountName(name, false)) > 0 {
		return "", "", false
	}
	return namespace, name, true
}
