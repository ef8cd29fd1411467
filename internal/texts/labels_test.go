package texts

import (
	"fmt"
	"slices"
	"testing"

	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// said returns the sorted texts of errors.
func said(errs field.ErrorList) []string {
	var all []string
	for _, err := range errs {
		all = append(all, err.Error())
	}
	slices.Sort(all)
	return all
}

// TestLabels holds that the errors of labels, annotations and selectors are those of apimachinery's
// validators, and that they end.
//
// Ledger: error-lists.
func TestLabels(t *testing.T) {
	path, strict := field.NewPath("p"), metav1validation.LabelSelectorValidationOptions{}
	for _, items := range []int{3, few + 1, 100_000} {
		labels, values := map[string]string{"ok": "ok"}, []string{"ok"}
		for i := range items {
			labels[fmt.Sprintf("a b%d", i)] = "c d"
			values = append(values, fmt.Sprintf("a b%d", i))
		}
		selector := &metav1.LabelSelector{MatchLabels: map[string]string{"a b": ""}, MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: "k", Operator: "Other", Values: values}, {Key: "k", Operator: metav1.LabelSelectorOpIn},
		}}
		for name, c := range map[string]struct{ got, want field.ErrorList }{
			"labels":      {Labels(labels, path), metav1validation.ValidateLabels(labels, path)},
			"annotations": {Annotations(labels, path), apivalidation.ValidateAnnotations(labels, path)},
			"selector":    {Selector(selector, strict, path), metav1validation.ValidateLabelSelector(selector, strict, path)},
		} {
			if items <= few+1 && !slices.Equal(said(c.got), said(c.want)) {
				t.Errorf("%s: got %d errors of %d items, want %d", name, len(c.got), items, len(c.want))
			}
			// The last errors may be that the annotations are too long, and those of the next requirement.
			if ended := slices.ContainsFunc(c.got, IsMore); items > few+1 && (!ended || len(c.got) > Most/100) {
				t.Errorf("%s: got %d errors of %d items", name, len(c.got), items)
			}
		}
	}
	if errs := Selector(nil, strict, path); errs != nil {
		t.Errorf("no selector: got %v", errs)
	}
}
