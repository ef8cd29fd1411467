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

// This file is the flags of kube-apiserver: one for a file, and the older ones.

// Flags are the flags that choose authorizers. The zero value is RBAC.
type Flags struct {
	File string // --authorization-config

	Modes               []string      // --authorization-mode; nil: RBAC
	PolicyFile          string        // --authorization-policy-file, also of ABAC in a file
	WebhookConfigFile   string        // --authorization-webhook-config-file
	WebhookVersion      string        // --authorization-webhook-version; "": v1beta1
	WebhookAuthorized   time.Duration // --authorization-webhook-cache-authorized-ttl; 0: not kept
	WebhookUnauthorized time.Duration // --authorization-webhook-cache-unauthorized-ttl; 0: not kept
	LegacySet           bool          // one of the older flags, other than the policy file, was given
}

// Defaults of the older flags.
const (
	DefaultWebhookVersion      = "v1beta1"
	DefaultWebhookAuthorized   = 5 * time.Minute
	DefaultWebhookUnauthorized = 30 * time.Second
)

const defaultWebhookName = "default"

// Load is what the flags ask for; with a file, also its text. An error of a
// file is an *Error.
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
	c, err := Load(text)
	return c, text, err
}

func (f *Flags) modes() []string {
	if len(f.Modes) == 0 {
		return []string{RBAC}
	}
	return f.Modes
}

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

// configuration is what the older flags say as a Configuration.
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
