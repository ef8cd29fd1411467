package jwt

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/keelson-io/keelson/cel"
	"github.com/keelson-io/keelson/internal/authn"
)

// This file maps claims to users.

// claims are the claims of a token.
type claims map[string]json.RawMessage

// read decodes a claim into a Go value.
func (c claims) read(name string, into any) error {
	text, ok := c[name]
	if !ok {
		return errors.New("claim not present")
	}
	return json.Unmarshal(text, into)
}

// value returns the claims as a CEL value. A claim is decoded when an expression reads it.
func (c claims) value() cel.Value {
	return cel.LazyObject(slices.Sorted(maps.Keys(c)), func(name string) (cel.Value, error) {
		var value any
		if err := json.Unmarshal(c[name], &value); err != nil {
			return cel.Value{}, fmt.Errorf("claim %q failed to unmarshal: %w", name, err)
		}
		v, err := cel.FromGo(value)
		if err != nil {
			return cel.Value{}, err
		}
		return cel.UnescapedNames(v), nil
	})
}

// user maps the claims to a user and evaluates all rules.
func (i *issuer) user(ctx context.Context, c claims) (*authn.User, error) {
	if err := i.resolver.expand(ctx, c); err != nil {
		return nil, fmt.Errorf("oidc: could not expand distributed claims: %w", err)
	}
	m := &mapper{issuer: i, claims: c, ctx: ctx}
	if i.program.claims() {
		m.vars = cel.Vars{"claims": c.value()}
	}
	u := &authn.User{}
	for _, read := range []func(*authn.User) error{m.name, m.groups, m.uid, m.extra, m.size, m.required, m.claimRules, m.userRules} {
		if err := read(u); err != nil {
			return nil, err
		}
	}
	return u, nil
}

// mapper maps the claims of one token.
type mapper struct {
	*issuer
	claims claims
	ctx    context.Context
	vars   cel.Vars

	account cel.Account // shared by all expressions of the token
}

// eval evaluates an expression over the claims.
func (m *mapper) eval(x *cel.Expression) (cel.Value, error) { return m.over(x, m.vars) }

// costLimit is the CEL cost limit of one evaluation, as upstream.
const costLimit = 1_000_000

// over evaluates an expression with the given variables.
func (m *mapper) over(x *cel.Expression, vars cel.Vars) (cel.Value, error) {
	v, _, err := x.EvalOn(m.ctx, vars, costLimit, &m.account)
	if err != nil {
		return v, fmt.Errorf("expression '%s' resulted in error: %w", x.Source(), err)
	}
	return v, nil
}

// name sets the user's name, which must not be empty. With the claim email, the claim
// email_verified must not be false.
func (m *mapper) name(u *authn.User) error {
	if x := m.username; x != nil {
		v, err := m.eval(x)
		if err == nil && v.Kind() != cel.KindString {
			err = errors.New("username claim expression must return a string")
		}
		if err != nil {
			return fmt.Errorf("oidc: error evaluating username claim expression: %w", err)
		}
		if u.Name = v.Str(); u.Name == "" {
			return errors.New("oidc: empty username via CEL expression is not allowed")
		}
		return nil
	}
	mapping := &m.ClaimMappings.Username
	if err := m.claims.read(mapping.Claim, &u.Name); err != nil {
		return fmt.Errorf("oidc: parse username claims %q: %w", mapping.Claim, err)
	}
	if mapping.Claim == "email" && m.claims["email_verified"] != nil {
		// If the claim is absent, the address counts as verified, as upstream.
		verified := false
		if err := m.claims.read("email_verified", &verified); err != nil {
			return fmt.Errorf("oidc: parse 'email_verified' claim: %w", err)
		}
		if !verified {
			return errors.New("oidc: email not verified")
		}
	}
	u.Name = mapping.prefixed(u.Name)
	return nil
}

// prefixed returns s with the configured prefix.
func (m *Mapping) prefixed(s string) string {
	if m.Prefix == nil {
		return s
	}
	return *m.Prefix + s
}

// groups sets the user's groups. The claim may be a string or a list.
func (m *mapper) groups(u *authn.User) error {
	mapping := &m.ClaimMappings.Groups
	if mapping.Claim != "" && m.claims[mapping.Claim] != nil {
		var list texts
		if err := m.claims.read(mapping.Claim, &list); err != nil {
			return fmt.Errorf("oidc: parse groups claim %q: %w", mapping.Claim, err)
		}
		for _, group := range list {
			u.Groups = append(u.Groups, mapping.prefixed(group))
		}
		return nil
	}
	if m.issuer.program.groups == nil {
		return nil
	}
	v, err := m.eval(m.issuer.program.groups)
	if err == nil {
		u.Groups, err = list(v)
	}
	if err != nil {
		return fmt.Errorf("oidc: error evaluating group claim expression: %w", err)
	}
	return nil
}

// texts decodes a string or a list of strings.
type texts []string

// UnmarshalJSON implements json.Unmarshaler.
func (t *texts) UnmarshalJSON(data []byte) error {
	var list []string
	if json.Unmarshal(data, &list) == nil {
		*t = list
		return nil
	}
	var one string
	if err := json.Unmarshal(data, &one); err != nil {
		return err
	}
	*t = texts{one}
	return nil
}

// list returns the strings in an expression's result, without empty ones.
func list(v cel.Value) ([]string, error) {
	wrong := errors.New("expression must return a string or a list of strings")
	var items []any
	switch v.Kind() {
	case cel.KindNull:
		return nil, nil
	case cel.KindString:
		items = []any{v.Str()}
	case cel.KindList:
		all, ok := v.Go().([]any)
		if !ok {
			return nil, wrong
		}
		items = all
	default:
		return nil, wrong
	}
	var out []string
	for _, item := range items {
		text, ok := item.(string)
		if !ok {
			return nil, wrong
		}
		if text != "" {
			out = append(out, text)
		}
	}
	return out, nil
}

// uid sets the user's UID.
func (m *mapper) uid(u *authn.User) error {
	if claim := m.ClaimMappings.UID.Claim; claim != "" {
		if err := m.claims.read(claim, &u.UID); err != nil {
			return fmt.Errorf("oidc: parse uid claim %q: %w", claim, err)
		}
		return nil
	}
	if m.issuer.program.uid == nil {
		return nil
	}
	v, err := m.eval(m.issuer.program.uid)
	if err == nil && v.Kind() != cel.KindString {
		err = errors.New("uid claim expression must return a string")
	}
	if err != nil {
		return fmt.Errorf("oidc: error evaluating uid claim expression: %w", err)
	}
	u.UID = v.Str()
	return nil
}

// extra sets the user's extra. Keys without values are left out.
func (m *mapper) extra(u *authn.User) error {
	set := func(key string, values []string) {
		if len(values) == 0 {
			return
		}
		if u.Extra == nil {
			u.Extra = map[string][]string{}
		}
		u.Extra[key] = values
	}
	id := ""
	if m.claims.read("jti", &id) == nil && id != "" {
		set(authn.CredentialID, []string{"JTI=" + id})
	}
	values := make([]cel.Value, len(m.issuer.program.extra))
	for i, e := range m.issuer.program.extra {
		var err error
		if values[i], err = m.eval(e.x); err != nil {
			return err
		}
	}
	for i, e := range m.issuer.program.extra {
		texts, err := list(values[i])
		if err != nil {
			return fmt.Errorf("oidc: error evaluating extra claim expression: %s: %w", e.x.Source(), err)
		}
		set(e.key, texts)
	}
	return nil
}

// maxUser is the largest size of a user's strings together, in bytes. A token has at most 64 KiB,
// but expressions can produce much more, which every review and audit event would carry.
const maxUser = 1 << 20

// size refuses a user with more than maxUser bytes of text.
func (m *mapper) size(u *authn.User) error {
	size := len(u.Name) + len(u.UID)
	for _, g := range u.Groups {
		size += len(g)
	}
	for key, values := range u.Extra {
		for _, v := range values {
			size += len(key) + len(v)
		}
	}
	if size > maxUser {
		return fmt.Errorf("oidc: the user is larger than %d bytes", maxUser)
	}
	return nil
}

// required checks that the claims which rules require have their values.
func (m *mapper) required(*authn.User) error {
	for _, r := range m.ClaimValidationRules {
		if r.Claim == "" {
			continue
		}
		if _, ok := m.claims[r.Claim]; !ok {
			return fmt.Errorf("oidc: required claim %s not present in ID token", r.Claim)
		}
		got := ""
		if err := m.claims.read(r.Claim, &got); err != nil {
			return fmt.Errorf("oidc: parse claim %s: %w", r.Claim, err)
		}
		if got != r.RequiredValue {
			return fmt.Errorf("oidc: required claim %s value does not match. Got = %s, want = %s", r.Claim, got, r.RequiredValue)
		}
	}
	return nil
}

// claimRules evaluates the expressions over the claims.
func (m *mapper) claimRules(*authn.User) error {
	if err := m.check(m.issuer.program.claimRules, m.vars); err != nil {
		return fmt.Errorf("oidc: error evaluating claim validation expression: %w", err)
	}
	return nil
}

// userRules evaluates the expressions over the user. All other claims have been mapped by then.
func (m *mapper) userRules(u *authn.User) error {
	if len(m.issuer.program.userRules) == 0 {
		return nil
	}
	groups, extra := []any{}, map[string]any{}
	for _, g := range u.Groups {
		groups = append(groups, g)
	}
	for key, values := range u.Extra {
		list := []any{}
		for _, v := range values {
			list = append(list, v)
		}
		extra[key] = list
	}
	v, err := cel.FromGo(map[string]any{"username": u.Name, "uid": u.UID, "groups": groups, "extra": extra})
	if err == nil {
		err = m.check(m.issuer.program.userRules, cel.Vars{"user": cel.UnescapedNames(v)})
	}
	if err != nil {
		return fmt.Errorf("oidc: error evaluating user info validation rule: %w", err)
	}
	return nil
}

// check evaluates all rules, and then returns the error of the first that is false.
func (m *mapper) check(rules []rule, vars cel.Vars) error {
	values := make([]cel.Value, len(rules))
	for i, r := range rules {
		var err error
		if values[i], err = m.over(r.x, vars); err != nil {
			return err
		}
	}
	for i, r := range rules {
		if values[i].Kind() != cel.KindBool {
			return errors.New("validation expression must return a boolean")
		}
		if !values[i].Bool() {
			return fmt.Errorf("validation expression '%s' failed: %s", r.x.Source(), r.message)
		}
	}
	return nil
}
