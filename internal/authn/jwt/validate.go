package jwt

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/util/cert"

	"github.com/keelson-io/keelson/cel"
	"github.com/keelson-io/keelson/internal/keysize"
)

// This file validates configurations and compiles their expressions. Texts and order of the errors
// are upstream's.

// maxIssuers is the number of issuers that a configuration may have.
const maxIssuers = 64

// Validate returns the errors of a configuration. The disallowed issuers are those of service
// account tokens.
func (c *Configuration) Validate(disallowed []string) field.ErrorList {
	_, errs := c.compile(disallowed)
	return errs
}

// compile validates a configuration and compiles the expressions of its issuers.
func (c *Configuration) compile(disallowed []string) ([]*program, field.ErrorList) {
	root := field.NewPath("jwt")
	if len(c.JWT) > maxIssuers {
		return nil, field.ErrorList{field.TooMany(root, len(c.JWT), maxIssuers)}
	}
	var errs field.ErrorList
	var programs []*program
	seen, discovery := map[string]bool{}, map[string]bool{}
	for i := range c.JWT {
		issuer, path := &c.JWT[i], root.Index(i)
		v := &validator{disallowed: disallowed, program: &program{}}
		v.issuer(&issuer.Issuer, path.Child("issuer"))
		v.claimRules(issuer.ClaimValidationRules, path.Child("claimValidationRules"))
		v.mappings(&issuer.ClaimMappings, path.Child("claimMappings"))
		v.userRules(issuer.UserValidationRules, path.Child("userValidationRules"))
		errs = append(errs, v.errs...)
		programs = append(programs, v.program)
		if seen[issuer.Issuer.URL] {
			errs = append(errs, field.Duplicate(path.Child("issuer", "url"), issuer.Issuer.URL))
		}
		seen[issuer.Issuer.URL] = true
		if d := issuer.Issuer.discoveryURL(); d != "" {
			if discovery[d] {
				errs = append(errs, field.Duplicate(path.Child("issuer", "discoveryURL"), d))
			}
			discovery[d] = true
		}
	}
	if a := c.Anonymous; a != nil && !a.Enabled && len(a.Conditions) > 0 {
		var shown []struct{ Path string } // as upstream shows them
		for _, condition := range a.Conditions {
			shown = append(shown, struct{ Path string }{condition.Path})
		}
		errs = append(errs, field.Invalid(field.NewPath("anonymous", "conditions"), shown, "enabled should be set to true when conditions are defined"))
	}
	return programs, errs
}

// discoveryURL returns the URL of the discovery document.
func (i *Identity) discoveryURL() string {
	if i.DiscoveryURL == nil {
		return ""
	}
	return *i.DiscoveryURL
}

// program holds the compiled expressions of an issuer.
type program struct {
	username, groups, uid *cel.Expression
	extra                 []keyed
	claimRules, userRules []rule
}

// keyed is the expression for the value of a key of extra.
type keyed struct {
	key string
	x   *cel.Expression
}

// rule is an expression that must be true, with the message of the refusal.
type rule struct {
	x       *cel.Expression
	message string
}

// claims reports whether any expression reads the claims.
func (p *program) claims() bool {
	return p.username != nil || p.groups != nil || p.uid != nil || len(p.extra) > 0 || len(p.claimRules) > 0
}

// The languages of expressions, built when the first one is compiled.
var (
	claimsLanguage = sync.OnceValues(func() (*cel.Language, error) { return cel.NewLanguage(cel.AuthenticationClaims()) })
	userLanguage   = sync.OnceValues(func() (*cel.Language, error) { return cel.NewLanguage(cel.AuthenticationUser()) })
)

// validator collects the errors of one issuer.
type validator struct {
	disallowed []string
	program    *program
	errs       field.ErrorList

	verified bool // an expression reads claims.email_verified
}

// invalid adds an error about a value.
func (v *validator) invalid(path *field.Path, value any, text string) {
	v.errs = append(v.errs, field.Invalid(path, value, text))
}

// required adds an error about a missing value.
func (v *validator) required(path *field.Path, text string) {
	v.errs = append(v.errs, field.Required(path, text))
}

// issuer validates the issuer's URLs and certificate authority.
func (v *validator) issuer(i *Identity, path *field.Path) {
	if i.URL == "" {
		v.required(path.Child("url"), "")
	} else {
		v.url(i.URL, v.disallowed, path.Child("url"))
	}
	if d := i.discoveryURL(); d != "" {
		at := path.Child("discoveryURL")
		if i.URL != "" && strings.TrimRight(i.URL, "/") == strings.TrimRight(d, "/") {
			v.invalid(at, d, "discoveryURL must be different from URL")
		}
		v.url(d, nil, at)
	}
	v.audiences(i, path)
	if i.CertificateAuthority != "" {
		_, err := cert.NewPoolFromBytes([]byte(i.CertificateAuthority))
		if err == nil {
			_, err = keysize.Pool([]byte(i.CertificateAuthority))
		}
		if err != nil {
			v.invalid(path.Child("certificateAuthority"), "<omitted>", err.Error())
		}
	}
	switch i.EgressSelectorType {
	case "", "controlplane", "cluster": // no egress configuration exists; see newIssuer
	default:
		v.invalid(path.Child("egressSelectorType"), i.EgressSelectorType, "egress selector must be either controlplane or cluster")
	}
}

// url validates a URL: https, without user, query and fragment, and not the name of a service
// account issuer.
func (v *validator) url(text string, disallowed []string, path *field.Path) {
	if slices.Contains(disallowed, text) {
		sorted := slices.Sorted(slices.Values(disallowed))
		v.invalid(path, text, fmt.Sprintf("URL must not overlap with disallowed issuers: %s", slices.Compact(sorted)))
	}
	u, err := url.Parse(text)
	if err != nil {
		v.invalid(path, text, err.Error())
		return
	}
	for _, c := range []struct {
		wrong bool
		text  string
	}{
		{u.Scheme != "https", "URL scheme must be https"},
		{u.User != nil, "URL must not contain a username or password"},
		{u.RawQuery != "", "URL must not contain a query"},
		{u.Fragment != "", "URL must not contain a fragment"},
	} {
		if c.wrong {
			v.invalid(path, text, c.text)
		}
	}
}

// audiences validates the audiences and the policy that matches them.
func (v *validator) audiences(i *Identity, path *field.Path) {
	at, policy := path.Child("audiences"), path.Child("audienceMatchPolicy")
	if len(i.Audiences) == 0 {
		v.required(at, fmt.Sprintf("at least one %s is required", at))
		return
	}
	seen := map[string]bool{}
	for n, a := range i.Audiences {
		if a == "" {
			v.required(at.Index(n), "")
		}
		if seen[a] {
			v.errs = append(v.errs, field.Duplicate(at.Index(n), a))
		}
		seen[a] = true
	}
	const any = "MatchAny"
	switch {
	case len(i.Audiences) > 1 && i.AudienceMatchPolicy != any:
		v.invalid(policy, i.AudienceMatchPolicy, "audienceMatchPolicy must be MatchAny for multiple audiences")
	case len(i.Audiences) == 1 && i.AudienceMatchPolicy != "" && i.AudienceMatchPolicy != any:
		v.invalid(policy, i.AudienceMatchPolicy, "audienceMatchPolicy must be empty or MatchAny for single audience")
	}
}

// claimRules validates the rules over claims.
func (v *validator) claimRules(rules []ValidationRule, path *field.Path) {
	claims, expressions := map[string]bool{}, map[string]bool{}
	for i, r := range rules {
		at := path.Index(i)
		switch {
		case r.Claim != "" && r.Expression != "":
			v.invalid(at, r.Claim, "claim and expression can't both be set")
		case r.Claim == "" && r.Expression == "":
			v.required(at, "claim or expression is required")
		case r.Claim != "":
			if r.Message != "" {
				v.invalid(at.Child("message"), r.Message, "may not be specified when claim is set")
			}
			if claims[r.Claim] {
				v.errs = append(v.errs, field.Duplicate(at.Child("claim"), r.Claim))
			}
			claims[r.Claim] = true
		default:
			if r.RequiredValue != "" {
				v.invalid(at.Child("requiredValue"), r.RequiredValue, "may not be specified when expression is set")
			}
			if expressions[r.Expression] {
				v.errs = append(v.errs, field.Duplicate(at.Child("expression"), r.Expression))
				continue
			}
			expressions[r.Expression] = true
			if x := v.expression(claimsLanguage, r.Expression, true, at.Child("expression")); x != nil {
				v.program.claimRules = append(v.program.claimRules, rule{x, r.Message})
				v.verified = v.verified || x.Selects("claims", "email_verified")
			}
		}
	}
}

// mappings validates the mappings of all user fields.
func (v *validator) mappings(m *Mappings, path *field.Path) {
	v.program.username = v.mapping(&m.Username, path.Child("username"), true)
	if x := v.program.username; x != nil {
		v.verified = v.verified || x.Selects("claims", "email_verified")
	}
	v.program.groups = v.mapping(&m.Groups, path.Child("groups"), false)
	switch {
	case m.UID.Claim != "" && m.UID.Expression != "":
		v.invalid(path.Child("uid"), "", "claim and expression can't both be set")
	case m.UID.Expression != "":
		v.program.uid = v.expression(claimsLanguage, m.UID.Expression, false, path.Child("uid", "expression"))
	}
	v.extra(m.Extra, path.Child("extra"))
	if x := v.program.username; x != nil && x.Selects("claims", "email") && !v.verified {
		v.invalid(path.Child("username", "expression"), m.Username.Expression,
			"claims.email_verified must be used in claimMappings.username.expression or claimMappings.extra[*].valueExpression or claimValidationRules[*].expression when claims.email is used in claimMappings.username.expression")
	}
}

// mapping validates a claim with a prefix, or an expression.
func (v *validator) mapping(m *Mapping, path *field.Path, needed bool) *cel.Expression {
	switch {
	case m.Expression != "" && m.Claim != "":
		v.invalid(path, "", "claim and expression can't both be set")
	case m.Expression == "" && m.Claim == "":
		if needed {
			v.required(path, "claim or expression is required")
		}
	case m.Expression != "":
		if m.Prefix != nil {
			v.invalid(path.Child("prefix"), *m.Prefix, "may not be specified when expression is set")
		}
		x := v.expression(claimsLanguage, m.Expression, false, path.Child("expression"))
		if m.Prefix != nil {
			return nil
		}
		return x
	case m.Prefix == nil:
		v.required(path.Child("prefix"), "prefix is required when claim is set. It can be set to an empty string to disable prefixing")
	}
	return nil
}

// extra validates the mappings of extra, whose keys must be unique domain-prefixed paths.
func (v *validator) extra(list []ExtraMapping, path *field.Path) {
	seen := map[string]bool{}
	for i, m := range list {
		at := path.Index(i)
		v.errs = append(v.errs, validation.IsDomainPrefixedPath(at.Child("key"), m.Key)...)
		if m.Key != strings.ToLower(m.Key) {
			v.invalid(at.Child("key"), m.Key, "must be lowercase")
		}
		if reserved(m.Key) {
			v.invalid(at.Child("key"), m.Key, "k8s.io, kubernetes.io and their subdomains are reserved for Kubernetes use")
		}
		if seen[m.Key] {
			v.errs = append(v.errs, field.Duplicate(at.Child("key"), m.Key))
			continue
		}
		seen[m.Key] = true
		if m.ValueExpression == "" {
			v.required(at.Child("valueExpression"), "")
			continue
		}
		if x := v.expression(claimsLanguage, m.ValueExpression, false, at.Child("valueExpression")); x != nil {
			v.program.extra = append(v.program.extra, keyed{m.Key, x})
			v.verified = v.verified || x.Selects("claims", "email_verified")
		}
	}
}

// reserved reports whether a key of extra is in a domain of Kubernetes.
func reserved(key string) bool {
	domain, _, ok := strings.Cut(key, "/")
	if !ok {
		return false
	}
	for _, ours := range []string{"kubernetes.io", "k8s.io"} {
		if domain == ours || strings.HasSuffix(domain, "."+ours) {
			return true
		}
	}
	return false
}

// userRules validates the rules over the user.
func (v *validator) userRules(rules []UserRule, path *field.Path) {
	seen := map[string]bool{}
	for i, r := range rules {
		at := path.Index(i).Child("expression")
		if r.Expression == "" {
			v.required(at, "")
			continue
		}
		if seen[r.Expression] {
			v.errs = append(v.errs, field.Duplicate(at, r.Expression))
			continue
		}
		seen[r.Expression] = true
		if x := v.expression(userLanguage, r.Expression, true, at); x != nil {
			v.program.userRules = append(v.program.userRules, rule{x, r.Message})
		}
	}
}

// expression compiles an expression. If that fails, it adds the error and returns nil.
func (v *validator) expression(language func() (*cel.Language, error), text string, boolean bool, path *field.Path) *cel.Expression {
	l, err := language()
	if err != nil {
		v.errs = append(v.errs, field.InternalError(path, err))
		return nil
	}
	x, err := l.CompileExpression(text)
	if broken := (*cel.InstantiationError)(nil); errors.As(err, &broken) {
		v.errs = append(v.errs, field.InternalError(path, fmt.Errorf("program instantiation failed: %w", err)))
		return nil
	}
	if err != nil {
		v.invalid(path, text, "compilation failed: "+err.Error())
		return nil
	}
	if boolean && x.Type() != "bool" {
		v.invalid(path, text, "must evaluate to bool")
		return nil
	}
	return x
}
