package api

import (
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-io/keelson/internal/admission"
	"github.com/keelson-io/keelson/internal/meta"
	"github.com/keelson-io/keelson/internal/status"
	"github.com/keelson-io/keelson/jsondoc"
)

// This file binds pods to nodes, and has what else acts on a pod by way of an
// object that is sent.

// success is the answer of an action that leaves nothing to show.
func success() ([]byte, error) {
	return json.Marshal(status.Done())
}

// subresourceRequest returns the request that admission sees if an object of another kind is sent to
// a subresource, such as a Binding.
func (q *request) subresourceRequest(d *jsondoc.Doc, o *meta.WriteOptions) *admission.Request {
	return &admission.Request{
		Operation: admission.Create, Version: q.kind.Storage, Subresource: q.subresource, Namespace: q.namespace, Name: q.name,
		New: d, User: q.user, DryRun: o.DryRun, Write: o, Client: q,
		Foreign: &admission.Foreign{
			Kind: q.v.GVK(),
			Take: func(d *jsondoc.Doc, text []byte) error {
				_, err := q.v.Decode(d, text)
				return err
			},
		},
	}
}

// asCreated makes d what admission sees of a new object: without metadata that only the server sets, and with the entry of its sender in
// managedFields.
func (q *request) asCreated(d *jsondoc.Doc, o *meta.WriteOptions) error {
	q.warn(meta.WipeCreate(meta.Object{Doc: d})...)
	return q.recordSender(d, o)
}

// legacyBinding binds the pod that a Binding names.
func legacyBinding(q *request, d *jsondoc.Doc, o *meta.WriteOptions) ([]byte, error) {
	// The path names no pod, so that its name is that of the Binding.
	q.name = (meta.Object{Doc: d}).Name()
	q.recordObject(d)
	if err := q.asCreated(d, o); err != nil {
		return nil, err
	}
	r := q.subresourceRequest(d, o)
	r.Version, r.Foreign = q.v, nil
	return q.binds(d, o, r)
}

// podBinding binds a pod to the node that a Binding names.
func podBinding(q *request, d *jsondoc.Doc, o *meta.WriteOptions) ([]byte, error) {
	q.recordObject(d)
	// The uid that the client sends is a precondition.
	if err := q.recordSender(d, o); err != nil {
		return nil, err
	}
	return q.binds(d, o, q.subresourceRequest(d, o))
}

// binds assigns a pod to the node in a Binding.
func (q *request) binds(d *jsondoc.Doc, o *meta.WriteOptions, r *admission.Request) ([]byte, error) {
	if err := q.h.Objects.Chain().Mutate(q.ctx, r); err != nil {
		return nil, err
	}
	// Admission may have changed the Binding, so it is read after the mutating steps.
	b := new(corev1.Binding)
	if err := json.Unmarshal(d.AppendJSON(nil, d.Root().Node), b); err != nil {
		return nil, status.BadRequest("%v", err)
	}
	if q.name != b.Name {
		return nil, status.BadRequest("name in URL does not match name in Binding object")
	}
	if errs := validateBinding(b); len(errs) > 0 {
		return nil, status.Plain500(errs.ToAggregate().Error())
	}
	if err := q.h.Objects.Chain().Validate(q.ctx, r); err != nil {
		return nil, err
	}
	if err := q.h.Objects.Bind(q.ctx, q.caller(), q.namespace, q.name, b, o.DryRun); err != nil {
		return nil, err
	}
	return success()
}

// validateBinding lists what is wrong with a Binding.
func validateBinding(b *corev1.Binding) field.ErrorList {
	var errs field.ErrorList
	path := field.NewPath("target")
	// Pods run on nodes only: other targets are reserved.
	toNode := b.Target.Kind == "" || b.Target.Kind == "Node"
	if !toNode {
		errs = append(errs, field.NotSupported(path.Child("kind"), b.Target.Kind, []string{"Node", "<empty>"}))
	}
	if b.Target.Name == "" {
		return append(errs, field.Required(path.Child("name"), ""))
	}
	if toNode {
		for _, text := range apivalidation.NameIsDNSSubdomain(b.Target.Name, false) {
			errs = append(errs, field.Invalid(path.Child("name"), b.Target.Name, text))
		}
	}
	return errs
}
