package storage

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-io/keelson/internal/builtin/describe"
	"github.com/keelson-io/keelson/internal/texts"
	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/kind"
	"github.com/keelson-io/keelson/schema"
)

// Bounds of a class's parameters.
const (
	maxParameters    = 512
	maxParameterSize = 256 << 10
)

// checkStorageClass checks a class; its provisioner and parameters are immutable.
func checkStorageClass(_ *kind.Version, d, old *jsondoc.Doc, _ schema.Scope) field.ErrorList {
	c := describe.ReadAs[storagev1.StorageClass](d.Root())
	at := field.NewPath("provisioner")
	errs := describe.NeedText(at, c.Provisioner)
	if c.Provisioner != "" {
		errs = append(errs, describe.Invalid(at, c.Provisioner, validation.IsQualifiedName(strings.ToLower(c.Provisioner)))...)
	}
	size := 0
	for name, value := range c.Parameters {
		if size += len(name) + len(value); name == "" {
			errs = append(errs, field.Invalid(field.NewPath("parameters"), name, "field can not be empty."))
		}
	}
	if len(c.Parameters) > maxParameters {
		errs = append(errs, field.TooLong(field.NewPath("provisioner"), "" /*unused*/, maxParameters))
	}
	if size > maxParameterSize {
		errs = append(errs, field.TooLong(field.NewPath("parameters"), "" /*unused*/, maxParameterSize))
	}
	if p := c.ReclaimPolicy; p != nil {
		errs = append(errs, describe.Among(field.NewPath("reclaimPolicy"), *p, corev1.PersistentVolumeReclaimDelete, corev1.PersistentVolumeReclaimRetain)...)
	}
	errs = append(errs, checkTopologies(c.AllowedTopologies, field.NewPath("allowedTopologies"))...)
	if old == nil {
		return errs
	}
	for _, member := range []string{"parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"} {
		if !jsondoc.Equal(d.Root().Get(member), old.Root().Get(member)) {
			errs = append(errs, field.Invalid(field.NewPath(member), nil, "field is immutable"))
		}
	}
	return errs
}

// checkTopologies checks the topologies in which a class may create volumes.
func checkTopologies(terms []corev1.TopologySelectorTerm, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	said := texts.Over(&errs)
	for i, t := range texts.EachOf(said, terms) {
		for j, e := range texts.EachOf(said, t.MatchLabelExpressions) {
			at := path.Index(i).Child("matchLabelExpressions").Index(j)
			if len(e.Values) == 0 {
				errs = append(errs, field.Required(at.Child("values"), ""))
			}
			seen := sets.Set[string]{}
			for k, value := range texts.EachOf(said, e.Values) {
				if seen.Has(value) {
					errs = append(errs, field.Duplicate(at.Child("values").Index(k), value))
				}
				seen.Insert(value)
			}
			errs = append(errs, describe.Invalid(at.Child("key"), e.Key, validation.IsQualifiedName(e.Key))...)
		}
	}
	return errs
}
