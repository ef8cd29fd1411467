package kind

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/keelson-io/keelson/internal/meta"
	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/schema"
)

// This file converts objects between the versions of a kind.

// convert decodes from, an object in another version, into to, in version v. It prunes by v's
// schema and fills in no defaults: an object gets the defaults of its storage version when it is
// read.
func (v *Version) convert(to, from *jsondoc.Doc) error {
	return v.convertText(to, unversioned(from))
}

// convertText is convert for an object that is given as JSON text.
func (v *Version) convertText(to *jsondoc.Doc, text []byte) error {
	if convert := v.Kind.Behavior.Convert; convert != nil {
		var err error
		if text, err = convert(text, v); err != nil {
			return err
		}
	}
	if v.Kind.Conversion != nil {
		converted, err := v.Kind.call(context.Background(), v, [][]byte{text})
		if err != nil {
			return err
		}
		text = converted[0]
	}
	return v.decodeConverted(to, text)
}

// unversioned prints d as it is stored, but without the newline. Webhooks get objects without a
// resource version, so that their answers can be cached.
func unversioned(d *jsondoc.Doc) []byte {
	b := appendStored(d, nil)
	return b[:len(b)-1]
}

// decodeConverted decodes the result of a conversion. The webhook's apiVersion is replaced by v's.
func (v *Version) decodeConverted(to *jsondoc.Doc, text []byte) error {
	if _, err := v.Schema.DecodeConverted(to, text); err != nil {
		return fmt.Errorf("conversion to %s %s: %w", v.APIVersion(), v.Kind.Name, err)
	}
	meta.Object{Doc: to}.SetAPIVersion(v.APIVersion())
	return nil
}

// call asks the kind's webhook to convert objects to version v. Offline commands have no webhook
// client.
func (k *Kind) call(ctx context.Context, v *Version, objects [][]byte) ([][]byte, error) {
	if k.Converter == nil {
		return nil, fmt.Errorf("conversion to %s %s: its webhook is not called here", v.APIVersion(), k.Name)
	}
	return k.Converter.Convert(ctx, v.APIVersion(), objects)
}

// Convert converts an object, given as JSON, to the version with that name. A resource version is
// kept and sent to the webhook.
func (k *Kind) Convert(object []byte, version string) ([]byte, error) {
	for _, v := range k.All {
		if v.Name != version {
			continue
		}
		to := jsondoc.Get()
		defer to.Release()
		if err := v.convertText(to, object); err != nil {
			return nil, err
		}
		return to.AppendJSON(nil, to.Root().Node), nil
	}
	return nil, fmt.Errorf("conversion of %s: no version %q", k.Name, version)
}

// ConvertBy sets the webhook that converts between the versions of k. It may only be called before
// other goroutines can see k.
func (k *Kind) ConvertBy(webhook *apiextv1.WebhookConversion) {
	k.Conversion, k.rendering = webhook, new(rendering)
}

// rendering merges simultaneous requests for the same view, so that they wait for one call of the
// webhook.
type rendering struct {
	mu  sync.Mutex
	now map[flight]*landing
}

// flight identifies a view that is being made. raw points to the first stored byte: stored bytes
// are shared, never copied, so that equal pointers mean equal bytes.
type flight struct {
	v   *Version
	raw *byte
}

// landing is the result of a flight. view and err may be read after done is closed.
type landing struct {
	done chan struct{}
	view *View
	err  error
}

// do returns the result of render for raw in version v. If a call for the same pair is running, do
// waits for it and returns its result.
func (r *rendering) do(v *Version, raw []byte, render func() (*View, error)) (*View, error) {
	if len(raw) == 0 {
		return render()
	}
	key := flight{v, &raw[0]}
	r.mu.Lock()
	if l := r.now[key]; l != nil {
		r.mu.Unlock()
		<-l.done
		return l.view, l.err
	}
	// Replaced below. If render panics, the waiting callers get this error and do not hang.
	l := &landing{done: make(chan struct{}), err: errors.New("rendering panicked")}
	if r.now == nil {
		r.now = map[flight]*landing{}
	}
	r.now[key] = l
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		delete(r.now, key)
		r.mu.Unlock()
		close(l.done)
	}()
	l.view, l.err = render()
	return l.view, l.err
}

// viewBatch and viewBatchBytes bound one call of the webhook: the number of objects, and the bytes
// of their text with default values, which may be much larger than the stored text.
const (
	viewBatch      = 1000
	viewBatchBytes = 8 << 20
)

// StoredObject is the stored bytes of an object and the revision of its last write.
type StoredObject struct {
	Raw []byte
	Rev int64
}

// Views calls made with the views, in version v, of those objects that a webhook has to convert,
// and with their indexes. It sends them in batches, to save calls. Other objects are rendered when
// they are read.
func (v *Version) Views(ctx context.Context, objects []StoredObject, made func(i int, view *View)) error {
	if v.Kind.Conversion == nil {
		return nil
	}
	// texts are the objects of the current batch, waiting their indexes, size the bytes of texts.
	var texts [][]byte
	var waiting []int
	size := 0
	flush := func() error {
		if len(texts) == 0 {
			return nil
		}
		converted, err := v.Kind.call(ctx, v, texts)
		if err != nil {
			return err
		}
		for n, i := range waiting {
			view, err := v.convertedView(converted[n], objects[i].Rev)
			if err != nil {
				return err
			}
			made(i, view)
		}
		clear(texts)
		texts, waiting, size = texts[:0], waiting[:0], 0
		return ctx.Err()
	}
	for i := range objects {
		text, err := v.textForWebhook(objects[i].Raw)
		if err != nil {
			return err
		}
		if text == nil {
			continue
		}
		texts, waiting, size = append(texts, text), append(waiting, i), size+len(text)
		if len(texts) == viewBatch || size >= viewBatchBytes {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	return flush()
}

// textForWebhook returns the JSON that the webhook has to convert, with the defaults of its storage
// version. It returns nil if raw is already in version v.
func (v *Version) textForWebhook(raw []byte) ([]byte, error) {
	stored, err := v.Kind.storedIn(raw)
	if err != nil || stored == v {
		return nil, err
	}
	d := jsondoc.Get()
	defer d.Release()
	if err := stored.loadStored(d, raw, (*schema.Program).DecodeStored); err != nil {
		return nil, err
	}
	return unversioned(d), nil
}

// convertedView returns the view of an object that the webhook converted, with rev as its resource
// version.
func (v *Version) convertedView(converted []byte, rev int64) (*View, error) {
	d := jsondoc.Get()
	defer d.Release()
	if err := v.decodeConverted(d, converted); err != nil {
		return nil, err
	}
	meta.Object{Doc: d}.SetResourceVersion(strconv.FormatInt(rev, 10))
	return v.view(d, len(converted)), nil
}
