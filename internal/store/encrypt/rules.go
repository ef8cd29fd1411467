package encrypt

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// provider is one key of a provider, or a KMS plugin.
type provider interface {
	// seals is the Sealed of values that it writes now; "" for the identity provider.
	seals() string
	// seal encrypts a value that is bound to a key in etcd. The result has the name of the provider in front.
	seal(ctx context.Context, bound, plain []byte) ([]byte, error)
	// open decrypts a stored value. The error is errOtherProvider or an otherKeyError if another one wrote it, ErrUnavailable if it may be
	// read later.
	open(ctx context.Context, bound, value []byte) (plain []byte, sealed string, err error)
}

// everything is the resource of rules for all resources.
var everything = schema.GroupResource{Group: "*", Resource: "*"}

// Rules are the providers of all resources.
type Rules struct {
	providers map[schema.GroupResource][]provider
	plugins   []*plugin
}

// NewRules builds the rules of a valid configuration. It connects to KMS plugins, whose state is asked for in the background until
// Close; a plugin that cannot be reached is not an error.
func NewRules(ctx context.Context, c *Configuration, o PluginOptions) (*Rules, error) {
	r := &Rules{providers: map[schema.GroupResource][]provider{}}
	for i := range c.Resources {
		entry := &c.Resources[i]
		var providers []provider
		for j := range entry.Providers {
			more, err := r.build(ctx, &entry.Providers[j], o)
			if err != nil {
				return nil, errors.Join(fmt.Errorf("error while building transformers: %w", err), r.Close())
			}
			providers = append(providers, more...)
		}
		for _, name := range entry.Resources {
			gr := schema.ParseGroupResource(name)
			for _, earlier := range []schema.GroupResource{{Group: gr.Group, Resource: "*"}, everything} {
				if _, masked := r.providers[earlier]; masked {
					return nil, errors.Join(fmt.Errorf("error while building transformers: resource %q is masked by earlier rule %q", ruleName(gr), ruleName(earlier)), r.Close())
				}
			}
			r.providers[gr] = append(r.providers[gr], providers...)
		}
	}
	return r, nil
}

// ruleName returns a resource as a configuration spells it.
func ruleName(gr schema.GroupResource) string {
	if gr.Group == "" && gr.Resource == "*" {
		return "*."
	}
	return gr.String()
}

// of returns the providers of a resource: those of its name, of its group, or of everything.
func (r *Rules) of(gr schema.GroupResource) []provider {
	for _, rule := range []schema.GroupResource{gr, {Group: gr.Group, Resource: "*"}, everything} {
		if p, ok := r.providers[rule]; ok {
			return p
		}
	}
	return nil
}

// build makes the providers of one entry, one for each of its keys.
func (r *Rules) build(ctx context.Context, c *ProviderConfiguration, o PluginOptions) (providers []provider, err error) {
	add := func(prefix string, keys []Key, newCipher func(secret []byte) (sealer, error)) error {
		for _, k := range keys {
			secret, err := base64.StdEncoding.DecodeString(k.Secret)
			if err != nil {
				return fmt.Errorf("could not obtain secret for named key %s: %w", k.Name, err)
			}
			cipher, err := newCipher(secret)
			if err != nil {
				return fmt.Errorf("error while creating cipher for named key %s: %w", k.Name, err)
			}
			providers = append(providers, &keyed{outer: []byte(prefix), prefix: prefix + k.Name + ":", cipher: cipher})
		}
		return nil
	}
	switch {
	case c.Identity != nil:
		providers = append(providers, identity{})
	case c.AESGCM != nil:
		err = add(marker+"aesgcm:v1:", c.AESGCM.Keys, newGCM)
	case c.AESCBC != nil:
		err = add(marker+"aescbc:v1:", c.AESCBC.Keys, newCBC)
	case c.Secretbox != nil:
		err = add(marker+"secretbox:v1:", c.Secretbox.Keys, newSecretbox)
	case c.KMS.APIVersion == "v1":
		return nil, errors.New("KMSv1 is deprecated and not supported here. Use KMSv2 instead: set apiVersion to v2")
	default:
		p, err := newPlugin(ctx, c.KMS, o)
		if err != nil {
			return nil, err
		}
		r.plugins = append(r.plugins, p)
		providers = append(providers, p)
	}
	return providers, err
}

// Health returns why a KMS plugin is not healthy, nil if all are.
func (r *Rules) Health() error {
	var errs []error
	for i, p := range r.plugins {
		if err := p.health(); err != nil {
			errs = append(errs, fmt.Errorf("kms-provider-%d: %w", i, err))
		}
	}
	return errors.Join(errs...)
}

// Plugins returns the number of KMS plugins.
func (r *Rules) Plugins() int { return len(r.plugins) }

// Close ends the connections to KMS plugins.
func (r *Rules) Close() error {
	var errs []error
	for _, p := range r.plugins {
		errs = append(errs, p.close())
	}
	return errors.Join(errs...)
}

// identity leaves values as they are.
type identity struct{}

// seals returns no prefix: values are stored as they are.
func (identity) seals() string { return "" }

// seal returns the value unchanged.
func (identity) seal(_ context.Context, _, plain []byte) ([]byte, error) { return plain, nil }

// open returns the value unchanged, unless a provider encrypted it.
func (identity) open(_ context.Context, _, value []byte) ([]byte, string, error) {
	if isEncrypted(value) {
		return nil, "", errOtherProvider
	}
	return value, "", nil
}
