package atrest

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/keelson-io/keelson/jsondoc"
)

// This file reads objects.

// Kind is a kind of objects, in any version.
type Kind struct {
	Group string // "" is the core group
	Kind  string
}

// String returns the kind as "Kind.group".
func (k Kind) String() string {
	if k.Group == "" {
		return k.Kind
	}
	return k.Kind + "." + k.Group
}

// KindOf returns the kind that an object names.
func KindOf(apiVersion, kind string) Kind {
	group, _, ok := strings.Cut(apiVersion, "/")
	if !ok {
		group = ""
	}
	return Kind{Group: group, Kind: kind}
}

// Object is an object as a row has it.
type Object struct {
	Namespace, Name string
	UID             string
	ResourceVersion string
	Labels          []byte // JSON
	Doc             []byte // JSON, without duplicate keys

	Kind    Kind
	Version string // of the kind
}

// Refusal is the error of an object that a database cannot hold.
type Refusal struct {
	Kind            Kind
	Namespace, Name string
	Reason          string
}

// Error implements error.
func (r *Refusal) Error() string {
	name := r.Name
	if r.Namespace != "" {
		name = r.Namespace + "/" + name
	}
	return fmt.Sprintf("%s %s: %s", r.Kind, name, r.Reason)
}

// refuse returns the refusal of an object.
func (o *Object) refuse(reason string) *Refusal {
	return &Refusal{Kind: o.Kind, Namespace: o.Namespace, Name: o.Name, Reason: reason}
}

// Text is an object as JSON, and what the JSON may lack.
type Text struct {
	JSON  []byte
	Place string // for errors

	APIVersion, Kind string // of an object without them, as in lists of a server; "" for none
	ResourceVersion  string // in place of that in the JSON; "" for that in the JSON
}

// Parse reads an object. If no database can hold it, the error is a [*Refusal], and the object has
// its key. d is memory to parse in.
func Parse(d *jsondoc.Doc, t Text) (*Object, error) {
	d.Reset([]*jsondoc.Shape{nil})
	if err := jsondoc.Parse(d, t.JSON); err != nil {
		return nil, err
	}
	if d.Root().Kind() == jsondoc.Object {
		if t.APIVersion != "" && !d.Root().Get("apiVersion").Exists() {
			d.Set(d.NewString(t.APIVersion), "apiVersion")
		}
		if t.Kind != "" && !d.Root().Get("kind").Exists() {
			d.Set(d.NewString(t.Kind), "kind")
		}
		if t.ResourceVersion != "" {
			d.Set(d.NewString(t.ResourceVersion), "metadata", "resourceVersion")
		}
	}
	root := d.Root()
	metadata := root.Get("metadata")
	o := &Object{
		Namespace:       textOf(metadata.Get("namespace")),
		Name:            textOf(metadata.Get("name")),
		UID:             textOf(metadata.Get("uid")),
		ResourceVersion: textOf(metadata.Get("resourceVersion")),
		Labels:          []byte("{}"),
	}
	apiVersion := textOf(root.Get("apiVersion"))
	o.Kind, o.Version = KindOf(apiVersion, textOf(root.Get("kind"))), apiVersion[strings.Index(apiVersion, "/")+1:]
	switch {
	case root.Kind() != jsondoc.Object, o.Version == "", o.Kind.Kind == "":
		return nil, fmt.Errorf("not an object with apiVersion and kind")
	case o.Name == "":
		return nil, fmt.Errorf("the %s has no name", o.Kind)
	case o.Namespace == "" && metadata.Get("namespace").Exists() && metadata.Get("namespace").Kind() != jsondoc.String:
		return nil, fmt.Errorf("%s %s: metadata.namespace: got a %s, want a string", o.Kind, o.Name, metadata.Get("namespace").Kind())
	}
	if labels := metadata.Get("labels"); labels.Kind() == jsondoc.Object {
		o.Labels = labels.AppendJSON(nil)
	}
	o.Doc = root.AppendJSON(make([]byte, 0, len(t.JSON)+len(t.JSON)/8))
	if hasNUL(o.Doc) {
		return o, o.refuse("it has the character U+0000 in a text")
	}
	return o, nil
}

// textOf returns a string, "" for any other value.
func textOf(v jsondoc.Value) string {
	if v.Kind() != jsondoc.String {
		return ""
	}
	return strings.Clone(v.Text())
}

// hasNUL reports whether JSON has the character U+0000 in a text.
func hasNUL(text []byte) bool {
	for {
		i := bytes.Index(text, []byte(`\u0000`))
		if i < 0 {
			return false
		}
		before := i
		for before > 0 && text[before-1] == '\\' {
			before--
		}
		if (i-before)%2 == 0 {
			return true
		}
		text = text[i+1:]
	}
}
