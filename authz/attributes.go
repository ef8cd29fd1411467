package authz

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"

	"github.com/keelson-io/keelson/authn"
)

// This file is what a decision may depend on.

// Attributes are what a decision may depend on. They belong to one goroutine.
type Attributes struct {
	User *authn.User
	Verb string

	// Of a request for a resource. The version "*" stands for any: those who
	// ask for something other than a request use it.
	ResourceRequest bool
	Group           string
	Version         string
	Resource        string
	Subresource     string
	Namespace       string
	Name            string

	// FieldSelector and LabelSelector are a list's, watch's or
	// deletecollection's selectors as its URL has them. They are parsed when
	// an authorizer asks for them: see FieldRequirements.
	FieldSelector string
	LabelSelector string

	// Path of the request's URL.
	Path string

	// Trace, if not nil, records how the decision comes about.
	Trace *Trace

	// Memo is what an authorizer has made of the attributes and wants to find
	// again until the decision. A Chain releases it.
	Memo Memo

	fields requirements[metav1.FieldSelectorRequirement]
	labels requirements[metav1.LabelSelectorRequirement]
}

// Memo is something made of attributes. Release is called once, when nobody
// uses it any more.
type Memo interface{ Release() }

// forget releases the memo.
func (a *Attributes) forget() {
	if a.Memo != nil {
		a.Memo.Release()
		a.Memo = nil
	}
}

// requirements are those of one selector.
type requirements[T any] struct {
	known bool
	list  []T
	err   error
}

// IsReadOnly reports whether the verb only reads.
func (a *Attributes) IsReadOnly() bool {
	return a.Verb == "get" || a.Verb == "list" || a.Verb == "watch"
}

// FieldRequirements are the requirements of the field selector: In or NotIn
// with one value each. With an error, those that could be read; since all of
// them must hold, what is left out only widens what is asked for.
func (a *Attributes) FieldRequirements() ([]metav1.FieldSelectorRequirement, error) {
	if !a.fields.known {
		a.fields.known = true
		if a.FieldSelector != "" {
			a.fields.list, a.fields.err = parseFields(a.FieldSelector)
		}
	}
	return a.fields.list, a.fields.err
}

// LabelRequirements are the requirements of the label selector. Comparisons
// with numbers, which a review cannot express, are left out.
func (a *Attributes) LabelRequirements() ([]metav1.LabelSelectorRequirement, error) {
	if !a.labels.known {
		a.labels.known = true
		if a.LabelSelector != "" {
			a.labels.list, a.labels.err = parseLabels(a.LabelSelector)
		}
	}
	return a.labels.list, a.labels.err
}

// SetFieldRequirements sets what the field selector requires, in the form of a
// review. What is not a requirement that field selectors know is left out and
// becomes an error of FieldRequirements.
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

// SetLabelRequirements sets what the label selector requires, in the form of a
// review. What is no valid requirement is left out and becomes an error of
// LabelRequirements.
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

func aggregate(errs []error) error {
	if len(errs) == 0 {
		return nil
	}
	return utilerrors.NewAggregate(errs)
}

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
