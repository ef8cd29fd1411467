// Package conversion converts objects between versions of their kind by calling webhooks.
//
// # Model
//
// A [Webhook] is the converter of a definition with the strategy Webhook. It sends
// ConversionReviews in the first supported review version of the definition (v1, v1beta1). Each has
// objects in one version, and the webhook returns them in another one. A webhook may change the
// fields that the schema declares, labels and annotations. All other metadata is restored.
//
// # Invariants
//
//   - An answer is used completely or not at all.
//   - A call takes at most [Timeout]. Large lists are sent in several calls,
//     which bounds the memory of both sides.
//
// Error texts are upstream's, because clients see them.
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

	"github.com/keelson-io/keelson/internal/webhook"
	"github.com/keelson-io/keelson/jsondoc"
)

// Timeout bounds one call.
const Timeout = 30 * time.Second

// Bounds of one call: objects, and bytes of their text.
const (
	maxObjects = 1000
	maxBytes   = 16 << 20
)

// Webhook converts the objects of one definition.
type Webhook struct {
	client  *webhook.Client
	name    string   // of the definition
	metrics *Metrics // nil: not measured
	review  string   // "v1" or "v1beta1"
	timeout time.Duration
}

// New returns the converter for the definition called name. If m is not nil, it records calls
// there.
func New(name string, c *apiextv1.WebhookConversion, m *Metrics, shared webhook.Shared) (*Webhook, error) {
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
	w.client, err = webhook.New(t, codec, shared)
	return w, err
}

// codec decodes a Status, which a webhook may return in place of a review.
var codec = func() runtime.Codec {
	s := runtime.NewScheme()
	metav1.AddToGroupVersion(s, apiextv1.SchemeGroupVersion)
	return serializer.NewCodecFactory(s).LegacyCodec(apiextv1.SchemeGroupVersion)
}()

// Convert returns objects (JSON) in another version, in the same order. None of them may be in that
// version already.
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

// call converts as many objects as fit into one call.
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

// exchange sends one review and validates the answer. who is the kind of the first object.
func (w *Webhook) exchange(ctx context.Context, who schema.GroupVersionKind, apiVersion string, objects [][]byte) ([][]byte, failure, error) {
	uid := uuid.NewUUID()
	ctx, cancel := context.WithTimeout(ctx, w.timeout)
	defer cancel()
	answer, done, err := w.client.Post(ctx, w.request(apiVersion, uid, objects))
	if err != nil {
		return nil, failedCall, fmt.Errorf("conversion webhook for %v failed: %v", who, err)
	}
	defer done()
	converted, n, err := w.objects(answer, uid, len(objects))
	if err != nil {
		return nil, failedResponse, fmt.Errorf("conversion webhook for %v failed: %v", who, err)
	}
	if n != len(objects) {
		return nil, failedPartially, fmt.Errorf("conversion webhook for %v returned %d objects, expected %d", who, n, len(objects))
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

// request returns the ConversionReview to send.
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

// review is the answer. v1 and v1beta1 have the same fields.
type review struct {
	metav1.TypeMeta
	Response *struct {
		UID              types.UID       `json:"uid"`
		ConvertedObjects json.RawMessage `json:"convertedObjects"`
		Result           metav1.Status   `json:"result"`
	} `json:"response"`
}

// objects returns the objects of a successful answer and their number. If there are more than want,
// it returns none.
func (w *Webhook) objects(answer []byte, uid types.UID, want int) ([][]byte, int, error) {
	var r review
	if err := json.Unmarshal(answer, &r); err != nil {
		return nil, 0, err
	}
	if err := w.succeeded(&r, uid); err != nil {
		return nil, 0, err
	}
	return elements(r.Response.ConvertedObjects, want)
}

// elements returns the elements of a JSON array and their number. If there are more than max, it
// returns none. It scans the text itself: decoding 64 MiB with up to 20 million elements would take
// a gigabyte.
func elements(text []byte, max int) (out [][]byte, n int, err error) {
	if len(text) == 0 || text[0] == 'n' {
		return nil, 0, nil // absent or null
	}
	if text[0] != '[' {
		return nil, 0, json.Unmarshal(text, new([]json.RawMessage)) // for the decoder's error text
	}
	depth, start := 0, 1
	for i := 0; i < len(text); i++ {
		switch c := text[i]; c {
		case '"':
			for i++; text[i] != '"'; i++ {
				if text[i] == '\\' {
					i++
				}
			}
		case '[', '{':
			depth++
		case ',', ']', '}':
			if c != ',' {
				depth--
			}
			if depth > 1 || depth == 1 && c != ',' {
				continue
			}
			one := bytes.TrimSpace(text[start:i])
			if start = i + 1; len(one) == 0 {
				continue // the array is empty
			}
			if n++; n <= max {
				out = append(out, one)
			}
		}
	}
	if n > max {
		out = nil
	}
	return out, n, nil
}

// succeeded returns an error unless the answer has the expected kind and reports success.
func (w *Webhook) succeeded(r *review, uid types.UID) error {
	if w.review == "v1" {
		want := apiextv1.SchemeGroupVersion.WithKind("ConversionReview")
		if got := r.GroupVersionKind(); got != want {
			return fmt.Errorf("expected webhook response of %v, got %v", want, got)
		}
	}
	if r.Response == nil {
		return errors.New("no response provided")
	}
	if w.review == "v1" && r.Response.UID != uid {
		return fmt.Errorf("expected response.uid=%q, got %q", uid, r.Response.UID)
	}
	if s := r.Response.Result; s.Status != metav1.StatusSuccess {
		if s.Message != "" {
			return errors.New(s.Message)
		}
		return fmt.Errorf("response.result.status was '%s', not 'Success'", s.Status)
	}
	return nil
}

// kindOf returns the kind that an object names.
func kindOf(object []byte) (schema.GroupVersionKind, error) {
	d := jsondoc.Get()
	defer d.Release()
	if err := jsondoc.Parse(d, object); err != nil {
		return schema.GroupVersionKind{}, err
	}
	return gvkOf(d), nil
}

func gvkOf(d *jsondoc.Doc) schema.GroupVersionKind {
	group, version := "", strings.Clone(d.Root().Get("apiVersion").Text())
	if gv, err := schema.ParseGroupVersion(version); err == nil {
		group, version = gv.Group, gv.Version
	}
	return schema.GroupVersionKind{Group: group, Version: version, Kind: strings.Clone(d.Root().Get("kind").Text())}
}
