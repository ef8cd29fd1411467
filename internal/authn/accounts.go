package authn

import (
	"strings"

	"k8s.io/apimachinery/pkg/api/validation"
)

// This file has the names of service accounts as users.

// Keys of extra for the objects to which a service account's token is bound.
const (
	PodName  = "authentication.kubernetes.io/pod-name"
	PodUID   = "authentication.kubernetes.io/pod-uid"
	NodeName = "authentication.kubernetes.io/node-name"
	NodeUID  = "authentication.kubernetes.io/node-uid"
)

const accountPrefix = "system:serviceaccount:"

// ServiceAccountName returns the user name of a service account.
func ServiceAccountName(namespace, name string) string { return accountPrefix + namespace + ":" + name }

// Payer returns the user to whom a request is charged: the user itself, or for a service account
// the common prefix of all service accounts of its namespace. A client that may write in a
// namespace can create any number of service accounts there, and use them all.
func Payer(user string) string {
	rest, ok := strings.CutPrefix(user, accountPrefix)
	if !ok {
		return user
	}
	namespace, _, _ := strings.Cut(rest, ":")
	return user[:len(accountPrefix)+len(namespace)]
}

// ServiceAccountGroups returns the groups of all service accounts of a namespace.
func ServiceAccountGroups(namespace string) []string {
	return []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace}
}

// ServiceAccountOf splits the user name of a service account. ok is false for other users.
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
