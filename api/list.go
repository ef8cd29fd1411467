package api

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-io/keelson/api/negotiation"
	"github.com/keelson-io/keelson/cache"
	"github.com/keelson-io/keelson/meta"
	"github.com/keelson-io/keelson/status"
	"github.com/keelson-io/keelson/store"
)

// This file lists objects: the bytes that the cache holds, one after another.

func (q *request) list() error {
	var err error
	if q.accept, err = q.negotiate(); err != nil {
		return err
	}
	o, f, err := q.selection()
	if err != nil {
		return err
	}
	p, err := q.page(o, f)
	if err != nil {
		return err
	}
	if q.accept.form == formPartial {
		return q.notList()
	}
	return q.sendList(p)
}

// sendList answers with a page.
func (q *request) sendList(p *page) error {
	if q.accept.proto && q.accept.form == formObject {
		return q.sendProtobufList(p)
	}
	if q.accept.form == formObject && !q.accept.yaml && !q.accept.pretty && q.audit == nil {
		return q.streamList(p)
	}
	b := buffer()
	defer recycle(b)
	tail, err := q.appendList(b, p)
	if err != nil {
		return err
	}
	q.sendParts(http.StatusOK, *b, tail)
	return nil
}

// listChunk is how much of a list is written at once: little enough to be still
// in the processor's cache when it is encrypted.
const listChunk = 64 << 10

// streamList answers with a page as it is printed, so that a list takes no more
// memory than a chunk, however long it is.
func (q *request) streamList(p *page) error {
	objects := make([][]byte, len(p.objects))
	start, end := q.listStart(), append(q.listEnd(p), '\n')
	size := len(start) + len(end) + max(0, len(objects)-1)
	for i, obj := range p.objects {
		view, err := obj.View(q.v)
		if err != nil {
			return err
		}
		objects[i] = view.JSON
		size += len(view.JSON)
	}
	write := func(w io.Writer) {
		b := buffer()
		defer recycle(b)
		*b = append(*b, start...)
		for i, object := range objects {
			if i > 0 {
				*b = append(*b, ',')
			}
			if len(*b)+len(object) > listChunk {
				if _, err := w.Write(*b); err != nil {
					return // nobody listens any more
				}
				*b = (*b)[:0]
			}
			*b = append(*b, object...)
		}
		w.Write(append(*b, end...))
	}
	h := q.w.Header()
	h["Content-Type"] = jsonHeader
	if size > negotiation.GzipAbove && negotiation.AcceptsGzip(q.r) {
		q.gzipped(http.StatusOK, write)
		return nil
	}
	h["Content-Length"] = []string{strconv.Itoa(size)}
	q.header(http.StatusOK)
	if q.r.Method != http.MethodHead {
		write(q.w)
	}
	return nil
}

// listStart and listEnd are what stands around the objects of a list.
func (q *request) listStart() []byte {
	return []byte(`{"apiVersion":"` + q.v.APIVersion() + `","items":[`)
}

func (q *request) listEnd(p *page) []byte {
	return append(append([]byte(`],"kind":"`+q.kind.ListKind+`","metadata":`), p.metadata(q.kind.Builtin != nil)...), '}')
}

// page is what a list answers with.
type page struct {
	objects []*cache.Object
	version string // resource version of the list
	next    string // continue token, "" at the end
	remain  int64  // objects after this page; -1: not known
}

// page collects the objects that a list asks for.
func (q *request) page(o *meta.ListOptions, f *filter) (*page, error) {
	if q.namespace == "." || q.namespace == ".." {
		return nil, status.Plain500(fmt.Sprintf("invalid key: %q", "/"+q.kind.StoragePrefix+"/"+q.namespace))
	}
	src, err := q.source(o, f)
	if err != nil {
		return nil, err
	}
	p := &page{version: strconv.FormatInt(src.rev, 10), remain: -1}
	limit := int(o.Limit)
	if o.ResourceVersion == "0" || limit < 0 {
		limit = 0
	}
	if limit == 0 && !f.selects() {
		p.objects = make([]*cache.Object, 0, src.countFrom(src.from))
	}
	if f.selects() {
		if err := q.convertAll(src); err != nil {
			return nil, err
		}
	}
	var last, beyond string
	var failed error
	src.ascend(func(obj *cache.Object) bool {
		ok, err := f.matches(obj)
		if err != nil {
			failed = err
			return false
		}
		if !ok {
			return true
		}
		if limit > 0 && len(p.objects) == limit {
			beyond = obj.Key
			return false
		}
		p.objects = append(p.objects, obj)
		last = obj.Key
		return true
	})
	if failed != nil {
		return nil, failed
	}
	if err := q.v.Views(q.ctx, p.objects); err != nil {
		return nil, err
	}
	if beyond != "" {
		// Start is the last key relative to the list's prefix, and a zero byte.
		p.next = meta.EncodeContinue(src.rev, strings.TrimPrefix(last, strings.TrimSuffix(f.prefix, "/"))+"\x00")
		if !f.selects() {
			p.remain = int64(src.countFrom(beyond))
		}
	}
	return p, nil
}

// convertAll makes the views that selectors are to look at, if a webhook has
// to be asked for them: with few calls instead of one for each.
func (q *request) convertAll(src *source) error {
	if q.kind.Conversion == nil {
		return nil
	}
	var all []*cache.Object
	src.ascend(func(obj *cache.Object) bool {
		all = append(all, obj)
		return true
	})
	return q.v.Views(q.ctx, all)
}

// source is where a list's objects come from: one state of the resource, from
// some key on.
type source struct {
	prefix string
	from   string
	rev    int64
	snap   cache.Snapshot
}

func (s *source) ascend(fn func(*cache.Object) bool) {
	s.snap.Ascend(s.from, func(obj *cache.Object) bool {
		return strings.HasPrefix(obj.Key, s.prefix) && fn(obj)
	})
}

func (s *source) countFrom(key string) int { return s.snap.CountFrom(s.prefix, key) }

// source finds the state that a list asks for.
func (q *request) source(o *meta.ListOptions, f *filter) (*source, error) {
	s := &source{prefix: f.prefix, from: f.prefix}
	if o.Continue != "" {
		rev, start, err := meta.ParseContinue(o.Continue)
		if err != nil {
			return nil, err
		}
		if o.ResourceVersion != "" && o.ResourceVersion != "0" {
			return nil, status.BadRequest("specifying resource version is not allowed when using continue")
		}
		s.from = strings.TrimSuffix(f.prefix, "/") + start
		if rev > 0 {
			return s, q.exactly(s, rev, start)
		}
		return s, q.newest(s, "")
	}
	exact := o.ResourceVersionMatch == string(metav1.ResourceVersionMatchExact) ||
		o.ResourceVersionMatch == "" && o.Limit > 0 && o.ResourceVersion != "" && o.ResourceVersion != "0"
	if !exact {
		return s, q.newest(s, o.ResourceVersion)
	}
	rev, err := strconv.ParseUint(o.ResourceVersion, 10, 64)
	if err != nil {
		return nil, invalidVersion(o.ResourceVersion, err)
	}
	if err := q.waitFor(rev); err != nil {
		return nil, err
	}
	return s, q.exactly(s, int64(rev), "")
}

func invalidVersion(version string, err error) error {
	return status.BadRequest("invalid resource version: resourceVersion: Invalid value: %q: %v", version, err)
}

// newest is a state not older than a version.
func (q *request) newest(s *source, version string) error {
	if version != "" {
		if _, err := strconv.ParseUint(version, 10, 64); err != nil {
			return invalidVersion(version, err)
		}
	}
	if err := q.settle(version); err != nil {
		return err
	}
	s.snap = q.res.Snapshot()
	s.rev = s.snap.Rev()
	return nil
}

// exactly is the state at one revision. start is where a continued list goes
// on, "" if it is not one.
func (q *request) exactly(s *source, rev int64, start string) error {
	snap, err := q.res.SnapshotAt(rev, s.prefix)
	var future *store.FutureError
	switch {
	case errors.Is(err, cache.ErrExpired):
		return expired(start)
	case errors.As(err, &future):
		return status.TooLargeRV(uint64(rev), uint64(future.Current))
	case err != nil:
		return storeError(err)
	}
	s.rev, s.snap = rev, snap
	return nil
}

// expired is the error for a list at a revision that nobody remembers. A list
// that was continued may go on at the newest state instead.
func expired(start string) error {
	if start == "" {
		return status.Expired("The resourceVersion for the provided list is too old.")
	}
	e := status.Expired("The provided continue parameter is too old to display a consistent list result. " +
		"You can start a new list without the continue parameter, or use the continue token in this response to retrieve the remainder of the results. " +
		"Continuing with the provided token results in an inconsistent list - objects that were created, modified, or deleted " +
		"between the time the first chunk was returned and now may show up in the list.")
	e.ListMeta.Continue = meta.EncodeContinue(-1, start)
	return e
}

// appendList prints a page up to what follows its objects, which it returns.
func (q *request) appendList(b *[]byte, p *page) (tail []byte, err error) {
	metadata := p.metadata(true)
	var t *rows
	switch q.accept.form {
	case formTable:
		if t, err = q.newTable(); err != nil {
			return nil, err
		}
		if *b, err = t.appendStart(*b, metadata); err != nil {
			return nil, err
		}
		tail = []byte("]}")
	case formPartialList:
		*b = append(*b, `{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/`+q.accept.meta+`","metadata":`...)
		*b = append(append(*b, metadata...), `,"items":`...)
		if len(p.objects) == 0 { // as upstream prints a list that is a Go struct
			return []byte("null}"), nil
		}
		*b = append(*b, '[')
		tail = []byte("]}")
	default:
		*b = append(*b, q.listStart()...)
		tail = q.listEnd(p)
	}
	for i, obj := range p.objects {
		if i > 0 {
			*b = append(*b, ',')
		}
		view, err := obj.View(q.v)
		if err != nil {
			return nil, err
		}
		switch q.accept.form {
		case formTable:
			if *b, err = t.appendRow(*b, view.JSON); err != nil {
				return nil, err
			}
		case formPartialList:
			*b = appendPartial(*b, view.JSON, q.accept.meta)
		default:
			*b = append(*b, view.JSON...)
		}
	}
	return tail, nil
}

// metadata is the list's metadata as JSON. Lists of a fixed type leave out a
// token that is empty.
func (p *page) metadata(typed bool) []byte {
	b := []byte{'{'}
	if p.next != "" || !typed {
		b = append(append(append(b, `"continue":"`...), p.next...), `",`...)
	}
	if p.remain > 0 {
		b = append(b, `"remainingItemCount":`...)
		b = append(strconv.AppendInt(b, p.remain, 10), ',')
	}
	b = append(b, `"resourceVersion":"`...)
	b = append(b, p.version...)
	return append(b, `"}`...)
}
