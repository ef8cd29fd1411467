package meta

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-io/keelson/internal/texts"
)

// This file bounds the errors that apimachinery's validators make of metadata: a label of six bytes has an
// error of some hundred, and an owner of two bytes has four errors.

// mostInvalid is a number of invalid items whose errors have more text than a Status lists.
const mostInvalid = texts.Most / 40

// cut removes the items of lists and maps after mostInvalid invalid ones, whose errors would not be listed.
// If it removed any, it returns the last error of the list.
func cut(m *metav1.ObjectMeta) field.ErrorList {
	before := items(m)
	cutMap(m.Labels, func(key, value string) bool { return isQualifiedName(key, false) && isLabelValue(value) })
	cutMap(m.Annotations, func(key, _ string) bool { return isQualifiedName(key, true) })
	m.Finalizers = cutList(m.Finalizers, func(name *string) bool { return isQualifiedName(*name, false) })
	m.OwnerReferences = cutList(m.OwnerReferences, func(o *metav1.OwnerReference) bool {
		return o.Kind != "" && o.Name != "" && o.UID != "" && isGroupVersion(o.APIVersion)
	})
	m.ManagedFields = cutList(m.ManagedFields, func(e *metav1.ManagedFieldsEntry) bool {
		return (e.Operation == metav1.ManagedFieldsOperationApply || e.Operation == metav1.ManagedFieldsOperationUpdate) &&
			(e.FieldsType == "" || e.FieldsType == "FieldsV1") && isPrintable(e.Manager) && len(e.Subresource) <= maxSubresource
	})
	if items(m) == before {
		return nil
	}
	return field.ErrorList{texts.More()}
}

// items returns the number of items of all lists and maps.
func items(m *metav1.ObjectMeta) int {
	return len(m.Labels) + len(m.Annotations) + len(m.Finalizers) + len(m.OwnerReferences) + len(m.ManagedFields)
}

// cutMap removes invalid items beyond mostInvalid. Which ones is random, as the order of the errors is.
func cutMap(m map[string]string, valid func(key, value string) bool) {
	if len(m) <= mostInvalid {
		return
	}
	n := 0
	for key, value := range m {
		if valid(key, value) {
			continue
		}
		if n++; n > mostInvalid {
			delete(m, key)
		}
	}
}

// cutList ends a list after mostInvalid invalid items.
func cutList[T any](list []T, valid func(*T) bool) []T {
	if len(list) <= mostInvalid {
		return list
	}
	n := 0
	for i := range list {
		if valid(&list[i]) {
			continue
		}
		if n++; n == mostInvalid {
			return list[:i+1]
		}
	}
	return list
}
