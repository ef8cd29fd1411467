// Package meta knows the wire's common part: the metadata of objects and the
// options of requests.
//
// [Object] reads and writes metadata inside a document, in whatever layout the
// document has. The Parse functions read the options of a request's query;
// what they refuse is a [*status.Error] with upstream's text. [FillCreate] and
// [FillUpdate] set what belongs to the server, [ValidateObjectMeta] and
// [ValidateObjectMetaUpdate] check what belongs to the client.
//
// Validation has a fast path that answers only "all valid", straight on the
// document. On any doubt the metadata is decoded into apimachinery's type and
// apimachinery's own validators decide, so verdict and text are upstream's.
//
// Strings that an Object hands out borrow the document's text.
package meta

import (
	"iter"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	kjson "sigs.k8s.io/json"

	"github.com/keelson-io/keelson/doc"
)

// This file defines Object.

// Object is the API object that a document holds.
type Object struct{ Doc *doc.Doc }

// APIVersion is the object's apiVersion.
func (o Object) APIVersion() string { return o.Doc.Root().Get("apiVersion").Text() }

// Kind is the object's kind.
func (o Object) Kind() string { return o.Doc.Root().Get("kind").Text() }

// Meta is the object's metadata; Absent if it has none.
func (o Object) Meta() doc.Value { return o.Doc.Root().Get("metadata") }

func (o Object) text(name string) string { return o.Meta().Get(name).Text() }

// Name is metadata.name.
func (o Object) Name() string { return o.text("name") }

// Namespace is metadata.namespace.
func (o Object) Namespace() string { return o.text("namespace") }

// GenerateName is metadata.generateName.
func (o Object) GenerateName() string { return o.text("generateName") }

// UID is metadata.uid.
func (o Object) UID() string { return o.text("uid") }

// ResourceVersion is metadata.resourceVersion.
func (o Object) ResourceVersion() string { return o.text("resourceVersion") }

// CreationTimestamp is metadata.creationTimestamp, in RFC 3339.
func (o Object) CreationTimestamp() string { return o.text("creationTimestamp") }

// DeletionTimestamp is metadata.deletionTimestamp, "" unless the object is
// being deleted.
func (o Object) DeletionTimestamp() string { return o.text("deletionTimestamp") }

// Generation is metadata.generation, 0 if it has none.
func (o Object) Generation() int64 { return o.Meta().Get("generation").Int() }

// Finalizers ranges over metadata.finalizers.
func (o Object) Finalizers() iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, v := range o.Meta().Get("finalizers").Items() {
			if !yield(v.Text()) {
				return
			}
		}
	}
}

// Annotation is the value of an annotation, "" if there is none.
func (o Object) Annotation(key string) string { return o.Meta().Get("annotations").Get(key).Text() }

// Labels is metadata.labels, for selectors to match; it reads the document.
func (o Object) Labels() labels.Labels { return LabelsOf(o.Meta().Get("labels")) }

// ObjectMeta is the metadata as apimachinery's type. It shares nothing with
// the document.
func (o Object) ObjectMeta() (metav1.ObjectMeta, error) {
	var m metav1.ObjectMeta
	v := o.Meta()
	if !v.Exists() {
		return m, nil
	}
	err := kjson.UnmarshalCaseSensitivePreserveInts(v.AppendJSON(nil), &m)
	return m, err
}

// setText sets a member of metadata, or removes it if it would be empty.
func (o Object) setText(name, value string) {
	if value == "" {
		o.Doc.Remove("metadata", name)
		return
	}
	o.Doc.Set(o.Doc.NewString(value), "metadata", name)
}

// setTime sets a member of metadata in second precision, UTC.
func (o Object) setTime(name string, t time.Time) {
	var buf [len(time.RFC3339)]byte
	o.setText(name, string(t.UTC().AppendFormat(buf[:0], time.RFC3339)))
}

// SetAPIVersion sets apiVersion.
func (o Object) SetAPIVersion(v string) { o.Doc.Set(o.Doc.NewString(v), "apiVersion") }

// SetKind sets kind.
func (o Object) SetKind(v string) { o.Doc.Set(o.Doc.NewString(v), "kind") }

// SetName sets metadata.name.
func (o Object) SetName(v string) { o.setText("name", v) }

// SetNamespace sets metadata.namespace; "" removes it.
func (o Object) SetNamespace(v string) { o.setText("namespace", v) }

// SetUID sets metadata.uid; "" removes it.
func (o Object) SetUID(v string) { o.setText("uid", v) }

// SetResourceVersion sets metadata.resourceVersion; "" removes it.
func (o Object) SetResourceVersion(v string) { o.setText("resourceVersion", v) }

// SetCreationTimestamp sets metadata.creationTimestamp.
func (o Object) SetCreationTimestamp(t time.Time) { o.setTime("creationTimestamp", t) }

// SetDeletionTimestamp sets metadata.deletionTimestamp.
func (o Object) SetDeletionTimestamp(t time.Time) { o.setTime("deletionTimestamp", t) }

// SetGeneration sets metadata.generation.
func (o Object) SetGeneration(v int64) { o.Doc.Set(doc.IntNode(v), "metadata", "generation") }

// SetDeletionGracePeriodSeconds sets metadata.deletionGracePeriodSeconds.
func (o Object) SetDeletionGracePeriodSeconds(v int64) {
	o.Doc.Set(doc.IntNode(v), "metadata", "deletionGracePeriodSeconds")
}

// SetFinalizers sets metadata.finalizers; an empty list removes it. The
// strings may borrow the document's text.
func (o Object) SetFinalizers(v []string) {
	if len(v) == 0 {
		o.Doc.Remove("metadata", "finalizers")
		return
	}
	o.Doc.Set(o.Doc.NewStrings(v), "metadata", "finalizers")
}

// docLabels are the labels in a document.
type docLabels struct{ v doc.Value }

// LabelsOf is the object of strings v, maybe Absent, as labels.
func LabelsOf(v doc.Value) labels.Labels { return docLabels{v} }

func (l docLabels) Has(key string) bool { return l.v.Get(key).Kind() == doc.String }

func (l docLabels) Get(key string) string { return l.v.Get(key).Text() }

func (l docLabels) Lookup(key string) (string, bool) {
	v := l.v.Get(key)
	return v.Text(), v.Kind() == doc.String
}
