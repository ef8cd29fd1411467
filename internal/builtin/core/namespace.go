package core

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"

	"github.com/keelson-io/keelson/internal/builtin/describe"
	"github.com/keelson-io/keelson/internal/meta"
	"github.com/keelson-io/keelson/internal/texts"
	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/kind"
	"github.com/keelson-io/keelson/schema"
	"github.com/keelson-io/keelson/schema/structural"
)

// This file is the kind Namespace.

// Namespaces returns the kind Namespace of the core group.
func Namespaces() *kind.Kind {
	s := structural.Object(map[string]*structural.Schema{
		"spec": structural.Object(map[string]*structural.Schema{"finalizers": structural.List(structural.String())}),
		"status": structural.Object(map[string]*structural.Schema{
			"phase":      structural.String(),
			"conditions": structural.Conditions(nil),
		}),
	})
	goType := kind.NewGoType(func() runtime.Object { return new(corev1.Namespace) })
	return kind.NewBuiltin(kind.Kind{
		Plural: "namespaces", Singular: "namespace", Name: "Namespace", ShortNames: []string{"ns"},
		StoragePrefix: "namespaces",
		Behavior: kind.Behavior{
			Traits:         kind.Traits{OneByOne: true, Named: labelNamespace, Delete: deleteNamespace},
			Subresources:   []kind.Subresource{{Name: "finalize", Verbs: []string{"update"}, Scope: schema.Finalize}},
			GoType:         func(*kind.Version) *kind.GoType { return goType },
			Load:           loadNamespace,
			Decode:         decodeNamespace,
			PrepareCreate:  prepareNamespace,
			PrepareUpdate:  prepareNamespaceUpdate,
			Validate:       validateNamespace,
			ValidateUpdate: validateNamespaceUpdate,
		},
	}, "v1", s, []kind.Selectable{kind.NewSelectable(".status.phase")},
		kind.Column{Name: "Status", Type: "string", JSONPath: ".status.phase", Description: "The status of the namespace"},
		kind.AgeColumn())
}

// loadNamespace reads a namespace that Kubernetes has stored.
func loadNamespace(v *kind.Version, raw []byte) ([]byte, error) {
	if !kind.IsProtobuf(raw) {
		return raw, nil
	}
	return kind.FromProtobuf(raw, func(m metav1.TypeMeta) (*kind.GoType, error) {
		if m.APIVersion != "v1" || m.Kind != "Namespace" {
			return nil, fmt.Errorf("stored Namespace: got %s, %s in protobuf", m.APIVersion, m.Kind)
		}
		return v.Kind.Behavior.GoType(v), nil
	})
}

// decodeNamespace decodes a namespace and sets the label that has its name. Upstream decodes into the
// Go type, which refuses values of other types. The schema would drop them.
func decodeNamespace(v *kind.Version, d *jsondoc.Doc, src []byte) (schema.Found, error) {
	if err := kjson.UnmarshalCaseSensitivePreserveInts(src, new(corev1.Namespace)); err != nil {
		return 0, err
	}
	found, err := v.Schema.Decode(d, src)
	if err == nil {
		labelNamespace(d)
	}
	return found, err
}

// labelNamespace sets the label kubernetes.io/metadata.name to the name of the namespace, if it has one yet.
func labelNamespace(d *jsondoc.Doc) {
	if name := (meta.Object{Doc: d}).Name(); name != "" {
		d.Set(d.NewString(name), "metadata", "labels", corev1.LabelMetadataName)
	}
}

// prepareNamespace resets the status and adds the finalizer of namespaces.
func prepareNamespace(d *jsondoc.Doc) {
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

// prepareNamespaceUpdate keeps the parts that the endpoint does not write, and fills in the phase.
func prepareNamespaceUpdate(new, old *jsondoc.Doc, scope schema.Scope) {
	switch scope {
	case schema.Status:
		kind.Keep(new, old, "spec")
		if new.Root().At("status", "phase").Text() == "" { // the default
			new.Set(new.NewString(string(corev1.NamespaceActive)), "status", "phase")
		}
	case schema.Finalize:
		kind.Keep(new, old, "status")
		if new.Root().At("spec", "finalizers").Len() == 0 {
			new.Remove("spec", "finalizers") // Go types print an empty spec so
		}
	default:
		labelNamespace(new)
		kind.Keep(new, old, "spec", "finalizers")
		kind.Keep(new, old, "status")
	}
	kind.Keep(new, old, "metadata", "generation")
}

// validateNamespace checks a new namespace.
func validateNamespace(_ context.Context, _ *kind.Version, d *jsondoc.Doc) schema.Result {
	m, err := meta.Object{Doc: d}.ObjectMeta()
	if err != nil {
		return schema.Result{Errors: field.ErrorList{field.InternalError(field.NewPath("metadata"), err)}}
	}
	errs := apivalidation.ValidateObjectMeta(&m, false, apivalidation.ValidateNamespaceName, field.NewPath("metadata"))
	return schema.Result{Errors: slices.Concat(errs, describe.CheckFinalizers(d), validateNamespaceFinalizers(d))}
}

// validateNamespaceFinalizers checks the finalizers in the spec.
func validateNamespaceFinalizers(d *jsondoc.Doc) field.ErrorList {
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

// isQualified reports whether a name has a domain, which is the part before a slash.
func isQualified(name string) bool {
	for i := range len(name) {
		if name[i] == '/' {
			return true
		}
	}
	return false
}

// validateNamespaceUpdate checks an update by the endpoint that it was sent to.
func validateNamespaceUpdate(_ context.Context, _ *kind.Version, new, old *jsondoc.Doc, scope schema.Scope) schema.Result {
	o := meta.Object{Doc: new}
	errs := append(meta.ValidateCommonUpdate(o, meta.Object{Doc: old}), describe.CheckFinalizers(new)...)
	switch scope {
	case schema.Status:
		errs = append(errs, validatePhase(new, o.DeletionTimestamp() == "")...)
	case schema.Finalize:
		errs = append(errs, validateNamespaceFinalizers(new)...)
	}
	return schema.Result{Errors: texts.Once(errs)}
}

// validatePhase checks that the phase fits the deletionTimestamp.
func validatePhase(d *jsondoc.Doc, alive bool) field.ErrorList {
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

// deleteNamespace marks a namespace as terminating, unless it has no finalizers.
func deleteNamespace(d *jsondoc.Doc, now string) bool {
	if (meta.Object{Doc: d}).DeletionTimestamp() != "" || d.Root().At("spec", "finalizers").Len() == 0 {
		return false
	}
	d.Set(d.NewString(now), "metadata", "deletionTimestamp")
	d.Set(d.NewString(string(corev1.NamespaceTerminating)), "status", "phase")
	return true
}
