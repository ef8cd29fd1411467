package api

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-io/keelson/authn"
	"github.com/keelson-io/keelson/authz"
	"github.com/keelson-io/keelson/status"
)

// This file is who sends a request and whether they may.

// authenticate finds the user.
func authenticate(q *request) (bool, error) {
	user, err := q.h.Authn.Authenticate(q.r)
	if err != nil || user == nil {
		q.h.logger.Debug("request not authenticated", "path", q.path, "error", err)
		return false, status.Unauthorized("Unauthorized")
	}
	q.user = user
	return false, nil
}

// authorize asks whether the user may do what the request asks for.
func authorize(q *request) (bool, error) {
	return false, q.allowed(q.attributes())
}

// allowed refuses unless the authorizer allows.
func (q *request) allowed(a *authz.Attributes) error {
	decision, reason, err := q.h.Authz.Authorize(q.ctx, a)
	if decision == authz.Allow {
		return nil
	}
	if err != nil {
		q.h.logger.Warn("authorization is undecided", "path", a.Path, "user", a.User.Name, "error", err)
	}
	q.w.Header().Set("X-Content-Type-Options", "nosniff")
	return forbidden(a, reason)
}

// forbidden is the refusal in upstream's words.
func forbidden(a *authz.Attributes, reason string) error {
	who := fmt.Sprintf("User %q", a.User.Name)
	if !a.ResourceRequest {
		text := fmt.Sprintf("%s cannot %s path %q", who, a.Verb, a.Path)
		if reason != "" {
			text += ": " + reason
		}
		return status.Forbidden(schema.GroupResource{}, "", errors.New(text))
	}
	resource := a.Resource
	if a.Subresource != "" {
		resource += "/" + a.Subresource
	}
	text := fmt.Sprintf("%s cannot %s resource %q in API group %q", who, a.Verb, resource, a.Group)
	if a.Namespace != "" {
		text += fmt.Sprintf(" in the namespace %q", a.Namespace)
	} else {
		text += " at the cluster scope"
	}
	if reason != "" {
		text += ": " + reason
	}
	return status.Forbidden(schema.GroupResource{Group: a.Group, Resource: a.Resource}, a.Name, errors.New(text))
}

// Headers by which a user asks to be treated as another one.
const (
	impersonateUser  = "Impersonate-User"
	impersonateUID   = "Impersonate-Uid"
	impersonateGroup = "Impersonate-Group"
	impersonateExtra = "Impersonate-Extra-"
)

// impersonate makes the request another user's, if its headers ask for that
// and the user may impersonate everything they name.
func impersonate(q *request) (bool, error) {
	asked := false
	for name := range q.r.Header {
		asked = asked || strings.HasPrefix(name, "Impersonate-")
	}
	if !asked {
		return false, nil
	}
	target, err := q.impersonated(q.r.Header)
	if err != nil {
		return false, err
	}
	q.h.logger.Debug("request impersonates", "user", q.user.Name, "as", target.Name)
	q.user = target
	return false, nil
}

// impersonated is the user that the headers ask for, once every part of them
// has been allowed.
func (q *request) impersonated(h http.Header) (*authn.User, error) {
	target := &authn.User{Name: h.Get(impersonateUser), UID: h.Get(impersonateUID), Groups: slices.Clone(h[impersonateGroup])}
	if target.Name == "" {
		return nil, status.Internal(errors.New("requested impersonation without impersonating a user"))
	}
	may := func(group, resource, subresource, namespace, name string) error {
		a := &authz.Attributes{User: q.user, Verb: "impersonate", ResourceRequest: true, Group: group, Version: "v1", Resource: resource,
			Subresource: subresource, Namespace: namespace, Name: name, Path: q.path}
		return q.allowed(a)
	}
	account := false
	if rest, ok := strings.CutPrefix(target.Name, "system:serviceaccount:"); ok {
		if namespace, name, ok := strings.Cut(rest, ":"); ok && namespace != "" && name != "" && !strings.Contains(name, ":") {
			account = true
			if err := may("", "serviceaccounts", "", namespace, name); err != nil {
				return nil, err
			}
			if len(target.Groups) == 0 {
				target.Groups = []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace}
			}
		}
	}
	if !account {
		if err := may("", "users", "", "", target.Name); err != nil {
			return nil, err
		}
	}
	for _, g := range h[impersonateGroup] {
		if err := may("", "groups", "", "", g); err != nil {
			return nil, err
		}
	}
	if target.UID != "" {
		if err := may("authentication.k8s.io", "uids", "", "", target.UID); err != nil {
			return nil, err
		}
	}
	for name, values := range h {
		rest, ok := strings.CutPrefix(name, impersonateExtra)
		if !ok {
			continue
		}
		key := strings.ToLower(rest)
		if plain, err := url.PathUnescape(key); err == nil {
			key = plain
		}
		for _, v := range values {
			if err := may("authentication.k8s.io", "userextras", key, "", v); err != nil {
				return nil, err
			}
		}
		if target.Extra == nil {
			target.Extra = map[string][]string{}
		}
		target.Extra[key] = values
	}
	if target.Name != authn.AnonymousUser && !target.InGroup(authn.Authenticated) && !target.InGroup(authn.Unauthenticated) {
		target.Groups = append(target.Groups, authn.Authenticated)
	}
	if target.Name == authn.AnonymousUser && len(target.Groups) == 0 {
		target.Groups = []string{authn.Unauthenticated}
	}
	return target, nil
}
