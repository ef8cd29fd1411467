package podsecurity

import (
	"cmp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/pod-security-admission/api"
)

// This file has the configuration of the plugin.

// Configuration is the configuration of the plugin, a kind of the group
// pod-security.admission.config.k8s.io. The zero value makes namespaces without labels privileged.
type Configuration struct {
	metav1.TypeMeta `json:",inline"`
	Defaults        Defaults   `json:"defaults"`   // of namespaces without labels
	Exemptions      Exemptions `json:"exemptions"` // what is not checked
}

// Defaults are the levels of namespaces without labels. Empty levels are privileged, empty versions
// the latest.
type Defaults struct {
	Enforce        string `json:"enforce,omitempty"`         // the level above which pods are refused: privileged, baseline or restricted; default privileged
	EnforceVersion string `json:"enforce-version,omitempty"` // latest, or a version such as v1.37
	Audit          string `json:"audit,omitempty"`           // the level above which the audit log says so
	AuditVersion   string `json:"audit-version,omitempty"`   // as enforce-version
	Warn           string `json:"warn,omitempty"`            // the level above which the user is warned
	WarnVersion    string `json:"warn-version,omitempty"`    // as enforce-version
}

// Exemptions are users, namespaces and runtime classes that are not checked.
type Exemptions struct {
	Usernames      []string `json:"usernames,omitempty"`      // who may create any pod
	Namespaces     []string `json:"namespaces,omitempty"`     // where any pod may be created
	RuntimeClasses []string `json:"runtimeClasses,omitempty"` // of pods that are not checked
}

// DeepCopyObject implements runtime.Object.
func (c *Configuration) DeepCopyObject() runtime.Object {
	clone := *c
	clone.Exemptions = Exemptions{slices.Clone(c.Exemptions.Usernames), slices.Clone(c.Exemptions.Namespaces), slices.Clone(c.Exemptions.RuntimeClasses)}
	return &clone
}

// modes returns the levels of each mode with their defaults.
func (d *Defaults) modes() [3]struct{ name, level, version string } {
	level := func(s string) string { return cmp.Or(s, string(api.LevelPrivileged)) }
	version := func(s string) string { return cmp.Or(s, api.VersionLatest) }
	return [3]struct{ name, level, version string }{
		{"enforce", level(d.Enforce), version(d.EnforceVersion)},
		{"warn", level(d.Warn), version(d.WarnVersion)},
		{"audit", level(d.Audit), version(d.AuditVersion)},
	}
}

// policy returns the defaults as levels.
func (c *Configuration) policy() (api.Policy, error) {
	var p api.Policy
	into := map[string]*api.LevelVersion{"enforce": &p.Enforce, "audit": &p.Audit, "warn": &p.Warn}
	for _, m := range c.Defaults.modes() {
		var err error
		if into[m.name].Level, err = api.ParseLevel(m.level); err != nil {
			return p, err
		}
		if into[m.name].Version, err = api.ParseVersion(m.version); err != nil {
			return p, err
		}
	}
	return p, nil
}

// Check lists the mistakes in a configuration.
func (c *Configuration) Check() field.ErrorList {
	var errs field.ErrorList
	invalid := func(path *field.Path, value string, err error) {
		if err != nil {
			errs = append(errs, field.Invalid(path, value, err.Error()))
		}
	}
	for _, m := range c.Defaults.modes() {
		path := field.NewPath("defaults")
		_, err := api.ParseLevel(m.level)
		invalid(path.Child(m.name), m.level, err)
		_, err = api.ParseVersion(m.version)
		invalid(path.Child(m.name+"-version"), m.version, err)
	}
	none := func(name string) []string {
		if name == "" {
			return []string{"username must not be empty"}
		}
		return nil
	}
	namespace := func(name string) []string { return validation.ValidateNamespaceName(name, false) }
	class := func(name string) []string { return validation.NameIsDNSSubdomain(name, false) }
	for _, list := range []struct {
		name  string
		names []string
		check func(string) []string
	}{{"namespaces", c.Exemptions.Namespaces, namespace}, {"runtimeClasses", c.Exemptions.RuntimeClasses, class}, {"usernames", c.Exemptions.Usernames, none}} {
		for i, name := range list.names {
			path := field.NewPath("exemptions", list.name).Index(i)
			if wrong := list.check(name); len(wrong) > 0 {
				errs = append(errs, field.Invalid(path, name, strings.Join(wrong, ", ")))
			} else if slices.Contains(list.names[:i], name) {
				errs = append(errs, field.Duplicate(path, name))
			}
		}
	}
	return errs
}
