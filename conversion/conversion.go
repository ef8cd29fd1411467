// Package conversion asks webhooks to convert objects between the versions of their kind.
//
// # Model
//
// A [Webhook] is the converter of one definition whose strategy is Webhook. It speaks ConversionReview, in the first of the
// definition's review versions that it knows (v1, v1beta1): objects go there in one version of the kind and come back in another.
// Of what comes back only what the definition's schema says, and the labels and annotations, are the webhook's to change; the rest
// of the metadata is put back.
//
// # Invariants
//
//   - An answer is used whole or not at all.
//   - A call takes at most [Timeout], and large lists go in several calls, so that neither side has to hold more than a bound.
//
// The texts of errors are upstream's: clients see them.
package conversion

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/keelson-io/keelson/doc"
	"github.com/keelson-io/keelson/internal/webhook"
)

// Timeout is how long a webhook may take for an answer.
const Timeout = 30 * time.Second

// What goes to a webhook in one call.
const (
	maxObjects = 1000
	maxBytes   = 16 << 20
)

// Webhook converts objects by asking a webhook.
type Webhook struct {
	client  *webhook.Client
	name    string   // of the definition
	metrics *Metrics // nil: nobody counts
	review  string   // "v1" or "v1beta1"
	timeout time.Duration
}

// New returns the converter that the webhook of the definition of that name is. Its calls count in m unless that is nil.
func New(name string, c *apiextv1.WebhookConversion, m *Metrics) (*Webhook, error) {
	w := &Webhook{timeout: Timeout, name: name, metrics: m}
	for _, v := range c.ConversionReviewVersions {
		if v == "v1" || v == "v1beta1" {
			w.review = v
			break
		}
	}
	if w.review == "" {
		return nil, errors.New("no supported conversion review versions")
	}
	if c.ClientConfig == nil {
		return nil, errors.New("conversion webhook without a client configuration")
	}
	t := webhook.Target{CABundle: c.ClientConfig.CABundle}
	if c.ClientConfig.URL != nil {
		t.URL = *c.ClientConfig.URL
	}
	if s := c.ClientConfig.Service; s != nil {
		t.Namespace, t.Service = s.Namespace, s.Name
		if s.Port != nil {
			t.Port = *s.Port
		}
		if s.Path != nil {
			t.Path = *s.Path
		}
	}
	var err error
	w.client, err = webhook.New(t, codec)
	return w, err
}

// codec reads what a webhook may answer in place of a review: a Status.
var codec = func() runtime.Codec {
	s := runtime.NewScheme()
	metav1.AddToGroupVersion(s, apiextv1.SchemeGroupVersion)
	return serializer.NewCodecFactory(s).LegacyCodec(apiextv1.SchemeGroupVersion)
}()

// Convert returns objects (JSON) in the version named, in the order given. None of them is in that
// version.
func (w *Webhook) Convert(ctx context.Context, apiVersion string, objects [][]byte) ([][]byte, error) {
	var out [][]byte
	for len(objects) > 0 {
		n, size := 0, 0
		for n < len(objects) && n < maxObjects && (n == 0 || size+len(objects[n]) <= maxBytes) {
			size += len(objects[n])
			n++
		}
		converted, err := w.call(ctx, apiVersion, objects[:n])
		if err != nil {
			return nil, err
		}
		out, objects = append(out, converted...), objects[n:]
	}
	return out, nil
}

// call converts what fits into one call.
func (w *Webhook) call(ctx context.Context, apiVersion string, objects [][]byte) ([][]byte, error) {
	who, err := kindOf(objects[0])
	if err != nil {
		return nil, err
	}
	start := time.Now()
	out, failed, err := w.exchange(ctx, who, apiVersion, objects)
	_, to, _ := strings.Cut(apiVersion, "/")
	w.metrics.observe(w.name, who.Version, to, time.Since(start), failed)
	return out, err
}

// exchange sends objects, the first of which is of kind who, and checks what comes back.
func (w *Webhook) exchange(ctx context.Context, who schema.GroupVersionKind, apiVersion string, objects [][]byte) ([][]byte, failure, error) {
	uid := uuid.NewUUID()
	ctx, cancel := context.WithTimeout(ctx, w.timeout)
	defer cancel()
	answer, err := w.client.Post(ctx, w.request(apiVersion, uid, objects))
	if err != nil {
		return nil, failedCall, fmt.Errorf("conversion webhook for %v failed: %v", who, err)
	}
	converted, err := w.objects(answer, uid)
	if err != nil {
		return nil, failedResponse, fmt.Errorf("conversion webhook for %v failed: %v", who, err)
	}
	if len(converted) != len(objects) {
		return nil, failedPartially, fmt.Errorf("conversion webhook for %v returned %d objects, expected %d", who, len(converted), len(objects))
	}
	out := make([][]byte, len(objects))
	for i := range objects {
		at := ""
		if len(objects) > 1 {
			at = fmt.Sprintf(" at index %d", i)
		}
		if out[i], err = accept(objects[i], converted[i], apiVersion, at); err != nil {
			return nil, failedObject, fmt.Errorf("conversion webhook for %v returned %w", who, err)
		}
	}
	return out, "", nil
}

// request is the ConversionReview to send.
func (w *Webhook) request(apiVersion string, uid types.UID, objects [][]byte) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, `{"kind":"ConversionReview","apiVersion":"%s/%s","request":{"uid":"%s","desiredAPIVersion":"%s","objects":[`,
		apiextv1.GroupName, w.review, uid, apiVersion)
	for i, o := range objects {
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(o)
	}
	b.WriteString(`]},"response":{"uid":"","convertedObjects":null,"result":{"metadata":{}}}}`)
	return b.Bytes()
}

// review is the answer; v1 and v1beta1 spell it alike.
type review struct {
	metav1.TypeMeta
	Response *struct {
		UID              types.UID         `json:"uid"`
		ConvertedObjects []json.RawMessage `json:"convertedObjects"`
		Result           metav1.Status     `json:"result"`
	} `json:"response"`
}

// objects are the objects of an answer that says that it is a success.
func (w *Webhook) objects(answer []byte, uid types.UID) ([]json.RawMessage, error) {
	var r review
	if err := json.Unmarshal(answer, &r); err != nil {
		return nil, err
	}
	if w.review == "v1" {
		want := apiextv1.SchemeGroupVersion.WithKind("ConversionReview")
		if got := r.GroupVersionKind(); got != want {
			return nil, fmt.Errorf("expected webhook response of %v, got %v", want, got)
		}
	}
	if r.Response == nil {
		return nil, errors.New("no response provided")
	}
	if w.review == "v1" && r.Response.UID != uid {
		return nil, fmt.Errorf("expected response.uid=%q, got %q", uid, r.Response.UID)
	}
	if s := r.Response.Result; s.Status != metav1.StatusSuccess {
		if s.Message != "" {
			return nil, errors.New(s.Message)
		}
		return nil, fmt.Errorf("response.result.status was '%s', not 'Success'", s.Status)
	}
	return r.Response.ConvertedObjects, nil
}

// kindOf is what an object says it is.
func kindOf(object []byte) (schema.GroupVersionKind, error) {
	d := doc.Get()
	defer d.Release()
	if err := doc.Parse(d, object); err != nil {
		return schema.GroupVersionKind{}, err
	}
	return gvkOf(d), nil
}

func gvkOf(d *doc.Doc) schema.GroupVersionKind {
	group, version := "", strings.Clone(d.Root().Get("apiVersion").Text())
	if gv, err := schema.ParseGroupVersion(version); err == nil {
		group, version = gv.Group, gv.Version
	}
	return schema.GroupVersionKind{Group: group, Version: version, Kind: strings.Clone(d.Root().Get("kind").Text())}
}
