package kind

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/meta"
	"github.com/keelson-io/keelson/schema"
)

// This file converts objects between the versions of a kind.

// convert decodes the object in from, which is in another version, into to, in
// version v: pruned by its schema, without its defaults, which an object gets
// when it is read.
func (v *Version) convert(to, from *jsondoc.Doc) error {
	return v.convertText(to, unversioned(from))
}

// convertText is convert of an object that is text.
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

// unversioned prints d without its resource version and the newline.
func unversioned(d *jsondoc.Doc) []byte {
	b := appendStored(d, nil)
	return b[:len(b)-1]
}

func (v *Version) decodeConverted(to *jsondoc.Doc, text []byte) error {
	if _, err := v.Schema.DecodeConverted(to, text); err != nil {
		return fmt.Errorf("conversion to %s %s: %w", v.APIVersion(), v.Kind.Name, err)
	}
	meta.Object{Doc: to}.SetAPIVersion(v.APIVersion())
	return nil
}

// call lets the kind's webhook convert objects to version v.
func (k *Kind) call(ctx context.Context, v *Version, objects [][]byte) ([][]byte, error) {
	if k.Converter == nil {
		return nil, fmt.Errorf("conversion to %s %s: its webhook is not called here", v.APIVersion(), k.Name)
	}
	return k.Converter.Convert(ctx, v.APIVersion(), objects)
}

// Convert converts an object, as JSON, to the version of that name. Its resource version, if it has one, stays, and is told to
// the webhook.
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

// ConvertBy sets the webhook that converts between the versions of k, which nobody else has yet.
func (k *Kind) ConvertBy(webhook *apiextv1.WebhookConversion) {
	k.Conversion, k.rendering = webhook, new(rendering)
}

// rendering lets many who want the same view at once wait for one call of the
// webhook.
type rendering struct {
	mu  sync.Mutex
	now map[flight]*landing
}

// flight names a view: stored bytes are not copied, so where they are says
// which they are.
type flight struct {
	v   *Version
	raw *byte
}

type landing struct {
	done chan struct{}
	view *meta.View
	err  error
}

func (r *rendering) do(v *Version, raw []byte, render func() (*meta.View, error)) (*meta.View, error) {
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

// viewBatch and viewBatchBytes bound the objects that are decoded before they are converted: their
// number, and the bytes of their text. With default values they may be much larger than stored.
const (
	viewBatch      = 1000
	viewBatchBytes = 8 << 20
)

// StoredObject is an object as the store has it.
type StoredObject struct {
	Raw []byte
	Rev int64
}

// Views makes the views of objects in version v that need a webhook, with as
// few calls of it as possible, and calls made with the index of each. Other views are made when
// they are asked for.
func (v *Version) Views(ctx context.Context, objects []StoredObject, made func(i int, view *meta.View)) error {
	if v.Kind.Conversion == nil {
		return nil
	}
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
		text, err := v.foreign(objects[i].Raw)
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

// foreign returns the text of an object that is stored as raw in another version, as that
// version reads it; nil if it is stored in version v.
func (v *Version) foreign(raw []byte) ([]byte, error) {
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

// convertedView returns the view of a converted text with a resource version.
func (v *Version) convertedView(converted []byte, rev int64) (*meta.View, error) {
	d := jsondoc.Get()
	defer d.Release()
	if err := v.decodeConverted(d, converted); err != nil {
		return nil, err
	}
	meta.Object{Doc: d}.SetResourceVersion(strconv.FormatInt(rev, 10))
	return v.view(d, len(converted)), nil
}
