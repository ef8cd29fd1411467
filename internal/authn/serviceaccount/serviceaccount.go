// Package serviceaccount issues and verifies the tokens of service accounts.
//
// # Model
//
// A token is a signed JWT (RFC 7519). [Keys] sign and verify. An [Issuer] signs the [Claims] of a
// token under its name, and publishes the OpenID Connect discovery documents with which others can
// verify its tokens. The authenticator, [NewToken], verifies the signature, issuer, audience and
// times of a token. Then it asks [Objects] whether the service account, and the object that the
// token is bound to, still exist with the same UID.
//
// Tokens stored in Secrets (legacy.go) have another issuer and other claims. The same keys verify
// them.
//
// # Invariants
//
//   - A token is verified with one of the keys, whatever algorithm its header
//     names. Unsigned tokens and shared secrets are not supported.
//   - Deleting the object that a token is bound to ends the token, as soon as
//     a cache in front of the authenticator has expired.
package serviceaccount

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/keelson-io/keelson/internal/authn"
)

// DefaultIssuer is the name of the issuer if none is configured.
const DefaultIssuer = "https://kubernetes.default.svc.cluster.local"

// Paths of the documents that an issuer publishes (OpenID Connect Discovery 1.0).
const (
	ConfigurationPath = "/.well-known/openid-configuration"
	KeysPath          = "/openid/v1/jwks"
)

// Reference identifies an object that a token is bound to.
type Reference struct {
	Name string `json:"name,omitempty"`
	UID  string `json:"uid,omitempty"`
}

// Claims are the claims that a service account token adds to those of every JWT.
type Claims struct {
	Namespace      string           `json:"namespace,omitempty"`
	ServiceAccount Reference        `json:"serviceaccount,omitempty"`
	Pod            *Reference       `json:"pod,omitempty"`
	Secret         *Reference       `json:"secret,omitempty"`
	Node           *Reference       `json:"node,omitempty"`
	WarnAfter      *jwt.NumericDate `json:"warnafter,omitempty"`
}

// private is the JSON form of the claims in a token.
type private struct {
	Kubernetes Claims `json:"kubernetes.io,omitzero"`
}

// allAudiences encodes a single audience as a list, too, because some verifiers require a list.
type allAudiences struct {
	Audience []string `json:"aud,omitempty"`
}

// Issuer signs tokens under one issuer name.
type Issuer struct {
	name    string
	keys    *Keys
	jwksURI string // "": nothing is published
}

// NewIssuer returns an Issuer. If name is an https URL, the issuer publishes a discovery document
// with jwksURI as the URL of its keys.
func NewIssuer(name string, keys *Keys, jwksURI string) (*Issuer, error) {
	i := &Issuer{name: name, keys: keys, jwksURI: jwksURI}
	u, err := url.Parse(name)
	if err != nil || u.Scheme != "https" || u.RawQuery != "" || u.Fragment != "" {
		i.jwksURI = "" // other names cannot be discovered: only this server verifies the tokens
		return i, nil
	}
	_, err = json.Marshal(keys.public())
	return i, err
}

// Configuration returns the discovery document, nil if the issuer has none.
func (i *Issuer) Configuration() []byte {
	if i.jwksURI == "" {
		return nil
	}
	return encoded(map[string]any{
		"issuer": i.name, "jwks_uri": i.jwksURI, "response_types_supported": []string{"id_token"}, "subject_types_supported": []string{"public"},
		"id_token_signing_alg_values_supported": i.keys.algorithms(),
	})
}

// KeySet returns the JSON Web Key Set, nil if the issuer publishes none.
func (i *Issuer) KeySet() []byte {
	if i.jwksURI == "" {
		return nil
	}
	return encoded(i.keys.public())
}

// encoded returns the JSON of a document.
func encoded(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic("BUG: " + err.Error()) // texts, and keys that were encoded before
	}
	return text
}

// Age returns how long others may keep the documents, and false if their keys do not change.
func (i *Issuer) Age() (age time.Duration, changes bool) {
	if i.keys.outside == nil {
		return 0, false
	}
	return i.keys.outside.Age(), true
}

// Sign returns a token for the audiences, valid from now until expires, and its ID (claim jti).
func (i *Issuer) Sign(ctx context.Context, c Claims, audiences []string, now, expires time.Time) (token, id string, err error) {
	id = newID()
	token, err = i.keys.sign(ctx, private{c}, jwt.Claims{
		Issuer: i.name, Subject: authn.ServiceAccountName(c.Namespace, c.ServiceAccount.Name), ID: id,
		IssuedAt: jwt.NewNumericDate(now), NotBefore: jwt.NewNumericDate(now), Expiry: jwt.NewNumericDate(expires),
	}, allAudiences{audiences})
	return token, id, err
}

// newID returns a random UUID.
func newID() string {
	var b [16]byte
	rand.Read(b[:])
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// CredentialID returns the value for the key [authn.CredentialID] in the extra of a token's user.
func CredentialID(id string) string { return "JTI=" + id }

// Object is the part of a stored object that decides whether a token bound to it is valid.
type Object struct {
	UID     string
	Deleted time.Time // deletionTimestamp with its grace period; zero if the object is not being deleted

	Token, LastUsed, InvalidSince string   // of a Secret: its token and the labels below
	Secrets                       []string // of a service account: the names in its secrets field
}

// Objects reads a serviceaccount, secret or pod of a namespace, or a node. If the object does not
// exist, it returns an error.
type Objects func(ctx context.Context, resource, namespace, name string) (*Object, error)

// Config describes the tokens that an authenticator accepts.
type Config struct {
	Issuers   []string
	Keys      *Keys
	Audiences []string // of the API: the default for requests and tokens that name none
	Objects   Objects
	// Used, if not nil, records on a Secret the day on which its token was last used.
	Used    func(ctx context.Context, namespace, secret, uid, day string)
	Metrics prometheus.Registerer // nil: nothing is counted
}

// NewToken returns the authenticator of service account tokens: those signed by the issuers and
// those stored in Secrets.
func NewToken(c Config) authn.Token {
	m := newMetrics(c.Metrics)
	signed := &verifier{Config: c, metrics: m}
	c.Issuers = []string{LegacyIssuer}
	return authn.Tokens(&verifier{Config: c, metrics: m, legacy: true}, signed)
}

// verifier authenticates tokens.
type verifier struct {
	Config
	metrics *metrics
	legacy  bool // accepts tokens stored in Secrets
}

// AuthenticateToken implements authn.Token.
func (v *verifier) AuthenticateToken(ctx context.Context, token string, audiences []string) (*authn.Response, error) {
	if !slices.Contains(v.Issuers, authn.IssuerOf(token)) {
		return nil, nil
	}
	response, err := v.authenticate(ctx, token, audiences)
	return response, authn.Refused("service account token", err)
}

// authenticate authenticates a token that names one of the issuers.
func (v *verifier) authenticate(ctx context.Context, token string, audiences []string) (*authn.Response, error) {
	parsed, err := jwt.ParseSigned(token, algorithms)
	if err != nil {
		return nil, authn.Unknown("", err.Error())
	}
	t, err := v.verify(ctx, parsed)
	if err != nil {
		return nil, err
	}
	public := &t.public
	if !slices.Contains(v.Issuers, public.Issuer) {
		return nil, fmt.Errorf("token issuer %q is invalid", public.Issuer)
	}
	response := &authn.Response{Annotations: map[string]string{}}
	if len(public.Audience) == 0 {
		response.Annotations["authentication.k8s.io/legacy-token"] = public.Subject
		v.metrics.legacy.Inc()
	}
	if response.Audiences, err = v.audiences(public, audiences); err != nil {
		return nil, err
	}
	if v.legacy {
		err = v.keptBy(ctx, token, public, &t.kept, response)
	} else {
		err = v.signed(ctx, public, &t.own.Kubernetes, response)
	}
	if err != nil {
		return nil, err
	}
	return response, nil
}

// signed fills in the response for a token of one of the issuers.
func (v *verifier) signed(ctx context.Context, public *jwt.Claims, claims *Claims, response *authn.Response) error {
	now := time.Now()
	if err := validTimes(public, now); err != nil {
		return err
	}
	user, err := v.bound(ctx, claims, now)
	if err != nil {
		return err
	}
	if public.ID != "" {
		addExtra(user, authn.CredentialID, CredentialID(public.ID))
	}
	response.User = user
	switch w := claims.WarnAfter; {
	case w == nil || *w == 0:
	case now.After(w.Time()):
		v.metrics.stale.Inc()
		response.Annotations["authentication.k8s.io/stale-token"] = fmt.Sprintf("subject: %s, seconds after warning threshold: %d",
			public.Subject, now.Unix()-w.Time().Unix())
	default:
		v.metrics.valid.Inc()
	}
	return nil
}

// verified holds the claims of a token whose signature is valid.
type verified struct {
	public jwt.Claims
	own    private
	kept   kept
}

// verify checks the signature and decodes the claims.
func (v *verifier) verify(ctx context.Context, t *jwt.JSONWebToken) (*verified, error) {
	id := ""
	for _, h := range t.Headers {
		if h.KeyID != "" {
			id = h.KeyID
			break
		}
	}
	keys := v.Keys.find(ctx, id)
	if len(keys) == 0 {
		return nil, errors.New("invalid signature, no keys found")
	}
	var errs []error
	for _, k := range keys {
		says := new(verified)
		into := []any{&says.public, &says.own}
		if v.legacy {
			into[1] = &says.kept
		}
		err := t.Claims(k.Key, into...)
		if err == nil {
			return says, nil
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}

// audiences returns the requested audiences that the token names. If there are none, it returns an
// error.
func (v *verifier) audiences(public *jwt.Claims, asked []string) ([]string, error) {
	has := []string(public.Audience)
	if len(has) == 0 {
		has = v.Audiences
	}
	if len(asked) == 0 {
		asked = v.Audiences
	}
	good := authn.Intersect(has, asked)
	if len(good) == 0 && len(v.Audiences) > 0 {
		return nil, fmt.Errorf("token audiences %q is invalid for the target audiences %q", has, asked)
	}
	return good, nil
}

// validTimes checks the claims nbf and exp.
func validTimes(public *jwt.Claims, now time.Time) error {
	err := public.Validate(jwt.Expected{Time: now})
	switch {
	case err == nil:
		return nil
	case errors.Is(err, jwt.ErrExpired):
		return errors.New("service account token has expired")
	case errors.Is(err, jwt.ErrNotValidYet):
		return errors.New("service account token is not valid yet")
	case errors.Is(err, jwt.ErrIssuedInTheFuture):
		return errors.New("service account token is issued in the future")
	}
	return errors.New("service account token claims could not be validated due to unexpected validation error")
}

// errInvalidated refuses a token whose service account or bound object was deleted.
var errInvalidated = errors.New("service account token has been invalidated")

// bound checks that every object which the token names still exists, and returns the user.
func (v *verifier) bound(ctx context.Context, c *Claims, now time.Time) (*authn.User, error) {
	before := now.Add(-jwt.DefaultLeeway)
	account, err := v.Objects(ctx, "serviceaccounts", c.Namespace, c.ServiceAccount.Name)
	switch {
	case err != nil:
		return nil, err
	case account.UID != c.ServiceAccount.UID:
		return nil, fmt.Errorf("service account UID (%s) does not match claim (%s)", account.UID, c.ServiceAccount.UID)
	case account.deletedBefore(before):
		return nil, fmt.Errorf("service account %s/%s has been deleted", c.Namespace, c.ServiceAccount.Name)
	}
	user := accountUser(c.Namespace, c.ServiceAccount.Name, c.ServiceAccount.UID)
	if err := v.still(ctx, "secrets", "secret", c.Namespace, c.Secret, before); err != nil {
		return nil, err
	}
	if err := v.still(ctx, "pods", "pod", c.Namespace, c.Pod, before); err != nil {
		return nil, err
	}
	if c.Pod == nil {
		// The node is checked only if no pod is: for a pod's token it is information.
		if err := v.still(ctx, "nodes", "node", "", c.Node, before); err != nil {
			return nil, err
		}
	} else {
		addExtra(user, authn.PodName, c.Pod.Name)
		addExtra(user, authn.PodUID, c.Pod.UID)
	}
	if c.Node != nil {
		addExtra(user, authn.NodeName, c.Node.Name)
		addExtra(user, authn.NodeUID, c.Node.UID)
	}
	return user, nil
}

// accountUser returns the user of a service account.
func accountUser(namespace, name, uid string) *authn.User {
	user := &authn.User{Name: authn.ServiceAccountName(namespace, name), UID: uid}
	user.Groups = authn.WithAuthenticated(user.Name, authn.ServiceAccountGroups(namespace))
	return user
}

// deletedBefore reports whether the object was deleted before t.
func (o *Object) deletedBefore(t time.Time) bool { return !o.Deleted.IsZero() && o.Deleted.Before(t) }

// still checks that the object of ref exists, has the same UID, and was not deleted before the
// given time. If ref is nil, it returns nil.
func (v *verifier) still(ctx context.Context, resource, kind, namespace string, ref *Reference, before time.Time) error {
	if ref == nil {
		return nil
	}
	o, err := v.Objects(ctx, resource, namespace, ref.Name)
	switch {
	case err != nil:
		return authn.Because(errInvalidated, kind+" "+join(namespace, ref.Name), err)
	case o.deletedBefore(before):
		return authn.Detailed(errInvalidated, fmt.Sprintf("%s %s has been deleted", kind, join(namespace, ref.Name)))
	case o.UID != ref.UID && kind == "secret":
		return fmt.Errorf("secret UID (%s) does not match service account secret ref claim (%s)", o.UID, ref.UID)
	case o.UID != ref.UID:
		return fmt.Errorf("%s UID (%s) does not match service account %s ref claim (%s)", kind, o.UID, kind, ref.UID)
	}
	return nil
}

// join returns the name of an object in the log.
func join(namespace, name string) string {
	if namespace == "" {
		return name
	}
	return namespace + "/" + name
}

// addExtra adds value to the user's extra, unless value is empty.
func addExtra(u *authn.User, key, value string) {
	if value == "" {
		return
	}
	if u.Extra == nil {
		u.Extra = map[string][]string{}
	}
	u.Extra[key] = []string{value}
}

// algorithms lists the signature algorithms of accepted tokens.
var algorithms = []jose.SignatureAlgorithm{jose.RS256, jose.RS384, jose.RS512, jose.ES256, jose.ES384, jose.ES512, jose.PS256, jose.PS384, jose.PS512}

// algorithmOf returns the algorithm with which a private key of this public key signs.
func algorithmOf(public any) (jose.SignatureAlgorithm, error) {
	switch k := public.(type) {
	case *rsa.PublicKey:
		return jose.RS256, nil
	case *ecdsa.PublicKey:
		switch k.Curve {
		case elliptic.P256():
			return jose.ES256, nil
		case elliptic.P384():
			return jose.ES384, nil
		case elliptic.P521():
			return jose.ES512, nil
		}
		return "", errors.New("unknown private key curve, must be 256, 384, or 521")
	}
	return "", fmt.Errorf("unknown public key type %T, must be *rsa.PublicKey or *ecdsa.PublicKey", public)
}
