package offline

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// This file finds documents that describe the same object.

// Conflict is two documents that describe one object differently.
type Conflict struct {
	Subject       Subject
	First, Second Document
	// Outside is set for CRDs that differ only outside of their schemas: objects are the same with both.
	Outside bool
}

// Error implements error.
func (c *Conflict) Error() string {
	return c.Second.String() + ": " + c.Text()
}

// Text returns the error without the position of the second document.
func (c *Conflict) Text() string {
	if c.Outside {
		return fmt.Sprintf("%s %q differs in %s, outside of its schemas: that one is used", c.Subject.Kind, c.Subject.Name, c.First)
	}
	return fmt.Sprintf("%s %q is described differently in %s; leave one of them out", c.Subject.Kind, c.Subject.Name, c.First)
}

// Distinct returns the documents without those that say the same of an object as an earlier one, and
// the conflicts: documents that say something else. They are left out, too. Of definitions, only the
// specs are compared. Documents that are not objects with a name are kept.
func Distinct(docs []Document) (distinct []Document, conflicts []*Conflict) {
	first := map[Subject]Document{}
	for _, d := range docs {
		s := SubjectOf(d, "")
		if s.Name == "" {
			distinct = append(distinct, d)
			continue
		}
		before, ok := first[s]
		switch {
		case !ok:
			first[s] = d
			distinct = append(distinct, d)
		case !same(s, before, d):
			conflicts = append(conflicts, &Conflict{s, before, d, sameSchemas(s, before, d)})
		}
	}
	return distinct, conflicts
}

// IsDefinition reports whether a document is a CustomResourceDefinition.
func IsDefinition(d Document) bool {
	h, err := headOf(d)
	return err == nil && stageOf(h.GroupVersionKind().GroupKind()) == stageDefinitions
}

// same reports whether two documents describe their object in the same way.
func same(s Subject, a, b Document) bool {
	if bytes.Equal(a.JSON, b.JSON) {
		return true
	}
	var values [2]map[string]any
	for i, d := range []Document{a, b} {
		dec := json.NewDecoder(bytes.NewReader(d.JSON))
		dec.UseNumber()
		if dec.Decode(&values[i]) != nil {
			return false
		}
		if s.Group == apiextv1.GroupName {
			delete(values[i], "metadata")
			delete(values[i], "status")
		}
	}
	return reflect.DeepEqual(values[0], values[1])
}

// sameSchemas reports whether two CRDs have the same names, scope and versions with the same schemas.
func sameSchemas(s Subject, a, b Document) bool {
	if s.Group != apiextv1.GroupName {
		return false
	}
	type version struct {
		Name            string
		Served, Storage bool
		Schema          any
		Subresources    any
	}
	var crds [2]struct {
		APIVersion string
		Spec       struct {
			Group, Scope          string
			PreserveUnknownFields bool
			Names                 struct{ Plural, Kind string }
			Versions              []version
			Validation            any // of v1beta1
		}
	}
	for i, d := range []Document{a, b} {
		dec := json.NewDecoder(bytes.NewReader(d.JSON))
		dec.UseNumber()
		if dec.Decode(&crds[i]) != nil {
			return false
		}
	}
	return reflect.DeepEqual(crds[0], crds[1])
}
