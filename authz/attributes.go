package authz

import (
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"

	"github.com/keelson-io/keelson/internal/status"
)

// This file has the attributes of a request on which a decision may depend.

// Attributes describe a request for authorizers. They belong to one goroutine.
type Attributes struct {
	User *User
	Verb string

	// The fields below describe a request for a resource. The version "*" means any; checks that do
	// not come from a request of a client use it.
	ResourceRequest bool
	Group           string
	Version         string
	Resource        string
	Subresource     string
	Namespace       string
	Name            string

	// FieldSelector and LabelSelector are the selectors of a list, watch or deletecollection, as in
	// the URL. They are parsed on the first call of FieldRequirements or LabelRequirements.
	FieldSelector string
	LabelSelector string

	// Path is the path of the URL.
	Path string

	// Trace, if not nil, records the steps of the decision.
	Trace *Trace

	// Memo is a form of the attributes that an authorizer computed and the next one can use. The
	// Chain releases it after the decision.
	Memo Memo

	fields requirements[metav1.FieldSelectorRequirement]
	labels requirements[metav1.LabelSelectorRequirement]
}

// Memo is released once, when nothing uses it any more.
type Memo interface{ Release() }

// forget releases the memo, if there is one.
func (a *Attributes) forget() {
	if a.Memo != nil {
		a.Memo.Release()
		a.Memo = nil
	}
}

// requirements are the parsed requirements of one selector.
type requirements[T any] struct {
	known bool
	list  []T
	err   error
}

// IsReadOnly reports whether the verb only reads.
func (a *Attributes) IsReadOnly() bool {
	return a.Verb == "get" || a.Verb == "list" || a.Verb == "watch"
}

// FieldRequirements returns the requirements of the field selector, each In or NotIn with one
// value. If a part could not be parsed, it returns the others with an error; since all requirements
// must hold, this only widens the request.
func (a *Attributes) FieldRequirements() ([]metav1.FieldSelectorRequirement, error) {
	if !a.fields.known {
		a.fields.known = true
		if a.FieldSelector != "" {
			a.fields.list, a.fields.err = parseFields(a.FieldSelector)
		}
	}
	return a.fields.list, a.fields.err
}

// LabelRequirements returns the requirements of the label selector, like FieldRequirements.
// Comparisons with numbers are left out, because a review cannot express them.
func (a *Attributes) LabelRequirements() ([]metav1.LabelSelectorRequirement, error) {
	if !a.labels.known {
		a.labels.known = true
		if a.LabelSelector != "" {
			a.labels.list, a.labels.err = parseLabels(a.LabelSelector)
		}
	}
	return a.labels.list, a.labels.err
}

// SetFieldRequirements sets the field selector from a review. Operators that field selectors lack
// are left out, and FieldRequirements returns an error for them.
func (a *Attributes) SetFieldRequirements(list []metav1.FieldSelectorRequirement) {
	a.fields = requirements[metav1.FieldSelectorRequirement]{known: true}
	var errs []error
	for _, r := range list {
		if err := checkField(&r); err != nil {
			errs = append(errs, err)
			continue
		}
		a.fields.list = append(a.fields.list, r)
	}
	a.fields.err = aggregate(errs)
}

// checkField returns why a requirement of a review cannot be one of a field selector, nil if it
// can.
func checkField(r *metav1.FieldSelectorRequirement) error {
	if len(r.Values) > 1 {
		return fmt.Errorf("fieldSelectors do not yet support multiple values")
	}
	switch r.Operator {
	case metav1.FieldSelectorOpIn:
		if len(r.Values) != 1 {
			return fmt.Errorf("fieldSelectors in must have one value")
		}
	case metav1.FieldSelectorOpNotIn:
		if len(r.Values) != 1 {
			return fmt.Errorf("fieldSelectors not in must have one value")
		}
	case metav1.FieldSelectorOpExists, metav1.FieldSelectorOpDoesNotExist:
		return fmt.Errorf("fieldSelectors do not yet support %v", r.Operator)
	default:
		return fmt.Errorf("%q is not a valid field selector operator", r.Operator)
	}
	return nil
}

// SetLabelRequirements sets the label selector from a review. Invalid requirements are left out,
// and LabelRequirements returns an error for them.
func (a *Attributes) SetLabelRequirements(list []metav1.LabelSelectorRequirement) {
	a.labels = requirements[metav1.LabelSelectorRequirement]{known: true}
	var errs []error
	for _, r := range list {
		op, ok := labelOperators[r.Operator]
		if !ok {
			errs = append(errs, fmt.Errorf("%q is not a valid label selector operator", r.Operator))
			continue
		}
		if len(r.Values) == 0 {
			r.Values = nil
		}
		if _, err := labels.NewRequirement(r.Key, op, r.Values); err != nil {
			errs = append(errs, err)
			continue
		}
		a.labels.list = append(a.labels.list, r)
	}
	a.labels.err = aggregate(errs)
}

var labelOperators = map[metav1.LabelSelectorOperator]selection.Operator{
	metav1.LabelSelectorOpIn:           selection.In,
	metav1.LabelSelectorOpNotIn:        selection.NotIn,
	metav1.LabelSelectorOpExists:       selection.Exists,
	metav1.LabelSelectorOpDoesNotExist: selection.DoesNotExist,
}

// aggregate combines errors, in apimachinery's form.
func aggregate(errs []error) error {
	if len(errs) == 0 {
		return nil
	}
	return utilerrors.NewAggregate(errs)
}

// parseFields parses a field selector into requirements with one value each.
func parseFields(text string) ([]metav1.FieldSelectorRequirement, error) {
	s, err := fields.ParseSelector(text)
	if err != nil {
		return nil, err
	}
	var list []metav1.FieldSelectorRequirement
	for _, r := range s.Requirements() {
		out := metav1.FieldSelectorRequirement{Key: r.Field, Values: []string{r.Value}}
		switch r.Operator {
		case selection.Equals, selection.DoubleEquals, selection.In:
			out.Operator = metav1.FieldSelectorOpIn
		case selection.NotEquals, selection.NotIn:
			out.Operator = metav1.FieldSelectorOpNotIn
		default:
			continue
		}
		list = append(list, out)
	}
	return list, nil
}

// parseLabels parses a label selector into the requirements of a review.
func parseLabels(text string) ([]metav1.LabelSelectorRequirement, error) {
	s, err := labels.Parse(text)
	if err != nil {
		return nil, err
	}
	var list []metav1.LabelSelectorRequirement
	all, _ := s.Requirements()
	for _, r := range all {
		out := metav1.LabelSelectorRequirement{Key: r.Key()}
		if values := r.ValuesUnsorted(); len(values) > 0 {
			out.Values = values
		}
		switch r.Operator() {
		case selection.Equals, selection.DoubleEquals, selection.In:
			out.Operator = metav1.LabelSelectorOpIn
		case selection.NotEquals, selection.NotIn:
			out.Operator = metav1.LabelSelectorOpNotIn
		case selection.Exists:
			out.Operator = metav1.LabelSelectorOpExists
		case selection.DoesNotExist:
			out.Operator = metav1.LabelSelectorOpDoesNotExist
		default:
			continue
		}
		list = append(list, out)
	}
	return list, nil
}

// Forbidden returns the refusal of a request, with the authorizer's reason.
func (a *Attributes) Forbidden(reason string) error {
	text := status.Harmless(a.Refusal())
	if reason != "" {
		text += ": " + reason
	}
	return status.Forbidden(schema.GroupResource{Group: a.Group, Resource: a.Resource}, a.Name, errors.New(text))
}

// Refusal says who cannot do what.
func (a *Attributes) Refusal() string {
	if !a.ResourceRequest {
		return fmt.Sprintf("User %q cannot %s path %q", a.User.Name, a.Verb, a.Path)
	}
	resource := a.Resource
	if a.Subresource != "" {
		resource += "/" + a.Subresource
	}
	where := " at the cluster scope"
	if a.Namespace != "" {
		where = fmt.Sprintf(" in the namespace %q", a.Namespace)
	}
	return fmt.Sprintf("User %q cannot %s resource %q in API group %q%s", a.User.Name, a.Verb, resource, a.Group, where)
}
