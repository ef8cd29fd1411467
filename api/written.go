package api

import (
	"bytes"
	"strconv"

	"github.com/keelson-io/keelson/doc"
	"github.com/keelson-io/keelson/kind"
	"github.com/keelson-io/keelson/meta"
)

// This file is what follows a write: the answer is printed once, for the
// client and for everybody who will read or watch the object.

// encode prints an object as it is to be stored.
func (q *request) encode(d *doc.Doc) ([]byte, error) {
	b := buffer()
	defer recycle(b)
	var err error
	if *b, err = q.v.Encode(d, *b); err != nil {
		return nil, err
	}
	return bytes.Clone(*b), nil
}

// awaitDecisions makes decisions about requests that come after the answer follow from what was written.
func (q *request) awaitDecisions(rev int64) {
	if q.h.AwaitDecisions != nil {
		q.h.AwaitDecisions(q.ctx, q.res, rev)
	}
}

// erased tells the cache that an object is gone from the store, so that nothing is decided by it any more.
func (q *request) erased(key string, rev int64) {
	q.res.Erased(key, rev)
	q.awaitDecisions(rev)
}

// handOver tells the cache what has been stored at a key, and notes the bytes
// to answer with. d becomes what a read would answer with.
func (q *request) handOver(key string, d *doc.Doc, encoded []byte, rev int64) error {
	defer q.awaitDecisions(rev)
	if q.kind.Builtin != nil {
		q.res.Wrote(key, rev, encoded, nil, nil)
		return nil
	}
	if !q.v.IsStorage {
		// What was written in another version than the stored one may have
		// got that one's defaults.
		if err := q.v.Load(d, encoded, rev); err != nil {
			q.res.Wrote(key, rev, encoded, nil, nil)
			return err
		}
		q.written = d.AppendJSON(make([]byte, 0, len(encoded)+40), d.Root().Node)
		view := q.v.ViewOf(d, q.written, q.before)
		q.res.Wrote(key, rev, encoded, q.v, view)
		return nil
	}
	grown := q.grown || q.v.Status && defaultsStatus(q.v) && !d.Root().Get("status").Exists()
	if grown {
		if err := q.v.Load(d, encoded, rev); err != nil {
			return err
		}
	}
	meta.Object{Doc: d}.SetResourceVersion(strconv.FormatInt(rev, 10))
	q.written = d.AppendJSON(make([]byte, 0, len(encoded)+40), d.Root().Node)
	view := q.v.ViewOf(d, q.written, q.before)
	view.Sound, view.Spent = q.sound && !grown && !d.MayHaveFloats(), uint32(q.spent)
	q.res.Wrote(key, rev, encoded, q.v, view)
	return nil
}

// defaultsStatus reports whether an object without a status gets one when it
// is read.
func defaultsStatus(v *kind.Version) bool {
	schema := v.Structural()
	if schema == nil {
		return false
	}
	s := schema.Properties["status"]
	return s != nil && s.Default != nil
}

// sendDoc answers with an object that a write made. rev 0 leaves its resource
// version as it was sent: nothing was stored.
func (q *request) sendDoc(code int, d *doc.Doc, rev int64) error {
	if q.written != nil {
		return q.sendObject(code, q.written)
	}
	if rev > 0 {
		meta.Object{Doc: d}.SetResourceVersion(strconv.FormatInt(rev, 10))
	}
	b := buffer()
	defer recycle(b)
	*b = d.AppendJSON(*b, d.Root().Node)
	return q.sendObject(code, *b)
}
