// This file is the server's engine without the server: kinds compiled from definitions, and the verdict on one object.

package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apischema "k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-io/keelson/doc"
	"github.com/keelson-io/keelson/kind"
	"github.com/keelson-io/keelson/meta"
	"github.com/keelson-io/keelson/schema"
	"github.com/keelson-io/keelson/status"
)

// engine holds the kinds that a command knows.
type engine struct {
	kinds     map[apischema.GroupVersionKind]*kind.Version
	namespace string // of objects that name none
}

// verdict is what the server would answer to one object.
type verdict struct {
	Source     string         `json:"source"`
	APIVersion string         `json:"apiVersion,omitempty"`
	Kind       string         `json:"kind,omitempty"`
	Namespace  string         `json:"namespace,omitempty"`
	Name       string         `json:"name,omitempty"`
	Valid      bool           `json:"valid"`
	Warnings   []string       `json:"warnings,omitempty"`
	Status     *metav1.Status `json:"status,omitempty"` // the refusal, as the server would send it
}

// newEngine knows the built-in kinds.
func newEngine(namespace string) *engine {
	e := &engine{kinds: map[apischema.GroupVersionKind]*kind.Version{}, namespace: namespace}
	for _, k := range kind.Builtins() {
		e.add(k)
	}
	return e
}

func (e *engine) add(k *kind.Kind) {
	for _, v := range k.Versions {
		e.kinds[v.GVK()] = v
	}
}

// define adds the kinds of the definitions among docs. The verdicts on definitions that are not valid come back: their
// kinds are not known then. Documents that define nothing are left alone, so that a folder may hold other things, too.
func (e *engine) define(ctx context.Context, docs []document) ([]verdict, error) {
	var bad []verdict
	found := false
	for _, d := range docs {
		if d.Err != nil {
			return nil, d.Err
		}
		var head metav1.TypeMeta
		if err := json.Unmarshal(d.JSON, &head); err != nil || head.Kind != "CustomResourceDefinition" {
			continue
		}
		found = true
		v := e.check(ctx, d, nil, "Warn")
		if !v.Valid {
			bad = append(bad, v)
			continue
		}
		crd, err := kind.ReadCRD(d.JSON)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", d, err)
		}
		k, err := kind.Compile(crd)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", d, err)
		}
		e.add(k)
	}
	if !found && len(docs) > 0 {
		return nil, fmt.Errorf("%s: no CustomResourceDefinition in it", docs[0].File)
	}
	return bad, nil
}

// decode finds the kind of a document and reads it as the server would. The verdict says why not, if it cannot.
func (e *engine) decode(d document) (*kind.Version, *doc.Doc, schema.Found, *verdict) {
	v := &verdict{Source: d.String()}
	if d.Err != nil {
		v.refuse(status.BadRequest("%s", d.Err))
		return nil, nil, 0, v
	}
	var head metav1.PartialObjectMetadata
	if err := json.Unmarshal(d.JSON, &head); err != nil {
		head = metav1.PartialObjectMetadata{}
		if err := json.Unmarshal(d.JSON, &head.TypeMeta); err != nil {
			v.refuse(status.BadRequest("%s: not an object: %s", d, err))
			return nil, nil, 0, v
		}
	}
	v.APIVersion, v.Kind, v.Namespace, v.Name = head.APIVersion, head.Kind, head.Namespace, head.Name
	version := e.kinds[head.GroupVersionKind()]
	if version == nil {
		v.refuse(status.BadRequest("%s", e.unknownKind(head.GroupVersionKind())))
		return nil, nil, 0, v
	}
	object := new(doc.Doc)
	found, err := version.Decode(object, d.JSON)
	if err != nil {
		v.refuse(status.BadRequest("%s in version %q cannot be handled as a %s: %s", version.Kind.Name, version.Name, version.Kind.Name, err))
		return nil, nil, 0, v
	}
	return version, object, found, v
}

// unknownKind says what is missing, and what is there under a similar name.
func (e *engine) unknownKind(gvk apischema.GroupVersionKind) string {
	msg := fmt.Sprintf("no definition of kind %q in version %q", gvk.Kind, gvk.GroupVersion())
	var others []string
	for known := range e.kinds {
		if known.Group == gvk.Group && known.Kind == gvk.Kind {
			others = append(others, known.Version)
		}
	}
	if len(others) == 0 {
		return msg + "; name the file that defines it with -f"
	}
	slices.Sort(others)
	return msg + "; served versions: " + strings.Join(others, ", ")
}

// check gives the verdict on d as a new object, or as an update of old.
func (e *engine) check(ctx context.Context, d document, old *document, fieldValidation string) verdict {
	version, object, found, v := e.decode(d)
	if v.Status != nil {
		return *v
	}
	if notes := dropped(version, d, found); len(notes) > 0 {
		switch fieldValidation {
		case "Strict":
			v.refuse(status.BadRequest("%s in version %q cannot be handled as a %s: strict decoding error: %s",
				version.Kind.Name, version.Name, version.Kind.Name, strings.Join(notes, ", ")))
			return *v
		case "Warn":
			v.Warnings = append(v.Warnings, notes...)
		}
	}
	m := meta.Object{Doc: object}
	if version.Kind.Namespaced && m.Namespace() == "" {
		m.SetNamespace(e.namespace)
		v.Namespace = e.namespace
	}
	var before *doc.Doc
	if old == nil {
		version.PrepareCreate(object)
		v.Warnings = append(v.Warnings, meta.WipeCreate(m)...)
		meta.FillCreate(m, time.Now())
	} else {
		beforeVersion, b, _, oldVerdict := e.decode(*old)
		if oldVerdict.Status != nil {
			oldVerdict.Source = v.Source
			return *oldVerdict
		}
		if beforeVersion.Kind != version.Kind {
			v.refuse(status.BadRequest("%s: the old object is a %s", d, beforeVersion.Kind.Name))
			return *v
		}
		before = b
		e.prepareUpdate(version, object, before)
	}
	result := version.Validate(ctx, object, before, schema.Whole)
	v.Warnings = append(v.Warnings, result.Warnings...)
	if len(result.Errors) > 0 {
		v.refuse(status.Invalid(version.Kind.GroupKind(), m.Name(), result.Errors))
		return *v
	}
	v.Valid = true
	return *v
}

// prepareUpdate fills in what the server knows of the stored object, where the file with the old object does not say it.
func (e *engine) prepareUpdate(version *kind.Version, object, before *doc.Doc) {
	o, b := meta.Object{Doc: object}, meta.Object{Doc: before}
	if version.Kind.Namespaced && b.Namespace() == "" {
		b.SetNamespace(e.namespace)
	}
	if b.UID() == "" {
		b.SetUID(meta.NewUID())
	}
	if b.CreationTimestamp() == "" {
		b.SetCreationTimestamp(time.Now())
	}
	if b.ResourceVersion() == "" {
		b.SetResourceVersion("1")
	}
	if o.ResourceVersion() == "" {
		o.SetResourceVersion(b.ResourceVersion())
	}
	version.PrepareUpdate(object, before, schema.Whole)
	meta.FillUpdate(o, b, false)
}

// dropped says in words what decoding left out: keys given twice and fields that the schema does not know.
func dropped(version *kind.Version, d document, found schema.Found) []string {
	notes := slices.Clone(d.Duplicates)
	if found != 0 {
		notes = append(notes, version.Strict(d.JSON)...)
	}
	return notes
}

func (v *verdict) refuse(err *status.Error) { v.Status = &err.Status }
