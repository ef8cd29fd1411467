package structural

import (
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// This file checks completeness: fields that a junctor of the root restricts must be declared
// outside of it. Like Kubernetes, it does not check the junctors of other nodes.

// completeValues checks v, the restrictions at vPath, against s, the node at sPath that they
// restrict. s is nil if that node is not declared.
func completeValues(v *Values, s *Schema, sPath, vPath *field.Path, errs *field.ErrorList) {
	if v == nil {
		return
	}
	if v.Not != nil {
		completeNested(v.Not, s, sPath, vPath.Child("not"), errs)
	}
	for i, n := range v.AllOf {
		completeNested(n, s, sPath, vPath.Child("allOf").Index(i), errs)
	}
	for i, n := range v.AnyOf {
		completeNested(n, s, sPath, vPath.Child("anyOf").Index(i), errs)
	}
	for i, n := range v.OneOf {
		completeNested(n, s, sPath, vPath.Child("oneOf").Index(i), errs)
	}
}

// completeNested is completeValues for a schema below a junctor.
func completeNested(n *Nested, s *Schema, sPath, vPath *field.Path, errs *field.ErrorList) {
	if s == nil {
		add(errs, undeclared(sPath, vPath))
		return
	}
	completeValues(&n.Values, s, sPath, vPath, errs)
	if n.Items != nil {
		completeNested(n.Items, s.Items, sPath.Child("items"), vPath.Child("items"), errs)
	}
	for _, name := range n.Names {
		sProp, vProp := sPath.Child("properties").Key(name), vPath.Child("properties").Key(name)
		completeNested(n.Properties[name], s.Properties[name], sProp, vProp, errs)
	}
}

// undeclared returns the error of a field that is restricted but not declared.
func undeclared(sPath, vPath *field.Path) *field.Error {
	return field.Required(sPath, "because it is defined in "+vPath.String())
}
