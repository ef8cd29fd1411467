package server

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-io/keelson/internal/api/health"
	"github.com/keelson-io/keelson/internal/builtin"
	"github.com/keelson-io/keelson/internal/reloads"
	"github.com/keelson-io/keelson/internal/store"
	"github.com/keelson-io/keelson/internal/store/encrypt"
	"github.com/keelson-io/keelson/internal/watchfile"
	"github.com/keelson-io/keelson/kind"
)

// This file encrypts what is stored, by the file of --encryption-provider-config.

// encryption is the encryption of a server's store.
type encryption struct {
	s     *Server
	store *encrypt.Store

	mu    sync.Mutex
	text  []byte         // of the configuration in force
	rules *encrypt.Rules // those in force

	transformations *encrypt.Metrics
	metrics         *reloads.Metrics // nil unless the file is read again
}

// sealedHolder is an encrypted store that several servers share.
type sealedHolder struct {
	*encrypt.Store
	store.Holder
}

// encrypted returns a store that encrypts the values of st, or st itself without a configuration.
func (s *Server) encrypted(ctx context.Context, st store.Store) (store.Store, error) {
	c := &s.config
	if c.EncryptionConfigFile == "" {
		if c.EncryptionReload {
			return nil, fmt.Errorf("--encryption-provider-config-automatic-reload must be set with --encryption-provider-config")
		}
		return st, nil
	}
	text, err := os.ReadFile(c.EncryptionConfigFile)
	if err != nil {
		return nil, fmt.Errorf("error reading encryption provider configuration file: %w", err)
	}
	rules, err := s.encryptionRules(ctx, text)
	if err != nil {
		return nil, err
	}
	prefix := c.EtcdPrefix
	if prefix == "" {
		prefix = "/registry"
	}
	e := &encryption{s: s, text: text, rules: rules, transformations: encrypt.NewMetrics()}
	e.store = encrypt.New(st, rules, encrypt.Options{Prefix: strings.TrimSuffix(prefix, "/"), Resource: resourceOfKeys(builtin.All(nil)), Logger: s.logger, Metrics: e.transformations})
	s.encryption = e
	s.opened = append(s.opened, closer(e.close))
	if holder, ok := st.(store.Holder); ok {
		return sealedHolder{e.store, holder}, nil
	}
	return e.store, nil
}

// encryptionRules compiles an EncryptionConfiguration.
func (s *Server) encryptionRules(ctx context.Context, text []byte) (*encrypt.Rules, error) {
	c, err := encrypt.Decode(text)
	if err != nil {
		return nil, fmt.Errorf("encryption provider configuration %s: %w", s.config.EncryptionConfigFile, err)
	}
	rules, err := encrypt.NewRules(ctx, c, encrypt.PluginOptions{Logger: s.logger, Dial: s.config.KMS})
	if err != nil {
		return nil, fmt.Errorf("encryption provider configuration %s: %w", s.config.EncryptionConfigFile, err)
	}
	return rules, nil
}

// close closes the current rules.
func (e *encryption) close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.rules.Close()
}

// checks returns the health check of KMS plugins, if there is any or may be one.
func (e *encryption) checks() []health.Check {
	if e == nil || e.rules.Plugins() == 0 && !e.s.config.EncryptionReload {
		return nil
	}
	return []health.Check{{Name: "kms-providers", Do: func(context.Context) error {
		e.mu.Lock()
		defer e.mu.Unlock()
		return e.rules.Health()
	}}}
}

// run reads the file again when it changes, if the server was asked to.
func (e *encryption) run(ctx context.Context) {
	e.metrics = reloads.New(e.s.metrics, "encryption", e.s.id)
	e.metrics.InForce(e.text)
	w := watchfile.New(func() { e.reload(ctx) }, e.s.config.EncryptionConfigFile)
	w.Interval, w.Logger, w.What = e.s.config.ReloadInterval, e.s.logger, "encryption provider config"
	w.Run(ctx)
}

// reload puts the file's rules into force. If they are wrong, or a KMS plugin of them is not healthy, everything stays as it is.
func (e *encryption) reload(ctx context.Context) {
	text, err := os.ReadFile(e.s.config.EncryptionConfigFile)
	if err == nil && bytes.Equal(text, e.text) {
		return
	}
	var rules *encrypt.Rules
	if err == nil {
		rules, err = e.s.encryptionRules(ctx, text)
	}
	if err == nil {
		if err = rules.Health(); err != nil {
			rules.Close()
		}
	}
	if err != nil {
		e.metrics.Failed()
		e.s.logger.Error("the encryption provider configuration was not replaced", "error", err)
		return
	}
	e.mu.Lock()
	old := e.rules
	e.rules, e.text = rules, text
	e.mu.Unlock()
	e.store.Use(rules)
	e.metrics.Succeeded(text)
	e.s.logger.Info("the encryption provider configuration was replaced: objects are encrypted by it when they are written next")
	old.Close() // only reads call plugins; one under way fails as if the plugin were gone, and the cache repeats it
}

// resourceOfKeys returns the resource to which a key in the store belongs. Keys of custom resources begin with their group, which has
// a dot, and their plural.
func resourceOfKeys(kinds []*kind.Kind) func(string) (schema.GroupResource, bool) {
	builtins := map[string]schema.GroupResource{}
	for _, k := range kinds {
		if before, ok := builtins[k.StoragePrefix]; k.StoragePrefix != "" && (!ok || before.Group != "") {
			builtins[k.StoragePrefix] = k.GroupResource()
		}
	}
	return func(key string) (schema.GroupResource, bool) {
		first, rest, ok := strings.Cut(key, "/")
		if !ok {
			return schema.GroupResource{}, false
		}
		second, _, _ := strings.Cut(rest, "/")
		if gr, ok := builtins[key[:min(len(key), len(first)+1+len(second))]]; ok {
			return gr, true
		}
		if gr, ok := builtins[first]; ok {
			return gr, true
		}
		return schema.GroupResource{Group: first, Resource: second}, strings.Contains(first, ".")
	}
}
