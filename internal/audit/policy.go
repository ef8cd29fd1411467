package audit

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	"github.com/keelson-io/keelson/authz"
)

// This file decides which requests are recorded.

// Policy says which requests are recorded. The first rule that matches a request applies. A request
// that matches no rule is not recorded.
type Policy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"` // without effect

	Rules             []PolicyRule `json:"rules"`                       // the first one that matches a request counts
	OmitStages        []Stage      `json:"omitStages,omitempty"`        // RequestReceived, ResponseStarted, ResponseComplete or Panic, besides those of the rule
	OmitManagedFields bool         `json:"omitManagedFields,omitempty"` // leaves managedFields out of recorded objects
}

// PolicyRule matches requests by lists of values. An empty list matches every request. A rule has
// either resources or non-resource URLs, not both; with neither it matches all requests.
type PolicyRule struct {
	Level             Level            `json:"level"`                       // None, Metadata, Request or RequestResponse; required
	Users             []string         `json:"users,omitempty"`             // names; none: all
	UserGroups        []string         `json:"userGroups,omitempty"`        // one of the groups of the user; none: all
	Verbs             []string         `json:"verbs,omitempty"`             // such as get, list, create; none: all
	Resources         []GroupResources `json:"resources,omitempty"`         // of which group and kind; none: all
	Namespaces        []string         `json:"namespaces,omitempty"`        // "" stands for objects without a namespace; none: all
	NonResourceURLs   []string         `json:"nonResourceURLs,omitempty"`   // paths, with * at the end; not together with resources
	OmitStages        []Stage          `json:"omitStages,omitempty"`        // stages that are not recorded
	OmitManagedFields *bool            `json:"omitManagedFields,omitempty"` // overrides that of the policy
}

// GroupResources are resources of a group: pods, pods/log, pods/*, */scale, *.
type GroupResources struct {
	Group         string   `json:"group,omitempty"`         // "" is the core group
	Resources     []string `json:"resources,omitempty"`     // pods, pods/log, pods/*, */scale, *; none: all of the group
	ResourceNames []string `json:"resourceNames,omitempty"` // names of objects; none: all
}

// maxPolicy is the largest policy file, in bytes.
const maxPolicy = 4 << 20

// LoadPolicy reads a policy from a file.
func LoadPolicy(path string, logger *slog.Logger) (*Policy, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("loading audit policy file: failed to read file path %q: %w", path, err)
	}
	p, err := ParsePolicy(text, logger)
	if err != nil {
		return nil, fmt.Errorf("loading audit policy file: %w: from file %v", err, path)
	}
	return p, nil
}

// ParsePolicy decodes a policy from YAML or JSON. As upstream, unknown and duplicate fields are
// logged as warnings.
func ParsePolicy(text []byte, logger *slog.Logger) (*Policy, error) {
	if len(text) > maxPolicy {
		return nil, fmt.Errorf("failed decoding: policy is larger than %d bytes", maxPolicy)
	}
	p := &Policy{}
	if err := yaml.UnmarshalStrict(text, p); err != nil {
		*p = Policy{}
		if lenient := yaml.Unmarshal(text, p); lenient != nil {
			return nil, fmt.Errorf("failed decoding: %w", lenient)
		}
		logger.Warn("audit policy contains errors, which are ignored", "error", err)
	}
	if p.APIVersion != "audit.k8s.io/v1" || p.Kind != "Policy" {
		return nil, fmt.Errorf("unknown group version field %v in policy", p.GroupVersionKind())
	}
	if err := validate(p).ToAggregate(); err != nil {
		return nil, err
	}
	if len(p.Rules) == 0 {
		return nil, errors.New("loaded illegal policy with 0 rules")
	}
	return p, nil
}

// validate returns the errors of a policy, in upstream's order.
func validate(p *Policy) field.ErrorList {
	errs := validateStages(p.OmitStages, field.NewPath("omitStages"))
	for i := range p.Rules {
		r, path := &p.Rules[i], field.NewPath("rules").Index(i)
		switch {
		case r.Level == "":
			errs = append(errs, field.Required(path.Child("level"), ""))
		case !slices.Contains(allLevels, r.Level):
			errs = append(errs, field.NotSupported(path.Child("level"), r.Level, allLevels))
		}
		errs = append(errs, validateURLs(r.NonResourceURLs, path.Child("nonResourceURLs"))...)
		errs = append(errs, validateResources(r.Resources, path.Child("resources"))...)
		errs = append(errs, validateStages(r.OmitStages, path.Child("omitStages"))...)
		if len(r.NonResourceURLs) > 0 && len(r.Resources)+len(r.Namespaces) > 0 {
			errs = append(errs, field.Invalid(path.Child("nonResourceURLs"), r.NonResourceURLs,
				"rules cannot apply to both regular resources and non-resource URLs"))
		}
	}
	return errs
}

// validateURLs checks that URLs begin with a slash and have * only at the end.
func validateURLs(urls []string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, url := range urls {
		if url == "*" {
			continue
		}
		if !strings.HasPrefix(url, "/") {
			errs = append(errs, field.Invalid(path.Index(i), url, "non-resource URL rules must begin with a '/' character"))
		}
		if url != "" && strings.Contains(url[:len(url)-1], "*") {
			errs = append(errs, field.Invalid(path.Index(i), url, "non-resource URL wildcards '*' must be the final character of the rule"))
		}
	}
	return errs
}

// validateResources checks the groups and resources of a rule.
func validateResources(list []GroupResources, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, g := range list {
		if g.Group != "" && g.Group != "*" {
			if texts := validation.NameIsDNSSubdomain(g.Group, false); len(texts) > 0 {
				errs = append(errs, field.Invalid(path.Child("group"), g.Group, strings.Join(texts, ",")))
			}
		}
		if len(g.ResourceNames) > 0 && len(g.Resources) == 0 {
			errs = append(errs, field.Invalid(path.Child("resourceNames"), g.ResourceNames, "using resourceNames requires at least one resource"))
		}
	}
	return errs
}

// validateStages checks that stages are known.
func validateStages(stages []Stage, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, s := range stages {
		if !slices.Contains(allStages, s) {
			errs = append(errs, field.Invalid(path.Index(i), string(s),
				"allowed stages are RequestReceived,ResponseStarted,ResponseComplete,Panic"))
		}
	}
	return errs
}

// policy is a Policy prepared for matching.
type policy struct {
	rules []rule
	none  *rule
}

// rule is a rule with the fields that it inherits from the policy.
type rule struct {
	PolicyRule
	level             Level
	omit              []Stage
	omitManagedFields bool
}

func compile(p *Policy) *policy {
	c := &policy{none: &rule{level: None}}
	for _, r := range p.Rules {
		omit := p.OmitManagedFields
		if r.OmitManagedFields != nil {
			omit = *r.OmitManagedFields
		}
		c.rules = append(c.rules, rule{PolicyRule: r, level: r.Level, omit: slices.Concat(p.OmitStages, r.OmitStages), omitManagedFields: omit})
	}
	return c
}

// find returns the first rule that matches a request, nil if none does.
func (p *policy) find(a *authz.Attributes) *rule {
	for i := range p.rules {
		if p.rules[i].matches(a) {
			return &p.rules[i]
		}
	}
	return p.none
}

// matches reports whether the rule matches a request.
func (r *rule) matches(a *authz.Attributes) bool {
	if len(r.Users) > 0 && (a.User == nil || !slices.Contains(r.Users, a.User.Name)) {
		return false
	}
	if len(r.UserGroups) > 0 && (a.User == nil || !slices.ContainsFunc(a.User.Groups, func(g string) bool { return slices.Contains(r.UserGroups, g) })) {
		return false
	}
	if len(r.Verbs) > 0 && !slices.Contains(r.Verbs, a.Verb) {
		return false
	}
	switch {
	case len(r.Namespaces)+len(r.Resources) > 0:
		return a.ResourceRequest && r.matchesResource(a)
	case len(r.NonResourceURLs) > 0:
		return !a.ResourceRequest && slices.ContainsFunc(r.NonResourceURLs, func(spec string) bool { return matchesPath(spec, a.Path) })
	}
	return true
}

// matchesPath reports whether a non-resource URL of a rule, which may end in *, matches a path.
func matchesPath(spec, path string) bool {
	if spec == "*" || spec == path {
		return true
	}
	prefix, ok := strings.CutSuffix(spec, "*")
	return ok && strings.HasPrefix(path, prefix)
}

// matchesResource reports whether one of the rule's group resources matches.
func (r *rule) matchesResource(a *authz.Attributes) bool {
	if len(r.Namespaces) > 0 && !slices.Contains(r.Namespaces, a.Namespace) {
		return false
	}
	return len(r.Resources) == 0 || slices.ContainsFunc(r.Resources, func(g GroupResources) bool { return g.matches(a) })
}

func (g *GroupResources) matches(a *authz.Attributes) bool {
	switch {
	case g.Group != a.Group && g.Group != "*":
		return false
	case len(g.Resources) == 0:
		return true
	case len(g.ResourceNames) > 0 && !slices.Contains(g.ResourceNames, a.Name):
		return false
	}
	return slices.ContainsFunc(g.Resources, func(spec string) bool { return matchesResource(spec, a.Resource, a.Subresource) })
}

// matchesResource reports whether a rule's resource (pods, pods/log, pods/*, */scale or *) matches
// a resource and subresource.
func matchesResource(spec, resource, subresource string) bool {
	if spec == "*" {
		return true
	}
	before, after, parted := strings.Cut(spec, "/")
	switch {
	case !parted:
		return subresource == "" && spec == resource
	case after == "*":
		return before == resource
	case subresource == "":
		return false
	}
	return (before == "*" || before == resource) && after == subresource
}
