package objects

import (
	"bytes"
	"strconv"

	"github.com/keelson-io/keelson/internal/buffer"
	"github.com/keelson-io/keelson/internal/meta"
	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/kind"
)

// This file is what follows a write: the object is printed once, for the answer and for everybody
// who will read or watch it.

// encode prints an object as it is to be stored.
func encode(v *kind.Version, d *jsondoc.Doc) ([]byte, error) {
	b := buffer.Get()
	defer buffer.Put(b)
	var err error
	if *b, err = v.Encode(d, *b); err != nil {
		return nil, err
	}
	return bytes.Clone(*b), nil
}

// awaitDecisions makes decisions about later requests follow from a write.
func (w *write) awaitDecisions(rev int64) {
	if w.AwaitDecisions != nil {
		w.AwaitDecisions(w.ctx, w.res, rev)
	}
}

// erased removes an object from the cache that is gone from the store, so that no decision depends
// on it any more.
func (w *write) erased(key string, rev int64) {
	w.res.Erased(key, rev)
	w.awaitDecisions(rev)
}

// known is what the cache may know about an object that is written.
type known struct {
	validated
	before *meta.View // of the object that it replaces; nil if there is none, or it is not known
	grown  bool       // a part of the object is new and lacks its defaults
}

// handOver gives the cache the object that has been stored at a key. It returns the view that it
// gave the cache of the object, nil if it gave none. d becomes the object that a read would return.
func (w *write) handOver(key string, d *jsondoc.Doc, encoded []byte, rev int64, k *known) (*meta.View, error) {
	defer w.awaitDecisions(rev)
	v := w.ref.Version
	if !w.ref.behavior().FollowsSchema() {
		w.res.Wrote(key, rev, encoded, nil, nil)
		return nil, nil
	}
	if !v.IsStorage {
		// An object that was written in another version may have got the defaults of the stored one.
		if err := v.Load(d, encoded, rev); err != nil {
			w.res.Wrote(key, rev, encoded, nil, nil)
			return nil, err
		}
		view := v.ViewOf(d, printed(d, encoded), k.before)
		w.res.Wrote(key, rev, encoded, v, view)
		return view, nil
	}
	// A part that is new gets its defaults when it is read: the view must have them, too.
	grown := k.grown || v.Status && defaultsStatus(v) && !d.Root().Get("status").Exists()
	if grown {
		if err := v.Load(d, encoded, rev); err != nil {
			return nil, err
		}
	}
	meta.Object{Doc: d}.SetResourceVersion(strconv.FormatInt(rev, 10))
	view := v.ViewOf(d, printed(d, encoded), k.before)
	// The view remembers that the object passed its rules, and what they cost, for the next update.
	view.KnownValid, view.Spent = k.sound && !grown && !d.MayHaveFloats(), uint32(k.spent)
	w.res.Wrote(key, rev, encoded, v, view)
	return view, nil
}

// printed returns the JSON of an object which is stored as encoded.
func printed(d *jsondoc.Doc, encoded []byte) []byte {
	// 40 bytes: the member resourceVersion, which the stored form does not have.
	return d.AppendJSON(make([]byte, 0, len(encoded)+40), d.Root().Node)
}

// defaultsStatus reports whether an object without a status gets one when it
// is read.
func defaultsStatus(v *kind.Version) bool {
	// Only a default at the top of the status makes one: deeper defaults need an object.
	schema := v.Structural()
	if schema == nil {
		return false
	}
	s := schema.Properties["status"]
	return s != nil && s.Default != nil
}
