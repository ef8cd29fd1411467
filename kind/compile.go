package kind

import (
	"fmt"
	"slices"
	"strings"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/version"
)

// This file makes Kinds of definitions.

// Compile makes a Kind of a valid definition. Its schemas are compiled when they
// are used first, or by [Kind.Load].
func Compile(crd *apiextv1.CustomResourceDefinition) (*Kind, error) { return compile(crd, false) }

// compile makes a Kind of a definition; the schemas of an outline come later.
func compile(crd *apiextv1.CustomResourceDefinition, outline bool) (*Kind, error) {
	spec, names := &crd.Spec, &crd.Status.AcceptedNames
	if names.Kind == "" {
		names = &spec.Names
	}
	k := &Kind{
		Group: spec.Group, Plural: spec.Names.Plural, Singular: names.Singular,
		Name: names.Kind, ListKind: names.ListKind,
		ShortNames: names.ShortNames, Categories: names.Categories,
		Namespaced: spec.Scope == apiextv1.NamespaceScoped,
		UID:        string(crd.UID), Generation: crd.Generation,
		Established:     HasCondition(crd, apiextv1.Established),
		Terminating:     HasCondition(crd, apiextv1.Terminating) || !crd.DeletionTimestamp.IsZero(),
		StoragePrefix:   spec.Group + "/" + spec.Names.Plural,
		PreserveUnknown: spec.PreserveUnknownFields,
	}
	for i := range spec.Versions {
		if err := k.addVersion(&spec.Versions[i], outline); err != nil {
			return nil, fmt.Errorf("%s: version %s: %w", crd.Name, spec.Versions[i].Name, err)
		}
	}
	if c := spec.Conversion; c != nil && c.Strategy == apiextv1.WebhookConverter {
		k.Conversion, k.rendering = c.Webhook, new(rendering)
	}
	if k.Storage == nil {
		return nil, fmt.Errorf("%s: no version is the storage version", crd.Name)
	}
	k.finish()
	return k, nil
}

// Load compiles the schemas of k. It fails for a definition that must not be
// accepted.
func (k *Kind) Load() error {
	for _, v := range k.All {
		if err := v.Schema.Load(); err != nil {
			return fmt.Errorf("version %s: %w", v.Name, err)
		}
	}
	return nil
}

func (k *Kind) addVersion(in *apiextv1.CustomResourceDefinitionVersion, outline bool) error {
	v := &Version{
		Kind: k, Name: in.Name, Served: in.Served, IsStorage: in.Storage, Deprecated: in.Deprecated,
		Status: hasStatus(in.Subresources),
	}
	if in.DeprecationWarning != nil {
		v.Warning = *in.DeprecationWarning
	}
	if in.Subresources != nil && in.Subresources.Scale != nil {
		v.Scale = newScale(in.Subresources.Scale)
	}
	for i := range in.AdditionalPrinterColumns {
		c := &in.AdditionalPrinterColumns[i]
		v.Columns = append(v.Columns, Column{
			Name: c.Name, Type: c.Type, Format: c.Format, Description: c.Description, Priority: c.Priority, JSONPath: c.JSONPath,
		})
	}
	if len(v.Columns) == 0 {
		v.Columns = []Column{AgeColumn()}
	}
	for _, f := range in.SelectableFields {
		v.SelectableFields = append(v.SelectableFields, NewSelectable(f.JSONPath))
	}
	var err error
	if outline {
		err = v.lazySchema(nil)
	} else {
		err = v.compileSchema(openAPI(in.Schema))
	}
	if err != nil {
		return err
	}
	k.All = append(k.All, v)
	if v.IsStorage {
		k.Storage = v
	}
	return nil
}

func (v *Version) compileSchema(s *apiextv1.JSONSchemaProps) error {
	parsed, errs := parsedSchema(s, field.NewPath("schema", "openAPIV3Schema"))
	if len(errs) == 0 && parsed != nil {
		errs = structuralErrors(s, parsed, field.NewPath("schema", "openAPIV3Schema"))
		if v.Kind.PreserveUnknown && onlyTypesMissing(errs) {
			errs = nil
		}
	}
	if len(errs) > 0 {
		return fmt.Errorf("schema is not structural, which custom resources need here: %w", errs.ToAggregate())
	}
	return v.lazySchema(parsed)
}

// onlyTypesMissing reports whether a schema is not structural just because it
// leaves types open: legacy definitions, which can be in etcd but not be
// created any more, are served with such schemas.
func onlyTypesMissing(errs field.ErrorList) bool {
	for _, e := range errs {
		if e.Type != field.ErrorTypeRequired || !strings.HasSuffix(e.Field, ".type") {
			return false
		}
	}
	return true
}

// finish fills in what depends on all versions.
func (k *Kind) finish() {
	for _, v := range k.All {
		if v.Served {
			k.Versions = append(k.Versions, v)
		}
	}
	slices.SortStableFunc(k.Versions, func(a, b *Version) int {
		return version.CompareKubeAwareVersionStrings(b.Name, a.Name)
	})
	for _, v := range k.All {
		if v.Deprecated && v.Warning == "" {
			v.Warning = k.deprecation(v)
		}
	}
}

// deprecation is what to tell about a deprecated version that says nothing
// itself: the best served version that is newer, if there is one.
func (k *Kind) deprecation(v *Version) string {
	text := v.APIVersion() + " " + k.Name + " is deprecated"
	for _, other := range k.Versions {
		if !other.Deprecated && version.CompareKubeAwareVersionStrings(v.Name, other.Name) < 0 {
			return text + "; use " + other.APIVersion() + " " + k.Name
		}
	}
	return text
}

func newScale(s *apiextv1.CustomResourceSubresourceScale) *Scale {
	scale := &Scale{
		SpecReplicas: s.SpecReplicasPath, SpecPath: steps(s.SpecReplicasPath),
		StatusReplicas: s.StatusReplicasPath, StatusPath: steps(s.StatusReplicasPath),
	}
	if s.LabelSelectorPath != nil {
		scale.LabelSelector, scale.SelectorPath = *s.LabelSelectorPath, steps(*s.LabelSelectorPath)
	}
	return scale
}

// NewSelectable is the field at a simple JSON path.
func NewSelectable(path string) Selectable {
	return Selectable{JSONPath: path, Label: strings.TrimPrefix(path, "."), Path: steps(path)}
}

// AgeColumn is what a version without columns shows.
func AgeColumn() Column {
	return Column{
		Name: "Age", Type: "date", JSONPath: ".metadata.creationTimestamp",
		Description: metav1.ObjectMeta{}.SwaggerDoc()["creationTimestamp"],
	}
}
