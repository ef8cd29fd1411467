package crd

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net/url"
	"strings"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// This file validates how a definition converts between its versions.

// validateConversion checks spec.conversion. Paths are those of v1beta1, as in upstream's errors.
func validateConversion(c *apiextv1.CustomResourceConversion, o strictness, path *field.Path) field.ErrorList {
	if c == nil {
		return nil
	}
	errs := oneOf(string(c.Strategy), path.Child("strategy"), "None", "Webhook")
	client := path.Child("webhookClientConfig")
	versions := path.Child("conversionReviewVersions")
	if c.Strategy != apiextv1.WebhookConverter {
		const detail = "should not be set when strategy is not set to Webhook"
		if c.Webhook != nil && c.Webhook.ClientConfig != nil {
			errs = append(errs, field.Forbidden(client, detail))
		}
		if c.Webhook != nil && len(c.Webhook.ConversionReviewVersions) > 0 {
			errs = append(errs, field.Forbidden(versions, detail))
		}
		return errs
	}
	if c.Webhook == nil || c.Webhook.ClientConfig == nil {
		errs = append(errs, field.Required(client, "required when strategy is set to Webhook"))
	} else {
		errs = append(errs, validateClient(c.Webhook.ClientConfig, o, client)...)
	}
	return append(errs, validateReviewVersions(reviewVersions(c), o, versions)...)
}

// reviewVersions returns the versions of ConversionReview that the webhook accepts, nil without a
// webhook.
func reviewVersions(c *apiextv1.CustomResourceConversion) []string {
	if c == nil || c.Webhook == nil {
		return nil
	}
	return c.Webhook.ConversionReviewVersions
}

// ValidateWebhookAddress checks that a webhook has either a valid URL or a valid service.
func ValidateWebhookAddress(at *string, service *apiextv1.ServiceReference, path *field.Path) field.ErrorList {
	switch {
	case (at == nil) == (service == nil):
		return field.ErrorList{field.Required(path, "exactly one of url or service is required")}
	case at != nil:
		return validateURL(*at, path.Child("url"))
	}
	return validateService(service, path.Child("service"))
}

// validateClient checks the address and the CA bundle of a webhook.
func validateClient(c *apiextv1.WebhookClientConfig, o strictness, path *field.Path) field.ErrorList {
	errs := ValidateWebhookAddress(c.URL, c.Service, path)
	if len(c.CABundle) > 0 && !o.invalidCABundle {
		if err := parseCABundle(c.CABundle); err != nil {
			errs = append(errs, field.Invalid(path.Child("caBundle"), c.CABundle, err.Error()))
		}
	}
	return errs
}

// parseCABundle returns an error if no certificate of a PEM bundle can be used. The texts are those
// of upstream's client.
func parseCABundle(bundle []byte) error {
	pool := x509.NewCertPool()
	if pool.AppendCertsFromPEM(bundle) {
		return nil
	}
	for rest := bundle; len(rest) > 0; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			return errors.New("unable to load root certificates: unable to parse bytes as PEM block")
		}
		if block.Type != "CERTIFICATE" || len(block.Headers) > 0 {
			continue
		}
		if _, err := x509.ParseCertificate(block.Bytes); err != nil {
			return fmt.Errorf("unable to load root certificates: failed to parse certificate: %w", err)
		}
	}
	return errors.New("unable to load root certificates: no valid certificate authority data seen")
}

// validateURL checks the URL of a webhook.
func validateURL(text string, path *field.Path) field.ErrorList {
	const form = "; desired format: https://host[/path]"
	u, err := url.Parse(text)
	if err != nil {
		return field.ErrorList{field.Required(path, "url must be a valid URL: "+err.Error()+form)}
	}
	var errs field.ErrorList
	if u.Scheme != "https" {
		errs = append(errs, field.Invalid(path, u.Scheme, "'https' is the only allowed URL scheme"+form))
	}
	if u.Host == "" {
		errs = append(errs, field.Invalid(path, u.Host, "host must be specified"+form))
	}
	if u.User != nil {
		errs = append(errs, field.Invalid(path, u.User.String(), "user information is not permitted in the URL"))
	}
	if u.Fragment != "" {
		errs = append(errs, field.Invalid(path, u.Fragment, "fragments are not permitted in the URL"))
	}
	if u.RawQuery != "" {
		errs = append(errs, field.Invalid(path, u.RawQuery, "query parameters are not permitted in the URL"))
	}
	return errs
}

// validateService checks the Service of a webhook.
func validateService(s *apiextv1.ServiceReference, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	// Upstream reports a missing namespace at the path of the name, and vice versa. Clients may
	// expect that.
	if s.Namespace == "" {
		errs = append(errs, field.Required(path.Child("name"), ""))
	}
	if s.Name == "" {
		errs = append(errs, field.Required(path.Child("namespace"), ""))
	}
	port := int32(443)
	if s.Port != nil {
		port = *s.Port
	}
	if texts := validation.IsValidPortNum(int(port)); len(texts) > 0 {
		errs = append(errs, field.Invalid(path.Child("port"), port, "port is not valid: "+strings.Join(texts, ", ")))
	}
	if s.Path == nil {
		return errs
	}
	return append(errs, validateURLPath(*s.Path, path.Child("path"))...)
}

// validateURLPath checks the path of a Service's URL: each segment must be a DNS-1123 subdomain.
func validateURLPath(text string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	switch text {
	case "", "/":
		return nil
	case "//":
		return field.ErrorList{field.Invalid(path, text, "segment[0] may not be empty")}
	}
	if !strings.HasPrefix(text, "/") {
		errs = append(errs, field.Invalid(path, text, "must start with a '/'"))
	}
	for i, segment := range strings.Split(strings.TrimSuffix(text[1:], "/"), "/") {
		if segment == "" {
			errs = append(errs, field.Invalid(path, text, fmt.Sprintf("segment[%d] may not be empty", i)))
			continue
		}
		for _, problem := range validation.IsDNS1123Subdomain(segment) {
			errs = append(errs, field.Invalid(path, text, fmt.Sprintf("segment[%d]: %v", i, problem)))
		}
	}
	return errs
}

// validateReviewVersions checks the list of review versions.
func validateReviewVersions(versions []string, o strictness, path *field.Path) field.ErrorList {
	if len(versions) == 0 {
		return field.ErrorList{field.Required(path, "")}
	}
	var errs field.ErrorList
	seen := map[string]bool{}
	for i, v := range versions {
		if seen[v] {
			errs = append(errs, field.Invalid(path.Index(i), v, "duplicate version"))
			continue
		}
		seen[v] = true
		for _, text := range validation.IsDNS1035Label(v) {
			errs = append(errs, field.Invalid(path.Index(i), v, text))
		}
	}
	if o.reviewVersion && !recognised(versions) {
		errs = append(errs, field.Invalid(path, versions, "must include at least one of v1, v1beta1"))
	}
	return errs
}

// recognised reports whether versions has a review version that upstream's API server can send.
func recognised(versions []string) bool {
	for _, v := range versions {
		if v == "v1" || v == "v1beta1" {
			return true
		}
	}
	return false
}
