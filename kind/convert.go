package kind

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"

	"github.com/keelson-io/keelson/cache"
	"github.com/keelson-io/keelson/doc"
	"github.com/keelson-io/keelson/meta"
)

// This file converts objects between the versions of a kind.

// convert decodes the object in from, which is in another version, into to, in
// version v: pruned by its schema, without its defaults, which an object gets
// when it is read.
func (v *Version) convert(to, from *doc.Doc) error {
	return v.convertText(to, unversioned(from))
}

// convertText is convert of an object that is text.
func (v *Version) convertText(to *doc.Doc, text []byte) error {
	if b := v.Kind.Builtin; b != nil && b.Convert != nil {
		var err error
		if text, err = b.Convert(text, v); err != nil {
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
func unversioned(d *doc.Doc) []byte {
	b := appendStored(d, nil)
	return b[:len(b)-1]
}

func (v *Version) decodeConverted(to *doc.Doc, text []byte) error {
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
		to := doc.Get()
		defer to.Release()
		if err := v.convertText(to, object); err != nil {
			return nil, err
		}
		return to.AppendJSON(nil, to.Root().Node), nil
	}
	return nil, fmt.Errorf("conversion of %s: no version %q", k.Name, version)
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
	view *cache.View
	err  error
}

func (r *rendering) do(v *Version, raw []byte, render func() (*cache.View, error)) (*cache.View, error) {
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

// viewBatch is how many objects are decoded before they are converted.
const viewBatch = 1000

// Views makes the views of objects in version v that need a webhook, with as
// few calls of it as possible. Other views are made when they are asked for.
func (v *Version) Views(ctx context.Context, objects []*cache.Object) error {
	if v.Kind.Conversion == nil {
		return nil
	}
	var texts [][]byte
	var waiting []*cache.Object
	flush := func() error {
		if len(texts) == 0 {
			return nil
		}
		converted, err := v.Kind.call(ctx, v, texts)
		if err != nil {
			return err
		}
		for i, o := range waiting {
			if err := v.remember(o, converted[i]); err != nil {
				return err
			}
		}
		texts, waiting = texts[:0], waiting[:0]
		return nil
	}
	for _, o := range objects {
		if o.Known(v) != nil {
			continue
		}
		text, err := v.foreign(o)
		if err != nil {
			return err
		}
		if text == nil {
			continue
		}
		texts, waiting = append(texts, text), append(waiting, o)
		if len(texts) == viewBatch {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	return flush()
}

// foreign is the text of an object that is stored in another version, as that
// version reads it; nil if it is stored in version v.
func (v *Version) foreign(o *cache.Object) ([]byte, error) {
	stored, err := v.Kind.storedIn(o.Raw)
	if err != nil || stored == v {
		return nil, err
	}
	d := doc.Get()
	defer d.Release()
	if err := stored.loadStored(d, o.Raw); err != nil {
		return nil, err
	}
	return unversioned(d), nil
}

// remember gives an object the view that a converted text is.
func (v *Version) remember(o *cache.Object, converted []byte) error {
	d := doc.Get()
	defer d.Release()
	if err := v.decodeConverted(d, converted); err != nil {
		return err
	}
	meta.Object{Doc: d}.SetResourceVersion(strconv.FormatInt(o.Rev, 10))
	o.Remember(v, v.view(d, len(converted)))
	return nil
}
