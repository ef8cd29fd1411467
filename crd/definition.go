package crd

import (
	"bytes"
	"context"
	"encoding/json"
	"sync"
	"time"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-io/keelson/internal/meta"
	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/kind"
	"github.com/keelson-io/keelson/schema"
	"github.com/keelson-io/keelson/schema/structural"
)

// This file defines the kind CustomResourceDefinition. Requests and the store handle its objects as
// documents, as for any kind; the checks convert them to the Go types of apiextensions/v1.

// Prefix is the prefix of the store keys of definitions, without a slash at the end.
const Prefix = "apiextensions.k8s.io/customresourcedefinitions"

// Cleanup is the finalizer that keeps a definition until its objects are deleted.
const Cleanup = "customresourcecleanup.apiextensions.k8s.io"

// Definitions returns the kind CustomResourceDefinition, whose hooks use c.
func (c *Compiler) Definitions() *kind.Kind {
	goType := kind.NewGoType(func() runtime.Object { return new(apiextv1.CustomResourceDefinition) })
	betaType := kind.NewGoType(func() runtime.Object { return new(v1beta1.CustomResourceDefinition) })
	k := kind.NewBuiltin(kind.Kind{
		Group: apiextv1.GroupName, Plural: "customresourcedefinitions", Singular: "customresourcedefinition",
		Name: "CustomResourceDefinition", ShortNames: []string{"crd", "crds"}, Categories: []string{"api-extensions"},
		StoragePrefix: Prefix,
		Behavior: kind.Behavior{
			Traits: kind.Traits{
				RequireResourceVersion: true,
				IgnoresFirstPolicy:     true,
				CheckStored:            c.checkDropped,
				Convert:                c.convertDefinition,
				Encode:                 encodeBeta,
				Delete:                 deleteDefinition,
			},
			Decode:         c.decodeDefinition,
			Strict:         c.strict,
			Load:           func(_ *kind.Version, raw []byte) ([]byte, error) { return c.fromBeta(raw) },
			PrepareCreate:  prepareDefinition,
			PrepareUpdate:  prepareDefinitionUpdate,
			Validate:       c.validateDefinition,
			ValidateUpdate: c.validateDefinitionUpdate,
			GoType: func(v *kind.Version) *kind.GoType {
				if isBeta(v) {
					return betaType
				}
				return goType
			},
		},
	}, "v1", definitionSchema(), nil, definitionColumns()...)
	k.Storage.Structural = sync.OnceValue(publishedSchema)
	if c == nil || !c.NoBeta {
		serveBeta(k)
	}
	return k
}

// definitionSchema returns the schema for documents. It declares only the fields that this package
// reads from documents. Decoding into the Go type checks the others, and publishedSchema has all
// for clients.
func definitionSchema() *structural.Schema {
	names := func() *structural.Schema {
		return structural.Object(map[string]*structural.Schema{
			"plural": structural.String(), "singular": structural.String(), "kind": structural.String(), "listKind": structural.String(),
			"shortNames": structural.List(structural.String()), "categories": structural.List(structural.String()),
		})
	}
	number := func(format string) *structural.Schema { return &structural.Schema{Type: "integer", Format: format} }
	client := structural.Object(map[string]*structural.Schema{
		"url": structural.String(), "caBundle": structural.String(),
		"service": structural.Object(map[string]*structural.Schema{"namespace": structural.String(), "name": structural.String(), "path": structural.String(), "port": number("int32")}),
	})
	return structural.Object(map[string]*structural.Schema{
		"spec": structural.Object(map[string]*structural.Schema{
			"group": structural.String(), "scope": structural.String(), "names": names(),
			"versions":              structural.List(&structural.Schema{Type: "object", Preserve: true}),
			"preserveUnknownFields": {Type: "boolean"},
			"conversion": structural.Object(map[string]*structural.Schema{
				"strategy": structural.String(),
				"webhook": structural.Object(map[string]*structural.Schema{
					"clientConfig": client, "conversionReviewVersions": structural.List(structural.String()),
				}),
			}),
		}),
		"status": structural.Object(map[string]*structural.Schema{
			"acceptedNames": names(), "storedVersions": structural.List(structural.String()), "observedGeneration": number("int64"),
			"conditions": structural.Conditions(map[string]*structural.Schema{"observedGeneration": number("int64")}),
		}),
	})
}

// strictDefinition returns the unknown and duplicate fields. Like Kubernetes, it does not report
// those below items and additionalProperties.
func strictDefinition(v *kind.Version, src []byte) []jsondoc.StrictError {
	return kind.StrictErrors(src, v.NewTyped())
}

// prepareDefinition sets the status and generation of a new definition. Clients cannot set the
// status.
func prepareDefinition(d *jsondoc.Doc) {
	d.Remove("status")
	d.Set(jsondoc.NullNode, "status", "conditions")
	d.Set(d.NewString(""), "status", "acceptedNames", "kind")
	d.Set(d.NewString(""), "status", "acceptedNames", "plural")
	d.Set(jsondoc.NullNode, "status", "storedVersions")
	storeVersionIn(d)
	meta.Object{Doc: d}.SetGeneration(1)
}

// storeVersionIn adds the storage version to status.storedVersions of d.
func storeVersionIn(d *jsondoc.Doc) {
	for _, v := range d.Root().At("spec", "versions").Items() {
		if !v.Get("storage").Bool() {
			continue
		}
		name := v.Get("name").Text()
		var all []string
		for _, s := range d.Root().At("status", "storedVersions").Items() {
			if s.Text() == name {
				return
			}
			all = append(all, s.Text())
		}
		d.Set(d.NewStrings(append(all, name)), "status", "storedVersions")
		return
	}
}

// prepareDefinitionUpdate undoes the changes that the scope does not permit, as
// Version.PrepareUpdate does for custom resources.
func prepareDefinitionUpdate(new, old *jsondoc.Doc, scope schema.Scope) {
	if scope == schema.Status {
		kind.Keep(new, old, "spec")
		kind.Keep(new, old, "metadata", "generation")
		return
	}
	kind.Keep(new, old, "status")
	storeVersionIn(new)
	kind.BumpGeneration(new, old, func(name string) bool { return name == "spec" })
}

// validateDefinition checks a new definition. In v1beta1 the document keeps what the client wrote;
// the checks get it as v1.
func (c *Compiler) validateDefinition(_ context.Context, v *kind.Version, d *jsondoc.Doc) schema.Result {
	var crd *apiextv1.CustomResourceDefinition
	var errs field.ErrorList
	if isBeta(v) {
		crd, errs = c.validateBeta(d, nil)
	} else {
		var err error
		if crd, err = c.fromDoc(d); err != nil {
			return schema.Result{Errors: field.ErrorList{field.InternalError(nil, err)}}
		}
		errs = c.validate(c.keep(crd))
	}
	if len(errs) == 0 {
		errs = c.unsupported(crd)
	}
	return schema.Result{Errors: errs, Warnings: Warnings(crd, nil)}
}

// validateDefinitionUpdate checks an update of a definition or of its status.
func (c *Compiler) validateDefinitionUpdate(_ context.Context, v *kind.Version, new, old *jsondoc.Doc, scope schema.Scope) schema.Result {
	crd, err := c.fromDoc(new)
	if err != nil {
		return schema.Result{Errors: field.ErrorList{field.InternalError(nil, err)}}
	}
	was, err := c.fromDoc(old)
	if err != nil {
		return schema.Result{Errors: field.ErrorList{field.InternalError(nil, err)}}
	}
	named := apivalidation.ValidateFinalizers(crd.Finalizers, field.NewPath("metadata", "finalizers"))
	if scope == schema.Status {
		return schema.Result{Errors: append(named, ValidateStatusUpdate(crd, was)...)}
	}
	var errs field.ErrorList
	if isBeta(v) {
		crd, errs = c.validateBeta(new, was)
	} else {
		errs = c.validateUpdate(c.keep(crd), was)
	}
	if errs = append(named, errs...); len(errs) == 0 {
		errs = c.unsupported(crd)
	}
	return schema.Result{Errors: errs, Warnings: Warnings(crd, was)}
}

// unsupported compiles a valid definition and returns the error, if there is one: what cannot be
// served is refused, not accepted and ignored.
func (c *Compiler) unsupported(crd *apiextv1.CustomResourceDefinition) field.ErrorList {
	k, err := c.Compile(crd)
	if err == nil {
		err = k.Load()
	}
	if err != nil {
		return field.ErrorList{field.Invalid(field.NewPath("spec", "versions"), field.OmitValueType{}, err.Error())}
	}
	return nil
}

// deleteDefinition marks a definition for deletion, and adds the finalizer that keeps it until its
// objects are deleted.
func deleteDefinition(d *jsondoc.Doc, now string) bool {
	o := meta.Object{Doc: d}
	if o.DeletionTimestamp() != "" {
		return false
	}
	d.Set(d.NewString(now), "metadata", "deletionTimestamp")
	var finalizers []string
	for f := range o.Finalizers() {
		finalizers = append(finalizers, f)
	}
	if !contains(finalizers, Cleanup) {
		finalizers = append(finalizers, Cleanup)
	}
	o.SetFinalizers(finalizers)

	crd, err := FromDoc(d)
	if err != nil {
		return true // the controller sets the condition as well
	}
	at, err := time.Parse(time.RFC3339, now)
	if err != nil {
		at = time.Now()
	}
	SetCondition(crd, apiextv1.CustomResourceDefinitionCondition{
		Type: apiextv1.Terminating, Status: apiextv1.ConditionTrue, Reason: "InstanceDeletionPending",
		Message: "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
	}, at)
	setStatus(d, crd)
	return true
}

// setStatus replaces the status of d by that of crd.
func setStatus(d *jsondoc.Doc, crd *apiextv1.CustomResourceDefinition) {
	text, err := json.Marshal(&crd.Status)
	if err != nil {
		panic("BUG: " + err.Error()) // strings, numbers and times only
	}
	status := jsondoc.Get()
	defer status.Release()
	if err := jsondoc.Parse(status, text); err != nil {
		panic("BUG: " + err.Error()) // json.Marshal made it
	}
	d.Remove("status")
	d.Set(d.NewMap(nil), "status")
	for name, value := range status.Root().Members() {
		d.Set(d.Import(value), "status", name)
	}
}

// definitionVersion returns the storage version of definitions, for changes without a request. It
// is a function of no input, so that all servers of a process can share it.
var definitionVersion = sync.OnceValue(func() *kind.Version { return (*Compiler)(nil).Definitions().Storage })

// Update returns the stored bytes of a definition with the status and finalizers of crd. record,
// unless it is nil, is called with the live and the changed document, to record the field manager.
// Both documents have references in place of schemas.
func Update(raw []byte, crd *apiextv1.CustomResourceDefinition, record func(live, next *jsondoc.Doc) error) ([]byte, error) {
	p, ok := separate(raw)
	if !ok {
		p = &parts{rest: raw}
	}
	live, d := jsondoc.Get(), jsondoc.Get()
	defer live.Release()
	defer d.Release()
	v := definitionVersion()
	if err := v.Load(live, p.rest, 0); err != nil {
		return nil, err
	}
	d.CopyOf(live)
	if len(crd.Finalizers) == 0 {
		d.Remove("metadata", "finalizers")
	} else {
		meta.Object{Doc: d}.SetFinalizers(crd.Finalizers)
	}
	setStatus(d, crd)
	if record != nil {
		if err := record(live, d); err != nil {
			return nil, err
		}
	}
	text, err := v.Encode(d, nil)
	if err != nil {
		return nil, err
	}
	if text, err = p.join(bytes.TrimSuffix(text, []byte("\n"))); err != nil {
		return nil, err
	}
	return append(text, '\n'), nil
}
