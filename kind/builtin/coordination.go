package builtin

import (
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-io/keelson/doc"
	"github.com/keelson-io/keelson/kind"
	"github.com/keelson-io/keelson/schema"
)

// This file describes leases.

func coordinationKinds() []description {
	return []description{{
		group: "coordination.k8s.io", kind: "Lease", plural: "leases",
		versions:  v1[coordinationv1.Lease](nil),
		versioned: true, createOnUpdate: true,
		columns: []kind.Column{
			{Name: "Holder", Type: "string", JSONPath: ".spec.holderIdentity", Description: coordinationv1.LeaseSpec{}.SwaggerDoc()["holderIdentity"]},
			ageColumn(),
		},
		check: checkLease,
	}}
}

func checkLease(_ *kind.Version, d, _ *doc.Doc, _ schema.Scope) field.ErrorList {
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
