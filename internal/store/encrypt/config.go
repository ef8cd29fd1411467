package encrypt

import (
	"encoding/base64"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-io/keelson/internal/configfile"
)

// Configuration is an EncryptionConfiguration of the group apiserver.config.k8s.io: which resources are encrypted, and how.
type Configuration struct {
	metav1.TypeMeta `json:",inline"`

	Resources []ResourceConfiguration `json:"resources"` // the first one that names a resource counts
}

// DeepCopyObject implements runtime.Object.
func (c *Configuration) DeepCopyObject() runtime.Object {
	copied := *c
	return &copied
}

// ResourceConfiguration is one entry: "secrets", "pandas.awesome.bears.example", "*.apps", "*." for the core group, "*.*".
type ResourceConfiguration struct {
	Resources []string                `json:"resources"` // secrets, widgets.example.com, *.example.com, *. for the core group, *.* for all
	Providers []ProviderConfiguration `json:"providers"` // the first one writes, all read
}

// ProviderConfiguration has one of its fields set.
type ProviderConfiguration struct {
	AESGCM    *KeysConfiguration `json:"aesgcm,omitempty"`    // AES in Galois/Counter mode; change the key often
	AESCBC    *KeysConfiguration `json:"aescbc,omitempty"`    // AES in CBC mode
	Secretbox *KeysConfiguration `json:"secretbox,omitempty"` // XSalsa20 and Poly1305
	Identity  *struct{}          `json:"identity,omitempty"`  // not encrypted: {}
	KMS       *KMSConfiguration  `json:"kms,omitempty"`       // a plugin that keeps the key
}

// KeysConfiguration is the keys of a provider. The first one writes.
type KeysConfiguration struct {
	Keys []Key `json:"keys"` // the first one writes, all read
}

// Key is a key with its name, which is in front of each value.
type Key struct {
	Name   string `json:"name"`   // unique; it is stored in front of each value
	Secret string `json:"secret"` // base64 of 16, 24 or 32 bytes; of 32 for secretbox
}

// String hides the secret from logs and errors.
func (k Key) String() string { return fmt.Sprintf("Name: %s, Secret: [REDACTED]", k.Name) }

// GoString hides it there, too.
func (k Key) GoString() string { return k.String() }

// KMSConfiguration is a KMS plugin.
type KMSConfiguration struct {
	APIVersion string           `json:"apiVersion,omitempty"` // v2; v1 is refused
	Name       string           `json:"name"`                 // of the plugin; it is stored in front of each value
	CacheSize  *int32           `json:"cachesize,omitempty"`  // is refused: only v1 has it
	Endpoint   string           `json:"endpoint"`             // unix:///path/of/the/socket
	Timeout    *metav1.Duration `json:"timeout,omitempty"`    // of a call; default 3s
}

// defaultTimeout is the time of a call of a KMS plugin.
const defaultTimeout = 3 * time.Second

// Decode reads a configuration, fills in defaults and validates it. Errors have upstream's words.
func Decode(text []byte) (*Configuration, error) {
	c, err := configfile.Decode(text, "EncryptionConfiguration", &Configuration{})
	if err != nil {
		return nil, fmt.Errorf("error while parsing file: %w", err)
	}
	for i := range c.Resources {
		for j := range c.Resources[i].Providers {
			if k := c.Resources[i].Providers[j].KMS; k != nil {
				k.setDefaults()
			}
		}
	}
	if errs := c.Validate(); len(errs) > 0 {
		return nil, errs.ToAggregate()
	}
	return c, nil
}

// setDefaults sets the defaults of EncryptionConfiguration v1. Version 2 of KMS has no cacheSize.
func (k *KMSConfiguration) setDefaults() {
	if k.APIVersion == "" {
		k.APIVersion = "v1"
	}
	if k.Timeout == nil {
		k.Timeout = &metav1.Duration{Duration: defaultTimeout}
	}
	if k.CacheSize == nil && k.APIVersion == "v1" {
		size := int32(1000)
		k.CacheSize = &size
	}
}

const atLeastOne = "at least one %s is required"

// Validate returns what is wrong with a configuration, with upstream's rules and words.
func (c *Configuration) Validate() field.ErrorList {
	root := field.NewPath("resources")
	if len(c.Resources) == 0 {
		return field.ErrorList{field.Required(root, fmt.Sprintf(atLeastOne, root))}
	}
	var errs field.ErrorList
	plugins := map[string]bool{}
	for i := range c.Resources {
		r := &c.Resources[i]
		resources, providers := root.Index(i).Child("resources"), root.Index(i).Child("providers")
		if len(r.Resources) == 0 {
			errs = append(errs, field.Required(resources, fmt.Sprintf(atLeastOne, resources)))
		}
		errs = append(errs, overlaps(r.Resources, resources)...)
		for j, name := range r.Resources {
			if wrong := wrongResource(name); wrong != "" {
				errs = append(errs, field.Invalid(resources.Index(j), name, wrong))
			}
		}
		if len(r.Providers) == 0 {
			errs = append(errs, field.Required(providers, fmt.Sprintf(atLeastOne, providers)))
		}
		for j := range r.Providers {
			errs = append(errs, r.Providers[j].validate(providers.Index(j), plugins)...)
		}
	}
	return errs
}

// overlaps refuses a list of resources of which one hides another.
func overlaps(resources []string, path *field.Path) (errs field.ErrorList) {
	var duplicate, overlap bool
	for i, a := range resources {
		for j, b := range resources {
			one, other := schema.ParseGroupResource(a), schema.ParseGroupResource(b)
			switch {
			case i == j:
			case one == other && !duplicate:
				duplicate = true
			case one == everything, one.Group == other.Group && (one.Resource == "*" || other.Resource == "*"):
				overlap = true
			}
		}
	}
	if duplicate {
		errs = append(errs, field.Invalid(path, resources, "the same resource cannot be specified multiple times"))
	}
	if overlap {
		errs = append(errs, field.Invalid(path, resources,
			"using overlapping resources such as 'secrets' and '*.' in the same resource list is not allowed as they will be masked"))
	}
	return errs
}

// wrongResource returns why a resource cannot be encrypted, "" if it can.
func wrongResource(name string) string {
	r := schema.ParseGroupResource(name)
	switch {
	case strings.ContainsFunc(name, unicode.IsUpper):
		return "resource name should not contain capital letters"
	case name == "*":
		return "use '*.' to encrypt all the resources from core API group or *.* to encrypt all resources"
	case name == "apiserveripinfo", name == "serviceipallocations", name == "servicenodeportallocations":
		return "resources which do not have REST API/s cannot be encrypted"
	case r.Group == "events.k8s.io":
		return "'*.events.k8s.io' objects are stored using the 'events' API group in etcd. Use 'events' instead in the config file"
	case r.Group == "extensions":
		return "'extensions' group has been removed and cannot be used for encryption"
	case r.Group == "*" && r.Resource != "*":
		return "encrypting the same resource across groups is not supported"
	}
	return ""
}

// validate checks a provider. The names of KMS plugins that were seen are in plugins.
func (p *ProviderConfiguration) validate(path *field.Path, plugins map[string]bool) field.ErrorList {
	found := 0
	for _, set := range []bool{p.KMS != nil, p.AESGCM != nil, p.AESCBC != nil, p.Secretbox != nil, p.Identity != nil} {
		if set {
			found++
		}
	}
	switch {
	case found == 0:
		return field.ErrorList{field.Invalid(path, "", "provider does not contain any of the expected providers: KMS, AESGCM, AESCBC, Secretbox, Identity")}
	case found > 1:
		return field.ErrorList{field.Invalid(path, "REDACTED", "more than one provider specified in a single element, should split into different list elements")}
	case p.KMS != nil:
		defer func() { plugins[p.KMS.Name] = true }()
		return p.KMS.validate(path.Child("kms"), plugins)
	case p.AESGCM != nil:
		return p.AESGCM.validate(path.Child("aesgcm", "keys"), 16, 24, 32)
	case p.AESCBC != nil:
		return p.AESCBC.validate(path.Child("aescbc", "keys"), 16, 24, 32)
	case p.Secretbox != nil:
		return p.Secretbox.validate(path.Child("secretbox", "keys"), 32)
	}
	return nil
}

const mandatory = "%s is a mandatory field for a %s"

// validate checks a list of keys. The sizes are the lengths in bytes that a secret may have.
func (k *KeysConfiguration) validate(path *field.Path, sizes ...int) (errs field.ErrorList) {
	if len(k.Keys) == 0 {
		return field.ErrorList{field.Required(path, fmt.Sprintf(atLeastOne, "keys"))}
	}
	for i, key := range k.Keys {
		path := path.Index(i)
		if key.Name == "" {
			errs = append(errs, field.Required(path.Child("name"), fmt.Sprintf(mandatory, "name", "key")))
		}
		secret, err := base64.StdEncoding.DecodeString(key.Secret)
		switch {
		case key.Secret == "":
			errs = append(errs, field.Required(path.Child("secret"), fmt.Sprintf(mandatory, "secret", "key")))
		case err != nil:
			errs = append(errs, field.Invalid(path.Child("secret"), "REDACTED", "secrets must be base64 encoded"))
		case !slices.Contains(sizes, len(secret)):
			errs = append(errs, field.Invalid(path.Child("secret"), "REDACTED",
				fmt.Sprintf("secret is not of the expected length, got %d, expected one of %v", len(secret), sizes)))
		}
	}
	return errs
}

// validate checks a KMS plugin. The map has the names of the plugins before it, which must be
// unique.
func (k *KMSConfiguration) validate(path *field.Path, plugins map[string]bool) (errs field.ErrorList) {
	name := path.Child("name")
	switch {
	case k.Name == "":
		errs = append(errs, field.Required(name, fmt.Sprintf(mandatory, "name", "provider")))
	case k.APIVersion != "v1" && strings.Contains(k.Name, ":"):
		errs = append(errs, field.Invalid(name, k.Name, fmt.Sprintf("invalid KMS provider name %s, must not contain ':'", k.Name)))
	}
	if k.Name != "" && k.APIVersion != "v1" && plugins[k.Name] {
		errs = append(errs, field.Invalid(name, k.Name, fmt.Sprintf("duplicate KMS provider name %s, names must be unique", k.Name)))
	}
	if k.Timeout.Duration <= 0 {
		errs = append(errs, field.Invalid(path.Child("timeout"), k.Timeout, "timeout should be a positive value"))
	}
	endpoint := path.Child("endpoint")
	if u, err := url.Parse(k.Endpoint); k.Endpoint == "" {
		errs = append(errs, field.Invalid(endpoint, "", fmt.Sprintf(mandatory, "endpoint", "kms")))
	} else if err != nil {
		errs = append(errs, field.Invalid(endpoint, k.Endpoint, fmt.Sprintf("invalid endpoint for kms provider, error: %v", err)))
	} else if u.Scheme != "unix" {
		errs = append(errs, field.Invalid(endpoint, k.Endpoint, fmt.Sprintf("unsupported scheme %q for KMS provider, only unix is supported", u.Scheme)))
	}
	if k.APIVersion != "v1" && k.CacheSize != nil {
		errs = append(errs, field.Invalid(path.Child("cachesize"), *k.CacheSize, "cachesize is not supported in v2"))
	}
	if k.APIVersion == "v1" && *k.CacheSize == 0 {
		errs = append(errs, field.Invalid(path.Child("cachesize"), *k.CacheSize, "cachesize should be a positive value, or negative to disable"))
	}
	if k.APIVersion != "v1" && k.APIVersion != "v2" {
		errs = append(errs, field.Invalid(path.Child("apiVersion"), k.APIVersion,
			"unsupported apiVersion apiVersion for KMS provider, only v1 and v2 are supported")) // upstream prints the field here, not the value
	}
	return errs
}
