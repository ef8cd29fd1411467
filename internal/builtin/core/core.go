// Package core describes the kinds of the core group: namespaces, nodes, pods, services, volumes,
// secrets and others. Other groups use its checks for their templates of pods.
package core

import (
	"encoding/base64"
	"encoding/json"
	"slices"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-io/keelson/internal/builtin/describe"
	"github.com/keelson-io/keelson/internal/keysize"
	"github.com/keelson-io/keelson/internal/texts"
	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/kind"
	"github.com/keelson-io/keelson/schema"
)

// This file describes config maps, secrets and service accounts.

// Kinds returns the kinds of the core group without namespaces and events, which other packages
// describe.
func Kinds() []describe.Description {
	return slices.Concat(coreKinds(), podKinds(), serviceKinds(), volumeKinds(), componentKinds())
}

// coreKinds returns config maps, secrets and service accounts.
func coreKinds() []describe.Description {
	return []describe.Description{{
		Kind: "ConfigMap", Plural: "configmaps", ShortNames: []string{"cm"},
		Versions: describe.V1[corev1.ConfigMap](nil),
		Columns: []kind.Column{
			describe.Size("Data", corev1.ConfigMap{}.SwaggerDoc()["data"], []string{"data"}, []string{"binaryData"}),
			describe.AgeColumn(),
		},
		Check: checkConfigMap,
	}, {
		Kind: "Secret", Plural: "secrets",
		Versions: describe.V1[corev1.Secret](fillSecret),
		Fields:   []kind.Selectable{kind.NewSelectable(".type")},
		Columns: []kind.Column{
			{Name: "Type", Type: "string", JSONPath: ".type", Description: corev1.Secret{}.SwaggerDoc()["type"]},
			describe.Size("Data", corev1.Secret{}.SwaggerDoc()["data"], []string{"data"}),
			describe.AgeColumn(),
		},
		Check: checkSecret, Warnings: warnSecret,
	}, {
		Kind: "ServiceAccount", Plural: "serviceaccounts", ShortNames: []string{"sa"},
		Versions: describe.V1[corev1.ServiceAccount](nil), Traits: kind.Traits{DeleteReturnsObject: true},
		Create: nameSecrets, Update: func(new, _ *jsondoc.Doc) { nameSecrets(new) }, Warnings: warnAccount,
		Subresources: []describe.Subresource{{Name: "token", Body: tokenRequest()}},
	}}
}

// nameSecrets removes all fields but the name from the secrets of a service account.
func nameSecrets(d *jsondoc.Doc) {
	secrets := d.Root().Get("secrets")
	if secrets.Len() == 0 {
		return
	}
	named := make([]corev1.ObjectReference, 0, secrets.Len())
	for _, s := range secrets.Items() {
		named = append(named, corev1.ObjectReference{Name: s.Get("name").Text()})
	}
	describe.SetAs(d, named, "secrets")
}

// enforceSecrets is a deprecated annotation of service accounts.
const enforceSecrets = "kubernetes.io/enforce-mountable-secrets"

// warnAccount returns a warning about the annotation, if the write sets it.
func warnAccount(new, old *jsondoc.Doc) []string {
	has := func(d *jsondoc.Doc) bool {
		return d != nil && d.Root().At("metadata", "annotations", enforceSecrets).Exists()
	}
	if !has(new) || has(old) {
		return nil
	}
	return []string{"metadata.annotations[" + enforceSecrets + "]: deprecated in v1.32+; prefer separate namespaces to isolate access to mounted secrets"}
}

// fillSecret moves stringData to data.
func fillSecret(s *corev1.Secret) {
	for key, text := range s.StringData {
		if s.Data == nil {
			s.Data = map[string][]byte{}
		}
		s.Data[key] = []byte(text)
	}
	s.StringData = nil
}

var immutableDetail = "field is immutable when `immutable` is set"

// checkImmutable refuses changes of the given members, and of the field
// immutable itself, once that is set.
func checkImmutable(new, old jsondoc.Value, members ...string) field.ErrorList {
	if !old.Get("immutable").Bool() {
		return nil
	}
	var errs field.ErrorList
	if !new.Get("immutable").Bool() {
		errs = append(errs, field.Forbidden(field.NewPath("immutable"), immutableDetail))
	}
	for _, m := range members {
		if a, b := new.Get(m), old.Get(m); a.Len()+b.Len() > 0 && !jsondoc.Equal(a, b) {
			errs = append(errs, field.Forbidden(field.NewPath(m), immutableDetail))
		}
	}
	return errs
}

// checkConfigMap checks the keys and the size of a config map.
func checkConfigMap(_ *kind.Version, d, old *jsondoc.Doc, _ schema.Scope) field.ErrorList {
	var errs field.ErrorList
	obj, size := d.Root(), 0
	data, binary := field.NewPath("data"), field.NewPath("binaryData")
	for key, value := range texts.Until(&errs, obj.Get("data").Members()) {
		errs = append(errs, checkKey(data.Key(key), key)...)
		if obj.At("binaryData", key).Exists() {
			errs = append(errs, field.Invalid(data.Key(key), key, "duplicate of key present in binaryData"))
		}
		size += len(value.Text())
	}
	for key, value := range texts.Until(&errs, obj.Get("binaryData").Members()) {
		errs = append(errs, checkKey(binary.Key(key), key)...)
		size += decodedLen(value.Text())
	}
	if size > corev1.MaxSecretSize {
		errs = append(errs, field.TooLong(field.NewPath(""), "" /*unused*/, corev1.MaxSecretSize))
	}
	if old != nil {
		errs = append(errs, checkImmutable(obj, old.Root(), "data", "binaryData")...)
	}
	return errs
}

// checkKey checks a key of a secret or config map.
func checkKey(path *field.Path, key string) field.ErrorList {
	var errs field.ErrorList
	for _, detail := range validation.IsConfigMapKey(key) {
		errs = append(errs, field.Invalid(path, key, detail))
	}
	return errs
}

// decodedLen returns the number of bytes that a text in base64 encodes.
func decodedLen(text string) int {
	n := len(text) / 4 * 3
	for i := len(text) - 1; i >= 0 && text[i] == '='; i-- {
		n--
	}
	return n
}

// checkSecret checks the keys and the size of a secret, and the keys that its type requires.
func checkSecret(_ *kind.Version, d, old *jsondoc.Doc, _ schema.Scope) field.ErrorList {
	var errs field.ErrorList
	obj, size, data := d.Root(), 0, field.NewPath("data")
	if len(obj.Get("type").Text()) == 0 {
		errs = append(errs, field.Required(field.NewPath("type"), ""))
	}
	for key, value := range texts.Until(&errs, obj.Get("data").Members()) {
		errs = append(errs, checkKey(data.Key(key), key)...)
		size += decodedLen(value.Text())
	}
	if size > corev1.MaxSecretSize {
		errs = append(errs, field.TooLong(data, "" /*unused*/, corev1.MaxSecretSize))
	}
	if old == nil {
		return append(errs, checkSecretType(obj)...)
	}
	was := old.Root()
	if a, b := obj.Get("type").Text(), was.Get("type").Text(); a != b {
		errs = append(errs, field.Invalid(field.NewPath("type"), a, "field is immutable"))
	}
	errs = append(errs, checkImmutable(obj, was, "data")...)
	return append(errs, checkSecretType(obj)...)
}

// warnSecret warns of a certificate or key that is malformed, or that does not match the other. It
// does not check very long keys, which would take hours.
func warnSecret(new, _ *jsondoc.Doc) []string {
	obj := new.Root()
	if obj.Get("type").Text() != string(corev1.SecretTypeTLS) {
		return nil
	}
	part := func(key string) []byte {
		text, _ := base64.StdEncoding.DecodeString(obj.At("data", key).Text())
		return text
	}
	_, err := keysize.KeyPair(part(corev1.TLSCertKey), part(corev1.TLSPrivateKeyKey))
	switch {
	case keysize.IsTooLong(err):
		return []string{"tls: the certificate and the key were not checked: " + err.Error()}
	case err != nil:
		return []string{err.Error()}
	}
	return nil
}

// secretKeys are the keys that a secret of a type must have.
var secretKeys = map[corev1.SecretType][]string{
	corev1.SecretTypeDockercfg:        {corev1.DockerConfigKey},
	corev1.SecretTypeDockerConfigJson: {corev1.DockerConfigJsonKey},
	corev1.SecretTypeSSHAuth:          {corev1.SSHAuthPrivateKey},
	corev1.SecretTypeTLS:              {corev1.TLSCertKey, corev1.TLSPrivateKeyKey},
}

// checkSecretType checks that a secret has the keys of its type.
func checkSecretType(obj jsondoc.Value) field.ErrorList {
	var errs field.ErrorList
	data := field.NewPath("data")
	kind := corev1.SecretType(obj.Get("type").Text())
	for _, key := range secretKeys[kind] {
		if value := obj.At("data", key); !value.Exists() {
			errs = append(errs, field.Required(data.Key(key), ""))
		} else if err := wellFormed(kind, value.Text()); err != nil {
			errs = append(errs, field.Invalid(data.Key(key), "<secret contents redacted>", err.Error()))
		}
	}
	switch kind {
	case corev1.SecretTypeServiceAccountToken:
		path := field.NewPath("metadata", "annotations").Key(corev1.ServiceAccountNameKey)
		if obj.At("metadata", "annotations", corev1.ServiceAccountNameKey).Text() == "" {
			errs = append(errs, field.Required(path, ""))
		}
	case corev1.SecretTypeBasicAuth:
		user, password := obj.At("data", corev1.BasicAuthUsernameKey), obj.At("data", corev1.BasicAuthPasswordKey)
		if !user.Exists() && !password.Exists() {
			errs = append(errs, field.Required(data.Key(corev1.BasicAuthUsernameKey), ""),
				field.Required(data.Key(corev1.BasicAuthPasswordKey), ""))
		}
	}
	return errs
}

// wellFormed reports whether a value of a secret, in base64, has the form that the secret's type
// requires.
func wellFormed(kind corev1.SecretType, value string) error {
	if kind != corev1.SecretTypeDockercfg && kind != corev1.SecretTypeDockerConfigJson {
		return nil
	}
	text, err := base64.StdEncoding.DecodeString(value)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, &map[string]any{})
}

// tokenRequest is the object with which a client requests a token of a service account.
func tokenRequest() *describe.Description {
	return &describe.Description{
		Group: "authentication.k8s.io", Kind: "TokenRequest", Plural: "tokenrequests", Traits: kind.Traits{Virtual: true},
		Versions: describe.V1(fillTokenRequest),
	}
}

// fillTokenRequest sets the defaults: a token expires after an hour.
func fillTokenRequest(r *authenticationv1.TokenRequest) {
	if r.Spec.ExpirationSeconds == nil {
		r.Spec.ExpirationSeconds = new(int64(3600))
	}
}
