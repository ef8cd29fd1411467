package kind

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-io/keelson/doc"
	"github.com/keelson-io/keelson/meta"
	"github.com/keelson-io/keelson/schema"
	"github.com/keelson-io/keelson/schema/structural"
)

// This file is the kind Namespace.

// namespaces is the kind Namespace of the core group.
func namespaces() *Kind {
	s := structOf(map[string]*structural.Schema{
		"spec": structOf(map[string]*structural.Schema{"finalizers": list(text())}),
		"status": structOf(map[string]*structural.Schema{
			"phase":      text(),
			"conditions": conditions(nil),
		}),
	})
	return newBuiltin(Kind{
		Plural: "namespaces", Singular: "namespace", Name: "Namespace", ShortNames: []string{"ns"},
		StoragePrefix: "namespaces",
		Builtin: &Builtin{
			AllowUnconditionalUpdate: true,
			OneByOne:                 true,
			Subresources:             []Subresource{{Name: "finalize", Verbs: []string{"update"}, Scope: Finalize}},
			New:                      func(*Version) runtime.Object { return new(corev1.Namespace) },
			Load:                     loadNamespace,
			Decode:                   decodeNamespace,
			PrepareCreate:            prepareNamespace,
			PrepareUpdate:            prepareNamespaceUpdate,
			Validate:                 validateNamespace,
			ValidateUpdate:           validateNamespaceUpdate,
			Delete:                   deleteNamespace,
		},
	}, "v1", s, []Selectable{NewSelectable(".status.phase")},
		Column{Name: "Status", Type: "string", JSONPath: ".status.phase", Description: "The status of the namespace"},
		AgeColumn())
}

// loadNamespace reads a namespace that Kubernetes has stored.
func loadNamespace(v *Version, raw []byte) ([]byte, error) {
	if !IsProtobuf(raw) {
		return raw, nil
	}
	return FromProtobuf(raw, func(m metav1.TypeMeta) (runtime.Object, error) {
		if m.APIVersion != "v1" || m.Kind != "Namespace" {
			return nil, fmt.Errorf("stored Namespace: got %s, %s in protobuf", m.APIVersion, m.Kind)
		}
		return new(corev1.Namespace), nil
	})
}

func decodeNamespace(v *Version, d *doc.Doc, src []byte) (schema.Found, error) {
	found, err := v.Schema.Decode(d, src)
	if err == nil {
		labelNamespace(d)
	}
	return found, err
}

// labelNamespace gives a namespace the label that always has its name.
func labelNamespace(d *doc.Doc) {
	if name := (meta.Object{Doc: d}).Name(); name != "" {
		d.Set(d.NewString(name), "metadata", "labels", corev1.LabelMetadataName)
	}
}

func prepareNamespace(d *doc.Doc) {
	labelNamespace(d)
	d.Remove("status")
	d.Remove("metadata", "generation")
	d.Set(d.NewString(string(corev1.NamespaceActive)), "status", "phase")
	finalizers := d.Root().At("spec", "finalizers")
	var all []string
	for _, f := range finalizers.Items() {
		if f.Text() == string(corev1.FinalizerKubernetes) {
			return
		}
		all = append(all, f.Text())
	}
	d.Set(d.NewStrings(append(all, string(corev1.FinalizerKubernetes))), "spec", "finalizers")
}

func prepareNamespaceUpdate(new, old *doc.Doc, scope schema.Scope) {
	switch scope {
	case schema.Status:
		Keep(new, old, "spec")
	case Finalize:
		Keep(new, old, "status")
		if new.Root().At("spec", "finalizers").Len() == 0 {
			new.Remove("spec", "finalizers") // as a Go type prints it
		}
	default:
		labelNamespace(new)
		Keep(new, old, "spec", "finalizers")
		Keep(new, old, "status")
	}
	Keep(new, old, "metadata", "generation")
}

func validateNamespace(_ context.Context, _ *Version, d *doc.Doc) schema.Result {
	m, err := meta.Object{Doc: d}.ObjectMeta()
	if err != nil {
		return schema.Result{Errors: field.ErrorList{field.InternalError(field.NewPath("metadata"), err)}}
	}
	errs := apivalidation.ValidateObjectMeta(&m, false, apivalidation.ValidateNamespaceName, field.NewPath("metadata"))
	return schema.Result{Errors: slices.Concat(errs, CheckFinalizers(d), validateNamespaceFinalizers(d))}
}

// CheckFinalizers refuses names of finalizers that could be anybody's, as upstream does for built-in kinds.
func CheckFinalizers(d *doc.Doc) field.ErrorList {
	var errs field.ErrorList
	for i, f := range d.Root().At("metadata", "finalizers").Items() {
		switch name := f.Text(); {
		case strings.Contains(name, "/"):
		case name == string(corev1.FinalizerKubernetes) || name == metav1.FinalizerOrphanDependents || name == metav1.FinalizerDeleteDependents:
		default:
			errs = append(errs, field.Invalid(field.NewPath("metadata", "finalizers").Index(i), strings.Clone(name), "name is neither a standard finalizer name nor is it fully qualified"))
		}
	}
	return errs
}

func validateNamespaceFinalizers(d *doc.Doc) field.ErrorList {
	var errs field.ErrorList
	path := field.NewPath("spec", "finalizers")
	for _, f := range d.Root().At("spec", "finalizers").Items() {
		name := f.Text()
		found := apivalidation.ValidateFinalizerName(name, path)
		if len(found) == 0 && !isQualified(name) && name != string(corev1.FinalizerKubernetes) &&
			name != metav1.FinalizerOrphanDependents && name != metav1.FinalizerDeleteDependents {
			found = append(found, field.Invalid(path, name, "name is neither a standard finalizer name nor is it fully qualified"))
		}
		errs = append(errs, found...)
	}
	return errs
}

func isQualified(name string) bool {
	for i := range len(name) {
		if name[i] == '/' {
			return true
		}
	}
	return false
}

func validateNamespaceUpdate(_ context.Context, _ *Version, new, old *doc.Doc, scope schema.Scope) schema.Result {
	o := meta.Object{Doc: new}
	errs := append(meta.ValidateObjectMetaUpdate(o, meta.Object{Doc: old}), CheckFinalizers(new)...)
	switch scope {
	case schema.Status:
		errs = append(errs, validatePhase(new, o.DeletionTimestamp() == "")...)
	case Finalize:
		errs = append(errs, validateNamespaceFinalizers(new)...)
	}
	return schema.Result{Errors: errs}
}

func validatePhase(d *doc.Doc, alive bool) field.ErrorList {
	phase := d.Root().At("status", "phase").Text()
	want, not := corev1.NamespaceTerminating, " not"
	if alive {
		want, not = corev1.NamespaceActive, ""
	}
	if phase == string(want) {
		return nil
	}
	return field.ErrorList{field.Invalid(field.NewPath("status", "Phase"), phase,
		fmt.Sprintf("may only be '%s' if `deletionTimestamp` is%s empty", want, not))}
}

func deleteNamespace(d *doc.Doc, now string) bool {
	if (meta.Object{Doc: d}).DeletionTimestamp() != "" || d.Root().At("spec", "finalizers").Len() == 0 {
		return false
	}
	d.Set(d.NewString(now), "metadata", "deletionTimestamp")
	d.Set(d.NewString(string(corev1.NamespaceTerminating)), "status", "phase")
	return true
}
