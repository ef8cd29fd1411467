package crd

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/schema"
	"github.com/keelson-io/keelson/schema/structural"
)

// This file fills in the defaults of definitions, and checks the default values in their schemas.

// Default fills in the defaults of a definition in v1.
func Default(crd *apiextv1.CustomResourceDefinition) {
	spec := &crd.Spec
	if spec.Names.Singular == "" {
		spec.Names.Singular = strings.ToLower(spec.Names.Kind)
	}
	if spec.Names.ListKind == "" && spec.Names.Kind != "" {
		spec.Names.ListKind = spec.Names.Kind + "List"
	}
	if spec.Conversion == nil {
		spec.Conversion = &apiextv1.CustomResourceConversion{Strategy: apiextv1.NoneConverter}
	}
	if w := spec.Conversion.Webhook; w != nil && w.ClientConfig != nil && w.ClientConfig.Service != nil && w.ClientConfig.Service.Port == nil {
		port := int32(443)
		w.ClientConfig.Service.Port = &port
	}
	if len(crd.Status.StoredVersions) == 0 {
		storeVersion(crd)
	}
}

// storeVersion adds the storage version to status.storedVersions.
func storeVersion(crd *apiextv1.CustomResourceDefinition) {
	for i := range crd.Spec.Versions {
		v := &crd.Spec.Versions[i]
		if !v.Storage {
			continue
		}
		if !contains(crd.Status.StoredVersions, v.Name) {
			crd.Status.StoredVersions = append(crd.Status.StoredVersions, v.Name)
		}
		return
	}
}

// unknownInDefault is upstream's error for a default value that pruning would change.
const unknownInDefault = "must not have unknown fields"

// validateDefaults checks each default value below s, the schema of a whole resource. A default
// must be valid by itself: nested defaults do not complete it. p is the compiled s, nil if it does
// not compile. pruned says whether unknown fields are errors.
func validateDefaults(s *structural.Schema, p *schema.Program, path *field.Path, pruned bool) field.ErrorList {
	if !hasDefaults(s) {
		return nil
	}
	// A fast path lets p confirm that a default is valid. Only if it is not, value computes the
	// errors.
	var part schema.Part
	if p != nil {
		part = p.Whole()
	}
	c := &defaultCheck{pruned: pruned, budget: schema.DefaultBudget, steps: schema.DefaultSteps}
	root := *s
	root.Embedded = true
	c.node(&root, part, path, nil, false)
	return c.errs
}

// hasDefaults reports whether there is a default value at or below s.
func hasDefaults(s *structural.Schema) bool {
	if s == nil {
		return false
	}
	if s.Default != nil || hasDefaults(s.Items) {
		return true
	}
	for _, p := range s.Properties {
		if hasDefaults(p) {
			return true
		}
	}
	return false
}

// defaultCheck is one call of validateDefaults. Its bounds keep a definition from occupying the
// server.
type defaultCheck struct {
	pruned bool // whether unknown fields are errors
	errs   field.ErrorList
	budget int64 // remaining CEL cost units for rules; negative if exceeded
	steps  int64 // remaining validation steps below junctors (allOf and others); negative if exceeded
}

// node checks the default of s, and those below s. part is the compiled s. at is the path to s from
// the resource that contains it, with "[]" for the items of a list. meta says that s is in the
// metadata, apiVersion or kind of that resource.
func (c *defaultCheck) node(s *structural.Schema, part schema.Part, path *field.Path, at []string, meta bool) {
	if s == nil || c.isExhausted() {
		return
	}
	if s.Embedded {
		// An embedded resource starts a path of its own.
		at, meta = nil, false
	}
	if s.Default != nil && (meta || !part.Holds(context.Background(), s.Default, &c.steps, &c.budget)) {
		c.errs = append(c.errs, c.value(s, path.Child("default"), at, meta)...)
	}
	if c.isExhausted() {
		return
	}
	// Kubernetes does not check defaults in additionalProperties.
	c.node(s.Items, part.Item(), path.Child("items"), append(at, "[]"), meta)
	if len(s.Names) == 0 {
		return
	}
	properties := path.Child("properties")
	for _, name := range s.Names {
		inMeta := meta || s.Embedded && (name == "metadata" || name == "kind" || name == "apiVersion")
		c.node(s.Properties[name], part.Member(name), properties.Key(name), append(at[:len(at):len(at)], name), inMeta)
	}
}

// isExhausted reports whether a bound was exceeded. The remaining defaults are not checked then.
func (c *defaultCheck) isExhausted() bool { return c.budget < 0 || c.steps < 0 }

// value returns the errors of the default value of s.
func (c *defaultCheck) value(s *structural.Schema, path *field.Path, at []string, meta bool) field.ErrorList {
	noDefaults := withoutDefaults(s)
	if value := bytes.TrimSpace(s.Default); noDefaults.Embedded && (len(value) == 0 || value[0] != '{') {
		noDefaults.Embedded = false // it is not a resource, so that the only error is its type
	}
	if meta {
		if err := metaDefault(s.Default, at); err != nil {
			return field.ErrorList{field.Invalid(path, canonical(s.Default), fmt.Sprintf("must result in valid metadata: %v", err))}
		}
	} else if c.pruned && hasUnknown(noDefaults, s.Default) {
		return append(field.ErrorList{field.Invalid(path, canonical(s.Default), unknownInDefault)}, c.validate(noDefaults, s.Default, path)...)
	}
	return c.validate(noDefaults, s.Default, path)
}

// validate validates a value as if s were the schema of a document. Rules are evaluated only if
// there are no other errors.
func (c *defaultCheck) validate(s *structural.Schema, value []byte, path *field.Path) field.ErrorList {
	// Kubernetes does not check the types of int-or-string defaults.
	plain := rewrite(s, func(s *structural.Schema) { s.Rules, s.IntOrString = nil, false })
	p, err := schema.Compile(plain, schema.Options{PreserveUnknown: true, AnyFormat: true})
	if err != nil {
		return field.ErrorList{field.Invalid(path, "", err.Error())}
	}
	d := new(jsondoc.Doc) // not from the pool: the errors refer to its memory
	if _, err := p.Decode(d, value); err != nil {
		return under(path, locate(err, s, value))
	}
	if errs := p.ValidateDefault(d, path, &c.steps); len(errs) > 0 || !hasRules(s) {
		return errs
	}
	return c.evaluateRules(s, value, path)
}

// evaluateRules returns the errors of the rules of s for value.
func (c *defaultCheck) evaluateRules(s *structural.Schema, value []byte, path *field.Path) field.ErrorList {
	var tree any
	if err := json.Unmarshal(value, &tree); err != nil {
		return field.ErrorList{field.Invalid(path, "", err.Error())}
	}
	if s = reached(s, []any{tree}); !hasRules(s) {
		return nil
	}
	opts, err := (*Compiler)(nil).options(true)
	if err != nil {
		return field.ErrorList{field.InternalError(path, err)}
	}
	opts.Resource = false
	p, err := schema.Compile(s, opts)
	if err != nil {
		return field.ErrorList{field.Invalid(path, "", err.Error())}
	}
	d := new(jsondoc.Doc) // not from the pool, see above
	if _, err := p.Decode(d, value); err != nil {
		return under(path, locate(err, s, value))
	}
	return p.ValidateDefaultRules(context.Background(), d, path, &c.budget)
}

// locate returns the error of a value that could not be decoded, with the path at which it
// occurred, if that is known.
func locate(err error, s *structural.Schema, value []byte) *field.Error {
	var located *field.Error
	if errors.As(err, &located) {
		return located
	}
	bad := field.Invalid(nil, canonical(value), err.Error())
	if !s.Embedded {
		return bad
	}
	// Errors in the metadata of the root document have no path. As the metadata of a member they
	// have one.
	errs := asMember(withoutRules(s), value, func(_ *schema.Program, _ *jsondoc.Doc, err error) (errs field.ErrorList) {
		if errors.As(err, &located) {
			errs = field.ErrorList{located}
		}
		return errs
	})
	if len(errs) == 0 {
		return bad
	}
	return errs[0]
}

// asMember decodes value, whose schema is s, as the only member of a document, and passes the
// result to then. It returns then's errors, with paths relative to value.
func asMember(s *structural.Schema, value []byte, then func(*schema.Program, *jsondoc.Doc, error) field.ErrorList) field.ErrorList {
	const member = "x"
	p, err := schema.Compile(structural.Object(map[string]*structural.Schema{member: s}), schema.Options{PreserveUnknown: true})
	if err != nil {
		return field.ErrorList{field.InternalError(nil, err)}
	}
	d := new(jsondoc.Doc) // not from the pool: the errors refer to its memory
	_, err = p.Decode(d, fmt.Appendf(nil, `{"%s":%s}`, member, value))
	errs := then(p, d, err)
	for _, e := range errs {
		e.Field = strings.TrimPrefix(e.Field, member+".")
	}
	return errs
}

// reached returns a copy of s without the rules that none of the values reaches. Compiling rules is
// most of the cost of checking a default.
func reached(s *structural.Schema, values []any) *structural.Schema {
	if s == nil || !hasRules(s) {
		return s
	}
	if len(values) == 0 {
		return withoutRules(s)
	}
	var items, others []any
	// The same walk as validation: items, declared properties, and additionalProperties for the
	// other members.
	members := map[string][]any{}
	for _, v := range values {
		switch v := v.(type) {
		case []any:
			items = append(items, v...)
		case map[string]any:
			for name, member := range v {
				if _, ok := s.Properties[name]; ok {
					members[name] = append(members[name], member)
				} else {
					others = append(others, member)
				}
			}
		}
	}
	c := *s
	c.Items, c.Additional = reached(s.Items, items), reached(s.Additional, others)
	if s.Properties != nil {
		c.Properties = make(map[string]*structural.Schema, len(s.Properties))
		for name, p := range s.Properties {
			c.Properties[name] = reached(p, members[name])
		}
	}
	return &c
}

// under returns e with path in front of its field.
func under(path *field.Path, e *field.Error) field.ErrorList {
	switch {
	case e.Field == "" || e.Field == "<nil>":
		e.Field = path.String()
	case e.Field[0] == '[':
		e.Field = path.String() + e.Field
	default:
		e.Field = path.String() + "." + e.Field
	}
	return field.ErrorList{e}
}

// hasUnknown reports whether a value has fields that its schema does not declare. Fields in the
// metadata of a resource do not count.
func hasUnknown(s *structural.Schema, value []byte) bool {
	anything := &structural.Schema{Preserve: true}
	p, err := schema.Compile(rewrite(s, func(s *structural.Schema) {
		s.Rules = nil
		if !s.Embedded {
			return
		}
		s.Embedded = false
		properties := maps.Clone(s.Properties)
		if properties == nil {
			properties = map[string]*structural.Schema{}
		}
		for _, name := range []string{"apiVersion", "kind", "metadata"} {
			properties[name] = anything
		}
		s.Properties, s.Names = properties, sortedKeys(properties)
	}), schema.Options{})
	if err != nil {
		return false // reported by validate
	}
	d := jsondoc.Get()
	defer d.Release()
	found, err := p.Decode(d, value)
	return err == nil && found&schema.FoundUnknown != 0
}

// metaDefault checks a default value within a resource's metadata. It builds an otherwise valid
// resource around it. at is the path from the resource to the value.
func metaDefault(value []byte, at []string) error {
	// Wrap the value in one list or object for each step, from the innermost.
	around := append([]byte(nil), value...)
	for i := len(at) - 1; i >= 0; i-- {
		if at[i] == "[]" {
			around = append(append([]byte{'['}, around...), ']')
			continue
		}
		name, err := json.Marshal(at[i])
		if err != nil {
			return err
		}
		member := append(append(name, ':'), around...)
		if i == 0 && at[0] != "apiVersion" {
			member = append(member, `,"apiVersion":"validation/v1"`...)
		}
		if i == 0 && at[0] != "kind" {
			member = append(member, `,"kind":"Validation"`...)
		}
		around = append(append([]byte{'{'}, member...), '}')
	}
	resource := &structural.Schema{Type: "object", Embedded: true, Preserve: true}
	return asMember(resource, around, func(p *schema.Program, d *jsondoc.Doc, err error) field.ErrorList {
		var located *field.Error
		switch {
		case errors.As(err, &located):
			return field.ErrorList{located}
		case err != nil:
			return field.ErrorList{field.Invalid(nil, canonical(around), err.Error())}
		}
		return p.Validate(context.Background(), d, nil, schema.Whole).Errors
	}).ToAggregate()
}

// withoutDefaults returns a copy of s without default values.
func withoutDefaults(s *structural.Schema) *structural.Schema {
	return rewrite(s, func(s *structural.Schema) { s.Default = nil })
}

// withoutRules returns a copy of s without rules.
func withoutRules(s *structural.Schema) *structural.Schema {
	return rewrite(s, func(s *structural.Schema) { s.Rules = nil })
}

// rewrite returns a copy of s, and of all schemas below it, to which change was applied.
func rewrite(s *structural.Schema, change func(*structural.Schema)) *structural.Schema {
	if s == nil {
		return nil
	}
	c := *s
	change(&c)
	c.Items = rewrite(s.Items, change)
	c.Additional = rewrite(s.Additional, change)
	if properties := c.Properties; properties != nil {
		c.Properties = make(map[string]*structural.Schema, len(properties))
		for name, p := range properties {
			c.Properties[name] = rewrite(p, change)
		}
	}
	return &c
}

// canonical returns a JSON value as it appears in errors: compact, with sorted keys.
func canonical(value []byte) json.RawMessage {
	var b bytes.Buffer
	printJSON(&b, apiextv1.JSON{Raw: value})
	return b.Bytes()
}
