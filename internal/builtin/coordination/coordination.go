// Package coordination describes leases, of the API group coordination.k8s.io.
package coordination

import (
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-io/keelson/internal/builtin/describe"
	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/kind"
	"github.com/keelson-io/keelson/schema"
)

// This file describes leases and checks them.

// Kinds returns the descriptions of the kinds of the group.
func Kinds() []describe.Description {
	return []describe.Description{{
		Group: "coordination.k8s.io", Kind: "Lease", Plural: "leases",
		Versions: describe.V1[coordinationv1.Lease](nil),
		Traits:   kind.Traits{RequireResourceVersion: true, CreateOnUpdate: true}, AnyFinalizer: true,
		Columns: []kind.Column{
			{Name: "Holder", Type: "string", JSONPath: ".spec.holderIdentity", Description: coordinationv1.LeaseSpec{}.SwaggerDoc()["holderIdentity"]},
			describe.AgeColumn(),
		},
		Check: checkLease,
	}}
}

// checkLease checks the durations and the strategy of a lease.
func checkLease(_ *kind.Version, d, _ *jsondoc.Doc, _ schema.Scope) field.ErrorList {
	var errs field.ErrorList
	spec, path := d.Root().Get("spec"), field.NewPath("spec")
	if n := spec.Get("leaseDurationSeconds"); n.Exists() && n.Int() <= 0 {
		errs = append(errs, field.Invalid(path.Child("leaseDurationSeconds"), n.Int(), "must be greater than 0"))
	}
	if n := spec.Get("leaseTransitions"); n.Exists() && n.Int() < 0 {
		errs = append(errs, field.Invalid(path.Child("leaseTransitions"), n.Int(), "must be greater than or equal to 0"))
	}
	return errs
}
