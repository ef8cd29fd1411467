package builtin

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-io/keelson/doc"
	"github.com/keelson-io/keelson/kind"
	"github.com/keelson-io/keelson/meta"
	"github.com/keelson-io/keelson/schema"
	"github.com/keelson-io/keelson/schema/structural"
)

// This file makes Kinds of descriptions.

// description is what no schema says about a kind. Nothing but group, kind,
// plural and versions is required.
type description struct {
	group    string
	kind     string
	plural   string
	versions []version // the stored one first
	cluster  bool      // it is not namespaced

	short, categories []string
	singular          string // "": the kind in lower case
	prefix            string // of store keys; "": the plural

	status     bool // there is a status subresource
	keepStatus bool // a new object keeps the status that it is sent with
	scale      *kind.Scale
	generation bool   // metadata.generation counts changes of the content
	uncounted  bool   // it stays what it is
	counts     string // a member of the metadata whose changes it counts, too

	parts          []part // subresources that have kinds of their own
	versioned      bool   // an update must name a resource version
	createOnUpdate bool
	virtual        bool
	subresources   []kind.Subresource

	name    meta.NameFunc // rule for names; nil: DNS subdomains
	columns []kind.Column // nil: the age
	ended   func(obj doc.Value) (reason, message string)
	fields  []kind.Selectable

	// create and update change an object before it is checked; update is not
	// called for subresources.
	create func(d *doc.Doc)
	update func(new, old *doc.Doc)
	// updatePart changes an object of which a subresource of the kind is written.
	updatePart func(new, old *doc.Doc, scope schema.Scope)
	// updateStatus changes an object whose status is written.
	updateStatus func(new, old *doc.Doc)
	// check finds what the schema does not, or, if it is complete, whatever there
	// is to find. old is nil on create.
	check    checker
	complete bool
	warnings func(new, old *doc.Doc) []string
	// statusWarnings are those about a status that is written.
	statusWarnings func(new *doc.Doc) []string
	convert        func(text []byte, to *kind.Version) ([]byte, error)
	// statusKeeps are members of metadata that a write of the status does not change; nil: none.
	statusKeeps []string
	resets      map[string][]string // what an endpoint does not change, where that is not what others do not: see kind.Builtin
	unowned     bool                // what becomes of dependents cannot be said: it has none
	returned    bool                // who deletes an object is answered with it
	orphans     bool                // who deletes an object and does not say what is to become of its dependents keeps them
	warned      string              // what they are told
	createAs    func(d *doc.Doc, by *kind.Requester)
	claims      bool   // objects get what only one of them may have
	storedAs    string // the version that upstream stores, which it tells in a hash; "": the first
	deprecated  string // what everybody is told who uses the kind
	grace       func(d *doc.Doc, asked *int64) int64
	ttl         time.Duration
}

// wholeMetadata are the members of metadata that clients write.
var wholeMetadata = []string{"labels", "annotations", "finalizers", "ownerReferences"}

// checker finds what is wrong with an object; old is nil on create.
type checker func(v *kind.Version, new, old *doc.Doc, scope schema.Scope) field.ErrorList

// part is a subresource whose kind is described like a virtual one.
type part struct {
	name string
	description
}

// version is a version of a kind as its Go type publishes it.
type version struct {
	name string
	new  func() runtime.Object
	// fill fills in defaults that depend on other fields; nil if there are none.
	fill func(runtime.Object)
}

// object is a pointer to a Go type of objects.
type object[T any] interface {
	*T
	runtime.Object
}

// v1 is a kind's only version, v1, as a Go type.
func v1[T any, P object[T]](fill func(P)) []version { return []version{versionOf(fill, "v1")} }

// versionOf is a version as a Go type.
func versionOf[T any, P object[T]](fill func(P), name string) version {
	v := version{name: name, new: func() runtime.Object { return P(new(T)) }}
	if fill != nil {
		v.fill = func(obj runtime.Object) { fill(obj.(P)) }
	}
	return v
}

// builtin is a description at work.
type builtin struct {
	description
	lib  *library
	made *kind.Kind
	by   map[*kind.Version]*version
	// fresh is the status of an object that has not got one yet, as JSON, by apiVersion.
	fresh func() map[string][]byte
	// gates says where gated members are, by apiVersion.
	gates map[string]func() *gate
}

// definitionOf is the name of the definition of a kind.
func definitionOf(group, version, name string) string {
	first, _, _ := strings.Cut(group, ".")
	if first == "" {
		first = "core"
	}
	return apiPrefix + first + "." + version + "." + name
}

// newKind makes the Kind of a description.
func newKind(lib *library, desc description) *builtin {
	b := &builtin{description: desc, lib: lib, by: map[*kind.Version]*version{}, gates: map[string]func() *gate{}}
	k := &kind.Kind{
		Group: desc.group, Plural: desc.plural, Singular: desc.singular, Name: desc.kind, ListKind: desc.kind + "List",
		ShortNames: desc.short, Categories: desc.categories, Namespaced: !desc.cluster,
		Established: true, StoragePrefix: desc.prefix,
	}
	if k.Singular == "" {
		k.Singular = strings.ToLower(desc.kind)
	}
	if k.StoragePrefix == "" {
		k.StoragePrefix = desc.plural
	}
	for i := range desc.versions {
		k.All = append(k.All, b.version(k, &desc.versions[i]))
	}
	k.Versions, k.Storage = k.All, k.All[0]
	k.Storage.IsStorage = true
	k.Builtin = &kind.Builtin{
		AllowUnconditionalUpdate: !desc.versioned,
		CreateOnUpdate:           desc.createOnUpdate,
		Virtual:                  desc.virtual,
		Orphans:                  desc.orphans,
		OrphanWarning:            desc.warned,
		CreateAs:                 desc.createAs,
		StoredAs:                 desc.storedAs,
		Claims:                   desc.claims,
		Unowned:                  desc.unowned,
		Returned:                 desc.returned,
		Counts:                   desc.counts,
		Uncounted:                desc.uncounted,
		StatusKeeps:              desc.statusKeeps,
		Resets:                   desc.resets,
		StatusMetadata:           desc.statusKeeps == nil || len(desc.statusKeeps) < len(wholeMetadata),
		Subresources:             desc.subresources,
		New:                      func(v *kind.Version) runtime.Object { return b.by[v].new() },
		Decode:                   b.decode,
		Strict:                   b.strict,
		Load:                     b.load,
		Convert:                  desc.convert,
		PrepareCreate:            b.prepareCreate,
		PrepareUpdate:            b.prepareUpdate,
		Validate:                 b.validate,
		ValidateUpdate:           b.validateUpdate,
		Grace:                    desc.grace,
		TTL:                      desc.ttl,
	}
	for _, p := range desc.parts {
		p.virtual = true
		own := newKind(lib, p.description)
		k.Builtin.Subresources = append(k.Builtin.Subresources, kind.Subresource{
			Name: p.name, Verbs: []string{"create"}, Version: own.made.Storage,
		})
	}
	b.made = k
	b.fresh = sync.OnceValue(b.freshStatus)
	return b
}

// version makes a version, of which nothing is unpacked yet.
func (b *builtin) version(k *kind.Kind, desc *version) *kind.Version {
	name := definitionOf(k.Group, desc.name, k.Name)
	roots := []string{name}
	if !b.virtual {
		roots = append(roots, name+"List")
	}
	v := &kind.Version{
		Kind: k, Name: desc.name, Served: true, Status: b.status, Scale: b.scale,
		Columns: b.columns, SelectableFields: b.fields, Deprecated: b.deprecated != "", Warning: b.deprecated,
		Structural: sync.OnceValue(func() *structural.Schema { return b.lib.object(name, true) }),
		Definition: name, Ended: b.ended,
		Published: func() (map[string]json.RawMessage, error) { return published(roots...) },
	}
	v.Schema = schema.Lazy(func() (*structural.Schema, error) { return b.lib.object(name, false), nil }, schema.Options{Resource: true})
	if v.Columns == nil {
		v.Columns = []kind.Column{ageColumn()}
	}
	b.by[v] = desc
	b.gates[v.APIVersion()] = sync.OnceValue(func() *gate { return b.lib.gates(name) })
	return v
}

// freshStatus is what the schemas make of objects without a status.
func (b *builtin) freshStatus() map[string][]byte {
	out := map[string][]byte{}
	for v, desc := range b.by {
		text, err := json.Marshal(desc.new())
		if err != nil {
			panic("BUG: " + err.Error()) // a Go type of the API
		}
		d := doc.Get()
		if _, err := v.Schema.Decode(d, text); err != nil {
			panic("BUG: " + err.Error())
		}
		if s := d.Root().Get("status"); s.Exists() {
			out[v.APIVersion()] = s.AppendJSON(nil)
		}
		d.Release()
	}
	return out
}

// prepareCreate takes away what is not the client's to set.
func (b *builtin) prepareCreate(d *doc.Doc) {
	b.dropGated(d, nil)
	if b.status && !b.keepStatus {
		setJSON(d, b.fresh()[d.Root().Get("apiVersion").Text()], "status")
	}
	if b.generation {
		meta.Object{Doc: d}.SetGeneration(1)
	} else {
		d.Remove("metadata", "generation")
	}
	if b.create != nil {
		b.create(d)
	}
}

// setJSON sets a member to a text, or removes it if there is none.
func setJSON(d *doc.Doc, text []byte, path ...string) {
	if text == nil {
		d.Remove(path...)
		return
	}
	value := doc.Get()
	defer value.Release()
	if err := doc.Parse(value, text); err != nil {
		panic("BUG: " + err.Error()) // the program printed it
	}
	d.Set(d.Import(value.Root()), path...)
}

// setAs sets a member to a Go value as JSON.
func setAs(d *doc.Doc, v any, path ...string) {
	text, err := json.Marshal(v)
	if err != nil {
		panic("BUG: " + err.Error()) // of a type of the API
	}
	setJSON(d, text, path...)
}

func (b *builtin) prepareUpdate(new, old *doc.Doc, scope schema.Scope) {
	b.dropGated(new, old)
	switch {
	case scope == schema.Status, scope == partApproval:
		// Whatever is no status, but metadata may change with it.
		for name := range old.Root().Members() {
			if name != "status" && name != "metadata" {
				kind.Keep(new, old, name)
			}
		}
		for _, name := range b.statusKeeps {
			kind.Keep(new, old, "metadata", name)
		}
		if scope == partApproval {
			b.updatePart(new, old, scope)
		} else if b.updateStatus != nil {
			b.updateStatus(new, old)
		}
		return
	case b.status:
		kind.Keep(new, old, "status")
	}
	if b.updatePart != nil && scope != schema.Whole {
		b.updatePart(new, old, scope)
		return
	}
	if b.update != nil && scope == schema.Whole {
		b.update(new, old)
	}
}

func (b *builtin) validate(ctx context.Context, v *kind.Version, d *doc.Doc) schema.Result {
	name := b.name
	if name == nil {
		name = validation.NameIsDNSSubdomain
	}
	o := meta.Object{Doc: d}
	errs := meta.ValidateObjectMetaWithName(o, b.made.Namespaced, name)
	if b.namesFinalizers() {
		errs = append(errs, kind.CheckFinalizers(d)...)
	}
	return b.checked(ctx, v, d, nil, schema.Whole, errs)
}

// namesFinalizers reports whether finalizers have to say whose they are.
func (b *builtin) namesFinalizers() bool {
	return b.group != "admissionregistration.k8s.io" && !anyFinalizer[b.group+"/"+b.plural]
}

// anyFinalizer are kinds, by group and plural, whose finalizers may have any name, besides those of admission.
var anyFinalizer = map[string]bool{
	"/events": true, "policy/poddisruptionbudgets": true, "coordination.k8s.io/leases": true, "node.k8s.io/runtimeclasses": true,
}

func (b *builtin) validateUpdate(ctx context.Context, v *kind.Version, new, old *doc.Doc, scope schema.Scope) schema.Result {
	errs := meta.ValidateObjectMetaUpdate(meta.Object{Doc: new}, meta.Object{Doc: old})
	if b.namesFinalizers() {
		errs = append(errs, kind.CheckFinalizers(new)...)
	}
	return b.checked(ctx, v, new, old, scope, errs)
}

// checked adds what the schema and the hooks of the kind find.
func (b *builtin) checked(ctx context.Context, v *kind.Version, new, old *doc.Doc, scope schema.Scope, errs field.ErrorList) schema.Result {
	at := scope
	if at != schema.Status {
		at = schema.Whole
	}
	r := schema.Result{Errors: errs}
	if !b.complete {
		r = v.Schema.ValidateAmong(ctx, new, old, at, schema.Kept{}, errs, nil)
	}
	if b.check != nil {
		r.Errors = append(r.Errors, b.check(v, new, old, scope)...)
	}
	r.Errors = once(r.Errors)
	switch {
	case len(r.Errors) > 0:
	case scope == schema.Status && b.statusWarnings != nil:
		r.Warnings = append(r.Warnings, b.statusWarnings(new)...)
	case scope != schema.Status && b.warnings != nil:
		r.Warnings = append(r.Warnings, b.warnings(new, old)...)
	}
	return r
}

// once leaves out errors that say the same of the same.
func once(errs field.ErrorList) field.ErrorList {
	said := map[string]bool{}
	return slices.DeleteFunc(errs, func(e *field.Error) bool {
		text := e.Error()
		again := said[text]
		said[text] = true
		return again
	})
}
