package conditions

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/keelson-io/keelson/authz"
	"github.com/keelson-io/keelson/cel"
	"github.com/keelson-io/keelson/internal/admission"
	"github.com/keelson-io/keelson/internal/admission/match"
	"github.com/keelson-io/keelson/internal/authn"
	"github.com/keelson-io/keelson/jsondoc"
)

// This file presents a request to expressions.

// Input holds a request in the version of one target, and the values of its variables. It belongs
// to one goroutine.
type Input struct {
	Request *admission.Request
	Target  match.Target
	// Authorizer decides for expressions that check the user's permissions.
	Authorizer authz.Authorizer
	// Params and Namespace are JSON objects; nil means null.
	Params, Namespace []byte
	// Account bounds the work of all expressions of one webhook or binding; nil means no bound.
	Account *cel.Account

	matching bool
	made     cel.Vars
	composed uint64 // cost of composed variables since it was last charged
	spent    uint64 // cost of all expressions since the last call of Spent
}

// Objects returns the new and the old object of a request in the target's version, as JSON; nil for
// an object that the operation does not have.
func Objects(r *admission.Request, t match.Target) (object, old []byte, err error) {
	if object, err = Object(r, t, r.New); err == nil {
		old, err = Object(r, t, r.Old)
	}
	return object, old, err
}

// Object returns d in the target's version, as JSON; nil if d is nil.
func Object(r *admission.Request, t match.Target, d *jsondoc.Doc) ([]byte, error) {
	if d == nil {
		return nil, nil
	}
	text := d.AppendJSON(nil, d.Root().Node)
	if !t.Other || r.Foreign != nil {
		return text, nil
	}
	return t.Version.Kind.Convert(text, t.Version.Name)
}

// Convert converts the objects now, so that a failed conversion does not count as an error of an
// expression.
func (in *Input) Convert() error {
	for name, d := range map[string]*jsondoc.Doc{cel.ObjectVariable: in.Request.New, cel.OldObjectVariable: in.Request.Old} {
		v, err := in.object(d)
		if err != nil {
			return err
		}
		in.Set(name, v)
	}
	return nil
}

// Set sets the value of a variable.
func (in *Input) Set(name string, v cel.Value) {
	if in.made == nil {
		in.made = cel.Vars{}
	}
	in.made[name] = v
}

// Matching returns the input for match conditions. As upstream, they see no namespace, and
// request.resource is that of the request instead of the matching rule's.
func (in *Input) Matching() *Input {
	out := *in
	out.spent = 0
	out.Namespace, out.matching, out.made = nil, true, maps.Clone(in.made)
	delete(out.made, cel.NamespaceVariable)
	if in.Target.Other {
		delete(out.made, cel.RequestVariable)
	}
	return &out
}

// WithoutAuthorizer returns the input for expressions that have no variable authorizer.
func (in *Input) WithoutAuthorizer() *Input {
	out := *in
	out.spent = 0
	out.Authorizer, out.made = nil, maps.Clone(in.made)
	delete(out.made, cel.AuthorizerVariable)
	delete(out.made, cel.RequestResourceVariable)
	return &out
}

// Composed adds the cost of a composed variable.
func (in *Input) Composed(cost uint64) { in.composed += cost }

// Overdrawn reports whether composed variables alone exceed every budget, so that the rest need not
// be evaluated.
func (in *Input) Overdrawn() bool { return in.composed > EvaluateBudget }

// Spent returns the cost of all expressions since the last call, in CEL cost units.
func (in *Input) Spent() uint64 {
	cost := in.spent
	in.spent = 0
	return cost
}

// vars returns the variables. At least those in names have values.
func (in *Input) vars(ctx context.Context, names []string) (cel.Vars, error) {
	for _, name := range names {
		if _, ok := in.made[name]; ok {
			continue
		}
		if in.Authorizer == nil && (name == cel.AuthorizerVariable || name == cel.RequestResourceVariable) {
			continue // declared, but without a value
		}
		v, err := in.variable(ctx, name)
		if err != nil {
			return nil, fmt.Errorf("failed to prepare %s variable for evaluation: %w", name, err)
		}
		in.Set(name, v)
	}
	return in.made, nil
}

// variable returns the value of a variable, which it makes on first use.
func (in *Input) variable(ctx context.Context, name string) (cel.Value, error) {
	switch name {
	case cel.ObjectVariable:
		return in.object(in.Request.New)
	case cel.OldObjectVariable:
		return in.object(in.Request.Old)
	case cel.ParamsVariable:
		return fromJSON(in.Params)
	case cel.NamespaceVariable:
		return namespaceValue(in.Namespace)
	case cel.RequestVariable:
		return in.request()
	case cel.AuthorizerVariable:
		return cel.AuthorizerValue(asker{ctx, in}), nil
	case cel.RequestResourceVariable:
		gvr, r := in.Request.Version.GVR(), in.Request
		return cel.ResourceAuthorizerValue(asker{ctx, in}, cel.AccessCheck{
			Group: gvr.Group, Resource: gvr.Resource, Subresource: r.Subresource, Namespace: r.Namespace, Name: r.Name,
		}), nil
	}
	return cel.FromGo(nil)
}

// object returns a document as a CEL value in the target's version, null if d is nil.
func (in *Input) object(d *jsondoc.Doc) (cel.Value, error) {
	if d != nil && (!in.Target.Other || in.Request.Foreign != nil) {
		return cel.FromDoc(d.Root(), nil), nil
	}
	text, err := Object(in.Request, in.Target, d)
	if err != nil {
		return cel.Value{}, err
	}
	return fromJSON(text)
}

// fromJSON returns the CEL value of a JSON text, null for none.
func fromJSON(text []byte) (cel.Value, error) {
	if text == nil {
		return cel.FromGo(nil)
	}
	return cel.FromJSON(text)
}

// namespaceFields lists the metadata of a namespace that expressions see.
var namespaceFields = []string{"name", "generateName", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp",
	"deletionTimestamp", "deletionGracePeriodSeconds", "labels", "annotations", "finalizers"}

// namespaceValue returns the part of a namespace that expressions see.
func namespaceValue(text []byte) (cel.Value, error) {
	if text == nil {
		return cel.FromGo(nil)
	}
	var all map[string]json.RawMessage
	if err := json.Unmarshal(text, &all); err != nil {
		return cel.Value{}, err
	}
	var meta map[string]json.RawMessage
	if err := json.Unmarshal(all["metadata"], &meta); err != nil {
		return cel.Value{}, err
	}
	shown := map[string]json.RawMessage{}
	for _, name := range namespaceFields {
		if v, ok := meta[name]; ok {
			shown[name] = v
		}
	}
	out := map[string]any{"metadata": shown}
	for _, name := range []string{"spec", "status"} {
		if v, ok := all[name]; ok {
			out[name] = v
		}
	}
	b, err := json.Marshal(out)
	if err != nil {
		return cel.Value{}, err
	}
	return cel.FromJSON(b)
}

// request returns the variable request: an AdmissionRequest without uid and objects.
func (in *Input) request() (cel.Value, error) {
	review := Review(in.Request, in.Target)
	if in.matching {
		review.Resource = *review.RequestResource
	}
	b, err := json.Marshal(struct {
		*admissionv1.AdmissionRequest
		// The fields below hide the embedded ones with the same JSON names.
		UID       *int `json:"uid,omitempty"`
		Object    *int `json:"object,omitempty"`
		OldObject *int `json:"oldObject,omitempty"`
	}{AdmissionRequest: review})
	if err != nil {
		return cel.Value{}, err
	}
	return cel.FromJSON(b)
}

// Review returns the AdmissionRequest for webhooks and expressions, without uid and objects.
func Review(r *admission.Request, t match.Target) *admissionv1.AdmissionRequest {
	own, other := r.Version.GVR(), t.Version.GVR()
	ownKind, otherKind := r.Version.GVK(), t.Version.GVK()
	if s := r.Foreign; s != nil {
		ownKind, otherKind = s.Kind, s.Kind
	}
	user := authenticationv1.UserInfo{Extra: map[string]authenticationv1.ExtraValue{}}
	if u := r.User; u != nil {
		user.Username, user.UID, user.Groups = u.Name, u.UID, u.Groups
		for key, values := range u.Extra {
			user.Extra[key] = values
		}
	}
	namespace := r.Namespace
	if r.Version.Kind.IsNamespaces() {
		namespace = r.Name
	}
	dryRun := r.DryRun
	return &admissionv1.AdmissionRequest{
		Kind:               metav1.GroupVersionKind(otherKind),
		Resource:           metav1.GroupVersionResource(other),
		SubResource:        r.Subresource,
		RequestKind:        (*metav1.GroupVersionKind)(&ownKind),
		RequestResource:    (*metav1.GroupVersionResource)(&own),
		RequestSubResource: r.Subresource,
		Name:               r.Name,
		Namespace:          namespace,
		Operation:          admissionv1.Operation(r.Operation),
		UserInfo:           user,
		DryRun:             &dryRun,
		Options:            runtime.RawExtension{Raw: r.OptionsJSON()},
	}
}

// asker adapts an authorizer for expressions.
type asker struct {
	ctx context.Context
	in  *Input
}

// Authorize implements cel.Authorizer.
func (a asker) Authorize(c cel.AccessCheck) (bool, string, error) {
	attributes := &authz.Attributes{
		User: a.in.Request.User, Verb: c.Verb,
		ResourceRequest: c.Path == "", Path: c.Path,
		Group: c.Group, Version: "*", Resource: c.Resource, Subresource: c.Subresource, Namespace: c.Namespace, Name: c.Name,
		FieldSelector: c.FieldSelector, LabelSelector: c.LabelSelector,
	}
	if c.ServiceAccountName != "" {
		attributes.User = &authn.User{
			Name:   authn.ServiceAccountName(c.ServiceAccountNamespace, c.ServiceAccountName),
			Groups: authn.ServiceAccountGroups(c.ServiceAccountNamespace),
		}
	}
	if c.Path != "" {
		attributes.Version = ""
	}
	r := a.in.Authorizer.Authorize(a.ctx, attributes)
	return r.Decision == authz.Allow, r.Reason, r.Err
}
