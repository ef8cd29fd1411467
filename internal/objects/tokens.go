package objects

import (
	"context"
	"encoding/base64"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	kschema "k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-io/keelson/internal/authn/serviceaccount"
	"github.com/keelson-io/keelson/internal/meta"
	"github.com/keelson-io/keelson/internal/status"
	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/kind"
)

// This file reads and marks the objects that tokens of service accounts depend on. A token is read
// with each request that it authenticates, so that a look-up reads only the members that it needs,
// and does not wait for the store if the cache has the object.

// TokenReference is the part of an object that tokens depend on.
type TokenReference struct {
	serviceaccount.Object
	Account, Node string // of a pod: its service account and its node, "" if it has none

	secretType string
	secretData map[string]string // decoded, by key
}

// TokenReference returns an object of the core group: a Pod, Node, Secret or ServiceAccount.
// namespace is "" for a Node.
func (v *Verbs) TokenReference(ctx context.Context, resource, namespace, name string) (*TokenReference, error) {
	// The authenticator treats a kind that is not served like an object that does not exist.
	missing := status.NotFound(kschema.GroupResource{Resource: resource}, name)
	k := v.Kinds.Load().Lookup("", resource)
	if k == nil || name == "" || k.Namespaced != (namespace != "") {
		return nil, missing
	}
	// Find uses the cache's object if there is one: a token is checked with each request.
	ref := RefTo(k, namespace, name)
	obj, err := v.Find(ctx, ref)
	if err != nil {
		return nil, err
	}
	if obj == nil {
		return nil, missing
	}
	// Only members that every version has are read, so that the text need not be decoded by the schema.
	d := jsondoc.Get()
	defer d.Release()
	if kind.IsProtobuf(obj.Raw) { // as Kubernetes has stored it
		err = ref.Version.Load(d, obj.Raw, obj.Rev)
	} else {
		err = jsondoc.Parse(d, obj.Raw)
	}
	if err != nil {
		return nil, err
	}
	t := new(TokenReference)
	if err := t.read(resource, meta.Object{Doc: d}); err != nil {
		return nil, err
	}
	return t, nil
}

// read copies the members from o, whose memory is reused.
func (t *TokenReference) read(resource string, o meta.Object) error {
	// A token is bound to one object. Another object of the same name has another UID.
	t.UID = strings.Clone(o.UID())
	if text := o.DeletionTimestamp(); text != "" {
		when, err := time.Parse(time.RFC3339, text)
		if err != nil {
			return fmt.Errorf("deletionTimestamp: %w", err)
		}
		t.Deleted = when
	}
	root := o.Doc.Root()
	switch resource {
	case "pods":
		// A token for a pod is valid only if the pod runs under the token's service account.
		spec := root.Get("spec")
		t.Account, t.Node = strings.Clone(spec.Get("serviceAccountName").Text()), strings.Clone(spec.Get("nodeName").Text())
	case "serviceaccounts":
		// Tokens stored in Secrets are valid only if the service account lists the Secret.
		for _, s := range root.Get("secrets").Items() {
			t.Secrets = append(t.Secrets, strings.Clone(s.Get("name").Text()))
		}
	case "secrets":
		return t.readSecret(o)
	}
	return nil
}

// readSecret is read for what only Secrets have.
func (t *TokenReference) readSecret(o meta.Object) error {
	labels, root := o.Meta().Get("labels"), o.Doc.Root()
	// The day of the last use is written at most once a day, so the current value matters.
	t.LastUsed = strings.Clone(labels.Get(serviceaccount.LastUsedLabel).Text())
	t.InvalidSince = strings.Clone(labels.Get(serviceaccount.InvalidSinceLabel).Text())
	t.secretType, t.secretData = strings.Clone(root.Get("type").Text()), map[string]string{}
	for key, value := range root.Get("data").Members() {
		// The schema has checked the encoding when the Secret was written.
		text, err := base64.StdEncoding.DecodeString(value.Text())
		if err != nil {
			return fmt.Errorf("data[%s]: %w", key, err)
		}
		t.secretData[strings.Clone(key)] = string(text)
	}
	t.Token = t.secretData[corev1.ServiceAccountTokenKey]
	return nil
}

// Secret returns the type and the data of a Secret. A Secret with a deletionTimestamp is not found.
func (v *Verbs) Secret(ctx context.Context, namespace, name string) (secretType string, data map[string]string, err error) {
	t, err := v.TokenReference(ctx, "secrets", namespace, name)
	if err == nil && !t.Deleted.IsZero() {
		err = status.NotFound(kschema.GroupResource{Resource: "secrets"}, name)
	}
	if err != nil {
		return "", nil, err
	}
	return t.secretType, t.secretData, nil
}

// MarkUsed records on the Secret with a uid the day on which the token in it was used.
func (v *Verbs) MarkUsed(ctx context.Context, namespace, name, uid, day string) error {
	k := v.Kinds.Load().Lookup("", "secrets")
	if k == nil {
		return nil
	}
	return v.Writer(Server(), ServerManager).Modify(ctx, k, namespace, name, func(o meta.Object) error {
		// The Secret was replaced since its token was verified.
		if o.UID() != uid {
			return status.NotFound(k.GroupResource(), name)
		}
		o.Doc.Set(o.Doc.NewString(day), "metadata", "labels", serviceaccount.LastUsedLabel)
		return nil
	})
}
