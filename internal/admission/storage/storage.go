// Package storage has the admission plugins for volumes, claims and their classes.
//
// # Model
//
// Each plugin of kube-apiserver is a function that returns its step. [DefaultClass] names the storage
// class of a claim that names none, [InUse] adds the finalizers that keep volumes in use from being
// removed, and [Resize] refuses claims to grow if their class does not allow it. The controllers of
// package internal/controller/protection remove the finalizers.
//
// # Invariants
//
//   - Decisions and texts are those of Kubernetes' plugins.
//   - Classes are read as of the last acknowledged write, or later.
package storage

import (
	"context"
	"errors"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-io/keelson/internal/admission"
	"github.com/keelson-io/keelson/internal/admission/lookup"
	"github.com/keelson-io/keelson/internal/meta"
	"github.com/keelson-io/keelson/jsondoc"
)

// The resources that the steps are for.
var (
	Claims     = schema.GroupResource{Resource: "persistentvolumeclaims"}
	Volumes    = schema.GroupResource{Resource: "persistentvolumes"}
	Attributes = schema.GroupResource{Group: "storage.k8s.io", Resource: "volumeattributesclasses"}
)

// The finalizers of objects in use.
const (
	ClaimFinalizer      = "kubernetes.io/pvc-protection"
	VolumeFinalizer     = "kubernetes.io/pv-protection"
	AttributesFinalizer = "kubernetes.io/vac-protection"
)

// Finalizer returns the finalizer of a resource.
func Finalizer(gr schema.GroupResource) string {
	switch gr {
	case Claims:
		return ClaimFinalizer
	case Volumes:
		return VolumeFinalizer
	}
	return AttributesFinalizer
}

// Classes are the storage classes.
type Classes = lookup.Lister[storagev1.StorageClass]

// NewClasses returns the storage classes of a source.
func NewClasses(s lookup.Source) *Classes {
	return lookup.New[storagev1.StorageClass](s, schema.GroupResource{Group: "storage.k8s.io", Resource: "storageclasses"})
}

// The annotations that make a storage class the default.
const (
	defaultAnnotation    = "storageclass.kubernetes.io/is-default-class"
	oldDefaultAnnotation = "storageclass.beta.kubernetes.io/is-default-class"
)

// DefaultClass returns the plugin DefaultStorageClass, for Claims. Of several default classes the
// newest counts.
func DefaultClass(classes *Classes) admission.Func {
	return func(ctx context.Context, r *admission.Request) error {
		if r.Operation != admission.Create || r.Subresource != "" || hasClass(r.New) {
			return nil
		}
		all, err := classes.List(ctx, "")
		if err != nil {
			return r.Forbidden(err)
		}
		var found *storagev1.StorageClass
		for _, c := range all { // in the order of their names
			if c.Annotations[defaultAnnotation] != "true" && c.Annotations[oldDefaultAnnotation] != "true" {
				continue
			}
			if found == nil || c.CreationTimestamp.UnixNano() > found.CreationTimestamp.UnixNano() {
				found = c
			}
		}
		if found == nil {
			return nil
		}
		return r.Edit(found.Name, "spec", "storageClassName")
	}
}

// hasClass reports whether a claim names a class. An empty name counts: it asks for no class.
func hasClass(claim *jsondoc.Doc) bool {
	return claim.Root().At("metadata", "annotations", corev1.BetaStorageClassAnnotation).Exists() ||
		claim.Root().At("spec", "storageClassName").Exists()
}

// ClassOf returns the name of a claim's class, "" if it has none.
func ClassOf(claim *corev1.PersistentVolumeClaim) string {
	if class, ok := claim.Annotations[corev1.BetaStorageClassAnnotation]; ok {
		return class
	}
	if claim.Spec.StorageClassName != nil {
		return *claim.Spec.StorageClassName
	}
	return ""
}

// InUse returns the plugin StorageObjectInUseProtection, for Claims, Volumes and Attributes.
func InUse() admission.Func {
	return func(_ context.Context, r *admission.Request) error {
		if r.Operation != admission.Create || r.Subresource != "" {
			return nil
		}
		finalizer := Finalizer(r.Version.Kind.GroupResource())
		have := slices.Collect(meta.Object{Doc: r.New}.Finalizers())
		if slices.Contains(have, finalizer) {
			return nil
		}
		return r.Edit(append(have, finalizer), "metadata", "finalizers")
	}
}

// Resize returns the plugin PersistentVolumeClaimResize, for Claims.
func Resize(classes *Classes) admission.Func {
	return func(ctx context.Context, r *admission.Request) error {
		if r.Operation != admission.Update || r.Subresource != "" {
			return nil
		}
		claim, err := admission.NewObject[corev1.PersistentVolumeClaim](r)
		if err != nil {
			return err
		}
		old, err := admission.OldObject[corev1.PersistentVolumeClaim](r)
		if err != nil {
			return err
		}
		size, was := claim.Spec.Resources.Requests[corev1.ResourceStorage], old.Spec.Resources.Requests[corev1.ResourceStorage]
		if size.Cmp(was) <= 0 {
			return nil
		}
		if old.Status.Phase != corev1.ClaimBound {
			return r.Forbidden(errors.New("Only bound persistent volume claims can be expanded"))
		}
		errFixed := errors.New("only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize")
		name := ClassOf(claim)
		if name == "" || name != ClassOf(old) {
			return r.Forbidden(errFixed)
		}
		class, err := classes.Get(ctx, "", name)
		if err != nil || class == nil || class.AllowVolumeExpansion == nil || !*class.AllowVolumeExpansion {
			return r.Forbidden(errFixed)
		}
		return nil
	}
}
