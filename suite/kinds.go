package suite

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apischema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	"github.com/keelson-io/keelson/doc"
	"github.com/keelson-io/keelson/kind"
	"github.com/keelson-io/keelson/meta"
	"github.com/keelson-io/keelson/schema"
	"github.com/keelson-io/keelson/status"
)

// This file answers to objects as the server would.

// Kinds are the kinds of some definitions. They are safe for concurrent use.
type Kinds struct {
	versions map[apischema.GroupVersionKind]*kind.Version
}

// Options say how a request is made. The zero value is a plain request in namespace "default".
type Options struct {
	Namespace       string // of objects that name none; "" stands for default
	FieldValidation string // of unknown and duplicate fields: Strict, Warn or Ignore; "" stands for Warn
	Subresource     string // that an update is made to: "" or status
}

// Outcome is the answer to a request.
type Outcome struct {
	// Object is what is stored, as JSON, in the version of the request: pruned, with defaults. nil if the object is refused.
	Object []byte
	// Errors are the errors of fields.
	Errors field.ErrorList
	// Refusal is what the client would be sent; nil if the object is accepted.
	Refusal  *metav1.Status
	Warnings []string
}

// NewKinds compiles definitions, YAML or JSON, one each. What a server would refuse is an error.
func NewKinds(definitions ...[]byte) (*Kinds, error) {
	k := &Kinds{versions: map[apischema.GroupVersionKind]*kind.Version{}}
	for _, text := range definitions {
		body, err := yaml.YAMLToJSON(text)
		if err != nil {
			return nil, err
		}
		if err := k.define(body); err != nil {
			return nil, err
		}
	}
	return k, nil
}

func (k *Kinds) define(body []byte) error {
	crd, errs, err := kind.NewCRD(body)
	if err != nil {
		return err
	}
	if crd.Kind != "CustomResourceDefinition" {
		return fmt.Errorf("kind: got %q, want CustomResourceDefinition", crd.Kind)
	}
	if len(errs) > 0 {
		return status.Invalid(apiextv1.Kind("CustomResourceDefinition"), crd.Name, errs)
	}
	compiled, err := kind.Compile(crd)
	if err != nil {
		return fmt.Errorf("%s: %w", crd.Name, err)
	}
	for _, v := range compiled.Versions {
		k.versions[v.GVK()] = v
	}
	return nil
}

// Create answers to a new object, YAML or JSON. The error says why there is no answer: the object is none, or its kind is not
// known.
func (k *Kinds) Create(ctx context.Context, object []byte, o Options) (*Outcome, error) {
	if o.Subresource != "" {
		return nil, errors.New("subresource: only updates are made to one")
	}
	r, err := k.read(object, o)
	if err != nil || r.outcome.Refusal != nil {
		return r.answer(), err
	}
	m := meta.Object{Doc: r.object}
	if m.Name() == "" && m.GenerateName() != "" {
		m.SetName(meta.GenerateName(m.GenerateName()))
	}
	r.version.PrepareCreate(r.object)
	r.warn(meta.WipeCreate(m))
	meta.FillCreate(m, time.Now())
	r.validate(ctx, nil, schema.Whole)
	return r.answer(), nil
}

// Update answers to a change of initial to updated. The object as it is need not be valid: definitions change, too.
func (k *Kinds) Update(ctx context.Context, initial, updated []byte, o Options) (*Outcome, error) {
	scope := schema.Whole
	switch o.Subresource {
	case "":
	case "status":
		scope = schema.Status
	default:
		return nil, fmt.Errorf("subresource: got %q, want status or none", o.Subresource)
	}
	was, err := k.read(initial, Options{Namespace: o.Namespace, FieldValidation: "Ignore"})
	if err != nil {
		return nil, fmt.Errorf("initial: %w", err)
	}
	if was.outcome.Refusal != nil {
		return nil, fmt.Errorf("initial: %s", was.outcome.Refusal.Message)
	}
	r, err := k.read(updated, o)
	if err != nil || r.outcome.Refusal != nil {
		return r.answer(), err
	}
	if was.version.Kind != r.version.Kind {
		return nil, fmt.Errorf("updated: got a %s, want a %s as it is", r.version.Kind.Name, was.version.Kind.Name)
	}
	if scope == schema.Status && !r.version.Status {
		return nil, fmt.Errorf("subresource: version %s has no status subresource", r.version.Name)
	}
	if err := was.asStored(r.version); err != nil {
		return nil, fmt.Errorf("initial: %w", err)
	}
	m := meta.Object{Doc: r.object}
	if m.ResourceVersion() == "" {
		m.SetResourceVersion(meta.Object{Doc: was.object}.ResourceVersion())
	}
	r.version.PrepareUpdate(r.object, was.object, scope)
	meta.FillUpdate(m, meta.Object{Doc: was.object}, false)
	r.validate(ctx, was.object, scope)
	return r.answer(), nil
}

// request is an object on its way.
type request struct {
	version *kind.Version
	object  *doc.Doc
	outcome Outcome
}

// read decodes an object by its kind.
func (k *Kinds) read(text []byte, o Options) (*request, error) {
	body, duplicates, err := toJSON(text)
	if err != nil {
		return nil, err
	}
	var head metav1.TypeMeta
	if err := json.Unmarshal(body, &head); err != nil {
		return nil, fmt.Errorf("not an object: %w", err)
	}
	gvk := head.GroupVersionKind()
	r := &request{version: k.versions[gvk], object: new(doc.Doc)}
	if r.version == nil {
		return nil, fmt.Errorf("no definition of kind %q in version %q", gvk.Kind, gvk.GroupVersion())
	}
	name := r.version.Kind.Name
	refuse := func(format string, args ...any) {
		e := status.BadRequest("%s in version %q cannot be handled as a %s: %s", name, r.version.Name, name, fmt.Sprintf(format, args...))
		r.outcome.Refusal = &e.Status
	}
	found, err := r.version.Decode(r.object, body)
	if err != nil {
		refuse("%s", err)
		return r, nil
	}
	notes := duplicates
	if found != 0 {
		notes = append(notes, r.version.Strict(body)...)
	}
	switch o.FieldValidation {
	case "", "Warn":
		r.warn(notes)
	case "Strict":
		if len(notes) > 0 {
			refuse("strict decoding error: %s", strings.Join(notes, ", "))
		}
	case "Ignore":
	default:
		return nil, fmt.Errorf("fieldValidation: got %q, want Strict, Warn or Ignore", o.FieldValidation)
	}
	if m := (meta.Object{Doc: r.object}); r.version.Kind.Namespaced && m.Namespace() == "" {
		m.SetNamespace(o.Namespace)
		if o.Namespace == "" {
			m.SetNamespace(metav1.NamespaceDefault)
		}
	}
	return r, nil
}

// toJSON reads YAML as the server does, with what it says about keys that are there twice.
func toJSON(text []byte) (body []byte, duplicates []string, err error) {
	if t := bytes.TrimLeft(text, " \t\r\n"); len(t) > 0 && t[0] == '{' && json.Valid(text) {
		return text, nil, nil // the strict check of the schema finds duplicates
	}
	body, err = yaml.YAMLToJSONStrict(text)
	if err == nil {
		return body, nil, nil
	}
	lenient, lenientErr := yaml.YAMLToJSON(text)
	if lenientErr != nil {
		return nil, nil, lenientErr
	}
	for line := range strings.SplitSeq(err.Error(), "\n") {
		if _, m, found := strings.Cut(line, "line "); found {
			duplicates = append(duplicates, "line "+m)
		}
	}
	return lenient, duplicates, nil
}

// asStored makes an object what a server has of it, in the given version.
func (r *request) asStored(v *kind.Version) error {
	m := meta.Object{Doc: r.object}
	if m.UID() == "" {
		m.SetUID(meta.NewUID())
	}
	if m.CreationTimestamp() == "" {
		m.SetCreationTimestamp(time.Now())
	}
	if m.Generation() == 0 {
		m.SetGeneration(1)
	}
	if m.ResourceVersion() == "" {
		m.SetResourceVersion("1")
	}
	if v == r.version {
		return nil
	}
	raw, err := r.version.Encode(r.object, nil)
	if err != nil {
		return err
	}
	r.object = new(doc.Doc)
	return v.Load(r.object, raw, 1)
}

func (r *request) warn(texts []string) {
	for _, t := range texts {
		if !slices.Contains(r.outcome.Warnings, t) {
			r.outcome.Warnings = append(r.outcome.Warnings, t)
		}
	}
}

func (r *request) validate(ctx context.Context, old *doc.Doc, scope schema.Scope) {
	result := r.version.Validate(ctx, r.object, old, scope)
	r.warn(result.Warnings)
	if len(result.Errors) > 0 {
		r.outcome.Errors = result.Errors
		r.outcome.Refusal = &status.Invalid(r.version.Kind.GroupKind(), meta.Object{Doc: r.object}.Name(), result.Errors).Status
		return
	}
	r.outcome.Object = r.object.Root().AppendJSON(nil)
}

// answer is the outcome; nil if there is no request.
func (r *request) answer() *Outcome {
	if r == nil {
		return nil
	}
	return &r.outcome
}
