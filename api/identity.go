package api

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/keelson-io/keelson/authn"
	"github.com/keelson-io/keelson/authz"
	"github.com/keelson-io/keelson/status"
)

// This file is who sends a request.

// authenticate finds the user.
func authenticate(q *request) (bool, error) {
	began := time.Now()
	response, err := q.h.Authn.Authenticate(q.r, q.h.Audiences)
	if err == nil && response != nil && len(response.Audiences) > 0 && len(q.h.Audiences) > 0 &&
		len(authn.Intersect(q.h.Audiences, response.Audiences)) == 0 {
		err = fmt.Errorf("unable to match the audience: %v , accepted: %v", response.Audiences, q.h.Audiences)
	}
	q.h.metrics.authn.observe(response, err, time.Since(began))
	if err != nil || response == nil {
		q.h.logger.Debug("Unable to authenticate the request", "path", q.path, "error", err)
		if errors.Is(err, authn.ErrSpace) {
			q.warn(authn.ErrSpace.Error())
		}
		return false, status.Unauthorized("Unauthorized")
	}
	q.warn(response.Warnings...)
	q.user = response.User
	return false, nil
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
