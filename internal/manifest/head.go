package manifest

import (
	"strings"

	"github.com/keelson-io/keelson/jsondoc"
)

// This file reads what identifies an object. It is needed often, and is read once.

// Head has the fields that identify an object.
type Head struct {
	APIVersion, Kind                 string
	Namespace, Name, ResourceVersion string
}

// Head returns the fields that identify the object. ok is false if the document is not an object
// with an apiVersion and a kind; then callers decode it to say what is wrong.
func (d *Document) Head() (h Head, ok bool) {
	if d.head == nil {
		return Head{}, false
	}
	return *d.head, true
}

// HasMetadata reports whether the document has a field metadata that is not null.
func (d *Document) HasMetadata() bool {
	if d.head != nil && (d.head.Name != "" || d.head.Namespace != "") {
		return true
	}
	var doc jsondoc.Doc
	if d.Err != nil || jsondoc.Parse(&doc, d.JSON) != nil || doc.Root().Kind() != jsondoc.Object {
		return false
	}
	metadata := doc.Root().Get("metadata").Kind()
	return metadata != jsondoc.Absent && metadata != jsondoc.Null
}

// setHead reads the head of the document.
func (d *Document) setHead() {
	d.head = nil
	doc := jsondoc.Get()
	defer doc.Release()
	if d.Err != nil || jsondoc.Parse(doc, d.JSON) != nil || doc.Root().Kind() != jsondoc.Object {
		return
	}
	version, kind := doc.Root().Get("apiVersion"), doc.Root().Get("kind")
	if version.Kind() != jsondoc.String || kind.Kind() != jsondoc.String {
		return
	}
	h := Head{APIVersion: strings.Clone(version.Text()), Kind: strings.Clone(kind.Text())}
	metadata := doc.Root().Get("metadata")
	text := func(name string) string {
		if v := metadata.Get(name); v.Kind() == jsondoc.String {
			return strings.Clone(v.Text())
		}
		return ""
	}
	h.Namespace, h.Name, h.ResourceVersion = text("namespace"), text("name"), text("resourceVersion")
	if h.APIVersion != "" && h.Kind != "" {
		d.head = &h
	}
}

// SetJSON replaces the text of the object. Positions are still those in the file.
func (d *Document) SetJSON(text []byte) {
	d.JSON = text
	d.setHead()
}
