package admissionregistration

import (
	"fmt"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-io/keelson/crd"
	"github.com/keelson-io/keelson/internal/texts"
	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/kind"
	"github.com/keelson-io/keelson/schema"
)

// This file checks configurations of webhooks. A stored configuration keeps its mistakes if a rule
// for them was added after it was written.

// webhooks has the webhooks of a configuration of either kind: a mutating webhook has the fields of
// a validating one, and reinvocationPolicy.
type webhooks struct {
	Webhooks []admissionv1.MutatingWebhook
}

// tolerance records which mistakes the old configuration had.
type tolerance struct {
	sideEffects, reviewVersions, names, labels, conditions bool
	expressions                                            sets.Set[string]
}

// checkWebhooks checks the webhooks of a configuration.
func checkWebhooks(_ *kind.Version, d, before *jsondoc.Doc, _ schema.Scope) field.ErrorList {
	c, err := goType[webhooks](d)
	old, oldErr := goType[webhooks](before)
	if err != nil || oldErr != nil {
		return field.ErrorList{field.InternalError(nil, fmt.Errorf("%v, %v", err, oldErr))}
	}
	var may tolerance
	if before != nil {
		may = tolerate(c.Webhooks, old.Webhooks)
	}
	var errs field.ErrorList
	names := sets.Set[string]{}
	for i := range texts.Each(&errs, c.Webhooks) {
		w, at := &c.Webhooks[i], field.NewPath("webhooks").Index(i)
		errs = append(errs, checkWebhook(w, &may, at)...)
		errs = append(errs, checkReviewVersions(w.AdmissionReviewVersions, may.reviewVersions, at.Child("admissionReviewVersions"))...)
		if w.Name != "" && !may.names && names.Has(w.Name) {
			errs = append(errs, field.Duplicate(at.Child("name"), w.Name))
		}
		names.Insert(w.Name)
	}
	return append(errs, reservedName(strings.Clone(d.Root().At("metadata", "name").Text()), before)...)
}

// tolerate returns the mistakes of the old configuration.
func tolerate(is, was []admissionv1.MutatingWebhook) tolerance {
	may := tolerance{expressions: sets.Set[string]{}, conditions: len(is) == len(was)}
	names := sets.Set[string]{}
	for i := range was {
		w := &was[i]
		may.sideEffects = may.sideEffects || w.SideEffects == nil || !slices.Contains(quiet, string(*w.SideEffects))
		may.reviewVersions = may.reviewVersions || len(w.AdmissionReviewVersions) > 0 && !knowsReview(w.AdmissionReviewVersions)
		may.names = may.names || names.Has(w.Name)
		names.Insert(w.Name)
		strict := metavalidation.LabelSelectorValidationOptions{}
		may.labels = may.labels || len(texts.Selector(w.NamespaceSelector, strict, nil)) > 0 ||
			len(texts.Selector(w.ObjectSelector, strict, nil)) > 0
		may.conditions = may.conditions && equality.Semantic.DeepEqual(is[i].MatchConditions, w.MatchConditions)
		for _, c := range w.MatchConditions {
			may.expressions.Insert(c.Expression)
		}
	}
	return may
}

// quiet are the classes of side effects that webhooks may have, loud those that
// they had before.
var (
	quiet = []string{"None", "NoneOnDryRun"}
	loud  = []string{"None", "NoneOnDryRun", "Some", "Unknown"}
)

// checkWebhook checks one webhook, in the order in which upstream does.
func checkWebhook(w *admissionv1.MutatingWebhook, may *tolerance, at *field.Path) field.ErrorList {
	errs := validation.IsFullyQualifiedName(at.Child("name"), w.Name)
	for i := range texts.Each(&errs, w.Rules) {
		errs = append(errs, checkRule(&w.Rules[i], at.Child("rules").Index(i))...)
	}
	if w.FailurePolicy != nil {
		errs = append(errs, oneOf(at.Child("failurePolicy"), *w.FailurePolicy, "Fail", "Ignore")...)
	}
	if w.MatchPolicy != nil {
		errs = append(errs, oneOf(at.Child("matchPolicy"), *w.MatchPolicy, "Equivalent", "Exact")...)
	}
	effects := quiet
	if may.sideEffects {
		effects = loud
	}
	if w.SideEffects == nil {
		errs = append(errs, field.Required(at.Child("sideEffects"), "must specify one of "+strings.Join(effects, ", ")))
	} else {
		errs = append(errs, oneOf(at.Child("sideEffects"), *w.SideEffects, effects...)...)
	}
	if n := w.TimeoutSeconds; n != nil && (*n < 1 || *n > 30) {
		errs = append(errs, field.Invalid(at.Child("timeoutSeconds"), *n, "the timeout value must be between 1 and 30 seconds"))
	}
	labels := metavalidation.LabelSelectorValidationOptions{AllowInvalidLabelValueInSelector: may.labels}
	errs = append(errs, texts.Selector(w.NamespaceSelector, labels, at.Child("namespaceSelector"))...)
	errs = append(errs, texts.Selector(w.ObjectSelector, labels, at.Child("objectSelector"))...)
	if w.ReinvocationPolicy != nil {
		errs = append(errs, oneOf(at.Child("reinvocationPolicy"), *w.ReinvocationPolicy, "IfNeeded", "Never")...)
	}
	client := &w.ClientConfig
	errs = append(errs, crd.ValidateWebhookAddress(client.URL, (*apiextv1.ServiceReference)(client.Service), at.Child("clientConfig"))...)
	if !may.conditions {
		errs = append(errs, checkMatchConditions(w.MatchConditions, may.expressions, false, at.Child("matchConditions"))...)
	}
	return errs
}

// reviews are the versions of AdmissionReview that this server can send.
var reviews = []string{"v1", "v1beta1"}

// knowsReview reports whether the server can send one of the versions.
func knowsReview(versions []string) bool {
	return slices.ContainsFunc(versions, func(v string) bool { return slices.Contains(reviews, v) })
}

// checkReviewVersions checks the versions of AdmissionReview that a webhook accepts. If unknown is
// set, the server need not know any of them.
func checkReviewVersions(versions []string, unknown bool, at *field.Path) field.ErrorList {
	if len(versions) == 0 {
		return field.ErrorList{field.Required(at, "must specify one of "+strings.Join(reviews, ", "))}
	}
	var errs field.ErrorList
	seen := sets.Set[string]{}
	for i, v := range texts.Each(&errs, versions) {
		if seen.Has(v) {
			errs = append(errs, field.Invalid(at.Index(i), v, "duplicate version"))
			continue
		}
		seen.Insert(v)
		for _, msg := range validation.IsDNS1035Label(v) {
			errs = append(errs, field.Invalid(at.Index(i), v, msg))
		}
	}
	if !unknown && !knowsReview(versions) {
		errs = append(errs, field.Invalid(at, versions, "must include at least one of "+strings.Join(reviews, ", ")))
	}
	return errs
}

// unseen are the resources for which no webhook is called: whether authentication and authorization
// work must not depend on webhooks.
var unseen = []string{
	"selfsubjectreviews.authentication.k8s.io", "tokenreviews.authentication.k8s.io", "localsubjectaccessreviews.authorization.k8s.io",
	"selfsubjectaccessreviews.authorization.k8s.io", "selfsubjectrulesreviews.authorization.k8s.io", "subjectaccessreviews.authorization.k8s.io",
}

// warnWebhooks returns warnings for rules that match only resources for which no webhook is called.
// A rule with a wildcard matches others too.
func warnWebhooks(d, before *jsondoc.Doc) []string {
	warnings := warnReserved(d, before)
	c, err := goType[webhooks](d)
	if err != nil {
		return warnings
	}
	for i := range c.Webhooks {
		for j := range c.Webhooks[i].Rules {
			r := &c.Webhooks[i].Rules[j]
			if slices.Contains(r.APIGroups, "*") || slices.Contains(r.Resources, "*") {
				continue
			}
			said := sets.Set[string]{}
			for _, group := range r.APIGroups {
				for _, resource := range r.Resources {
					name := resource + "." + group
					if slices.Contains(unseen, name) && !said.Has(name) {
						said.Insert(name)
						warnings = append(warnings, fmt.Sprintf("webhooks[%d].rules[%d]: %s is excluded from admission webhooks; this rule will have no effect", i, j, name))
					}
				}
			}
		}
	}
	return warnings
}
