package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-io/keelson/admission"
	"github.com/keelson-io/keelson/cache"
	"github.com/keelson-io/keelson/doc"
	"github.com/keelson-io/keelson/meta"
	"github.com/keelson-io/keelson/status"
)

// This file binds pods to nodes, and has what else acts on a pod by way of an
// object that is sent.

var podResource = kschema.GroupResource{Resource: "pods"}

// success is the answer of an action that leaves nothing to show.
func (q *request) success() (err error) {
	q.written, err = json.Marshal(&metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusSuccess, Code: http.StatusCreated,
	})
	return err
}

// foreign is how admission sees an object that is sent to a subresource and has
// a kind of its own.
func (q *request) foreign(d *doc.Doc, o *meta.WriteOptions) *admission.Request {
	return &admission.Request{
		Operation: admission.Create, Version: q.kind.Storage, Subresource: q.subresource, Namespace: q.namespace, Name: q.name,
		New: d, User: q.user, DryRun: o.DryRun, Write: o, Client: q,
		Foreign: &admission.Foreign{
			Kind: q.v.GVK(),
			Text: func(d *doc.Doc) ([]byte, error) { return d.AppendJSON(nil, d.Root().Node), nil },
			Take: func(d *doc.Doc, text []byte) error {
				_, err := q.v.Decode(d, text)
				return err
			},
		},
	}
}

// pod is a request for the pod that this one is about, which admission has seen.
func (q *request) pod(name string) (*request, error) {
	k := q.h.Kinds.Load().Lookup("", podResource.Resource)
	if k == nil || name == "" {
		return nil, status.NotFound(podResource, name)
	}
	p := q.h.As(ServerManager).request(q.ctx, k, q.namespace, name, "")
	p.user, p.admitted = q.user, true
	if err := p.res.Ready(q.ctx); err != nil {
		return nil, storeError(err)
	}
	return p, nil
}

// rewrite changes the request's object by fn alone: by no rules of its kind, nor admission. rev is the revision that it has then.
func (q *request) rewrite(dryRun bool, fn func(d *doc.Doc, obj *cache.Object) error) (rev int64, err error) {
	err = q.change(&change{
		options: &meta.WriteOptions{DryRun: dryRun},
		quiet:   true,
		bare:    true,
		became:  &rev,
		build: func(next, _ *doc.Doc, obj *cache.Object) error {
			if err := q.v.Load(next, obj.Raw, obj.Rev); err != nil {
				return err
			}
			return fn(next, obj)
		},
	})
	return rev, err
}

// legacyBinding binds the pod that a Binding names.
func legacyBinding(q *request, d *doc.Doc, o *meta.WriteOptions) error {
	q.name = (meta.Object{Doc: d}).Name()
	r := q.foreign(d, o)
	r.Version, r.Foreign = q.v, nil
	return q.binds(d, o, r)
}

// podBinding binds a pod to the node that a Binding names.
func podBinding(q *request, d *doc.Doc, o *meta.WriteOptions) error {
	return q.binds(d, o, q.foreign(d, o))
}

func (q *request) binds(d *doc.Doc, o *meta.WriteOptions, r *admission.Request) error {
	q.recordObject(d)
	if err := q.h.admission.Mutate(q.ctx, r); err != nil {
		return err
	}
	b := new(corev1.Binding)
	if err := json.Unmarshal(d.AppendJSON(nil, d.Root().Node), b); err != nil {
		return status.BadRequest("%v", err)
	}
	if q.name != b.Name {
		return status.BadRequest("name in URL does not match name in Binding object")
	}
	if errs := validateBinding(b); len(errs) > 0 {
		return status.Plain500(errs.ToAggregate().Error())
	}
	if err := q.h.admission.Validate(q.ctx, r); err != nil {
		return err
	}
	p, err := q.pod(q.name)
	if err != nil {
		return err
	}
	var refusal error // upstream's, which calls all of them conflicts
	_, err = p.rewrite(o.DryRun, func(pod *doc.Doc, obj *cache.Object) error {
		if refusal = bind(pod, obj, b, o.DryRun); refusal != nil {
			return refusal
		}
		return nil
	})
	switch {
	case err == nil:
		return q.success()
	case refusal != nil && errors.Is(err, refusal):
		return status.Conflict(kschema.GroupResource{Resource: "pods/binding"}, q.name, refusal)
	}
	return err
}

// validateBinding lists what is wrong with a Binding.
func validateBinding(b *corev1.Binding) field.ErrorList {
	var errs field.ErrorList
	path := field.NewPath("target")
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

// bind writes a pod's node into it.
func bind(d *doc.Doc, obj *cache.Object, b *corev1.Binding, dryRun bool) error {
	pod := meta.Object{Doc: d}
	if uid := string(b.UID); uid != "" && uid != pod.UID() {
		return uidMismatch(obj.Key, uid, pod.UID(), dryRun)
	}
	if have := strconv.FormatInt(obj.Rev, 10); b.ResourceVersion != "" && b.ResourceVersion != have {
		return preconditionFailed(obj.Key, "ResourceVersion in precondition: "+b.ResourceVersion+", ResourceVersion in object meta: "+have, dryRun)
	}
	spec := d.Root().Get("spec")
	switch node := spec.Get("nodeName").Text(); {
	case pod.DeletionTimestamp() != "":
		return fmt.Errorf("pod %s is being deleted, cannot be assigned to a host", pod.Name())
	case node != "":
		return fmt.Errorf("pod %s is already assigned to node %q", pod.Name(), node)
	case spec.Get("schedulingGates").Len() > 0:
		return fmt.Errorf("pod %s has non-empty .spec.schedulingGates", pod.Name())
	}
	d.Set(d.NewString(b.Target.Name), "spec", "nodeName")
	d.Remove("status", "nominatedNodeName")
	for key, value := range b.Annotations {
		d.Set(d.NewString(value), "metadata", "annotations", key)
	}
	for key, value := range b.Labels {
		d.Set(d.NewString(value), "metadata", "labels", key)
	}
	return setCondition(d, corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionTrue})
}

// setCondition puts a condition into a pod's status, in place of the one of its
// type.
func setCondition(d *doc.Doc, c corev1.PodCondition) error {
	var conditions []corev1.PodCondition
	if have := d.Root().At("status", "conditions"); have.Len() > 0 {
		if err := json.Unmarshal(have.AppendJSON(nil), &conditions); err != nil {
			return status.Internal(err)
		}
	}
	c.LastTransitionTime = metav1.Now()
	found := false
	for i := range conditions {
		if have := &conditions[i]; have.Type == c.Type {
			if found = true; have.Status == c.Status {
				c.LastTransitionTime = have.LastTransitionTime
			}
			*have = c
		}
	}
	if !found {
		conditions = append(conditions, c)
	}
	return setTyped(d, conditions, "status", "conditions")
}

// setTyped sets a member to a typed value.
func setTyped(d *doc.Doc, value any, path ...string) error {
	text, err := json.Marshal(value)
	if err != nil {
		return status.Internal(err)
	}
	v := doc.Get()
	defer v.Release()
	if err := doc.Parse(v, text); err != nil {
		return status.Internal(err)
	}
	d.Set(d.Import(v.Root()), path...)
	return nil
}

// latest reads the request's object as it is now.
func (q *request) latest(into any) (rev int64, err error) {
	l, err := q.start(true)
	if err != nil {
		return 0, err
	}
	if l.obj == nil {
		return 0, status.NotFound(q.kind.GroupResource(), q.name)
	}
	return l.obj.Rev, q.typed(l.obj, into)
}

// typed reads an object of the request's kind into its Go type.
func (q *request) typed(obj *cache.Object, into any) error {
	d := doc.Get()
	defer d.Release()
	if err := q.v.Load(d, obj.Raw, obj.Rev); err != nil {
		return err
	}
	if err := json.Unmarshal(d.AppendJSON(nil, d.Root().Node), into); err != nil {
		return status.Internal(err)
	}
	return nil
}
