// Package abac decides by a file of policies, one JSON object on each line.
//
// # Model
//
// A [Policy] allows a user, or the members of a group, to read or change what it names. [Load]
// reads a file once, at the start of the server. [List.Authorize] looks for the first policy that
// allows a request.
//
// # Invariants
//
//   - An empty field matches the empty value, * matches every value. A policy
//     that names neither user nor group allows nobody anything.
//   - The authorizer never denies.
//
// Source: https://kubernetes.io/docs/reference/access-authn-authz/abac/.
package abac

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/keelson-io/keelson/authz"
	"github.com/keelson-io/keelson/internal/authn"
)

// Policy is one line of a file.
type Policy struct {
	User            string `json:"user"`
	Group           string `json:"group"`
	Readonly        bool   `json:"readonly"` // get, list and watch only
	APIGroup        string `json:"apiGroup"`
	Resource        string `json:"resource"`
	Namespace       string `json:"namespace"`
	NonResourcePath string `json:"nonResourcePath"`
}

// List holds the policies of a file, in order.
type List []Policy

// Load reads a file.
func Load(path string, logger *slog.Logger) (List, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return read(file, path, logger)
}

// read decodes the lines. Objects without apiVersion and kind have the deprecated format that
// preceded versions.
func read(r io.Reader, path string, logger *slog.Logger) (List, error) {
	list := List{}
	lines := bufio.NewScanner(r) // up to 64 KiB each
	old := 0
	for n := 1; lines.Scan(); n++ {
		line := bytes.TrimSpace(lines.Bytes())
		if len(line) == 0 || line[0] == '#' {
			continue
		}
		p, versioned, err := parse(line)
		if err != nil {
			return nil, fmt.Errorf("error reading policy file %s, line %d: %s: %w", path, n, lines.Bytes(), err)
		}
		if !versioned {
			old++
		}
		list = append(list, p)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("error reading policy file %s: %w", path, err)
	}
	if old > 0 {
		logger.Warn("policy file contains unversioned rules", "path", path, "rules", old)
	}
	return list, nil
}

var (
	v1beta1 = schema.GroupVersion{Group: "abac.authorization.kubernetes.io", Version: "v1beta1"}
	v0      = schema.GroupVersion{Group: v1beta1.Group, Version: "v0"} // the version of lines without one
)

// parse decodes a line. It refuses other versions; names of fields are case-sensitive.
func parse(line []byte) (p Policy, versioned bool, err error) {
	var meta struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
	}
	if err := json.Unmarshal(line, &meta); err != nil {
		return p, false, fmt.Errorf("couldn't get version/kind; json parse error: %w", err)
	}
	gv, err := schema.ParseGroupVersion(meta.APIVersion)
	if err != nil {
		return p, false, err
	}
	versioned = !gv.Empty() && meta.Kind != ""
	if gv.Empty() {
		gv = v0
	}
	switch {
	case gv == v1beta1 && meta.Kind == "Policy":
		var whole struct {
			Spec Policy `json:"spec"`
		}
		err := utiljson.Unmarshal(line, &whole)
		if p = whole.Spec; p.User == "*" || p.Group == "*" {
			p.User, p.Group = "", authn.Authenticated
		}
		return p, versioned, err
	case gv == v1beta1 && meta.Kind == "":
		return p, false, errors.New("converting (v1beta1.Policy) to (v0.Policy): unknown conversion")
	case gv == v0 && (meta.Kind == "Policy" || meta.Kind == ""):
		err := utiljson.Unmarshal(line, &p)
		return unversioned(p), versioned, err
	}
	return p, false, runtime.NewNotRegisteredErrForKind("abac", gv.WithKind(cmp.Or(meta.Kind, "Policy")))
}

// unversioned converts a policy of the old format, in which an absent field matches every value.
func unversioned(p Policy) Policy {
	if p.User == "" && p.Group == "" || p.User == "*" || p.Group == "*" {
		p.User, p.Group = "", authn.Authenticated
	}
	p.APIGroup, p.NonResourcePath = "*", ""
	if p.Namespace == "" && p.Resource == "" {
		p.NonResourcePath = "*"
	}
	if p.Namespace == "" {
		p.Namespace = "*"
	}
	if p.Resource == "" {
		p.Resource = "*"
	}
	return p
}

// Authorize allows the request if a policy does.
func (l List) Authorize(_ context.Context, a *authz.Attributes) authz.Result {
	for i := range l {
		if l[i].allows(a) {
			return authz.Result{Decision: authz.Allow}
		}
	}
	return authz.Result{Reason: "No policy matched."}
}

// allows reports whether the policy allows the request.
func (p *Policy) allows(a *authz.Attributes) bool {
	if !p.isFor(a.User) || p.Readonly && !a.IsReadOnly() {
		return false
	}
	if a.ResourceRequest {
		return names(p.Namespace, a.Namespace) && names(p.Resource, a.Resource) && names(p.APIGroup, a.Group)
	}
	if names(p.NonResourcePath, a.Path) {
		return true
	}
	return strings.HasSuffix(p.NonResourcePath, "*") && strings.HasPrefix(a.Path, strings.TrimRight(p.NonResourcePath, "*"))
}

// names reports whether a field of a policy matches a value.
func names(pattern, s string) bool { return pattern == "*" || pattern == s }

// isFor reports whether the policy is for a user: the user has the name and the group that the
// policy gives, if it gives them.
func (p *Policy) isFor(u *authn.User) bool {
	if p.User == "" && p.Group == "" {
		return false
	}
	return (p.User == "" || p.User == u.Name) && (p.Group == "" || u.InGroup(p.Group))
}

// RulesFor returns the policies for a user as rules.
func (l List) RulesFor(_ context.Context, user *authn.User, namespace string) authz.Rules {
	var out authz.Rules
	for i := range l {
		p := &l[i]
		if !p.isFor(user) || !names(p.Namespace, namespace) {
			continue
		}
		verbs := []string{"*"}
		if p.Readonly {
			verbs = []string{"get", "list", "watch"}
		}
		if p.Resource != "" {
			out.Resource = append(out.Resource, authorizationv1.ResourceRule{Verbs: verbs, APIGroups: []string{p.APIGroup}, Resources: []string{p.Resource}})
		}
		if p.NonResourcePath != "" {
			out.NonResource = append(out.NonResource, authorizationv1.NonResourceRule{Verbs: verbs, NonResourceURLs: []string{p.NonResourcePath}})
		}
	}
	return out
}
