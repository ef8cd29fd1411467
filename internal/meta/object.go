// Package meta has what all kinds share on the wire: object metadata and request options.
//
// [Object] reads and writes the metadata in a document. The Parse functions decode options from a
// query. Their errors are [*status.Error] with upstream's texts. [FillCreate] and [FillUpdate] set
// the fields that belong to the server. [ValidateObjectMeta] and [ValidateObjectMetaUpdate] check
// those that belong to the client.
//
// Validation has a fast path on the document, which reports only that all is valid. In all other
// cases the metadata is decoded into apimachinery's type and checked by apimachinery's validators,
// so that verdict and texts are upstream's.
//
// Strings that an Object returns share the memory of the document.
package meta

import (
	"encoding/json"
	"iter"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	kjson "sigs.k8s.io/json"

	"github.com/keelson-io/keelson/jsondoc"
)

// This file defines Object.

// Object is the API object in a document.
type Object struct{ Doc *jsondoc.Doc }

// APIVersion returns the object's apiVersion.
func (o Object) APIVersion() string { return o.Doc.Root().Get("apiVersion").Text() }

// Kind returns the object's kind.
func (o Object) Kind() string { return o.Doc.Root().Get("kind").Text() }

// SetTyped sets a member to the JSON of a Go value, whose type knows the names and the order of its
// members.
func (o Object) SetTyped(value any, path ...string) error {
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	parsed := jsondoc.Get()
	defer parsed.Release()
	if err := jsondoc.Parse(parsed, text); err != nil {
		return err
	}
	o.Doc.Set(o.Doc.Import(parsed.Root()), path...)
	return nil
}

// Meta returns the object's metadata; Absent if it has none.
func (o Object) Meta() jsondoc.Value { return o.Doc.Root().Get("metadata") }

func (o Object) text(name string) string { return o.Meta().Get(name).Text() }

// Name returns metadata.name.
func (o Object) Name() string { return o.text("name") }

// Namespace returns metadata.namespace.
func (o Object) Namespace() string { return o.text("namespace") }

// GenerateName returns metadata.generateName.
func (o Object) GenerateName() string { return o.text("generateName") }

// UID returns metadata.uid.
func (o Object) UID() string { return o.text("uid") }

// ResourceVersion returns metadata.resourceVersion.
func (o Object) ResourceVersion() string { return o.text("resourceVersion") }

// CreationTimestamp returns metadata.creationTimestamp, in RFC 3339.
func (o Object) CreationTimestamp() string { return o.text("creationTimestamp") }

// DeletionTimestamp returns metadata.deletionTimestamp, "" if the object is not being deleted.
func (o Object) DeletionTimestamp() string { return o.text("deletionTimestamp") }

// Generation returns metadata.generation, 0 if it is absent.
func (o Object) Generation() int64 { return o.Meta().Get("generation").Int() }

// Finalizers iterates over metadata.finalizers.
func (o Object) Finalizers() iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, v := range o.Meta().Get("finalizers").Items() {
			if !yield(v.Text()) {
				return
			}
		}
	}
}

// Annotation returns the value of an annotation, "" if it is absent.
func (o Object) Annotation(key string) string { return o.Meta().Get("annotations").Get(key).Text() }

// Labels returns metadata.labels in the form that selectors match. It reads the document on each
// look-up.
func (o Object) Labels() labels.Labels { return LabelsOf(o.Meta().Get("labels")) }

// ObjectMeta returns the metadata as apimachinery's type. It shares no memory with the document.
func (o Object) ObjectMeta() (metav1.ObjectMeta, error) {
	var m metav1.ObjectMeta
	v := o.Meta()
	if !v.Exists() {
		return m, nil
	}
	err := kjson.UnmarshalCaseSensitivePreserveInts(v.AppendJSON(nil), &m)
	return m, err
}

// setText sets a member of metadata, or removes it if value is "".
func (o Object) setText(name, value string) {
	if value == "" {
		o.Doc.Remove("metadata", name)
		return
	}
	o.Doc.Set(o.Doc.NewString(value), "metadata", name)
}

// setTime sets a member of metadata to a time in UTC, with a precision of a second.
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
func (o Object) SetGeneration(v int64) { o.Doc.Set(jsondoc.IntNode(v), "metadata", "generation") }

// SetDeletionGracePeriodSeconds sets metadata.deletionGracePeriodSeconds.
func (o Object) SetDeletionGracePeriodSeconds(v int64) {
	o.Doc.Set(jsondoc.IntNode(v), "metadata", "deletionGracePeriodSeconds")
}

// SetFinalizers sets metadata.finalizers; an empty list removes it. The strings may share the
// memory of the document.
func (o Object) SetFinalizers(v []string) {
	if len(v) == 0 {
		o.Doc.Remove("metadata", "finalizers")
		return
	}
	o.Doc.Set(o.Doc.NewStrings(v), "metadata", "finalizers")
}

// docLabels presents the labels of a document as labels.Labels.
type docLabels struct{ v jsondoc.Value }

// LabelsOf presents v, an object of strings or Absent, as labels.
func LabelsOf(v jsondoc.Value) labels.Labels { return docLabels{v} }

// All iterates over the labels.
func (l docLabels) All() iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		for key, value := range l.v.Members() {
			if value.Kind() == jsondoc.String && !yield(key, value.Text()) {
				return
			}
		}
	}
}

func (l docLabels) Has(key string) bool { return l.v.Get(key).Kind() == jsondoc.String }

func (l docLabels) Get(key string) string { return l.v.Get(key).Text() }

func (l docLabels) Lookup(key string) (string, bool) {
	v := l.v.Get(key)
	return v.Text(), v.Kind() == jsondoc.String
}
