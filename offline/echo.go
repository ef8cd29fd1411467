package offline

import (
	"bytes"
	"context"
	"encoding/json"
	"sync"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/keelson-io/keelson/kind"
)

// This file stands in for webhooks that convert objects.

// echo replaces the webhook of a definition, which must not be called. A dry run discards what it
// converts for storage, so that echo returns an object with metadata only, and returns the original
// when that object is converted back. Objects that requests are to find must be stored in the
// version of the requests.
type echo struct {
	mu   sync.Mutex
	last []byte // the object that was converted last
}

// newEcho returns a converter that converts nothing, in place of a webhook.
func newEcho(string, *apiextv1.WebhookConversion) (kind.Converter, error) { return new(echo), nil }

// Convert implements kind.Converter.
func (e *echo) Convert(_ context.Context, to string, objects [][]byte) ([][]byte, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	out := make([][]byte, len(objects))
	for i, object := range objects {
		var last struct{ APIVersion string }
		if e.last != nil && json.Unmarshal(e.last, &last) == nil && last.APIVersion == to {
			out[i] = e.last
			continue
		}
		var head struct {
			APIVersion string          `json:"apiVersion"`
			Kind       string          `json:"kind"`
			Metadata   json.RawMessage `json:"metadata"`
		}
		err := json.Unmarshal(object, &head)
		if err == nil {
			head.APIVersion, e.last = to, bytes.Clone(object)
			out[i], err = json.Marshal(head)
		}
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}
