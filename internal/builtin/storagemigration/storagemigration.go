// Package storagemigration describes storage version migrations, of the API group
// storagemigration.k8s.io. Package internal/controller/migration does what they ask for.
package storagemigration

import (
	"strings"

	migrationv1 "k8s.io/api/storagemigration/v1"
	migrationv1beta1 "k8s.io/api/storagemigration/v1beta1"
	metaconditions "k8s.io/apimachinery/pkg/api/meta"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-io/keelson/internal/builtin/describe"
	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/kind"
	"github.com/keelson-io/keelson/schema"
)

// This file describes storage version migrations.

// Kinds returns the description of storage version migrations.
func Kinds() []describe.Description {
	return []describe.Description{{
		Group: migrationv1.GroupName, Kind: "StorageVersionMigration", Plural: "storageversionmigrations", ClusterScoped: true,
		Older:    []describe.Version{describe.VersionOf[migrationv1beta1.StorageVersionMigration](nil, "v1beta1")},
		Versions: describe.V1[migrationv1.StorageVersionMigration](nil), Status: true,
		Traits: kind.Traits{RequireResourceVersion: true, StoredAs: "v1beta1", StatusKeeps: kind.WritableMetadata},
		Columns: []kind.Column{
			describe.Cell("Resource", "GroupResource to migrate", resourceText),
			describe.Cell("Status", "Status of the migration", stateText),
		},
		Check: check,
	}}
}

// resourceText returns the resource of a migration as plural.group.
func resourceText(obj jsondoc.Value) string {
	resource, group := obj.At("spec", "resource", "resource").Text(), obj.At("spec", "resource", "group").Text()
	if group == "" {
		return resource
	}
	return resource + "." + group
}

// stateText returns the last condition of a migration that is true.
func stateText(obj jsondoc.Value) string {
	state := "Unknown"
	for _, c := range obj.At("status", "conditions").Items() {
		switch t := migrationv1.MigrationConditionType(c.Get("type").Text()); {
		case c.Get("status").Text() != "True":
		case t == migrationv1.MigrationRunning, t == migrationv1.MigrationFailed, t == migrationv1.MigrationSucceeded:
			state = string(t)
		}
	}
	return state
}

// check checks a migration, or the write of its status.
func check(_ *kind.Version, new, old *jsondoc.Doc, scope schema.Scope) field.ErrorList {
	now := describe.ReadAs[migrationv1.StorageVersionMigration](new.Root())
	if old == nil {
		return checkSpec(&now.Spec)
	}
	before := describe.ReadAs[migrationv1.StorageVersionMigration](old.Root())
	if scope == schema.Status {
		return checkStatus(&now.Status, &before.Status)
	}
	errs := checkSpec(&now.Spec)
	if now.Spec != before.Spec {
		errs = append(errs, field.Invalid(field.NewPath("spec"), describe.InGoNames(now.Spec), "field is immutable").WithOrigin("immutable"))
	}
	return errs
}

// checkSpec checks the name of the resource.
func checkSpec(spec *migrationv1.StorageVersionMigrationSpec) field.ErrorList {
	var errs field.ErrorList
	path := field.NewPath("spec", "resource")
	add := func(name, value string, found []string) {
		if len(found) > 0 {
			errs = append(errs, field.Invalid(path.Child(name), value, strings.Join(found, ",")))
		}
	}
	if spec.Resource.Resource == "" {
		errs = append(errs, field.Required(path.Child("resource"), "resource is required to be set"))
	} else {
		add("resource", spec.Resource.Resource, validation.IsDNS1035Label(spec.Resource.Resource))
	}
	if spec.Resource.Group != "" {
		add("group", spec.Resource.Group, validation.IsDNS1123Subdomain(spec.Resource.Group))
	}
	return errs
}

// checkStatus checks a change of the status: a resource version stays, and so does the end of a
// migration.
func checkStatus(now, was *migrationv1.StorageVersionMigrationStatus) field.ErrorList {
	var errs field.ErrorList
	version, conditions := field.NewPath("status", "resourceVersion"), field.NewPath("status", "conditions")
	if now.ResourceVersion != "" {
		if _, err := resourceversion.CompareResourceVersion(now.ResourceVersion, now.ResourceVersion); err != nil {
			errs = append(errs, field.Invalid(version, now.ResourceVersion, err.Error()))
		}
	}
	errs = append(errs, metav1validation.ValidateConditions(now.Conditions, conditions)...)
	if was.ResourceVersion != "" && was.ResourceVersion != now.ResourceVersion {
		errs = append(errs, field.Invalid(version, now.ResourceVersion, "field is immutable"))
	}
	is := func(s *migrationv1.StorageVersionMigrationStatus, t migrationv1.MigrationConditionType) bool {
		return metaconditions.IsStatusConditionTrue(s.Conditions, string(t))
	}
	wrong := func(detail string) {
		errs = append(errs, field.Invalid(conditions, describe.InGoNames(now.Conditions), detail))
	}
	if is(now, migrationv1.MigrationSucceeded) && is(now, migrationv1.MigrationFailed) {
		wrong("Both success and failed conditions cannot be true at the same time")
	}
	if is(was, migrationv1.MigrationSucceeded) && !is(now, migrationv1.MigrationSucceeded) {
		wrong("Success condition cannot be set to false once it is true")
	}
	if is(was, migrationv1.MigrationFailed) && !is(now, migrationv1.MigrationFailed) {
		wrong("Failed condition cannot be set to false once it is true")
	}
	return errs
}
