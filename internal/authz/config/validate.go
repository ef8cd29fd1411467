package config

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-io/keelson/internal/authz/match"
)

// This file validates a configuration, with upstream's texts in upstream's order. Paths of webhook
// fields lack "webhook", as upstream's do.

const maxTimeout = 30 * time.Second

// validate checks what holds for any server, and compiles the match conditions. With elsewhere,
// kubeconfig files need not exist on this machine.
func (c *AuthorizationConfiguration) validate(elsewhere bool) field.ErrorList {
	var errs field.ErrorList
	root := field.NewPath("authorizers")
	if len(c.Authorizers) == 0 {
		errs = append(errs, field.Required(root, "at least one authorization mode must be defined"))
	}
	types, names := map[string]bool{}, map[string]bool{}
	for i := range c.Authorizers {
		a, at := &c.Authorizers[i], root.Index(i)
		switch {
		case a.Type == "":
			errs = append(errs, field.Required(at.Child("type"), ""))
			continue
		case !slices.Contains(Types, a.Type):
			errs = append(errs, field.NotSupported(at.Child("type"), a.Type, Types))
			continue
		case types[a.Type] && a.Type != Webhook:
			errs = append(errs, field.Duplicate(at.Child("type"), a.Type))
			continue
		}
		types[a.Type] = true
		errs = append(errs, validateName(a.Name, at.Child("name"), names)...)
		names[a.Name] = true
		switch {
		case a.Type == Webhook && a.Webhook == nil:
			errs = append(errs, field.Required(at.Child("webhook"), "required when type=Webhook"))
		case a.Type == Webhook:
			errs = append(errs, a.Webhook.validate(at, elsewhere)...)
		case a.Webhook != nil:
			errs = append(errs, field.Invalid(at.Child("webhook"), "non-null", "may only be specified when type=Webhook"))
		}
	}
	return errs
}

// validateName checks that an authorizer's name is set, unique, and a DNS subdomain.
func validateName(name string, at *field.Path, seen map[string]bool) field.ErrorList {
	switch {
	case name == "":
		return field.ErrorList{field.Required(at, "")}
	case seen[name]:
		return field.ErrorList{field.Duplicate(at, name)}
	}
	if wrong := validation.IsDNS1123Subdomain(name); len(wrong) > 0 {
		return field.ErrorList{field.Invalid(at, name, "authorizer name is invalid: "+strings.Join(wrong, ", "))}
	}
	return nil
}

// validate checks the fields of a webhook and compiles its match conditions.
func (w *WebhookConfiguration) validate(at *field.Path, elsewhere bool) field.ErrorList {
	var errs field.ErrorList
	switch d := w.Timeout.Duration; {
	case d == 0:
		errs = append(errs, field.Required(at.Child("timeout"), ""))
	case d > maxTimeout || d < 0:
		errs = append(errs, field.Invalid(at.Child("timeout"), d.String(), "must be > 0s and <= 30s"))
	}
	errs = append(errs, validateTTL(w.AuthorizedTTL.Duration, at.Child("authorizedTTL"))...)
	errs = append(errs, validateTTL(w.UnauthorizedTTL.Duration, at.Child("unauthorizedTTL"))...)
	switch v := w.SubjectAccessReviewVersion; v {
	case "":
		errs = append(errs, field.Required(at.Child("subjectAccessReviewVersion"), ""))
	case "v1", "v1beta1":
	default:
		errs = append(errs, field.NotSupported(at.Child("subjectAccessReviewVersion"), v, []string{"v1", "v1beta1"}))
	}
	switch v := w.MatchConditionSubjectAccessReviewVersion; {
	case v == "" && len(w.MatchConditions) > 0:
		errs = append(errs, field.Required(at.Child("matchConditionSubjectAccessReviewVersion"), "required if match conditions are specified"))
	case v != "" && v != "v1":
		errs = append(errs, field.NotSupported(at.Child("matchConditionSubjectAccessReviewVersion"), v, []string{"v1"}))
	}
	switch p := w.FailurePolicy; p {
	case "":
		errs = append(errs, field.Required(at.Child("failurePolicy"), ""))
	case FailNoOpinion, FailDeny:
	default:
		errs = append(errs, field.NotSupported(at.Child("failurePolicy"), p, []string{FailNoOpinion, FailDeny}))
	}
	errs = append(errs, w.ConnectionInfo.validate(at.Child("connectionInfo"), elsewhere)...)
	expressions := make([]string, len(w.MatchConditions))
	for i, m := range w.MatchConditions {
		expressions[i] = m.Expression
	}
	compiled, wrong := match.Compile(expressions, at.Child("matchConditions"))
	w.conditions = compiled
	return append(errs, wrong...)
}

// validateTTL checks that a duration is not negative.
func validateTTL(d time.Duration, at *field.Path) field.ErrorList {
	if d < 0 {
		return field.ErrorList{field.Invalid(at, d.String(), "must be > 0s")}
	}
	return nil
}

// validate checks that the type and the kubeconfig file go together.
func (c *WebhookConnectionInfo) validate(at *field.Path, elsewhere bool) field.ErrorList {
	file := at.Child("kubeConfigFile")
	switch c.Type {
	case "":
		return field.ErrorList{field.Required(at.Child("type"), "")}
	case InCluster:
		if c.KubeConfigFile != nil {
			return field.ErrorList{field.Invalid(file, *c.KubeConfigFile, "can only be set when type=KubeConfigFile")}
		}
		return nil
	case KubeConfigFile:
		if c.KubeConfigFile == nil || *c.KubeConfigFile == "" {
			return field.ErrorList{field.Required(file, "")}
		}
		if why := unusable(*c.KubeConfigFile, elsewhere); why != "" {
			return field.ErrorList{field.Invalid(file, *c.KubeConfigFile, why)}
		}
		return nil
	}
	// Upstream prints the whole structure with the names of its Go fields.
	printed := struct {
		Type           string
		KubeConfigFile *string
	}{c.Type, c.KubeConfigFile}
	return field.ErrorList{field.NotSupported(at.Child("type"), printed, []string{InCluster, KubeConfigFile})}
}

// unusable returns why a path does not name a file, "" if it does.
func unusable(path string, elsewhere bool) string {
	if !filepath.IsAbs(path) {
		return "must be an absolute path"
	}
	if elsewhere {
		return ""
	}
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return fmt.Sprintf("error loading file: %v", err)
	case !info.Mode().IsRegular():
		return "must be a regular file"
	}
	return ""
}

// validateServer checks names, and what depends on this server: the required types of authorizers.
func (c *AuthorizationConfiguration) validateServer(required []string, elsewhere bool) []error {
	var errs []error
	var missing []string
	for i, a := range c.Authorizers {
		if a.Type != Webhook {
			if want := strings.ToLower(a.Type); a.Name != want {
				errs = append(errs, fmt.Errorf("expected name %s for authorizer %s instead of %s", want, a.Type, a.Name))
			}
			continue
		}
		if a.Webhook.ConnectionInfo.Type == InCluster && !elsewhere {
			at := field.NewPath("authorizers").Index(i).Child("connectionInfo", "type")
			errs = append(errs, field.Invalid(at, InCluster, "this server is in no cluster; write type: KubeConfigFile, and the kubeConfigFile"))
		}
	}
	for _, t := range slices.Sorted(slices.Values(required)) {
		if !c.Has(t) {
			missing = append(missing, t)
		}
	}
	if len(missing) > 0 {
		errs = append(errs, fmt.Errorf("missing required types: %v", missing))
	}
	return errs
}
