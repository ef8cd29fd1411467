package plugins

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	"github.com/keelson-io/keelson/internal/admission/eventrate"
	"github.com/keelson-io/keelson/internal/admission/pods"
	"github.com/keelson-io/keelson/internal/admission/podsecurity"
	"github.com/keelson-io/keelson/internal/admission/quota"
	"github.com/keelson-io/keelson/internal/configfile"
)

// This file reads the configuration of admission Set.

// admissionConfiguration is the file of --admission-control-config-file.
type admissionConfiguration struct {
	metav1.TypeMeta `json:",inline"`
	Plugins         []pluginConfiguration `json:"plugins"` // those that have a configuration
}

// pluginConfiguration has the configuration of a plugin, in a file or here.
type pluginConfiguration struct {
	Name          string          `json:"name"`          // such as PodSecurity
	Path          string          `json:"path"`          // of a file with the configuration, from the folder of this one
	Configuration json.RawMessage `json:"configuration"` // the configuration, if there is no path
}

// DeepCopyObject implements runtime.Object.
func (c *admissionConfiguration) DeepCopyObject() runtime.Object {
	clone := *c
	clone.Plugins = slices.Clone(c.Plugins)
	return &clone
}

// Configs has the configurations of the plugins that have one.
type Configs struct {
	security    podsecurity.Configuration
	quota       quota.Configuration
	events      eventrate.Configuration
	tolerations tolerationConfiguration
	selectors   struct {
		Plugin map[string]string `json:"podNodeSelectorPluginConfig"`
	}
	// webhooks has the configurations of the plugins for webhooks, policies those of the plugins for
	// policies, by plugin.
	webhooks map[string]*webhookConfiguration
	policies map[string]*policyConfiguration
}

// Files returns the folder of policies or webhooks of a plugin, and the kubeconfig with the credentials for its
// webhooks; "" if it has none.
func (c *Configs) Files(plugin string) (dir, kubeconfig string) {
	if w := c.webhooks[plugin]; w != nil {
		return w.StaticManifestsDir, w.KubeConfigFile
	}
	if p := c.policies[plugin]; p != nil {
		return p.StaticManifestsDir, ""
	}
	return "", ""
}

// webhookConfiguration is the configuration of MutatingAdmissionWebhook and of
// ValidatingAdmissionWebhook.
type webhookConfiguration struct {
	metav1.TypeMeta    `json:",inline"`
	KubeConfigFile     string `json:"kubeConfigFile"`               // absolute path of a kubeconfig with credentials, by the host names of webhooks
	StaticManifestsDir string `json:"staticManifestsDir,omitempty"` // absolute path of a folder of webhooks that always hold
}

// DeepCopyObject implements runtime.Object.
func (c *webhookConfiguration) DeepCopyObject() runtime.Object { clone := *c; return &clone }

// policyConfiguration is the configuration of MutatingAdmissionPolicy and of
// ValidatingAdmissionPolicy.
type policyConfiguration struct {
	metav1.TypeMeta    `json:",inline"`
	StaticManifestsDir string `json:"staticManifestsDir,omitempty"` // absolute path of a folder of policies and bindings that always hold
}

// DeepCopyObject implements runtime.Object.
func (c *policyConfiguration) DeepCopyObject() runtime.Object { clone := *c; return &clone }

// tolerationConfiguration is the configuration of PodTolerationRestriction.
type tolerationConfiguration struct {
	metav1.TypeMeta `json:",inline"`
	Default         []corev1.Toleration `json:"default,omitempty"`   // of pods in namespaces without an annotation
	Whitelist       []corev1.Toleration `json:"whitelist,omitempty"` // what pods in these namespaces may have; none: all
}

// DeepCopyObject implements runtime.Object.
func (c *tolerationConfiguration) DeepCopyObject() runtime.Object {
	return &tolerationConfiguration{c.TypeMeta, slices.Clone(c.Default), slices.Clone(c.Whitelist)}
}

// limits returns the configuration for the plugin.
func (c *tolerationConfiguration) limits() pods.TolerationLimits {
	return pods.TolerationLimits{Default: c.Default, Whitelist: c.Whitelist}
}

// Load reads the file of --admission-control-config-file, "" meaning none. It refuses
// configurations without effect: of unknown plugins, and of plugins that have none.
func Load(file string, on Set, logger *slog.Logger) (*Configs, error) {
	c := &Configs{webhooks: map[string]*webhookConfiguration{}, policies: map[string]*policyConfiguration{}}
	if file != "" {
		if err := c.load(file, on, logger); err != nil {
			return nil, fmt.Errorf("admission-control-config-file %s: %w", file, err)
		}
	}
	for _, check := range []struct {
		plugin string
		errs   field.ErrorList
	}{{podSecurity, c.security.Check()}, {resourceQuota, c.quota.Check()}, {eventRateLimit, c.events.Check()}} {
		if on[check.plugin] && len(check.errs) > 0 {
			return nil, fmt.Errorf("configuration of the admission plugin %s: %w", check.plugin, check.errs.ToAggregate())
		}
	}
	return c, nil
}

// load reads the file, and the files that it refers to.
func (c *Configs) load(file string, on Set, logger *slog.Logger) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var old struct {
		Kind string `json:"kind"`
		// The configurations of these plugins could once be the whole file.
		Selectors map[string]string `json:"podNodeSelectorPluginConfig"`
		Images    json.RawMessage   `json:"imagePolicy"`
	}
	if err := yaml.Unmarshal(text, &old); err == nil && old.Kind == "" && (old.Selectors != nil || old.Images != nil) {
		if old.Images != nil {
			return errNoImagePolicy
		}
		return c.read(podNodeSelector, text)
	}
	all, err := configfile.Decode(text, "AdmissionConfiguration", new(admissionConfiguration))
	if err != nil {
		return err
	}
	seen := map[string]bool{}
	for i, p := range all.Plugins {
		if seen[p.Name] { // Kubernetes uses the first
			return fmt.Errorf("plugins[%d]: plugin %q is configured twice", i, p.Name)
		}
		seen[p.Name] = true
		own := []byte(p.Configuration)
		if len(own) == 0 && p.Path != "" {
			path := p.Path
			if !filepath.IsAbs(path) {
				path = filepath.Join(filepath.Dir(file), path)
			}
			if own, err = os.ReadFile(path); err != nil {
				return fmt.Errorf("plugins[%d] %s: %w", i, p.Name, err)
			}
		}
		if err := c.read(p.Name, own); err != nil {
			return fmt.Errorf("plugins[%d] %s: %w", i, p.Name, err)
		}
		if !on[p.Name] {
			logger.Warn("an admission plugin is configured and does not run", "plugin", p.Name)
		}
	}
	return nil
}

var errNoImagePolicy = errors.New("this server has no plugin ImagePolicyWebhook")

// read decodes the configuration of a plugin.
func (c *Configs) read(plugin string, text []byte) (err error) {
	switch kinds := configKinds[plugin]; {
	case !slices.Contains(known, plugin):
		return errors.New("this plugin is unknown")
	case plugin == imagePolicyWebhook:
		return errNoImagePolicy
	case plugin == podNodeSelector:
		return yaml.UnmarshalStrict(text, &c.selectors)
	case kinds == nil && len(text) > 0:
		return errors.New("this server takes no configuration for the plugin")
	case len(text) == 0:
		return nil
	case plugin == podSecurity:
		err = decodeInto(text, &c.security, kinds)
	case plugin == resourceQuota:
		err = decodeInto(text, &c.quota, kinds)
	case plugin == eventRateLimit:
		err = decodeInto(text, &c.events, kinds)
	case plugin == podTolerations:
		err = decodeInto(text, &c.tolerations, kinds)
	case plugin == MutatingWebhook || plugin == ValidatingWebhook:
		own := new(webhookConfiguration)
		if err = decodeInto(text, own, kinds); err == nil {
			c.webhooks[plugin] = own
			err = errors.Join(checkPath("kubeConfigFile", own.KubeConfigFile), checkPath("staticManifestsDir", own.StaticManifestsDir))
		}
	case plugin == MutatingPolicy || plugin == ValidatingPolicy:
		own := new(policyConfiguration)
		if err = decodeInto(text, own, kinds); err == nil {
			c.policies[plugin] = own
			err = checkPath("staticManifestsDir", own.StaticManifestsDir)
		}
	}
	return err
}

// checkPath refuses a path that depends on the folder in which the server is started.
func checkPath(name, path string) error {
	if path != "" && !filepath.IsAbs(path) {
		return field.Invalid(field.NewPath(name), path, "must be an absolute file path")
	}
	return nil
}

// decodeInto decodes text, of any of some kinds.
func decodeInto[T any, P interface {
	*T
	runtime.Object
}](text []byte, into P, kinds []schema.GroupVersionKind) error {
	decoded, err := configfile.DecodeAny(text, into, kinds...)
	if err == nil {
		*into = *decoded
	}
	return err
}

// configKinds has the kinds of the configurations of plugins.
var configKinds = map[string][]schema.GroupVersionKind{
	podSecurity:    versionsOf("pod-security.admission.config.k8s.io", "PodSecurityConfiguration", "v1", "v1beta1", "v1alpha1"),
	eventRateLimit: versionsOf("eventratelimit.admission.k8s.io", "Configuration", "v1alpha1"),
	podTolerations: versionsOf("podtolerationrestriction.admission.k8s.io", "Configuration", "v1alpha1"),
	MutatingWebhook: slices.Concat(versionsOf("apiserver.config.k8s.io", "WebhookAdmissionConfiguration", "v1"),
		versionsOf("apiserver.config.k8s.io", "WebhookAdmission", "v1alpha1")),
	ValidatingWebhook: slices.Concat(versionsOf("apiserver.config.k8s.io", "WebhookAdmissionConfiguration", "v1"),
		versionsOf("apiserver.config.k8s.io", "WebhookAdmission", "v1alpha1")),
	MutatingPolicy:   versionsOf("apiserver.config.k8s.io", "MutatingAdmissionPolicyConfiguration", "v1"),
	ValidatingPolicy: versionsOf("apiserver.config.k8s.io", "ValidatingAdmissionPolicyConfiguration", "v1"),
	resourceQuota: slices.Concat(versionsOf("apiserver.config.k8s.io", "ResourceQuotaConfiguration", "v1"),
		versionsOf("resourcequota.admission.k8s.io", "Configuration", "v1beta1", "v1alpha1")),
}

// versionsOf returns the accepted types of a configuration.
func versionsOf(group, kind string, versions ...string) []schema.GroupVersionKind {
	var all []schema.GroupVersionKind
	for _, v := range versions {
		all = append(all, schema.GroupVersionKind{Group: group, Version: v, Kind: kind})
	}
	return all
}

// tolerationSeconds returns how long pods tolerate a node that is not ready or not reachable.
func tolerationSeconds(configured *int64) int64 {
	standard := int64(300)
	return *cmp.Or(configured, &standard)
}
