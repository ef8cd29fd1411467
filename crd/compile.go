package crd

import (
	"fmt"
	"slices"
	"strings"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/version"

	"github.com/keelson-io/keelson/kind"
)

// This file compiles definitions to Kinds.

// Compile compiles a valid definition. Schemas are compiled when they are first used, or by the
// kind's Load.
func Compile(crd *apiextv1.CustomResourceDefinition) (*kind.Kind, error) {
	return (*Compiler)(nil).Compile(crd)
}

// Compile is [Compile] for a kind that a server serves; the kind shares schemas with others of c.
func (c *Compiler) Compile(crd *apiextv1.CustomResourceDefinition) (*kind.Kind, error) {
	return c.compile(crd, false)
}

// compile returns the kind of a definition. If outline is true, crd has no schemas: Rebase sets
// them.
func (c *Compiler) compile(crd *apiextv1.CustomResourceDefinition, outline bool) (*kind.Kind, error) {
	crd = c.keep(crd)
	spec, names := &crd.Spec, &crd.Status.AcceptedNames
	// Before the names are accepted, the kind has those that it asks for.
	if names.Kind == "" {
		names = &spec.Names
	}
	k := &kind.Kind{
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
		if err := c.addVersion(k, &spec.Versions[i], outline); err != nil {
			return nil, fmt.Errorf("%s: version %s: %w", crd.Name, spec.Versions[i].Name, err)
		}
	}
	if by := spec.Conversion; by != nil && by.Strategy == apiextv1.WebhookConverter {
		k.ConvertBy(by.Webhook)
	}
	if k.Storage == nil {
		return nil, fmt.Errorf("%s: no version is the storage version", crd.Name)
	}
	finish(k)
	return k, nil
}

// addVersion adds a version of the definition to k.
func (c *Compiler) addVersion(k *kind.Kind, in *apiextv1.CustomResourceDefinitionVersion, outline bool) error {
	v := &kind.Version{
		Kind: k, Name: in.Name, Served: in.Served, IsStorage: in.Storage, Deprecated: in.Deprecated,
		Status: hasStatus(in.Subresources), Attachments: new(kind.Attachments),
	}
	if in.DeprecationWarning != nil {
		v.Warning = *in.DeprecationWarning
	}
	if in.Subresources != nil && in.Subresources.Scale != nil {
		v.Scale = kind.NewScale(in.Subresources.Scale)
	}
	for i := range in.AdditionalPrinterColumns {
		column := &in.AdditionalPrinterColumns[i]
		v.Columns = append(v.Columns, kind.Column{
			Name: column.Name, Type: column.Type, Format: column.Format, Description: column.Description,
			Priority: column.Priority, JSONPath: column.JSONPath,
		})
	}
	if len(v.Columns) == 0 {
		v.Columns = []kind.Column{kind.AgeColumn()}
	}
	for _, f := range in.SelectableFields {
		v.SelectableFields = append(v.SelectableFields, kind.NewSelectable(f.JSONPath))
	}
	var err error
	if outline {
		err = c.setSchema(v, nil)
	} else {
		err = c.compileSchema(v, openAPI(in.Schema))
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

// compileSchema sets the schema of v. Only structural schemas can be compiled;
// preserveUnknownFields permits schemas without types.
func (c *Compiler) compileSchema(v *kind.Version, s *apiextv1.JSONSchemaProps) error {
	parsed, errs := c.parsedSchema(s, field.NewPath("schema", "openAPIV3Schema"))
	if len(errs) == 0 && parsed != nil {
		errs = c.structuralErrors(s, parsed, field.NewPath("schema", "openAPIV3Schema"))
		if v.Kind.PreserveUnknown && onlyTypesMissing(errs) {
			errs = nil
		}
	}
	if len(errs) > 0 {
		return fmt.Errorf("schema is not structural, which custom resources need here: %w", errs.ToAggregate())
	}
	return c.setSchema(v, parsed)
}

// onlyTypesMissing reports whether the only errors are missing types. Legacy definitions, which may
// be in an etcd of Kubernetes but can no longer be created, are served with such schemas.
func onlyTypesMissing(errs field.ErrorList) bool {
	for _, e := range errs {
		if e.Type != field.ErrorTypeRequired || !strings.HasSuffix(e.Field, ".type") {
			return false
		}
	}
	return true
}

// finish sets the fields of k that depend on all versions: the order for discovery, and default
// warnings.
func finish(k *kind.Kind) {
	for _, v := range k.All {
		if v.Served {
			k.Versions = append(k.Versions, v)
		}
	}
	slices.SortStableFunc(k.Versions, func(a, b *kind.Version) int {
		return version.CompareKubeAwareVersionStrings(b.Name, a.Name)
	})
	for _, v := range k.All {
		if v.Deprecated && v.Warning == "" {
			v.Warning = deprecation(k, v)
		}
	}
}

// deprecation returns the warning for a deprecated version without a warning of its own. It names
// the best newer version that is served and not deprecated, if there is one.
func deprecation(k *kind.Kind, v *kind.Version) string {
	text := v.APIVersion() + " " + k.Name + " is deprecated"
	for _, other := range k.Versions {
		if !other.Deprecated && version.CompareKubeAwareVersionStrings(v.Name, other.Name) < 0 {
			return text + "; use " + other.APIVersion() + " " + k.Name
		}
	}
	return text
}
