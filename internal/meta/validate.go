package meta

import (
	"context"

	"k8s.io/apimachinery/pkg/api/operation"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-io/keelson/jsondoc"
)

// This file validates metadata: a fast path on the document, and apimachinery's validators if it
// does not confirm that all is valid.

var metadataPath = field.NewPath("metadata")

// NameFunc returns the errors of a name. With prefix, the name is a generateName.
type NameFunc = validation.ValidateNameFunc

// ValidateObjectMeta validates the metadata of a new object whose name must be a DNS-1123
// subdomain, as for custom resources.
func ValidateObjectMeta(o Object, namespaced bool) field.ErrorList {
	if validMeta(o.Meta(), namespaced) {
		return nil
	}
	return ValidateObjectMetaWithName(o, namespaced, validation.NameIsDNSSubdomain)
}

// ValidateObjectMetaWithName is ValidateObjectMeta for kinds with other rules for names.
func ValidateObjectMetaWithName(o Object, namespaced bool, name NameFunc) field.ErrorList {
	m, errs := decode(o)
	if errs != nil {
		return errs
	}
	ended := cut(&m)
	errs = declaratively(operation.Create, &m, nil, namespaced, name)
	if len(errs) == 0 {
		errs = validation.ValidateObjectMetaAccessor(&m, namespaced, pathSegment, metadataPath)
	}
	return append(errs, ended...)
}

// ValidateObjectMetaUpdate validates the metadata of an update, after FillUpdate. As upstream, it
// may return an error twice; a Status lists it once.
func ValidateObjectMetaUpdate(new, old Object) field.ErrorList {
	return validateUpdate(new, old, true)
}

// ValidateCommonUpdate is ValidateObjectMetaUpdate without these repeated errors, for built-in
// kinds.
func ValidateCommonUpdate(new, old Object) field.ErrorList {
	return validateUpdate(new, old, false)
}

// validateUpdate validates an update. again adds the repeated errors.
func validateUpdate(new, old Object, again bool) field.ErrorList {
	namespaced := old.Namespace() != ""
	if validMeta(new.Meta(), namespaced) && validUpdate(new.Meta(), old.Meta()) {
		return nil
	}
	n, errs := decode(new)
	if errs != nil {
		return errs
	}
	was, errs := decode(old)
	if errs != nil {
		return errs
	}
	ended := cut(&n)
	errs = validation.ValidateObjectMetaAccessor(&n, namespaced, pathSegment, metadataPath)
	errs = append(errs, validation.ValidateObjectMetaAccessorUpdate(&n, &was, metadataPath)...)
	if again {
		errs = append(errs, declaratively(operation.Update, &n, &was, namespaced, nil)...)
	}
	return append(errs, ended...)
}

func decode(o Object) (metav1.ObjectMeta, field.ErrorList) {
	m, err := o.ObjectMeta()
	if err != nil {
		return m, field.ErrorList{field.Invalid(metadataPath, nil, err.Error())}
	}
	return m, nil
}

func declaratively(op operation.Type, new, old *metav1.ObjectMeta, namespaced bool, name NameFunc) field.ErrorList {
	const beta = true
	return validation.ValidateObjectMetaDeclaratively(context.Background(), op, new, old, namespaced, name, metadataPath, beta)
}

// pathSegment checks the rule for all names: they must be usable in a URL path.
func pathSegment(name string, prefix bool) []string {
	if prefix {
		return content.IsPathSegmentPrefix(name)
	}
	return content.IsPathSegmentName(name)
}

// validMeta reports whether metadata is certainly valid. The decoder has already checked the types
// of its members.
func validMeta(m jsondoc.Value, namespaced bool) bool {
	if m.Kind() != jsondoc.Object || !isSubdomain(m.Get("name").Text()) {
		return false
	}
	if namespace := m.Get("namespace"); namespaced && !isLabel(namespace.Text()) || !namespaced && given(namespace) {
		return false
	}
	if base := m.Get("generateName"); given(base) && !isSubdomain(base.Text()) {
		return false // for example, a generateName that ends in a dash takes the slow path
	}
	if g := m.Get("generation"); g.Exists() && (g.Kind() != jsondoc.Int || g.Int() < 0) {
		return false
	}
	return validLabels(m.Get("labels")) && validAnnotations(m.Get("annotations")) && validOwners(m.Get("ownerReferences")) &&
		validFinalizers(m.Get("finalizers")) && validManagers(m.Get("managedFields"))
}

func validLabels(v jsondoc.Value) bool {
	if v.Exists() && v.Kind() != jsondoc.Object {
		return false
	}
	for key, value := range v.Members() {
		if value.Kind() != jsondoc.String || !isQualifiedName(key, false) || !isLabelValue(value.Text()) {
			return false
		}
	}
	return true
}

func validAnnotations(v jsondoc.Value) bool {
	if v.Exists() && v.Kind() != jsondoc.Object {
		return false
	}
	size := 0
	for key, value := range v.Members() {
		if value.Kind() != jsondoc.String || !isQualifiedName(key, true) {
			return false
		}
		size += len(key) + value.Node.Len()
	}
	return size <= validation.TotalAnnotationSizeLimitB
}

func validOwners(v jsondoc.Value) bool {
	if v.Exists() && v.Kind() != jsondoc.Array {
		return false
	}
	controllers := 0
	for _, ref := range v.Items() {
		kind := ref.Get("kind").Text()
		if kind == "" || kind == "Event" || ref.Get("name").Text() == "" || ref.Get("uid").Text() == "" || !isGroupVersion(ref.Get("apiVersion").Text()) {
			return false
		}
		if ref.Get("controller").Bool() {
			controllers++
		}
	}
	return controllers <= 1
}

func validFinalizers(v jsondoc.Value) bool {
	if v.Exists() && v.Kind() != jsondoc.Array {
		return false
	}
	orphan, foreground := false, false
	for _, f := range v.Items() {
		name := f.Text()
		if !isQualifiedName(name, false) {
			return false
		}
		orphan = orphan || name == metav1.FinalizerOrphanDependents
		foreground = foreground || name == metav1.FinalizerDeleteDependents
	}
	return !orphan || !foreground
}

func validManagers(v jsondoc.Value) bool {
	if v.Exists() && v.Kind() != jsondoc.Array {
		return false
	}
	for _, entry := range v.Items() {
		switch metav1.ManagedFieldsOperationType(entry.Get("operation").Text()) {
		case metav1.ManagedFieldsOperationApply, metav1.ManagedFieldsOperationUpdate:
		default:
			return false
		}
		if t := entry.Get("fieldsType"); t.Exists() && t.Text() != "FieldsV1" {
			return false
		}
		if !isPrintable(entry.Get("manager").Text()) || len(entry.Get("subresource").Text()) > maxSubresource {
			return false
		}
	}
	return true
}

const maxSubresource = 256

// validUpdate reports whether an update of old to new is certainly valid. new must be valid by
// itself.
func validUpdate(new, old jsondoc.Value) bool {
	for _, name := range [...]string{"name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"} {
		if !jsondoc.Equal(new.Get(name), old.Get(name)) {
			return false
		}
	}
	if new.Get("resourceVersion").Text() == "" || new.Get("generation").Int() < old.Get("generation").Int() {
		return false
	}
	return !given(old.Get("deletionTimestamp")) || jsondoc.Equal(new.Get("finalizers"), old.Get("finalizers"))
}
