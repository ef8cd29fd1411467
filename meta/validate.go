package meta

import (
	"context"

	"k8s.io/apimachinery/pkg/api/operation"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-io/keelson/doc"
)

// This file validates metadata: fast where all is well, with apimachinery's
// validators where anything is in doubt.

var metadataPath = field.NewPath("metadata")

// NameFunc checks a name, or with prefix the base of a generated one, and says
// what is wrong with it.
type NameFunc = validation.ValidateNameFunc

// ValidateObjectMeta checks the metadata of a new object, whose name is a
// DNS-1123 subdomain as that of any custom resource.
func ValidateObjectMeta(o Object, namespaced bool) field.ErrorList {
	if validMeta(o.Meta(), namespaced) {
		return nil
	}
	return ValidateObjectMetaWithName(o, namespaced, validation.NameIsDNSSubdomain)
}

// ValidateObjectMetaWithName is ValidateObjectMeta for a kind whose names have
// rules of their own.
func ValidateObjectMetaWithName(o Object, namespaced bool, name NameFunc) field.ErrorList {
	m, errs := decode(o)
	if errs != nil {
		return errs
	}
	errs = declaratively(operation.Create, &m, nil, namespaced, name)
	if len(errs) == 0 {
		errs = validation.ValidateObjectMetaAccessor(&m, namespaced, pathSegment, metadataPath)
	}
	return errs
}

// ValidateObjectMetaUpdate checks the metadata of an update, in which what the
// server keeps is already filled in. An error may be there twice, as it is
// upstream: the message of a Status names each once.
func ValidateObjectMetaUpdate(new, old Object) field.ErrorList {
	return validateUpdate(new, old, true)
}

// ValidateCommonUpdate is ValidateObjectMetaUpdate without what is said a second time of objects that are of the kind that they should be.
func ValidateCommonUpdate(new, old Object) field.ErrorList {
	return validateUpdate(new, old, false)
}

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
	errs = validation.ValidateObjectMetaAccessor(&n, namespaced, pathSegment, metadataPath)
	errs = append(errs, validation.ValidateObjectMetaAccessorUpdate(&n, &was, metadataPath)...)
	if again {
		errs = append(errs, declaratively(operation.Update, &n, &was, namespaced, nil)...)
	}
	return errs
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

// pathSegment is the rule for every name: it must fit a URL's path.
func pathSegment(name string, prefix bool) []string {
	if prefix {
		return content.IsPathSegmentPrefix(name)
	}
	return content.IsPathSegmentName(name)
}

// validMeta reports whether metadata is valid beyond doubt. That its members
// have the types of ObjectMeta is the decoder's business.
func validMeta(m doc.Value, namespaced bool) bool {
	if m.Kind() != doc.Object || !isSubdomain(m.Get("name").Text()) {
		return false
	}
	if namespace := m.Get("namespace"); namespaced && !isLabel(namespace.Text()) || !namespaced && given(namespace) {
		return false
	}
	if base := m.Get("generateName"); given(base) && !isSubdomain(base.Text()) {
		return false // one that ends in a dash, say, is for the slow path
	}
	if g := m.Get("generation"); g.Exists() && (g.Kind() != doc.Int || g.Int() < 0) {
		return false
	}
	return validLabels(m.Get("labels")) && validAnnotations(m.Get("annotations")) && validOwners(m.Get("ownerReferences")) &&
		validFinalizers(m.Get("finalizers")) && validManagers(m.Get("managedFields"))
}

func validLabels(v doc.Value) bool {
	if v.Exists() && v.Kind() != doc.Object {
		return false
	}
	for key, value := range v.Members() {
		if value.Kind() != doc.String || !isQualifiedName(key, false) || !isLabelValue(value.Text()) {
			return false
		}
	}
	return true
}

func validAnnotations(v doc.Value) bool {
	if v.Exists() && v.Kind() != doc.Object {
		return false
	}
	size := 0
	for key, value := range v.Members() {
		if value.Kind() != doc.String || !isQualifiedName(key, true) {
			return false
		}
		size += len(key) + value.Node.Len()
	}
	return size <= validation.TotalAnnotationSizeLimitB
}

func validOwners(v doc.Value) bool {
	if v.Exists() && v.Kind() != doc.Array {
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

func validFinalizers(v doc.Value) bool {
	if v.Exists() && v.Kind() != doc.Array {
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

func validManagers(v doc.Value) bool {
	if v.Exists() && v.Kind() != doc.Array {
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

// validUpdate reports whether new may follow old beyond doubt, new being valid
// by itself.
func validUpdate(new, old doc.Value) bool {
	for _, name := range [...]string{"name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"} {
		if !doc.Equal(new.Get(name), old.Get(name)) {
			return false
		}
	}
	if new.Get("resourceVersion").Text() == "" || new.Get("generation").Int() < old.Get("generation").Int() {
		return false
	}
	return !given(old.Get("deletionTimestamp")) || doc.Equal(new.Get("finalizers"), old.Get("finalizers"))
}
