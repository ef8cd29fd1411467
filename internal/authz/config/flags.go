package config

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
)

// This file has kube-apiserver's flags for authorizers: the one for a file, and the older ones.

// Flags hold the values of the flags. The zero value means RBAC.
type Flags struct {
	File string // --authorization-config

	Modes               []string      // --authorization-mode; nil: RBAC
	PolicyFile          string        // --authorization-policy-file, also used by ABAC in a file
	WebhookConfigFile   string        // --authorization-webhook-config-file
	WebhookVersion      string        // --authorization-webhook-version; "": v1beta1
	WebhookAuthorized   time.Duration // --authorization-webhook-cache-authorized-ttl; 0: not cached
	WebhookUnauthorized time.Duration // --authorization-webhook-cache-unauthorized-ttl; 0: not cached
	LegacySet           bool          // an older flag other than the policy file was set

	// Elsewhere: the configuration is that of a server on another machine, see LoadElsewhere.
	Elsewhere bool
}

// Defaults of the older flags.
const (
	DefaultWebhookVersion      = "v1beta1"
	DefaultWebhookAuthorized   = 5 * time.Minute
	DefaultWebhookUnauthorized = 30 * time.Second
)

const defaultWebhookName = "default"

// Load returns the configuration that the flags describe, and the text of the file if they name
// one. Errors of the file are of type *Error.
func (f *Flags) Load() (*AuthorizationConfiguration, []byte, error) {
	if f.File == "" {
		if err := f.validate(); err != nil {
			return nil, nil, err
		}
		return f.configuration(), nil, nil
	}
	if f.LegacySet {
		return nil, nil, fmt.Errorf("--authorization-config can not be specified when --authorization-mode or --authorization-webhook-* flags are defined")
	}
	text, err := os.ReadFile(f.File)
	if err != nil {
		return nil, nil, err
	}
	load := LoadElsewhere
	if !f.Elsewhere {
		load = func(text []byte) (*AuthorizationConfiguration, error) { return Load(text) }
	}
	c, err := load(text)
	return c, text, err
}

// modes returns the types of authorizers that the flags choose.
func (f *Flags) modes() []string {
	if len(f.Modes) == 0 {
		return []string{RBAC}
	}
	return f.Modes
}

// validate checks that the flags go together, with upstream's texts.
func (f *Flags) validate() error {
	var errs []error
	fail := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	modes := f.modes()
	for _, m := range modes {
		if !slices.Contains(Types, m) {
			fail("authorization-mode %q is not a valid mode", m)
		}
		if m == ABAC && f.PolicyFile == "" {
			fail("authorization-mode ABAC's authorization policy file not passed")
		}
		if m == Webhook && f.WebhookConfigFile == "" {
			fail("authorization-mode Webhook's authorization config file not passed")
		}
	}
	if f.PolicyFile != "" && !slices.Contains(modes, ABAC) {
		fail("cannot specify --authorization-policy-file without mode ABAC")
	}
	if f.WebhookConfigFile != "" && !slices.Contains(modes, Webhook) {
		fail("cannot specify --authorization-webhook-config-file without mode Webhook")
	}
	if sorted := slices.Compact(slices.Sorted(slices.Values(modes))); len(sorted) != len(modes) {
		fail("authorization-mode %q has mode specified more than once", modes)
	}
	if len(errs) == 0 {
		return nil
	}
	return utilerrors.NewAggregate(errs)
}

// configuration returns the older flags as a configuration.
func (f *Flags) configuration() *AuthorizationConfiguration {
	c := &AuthorizationConfiguration{}
	for _, m := range f.modes() {
		a := AuthorizerConfiguration{Type: m, Name: strings.ToLower(m)}
		if m == Webhook {
			a.Name = defaultWebhookName
			version := f.WebhookVersion
			if version == "" {
				version = DefaultWebhookVersion
			}
			cacheYes, cacheNo := f.WebhookAuthorized != 0, f.WebhookUnauthorized != 0
			a.Webhook = &WebhookConfiguration{
				AuthorizedTTL:              metav1.Duration{Duration: f.WebhookAuthorized},
				CacheAuthorizedRequests:    &cacheYes,
				UnauthorizedTTL:            metav1.Duration{Duration: f.WebhookUnauthorized},
				CacheUnauthorizedRequests:  &cacheNo,
				Timeout:                    metav1.Duration{Duration: maxTimeout},
				FailurePolicy:              FailNoOpinion,
				SubjectAccessReviewVersion: version,
				ConnectionInfo:             WebhookConnectionInfo{Type: KubeConfigFile, KubeConfigFile: &f.WebhookConfigFile},
			}
		}
		c.Authorizers = append(c.Authorizers, a)
	}
	return c
}
