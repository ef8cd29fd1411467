package gc

import (
	"slices"
	"strings"

	"github.com/keelson-io/keelson/internal/store"
	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/kind"
)

// This file remembers which CRDs there were when a change was made. The registry of kinds is ahead of a controller that lags: an object,
// its owner's deletion and the end of the owner's kind may all be heard of when the kind is not served any more.

// definition says where the objects of a CRD's kind are.
type definition struct {
	kind       groupKind
	prefix     string   // of the keys of its objects
	versions   []string // those that are served
	namespaced bool
}

type groupKind struct{ group, kind string }

// definitions are the CRDs as of the last change that the controller has heard of, by key and by kind.
type definitions struct {
	byKey  map[string]*definition
	byKind map[groupKind]*definition
}

// define puts a stored CRD into definitions. One that cannot be read defines nothing.
func (c *Controller) define(into definitions, e *store.Event) {
	doc := jsondoc.Get()
	defer doc.Release()
	if c.readCRD(doc, e) == nil {
		into.put(e.Key, doc.Root())
	}
}

// readCRD decodes a stored CRD, in v1 or v1beta1. It does so without the schema of CRDs, which would convert the schemas in it each time
// that the status changes.
func (c *Controller) readCRD(doc *jsondoc.Doc, e *store.Event) error {
	if jsondoc.Parse(doc, e.Value) == nil {
		switch doc.Root().Get("apiVersion").Text() {
		case "apiextensions.k8s.io/v1", "apiextensions.k8s.io/v1beta1":
			return nil
		}
	}
	return c.crds.Storage.Load(doc, e.Value, e.Rev)
}

// isCRD reports whether a key is that of a CRD.
func (c *Controller) isCRD(key string) bool {
	rest, ok := strings.CutPrefix(key, c.crds.StoragePrefix)
	return ok && strings.HasPrefix(rest, "/")
}

// put adds a CRD, or replaces the one with its key. Names that are not accepted do not count: another CRD has them.
func (d definitions) put(key string, crd jsondoc.Value) {
	d.drop(key)
	spec, kind := crd.Get("spec"), crd.Get("status").Get("acceptedNames").Get("kind").Text()
	if kind == "" {
		return
	}
	group := strings.Clone(spec.Get("group").Text())
	one := &definition{
		kind:       groupKind{group, strings.Clone(kind)},
		prefix:     group + "/" + spec.Get("names").Get("plural").Text(),
		namespaced: spec.Get("scope").Text() != "Cluster", // v1beta1 may have no scope
	}
	for _, v := range spec.Get("versions").Items() {
		if v.Get("served").Bool() {
			one.versions = append(one.versions, strings.Clone(v.Get("name").Text()))
		}
	}
	if version := spec.Get("version").Text(); version != "" && spec.Get("versions").Len() == 0 {
		one.versions = []string{strings.Clone(version)} // the first form of v1beta1
	}
	d.byKey[key], d.byKind[one.kind] = one, one
}

// drop removes the CRD at a key.
func (d definitions) drop(key string) {
	if old := d.byKey[key]; old != nil {
		delete(d.byKey, key)
		if d.byKind[old.kind] == old {
			delete(d.byKind, old.kind)
		}
	}
}

// of returns the CRD of an owner's kind, nil if there was none.
func (d definitions) of(r *reference) *definition {
	group, _ := r.groupVersion()
	return d.byKind[groupKind{group, r.of.Value().kind}]
}

// ownerKey is Controller.ownerKey for the kinds of the CRDs.
func (d definitions) ownerKey(r *reference, namespace string) (key string, known bool) {
	one := d.of(r)
	if one == nil {
		return "", false
	}
	return ownerKey(&kind.Kind{StoragePrefix: one.prefix, Namespaced: one.namespaced}, r, namespace), true
}

// serves reports whether an owner's version is served; known is false if its kind was not defined.
func (d definitions) serves(r *reference) (served, known bool) {
	one := d.of(r)
	if one == nil {
		return false, false
	}
	_, version := r.groupVersion()
	return slices.Contains(one.versions, version), true
}
