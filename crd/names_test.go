package crd

import (
	"fmt"
	"strings"
	"testing"
	"time"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// This file tests how names are granted.

// TestManyShortNames checks that 150,000 short names do not cause 11,000,000,000 comparisons, and
// that the condition that lists those in use can be stored.
func TestManyShortNames(t *testing.T) {
	short := make([]string, 150_000)
	for i := range short {
		short[i] = fmt.Sprintf("n%06d", i)
	}
	crd := &apiextv1.CustomResourceDefinition{}
	crd.Spec.Names = apiextv1.CustomResourceDefinitionNames{Plural: "foos", Singular: "foo", Kind: "Foo", ListKind: "FooList", ShortNames: short}
	crd.Status.AcceptedNames = crd.Spec.Names
	crd.Status.AcceptedNames.ShortNames = short[:len(short)-1]
	var used Names
	used.Add(&crd.Status.AcceptedNames)
	if !NameConditions(crd, used, time.Now()) || len(crd.Status.AcceptedNames.ShortNames) != len(short) {
		t.Errorf("got %d names, want %d", len(crd.Status.AcceptedNames.ShortNames), len(short))
	}
	other := &apiextv1.CustomResourceDefinition{}
	other.Spec.Names = crd.Spec.Names
	used.Add(&crd.Status.AcceptedNames)
	other.Spec.Names.Plural, other.Spec.Names.Singular, other.Spec.Names.Kind, other.Spec.Names.ListKind = "bars", "bar", "Bar", "BarList"
	NameConditions(other, used, time.Now())
	c := Condition(other, apiextv1.NamesAccepted)
	if c == nil || c.Reason != "ShortNamesConflict" || len(c.Message) > 100_000 || !strings.HasSuffix(c.Message, "] and 149000 more") {
		t.Errorf("got %.300v", c)
	}
}
