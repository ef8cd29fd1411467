package api

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-io/keelson/internal/api/encoding"
	"github.com/keelson-io/keelson/internal/api/selection"
	"github.com/keelson-io/keelson/internal/api/stream"
	"github.com/keelson-io/keelson/internal/api/unreadable"
	"github.com/keelson-io/keelson/internal/audit"
	"github.com/keelson-io/keelson/internal/cache"
	"github.com/keelson-io/keelson/internal/meta"
	"github.com/keelson-io/keelson/internal/negotiation"
	"github.com/keelson-io/keelson/internal/objects"
	"github.com/keelson-io/keelson/internal/status"
	"github.com/keelson-io/keelson/internal/store"
	"github.com/keelson-io/keelson/kind"
)

// This file lists objects: the bytes that the cache holds, one after another.

// list answers with the objects that the selectors select.
func (q *request) list() error {
	var err error
	if q.accept, err = q.negotiate(); err != nil {
		return err
	}
	o, f, err := q.selection()
	if err != nil {
		return err
	}
	if v := q.wantedVersion(o.ResourceVersion); v != o.ResourceVersion {
		o.ResourceVersion, o.ResourceVersionMatch = v, ""
	}
	if err := q.spareList(o.Limit); err != nil {
		return err
	}
	p, err := q.page(o, f)
	if err != nil {
		return q.nameUnreadable(err, o, f)
	}
	if q.accept.Form == encoding.Partial {
		return q.notList()
	}
	return q.nameUnreadable(q.sendList(p), o, f)
}

// sendList answers with a page.
func (q *request) sendList(p *page) error {
	if q.audit.Level() == audit.RequestResponse {
		q.audit.ResponseLater(func() []byte { return q.wholeList(p) })
	}
	if q.accept.Protobuf {
		return q.sendProtobufList(p)
	}
	if q.accept.Form == encoding.Object && !q.accept.YAML && !q.accept.Pretty {
		return q.streamList(p)
	}
	media := jsonHeader
	if q.accept.YAML {
		media = yamlHeader
	}
	l, err := q.newListing(p)
	if err != nil {
		return err
	}
	a := q.reply(http.StatusOK, media)
	defer a.end()
	if q.accept.YAML {
		err = a.yamlList(l, p)
	} else {
		err = a.jsonList(l, p)
	}
	if err != nil {
		return a.fail(err)
	}
	return a.finish()
}

// selection is what the request's parameters and its place select.
func (q *request) selection() (*meta.ListOptions, *selection.Filter, error) {
	o, err := meta.ParseListOptions(q.query)
	if err != nil {
		return nil, nil, err
	}
	at := selection.Place{Version: q.v, Namespace: q.namespace}
	if !q.selected {
		at.Name = q.name // watch of one object by its path
	}
	f, err := selection.New(at, o)
	return o, f, err
}

// nameUnreadable returns an error that names all objects of the list that cannot be read, if err says
// that one of them cannot. Otherwise it returns err. It looks no further than the last object of the page.
func (q *request) nameUnreadable(err error, o *meta.ListOptions, f *selection.Filter) error {
	if !unreadable.Is(err) {
		return err
	}
	src, failed := q.source(o, f)
	if failed != nil {
		return err
	}
	report := unreadable.New(q.v)
	looked, readable := 0, int64(0)
	src.ascend(func(obj *cache.Object) bool {
		if failed = q.ended(&looked); failed != nil || o.Limit > 0 && readable == o.Limit {
			return false
		}
		if report.Add(obj) {
			readable++
		}
		return !report.Full()
	})
	if failed != nil {
		return err
	}
	return report.Error(err)
}

// streamList sends a page while it is printed, so that a list of any length needs the memory of one
// piece.
func (q *request) streamList(p *page) error {
	start, end := q.listStart(p), append(q.listEnd(p), '\n')
	size := len(start) + len(end) + max(0, p.count-1)
	prefix := q.v.ItemPrefix()
	grown := selection.NewExpansion(q.ctx)
	err := p.each(func(obj *cache.Object) error {
		view, err := obj.View(q.v)
		if err != nil {
			return err
		}
		head, body := listItem(prefix, view.JSON)
		size += len(head) + len(body)
		return grown.Add(obj, view)
	})
	if err != nil {
		return err
	}
	a := q.reply(http.StatusOK, jsonHeader)
	defer a.end()
	if a.size = size; size > negotiation.GzipAbove {
		a.Most = stream.PieceSize // the header has the number
	}
	a.B = append(a.B, start...)
	first := true
	err = p.each(func(obj *cache.Object) error {
		view, err := obj.View(q.v)
		if err != nil {
			return err
		}
		if !first {
			a.B = append(a.B, ',')
		}
		first = false
		head, body := listItem(prefix, view.JSON)
		a.B = append(a.B, head...)
		return a.Share(body)
	})
	if err != nil {
		return a.fail(err)
	}
	a.B = append(a.B, end...)
	return a.finish()
}

// listStart returns the start of a list's JSON, up to the first item.
func (q *request) listStart(p *page) []byte {
	if q.kind.Behavior.PrintsGoType() { // the order of the fields of a Go type
		b := append([]byte{'{'}, q.listType()...)
		b = append(append(b, `,"metadata":`...), p.metadata(true)...)
		return append(b, `,"items":[`...)
	}
	return []byte(`{"apiVersion":"` + q.v.APIVersion() + `","items":[`)
}

// listEnd returns the end of a list's JSON, after the items.
func (q *request) listEnd(p *page) []byte {
	if q.kind.Behavior.PrintsGoType() {
		return []byte("]}")
	}
	return append(append([]byte(`],"kind":"`+q.kind.ListKind+`","metadata":`), p.metadata(false)...), '}')
}

// listType returns the members kind and apiVersion of a list of a built-in kind.
func (q *request) listType() string {
	return `"kind":"` + q.kind.ListKind + `","apiVersion":"` + q.v.APIVersion() + `"`
}

// listItem returns the JSON of an item of a list, in two parts, for an object whose version has this
// ItemPrefix.
func listItem(prefix string, object []byte) (head string, body []byte) {
	if prefix != "" && len(object) > len(prefix) && string(object[:len(prefix)]) == prefix {
		return "{", object[len(prefix):]
	}
	return "", object
}

// page is what a list answers with.
type page struct {
	q       *request
	objects []*cache.Object                          // the first ones
	count   int                                      // how many there are
	rest    func(fn func(*cache.Object) error) error // calls fn for the objects after those in objects; nil if there are none
	version string                                   // resource version of the list
	next    string                                   // continue token, "" at the end
	remain  int64                                    // objects after this page; -1: not known
}

// pageKept is the number of objects that a page remembers. The others are found again in the same
// snapshot, so that the memory of a list does not grow with its length.
const pageKept = 8192

// add adds an object.
func (p *page) add(obj *cache.Object) {
	p.count++
	if p.rest == nil {
		p.objects = append(p.objects, obj)
	}
}

// each calls fn for each object in order, until it returns an error or the request ends.
func (p *page) each(do func(*cache.Object) error) error {
	looked := 0
	fn := func(obj *cache.Object) error {
		if err := p.q.ended(&looked); err != nil {
			return err
		}
		return do(obj)
	}
	for _, obj := range p.objects {
		if err := fn(obj); err != nil {
			return err
		}
	}
	if p.rest == nil {
		return nil
	}
	return p.rest(fn)
}

// checkEach is the number of objects after which the request's context is checked.
const checkEach = 64

// ended returns an error if the request has ended. It checks the context at every 64th call, and
// gives way to other requests.
func (q *request) ended(calls *int) error {
	if *calls++; *calls%checkEach != 0 {
		return nil
	}
	q.holds.GiveWay()
	if q.ctx.Err() == nil {
		return nil
	}
	return objects.StoreError(q.ctx.Err())
}

// page collects the objects that a list asks for.
func (q *request) page(o *meta.ListOptions, f *selection.Filter) (*page, error) {
	if q.namespace == "." || q.namespace == ".." {
		return nil, status.Plain500(fmt.Sprintf("invalid key: %q", "/"+q.kind.StoragePrefix+"/"+q.namespace))
	}
	src, err := q.source(o, f)
	if err != nil {
		return nil, err
	}
	p := &page{q: q, version: strconv.FormatInt(src.rev, 10), remain: -1}
	limit := int(o.Limit)
	if o.ResourceVersion == "0" || limit < 0 {
		limit = 0
	}
	if limit == 0 && !f.Selects() {
		p.objects = make([]*cache.Object, 0, min(src.countFrom(src.from), pageKept))
	}
	if f.Selects() {
		f.Expansion = selection.NewExpansion(q.ctx)
		defer func() { f.Expansion = nil }() // finding the rest again must not count it twice
		if err := q.convertAll(src); err != nil {
			return nil, err
		}
	}
	var last, beyond string
	var failed error
	var convert []*cache.Object // by a webhook, not each by itself
	looked := 0
	src.ascend(func(obj *cache.Object) bool {
		if failed = q.ended(&looked); failed != nil {
			return false
		}
		ok, err := f.Matches(obj)
		if err != nil {
			failed = err
			return false
		}
		if !ok {
			return true
		}
		if limit > 0 && p.count == limit {
			beyond = obj.Key
			return false
		}
		if p.count == pageKept {
			p.rest = src.after(last, f, &p.count)
		}
		p.add(obj)
		last = obj.Key
		if q.kind.Conversion != nil {
			convert, failed = q.convert(append(convert, obj), convertAtOnce)
		}
		return failed == nil
	})
	if failed == nil {
		_, failed = q.convert(convert, 1)
	}
	if failed != nil {
		return nil, failed
	}
	if beyond != "" {
		// Start is the last key relative to the list's prefix, and a zero byte.
		p.next = meta.EncodeContinue(src.rev, strings.TrimPrefix(last, strings.TrimSuffix(f.Prefix, "/"))+"\x00")
		if !f.Selects() {
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
	var some []*cache.Object
	var failed error
	src.ascend(func(obj *cache.Object) bool {
		some, failed = q.convert(append(some, obj), convertAtOnce)
		return failed == nil
	})
	if failed == nil {
		_, failed = q.convert(some, 1)
	}
	return failed
}

// convertAtOnce is the number of objects that are gathered before a webhook converts them, in
// several calls.
const convertAtOnce = 4096

// convert makes the views of objects if there are enough of them, and returns those that it left.
func (q *request) convert(objects []*cache.Object, enough int) ([]*cache.Object, error) {
	if len(objects) < enough {
		return objects, nil
	}
	objects = slices.DeleteFunc(objects, func(o *cache.Object) bool { return o.Known(q.v) != nil })
	stored := make([]kind.StoredObject, len(objects))
	for i, o := range objects {
		stored[i] = kind.StoredObject{Raw: o.Raw, Rev: o.Rev}
	}
	err := q.v.Views(q.ctx, stored, func(i int, view *meta.View) { objects[i].Remember(q.v, view) })
	return objects[:0], err
}

// source is where a list's objects come from: one state of the resource, from
// some key on.
type source struct {
	prefix string
	from   string
	rev    int64
	snap   cache.Snapshot
}

// ascend calls fn for the objects in the order of keys, until fn returns false.
func (s *source) ascend(fn func(*cache.Object) bool) {
	s.snap.Ascend(s.from, func(obj *cache.Object) bool {
		return strings.HasPrefix(obj.Key, s.prefix) && fn(obj)
	})
}

// after returns a function that finds the selected objects after a key again. It ends when the page
// has count objects, with those that the page remembers.
func (s *source) after(key string, f *selection.Filter, count *int) func(fn func(*cache.Object) error) error {
	from := source{prefix: s.prefix, from: key + "\x00", rev: s.rev, snap: s.snap}
	return func(fn func(*cache.Object) error) error {
		left := *count - pageKept
		var failed error
		from.ascend(func(obj *cache.Object) bool {
			var ok bool
			if ok, failed = f.Matches(obj); failed != nil || !ok {
				return failed == nil
			}
			failed = fn(obj)
			left--
			return failed == nil && left > 0
		})
		return failed
	}
}

// countFrom returns the number of objects from a key on.
func (s *source) countFrom(key string) int { return s.snap.CountFrom(s.prefix, key) }

// source finds the state that a list asks for.
func (q *request) source(o *meta.ListOptions, f *selection.Filter) (*source, error) {
	s := &source{prefix: f.Prefix, from: f.Prefix}
	if o.Continue != "" {
		rev, start, err := meta.ParseContinue(o.Continue)
		if err != nil {
			return nil, err
		}
		if o.ResourceVersion != "" && o.ResourceVersion != "0" {
			return nil, status.BadRequest("specifying resource version is not allowed when using continue")
		}
		s.from = strings.TrimSuffix(f.Prefix, "/") + start
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

// invalidVersion returns the error for a resource version that is not a number.
func invalidVersion(version string, err error) error {
	return status.BadRequest("invalid resource version: resourceVersion: Invalid value: %q: %v", version, err)
}

// newest returns a state not older than a version.
func (q *request) newest(s *source, version string) error {
	if version != "" {
		if _, err := strconv.ParseUint(version, 10, 64); err != nil {
			return invalidVersion(version, err)
		}
	}
	if err := q.awaitVersion(version); err != nil {
		return err
	}
	s.snap = q.res.Snapshot()
	s.rev = s.snap.Rev()
	return nil
}

// exactly returns the state at one revision. start is where a continued list goes
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
		return objects.StoreError(err)
	}
	s.rev, s.snap = rev, snap
	return nil
}

// expired returns the error for a list at a revision that is compacted. start is not "" for a
// continued list, which may go on at the newest state instead.
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

// metadata returns the list's metadata as JSON: in the order of the fields of its Go type, or by name.
// Only the type omits a token that is empty.
func (p *page) metadata(typed bool) []byte {
	version := append(append([]byte(`"resourceVersion":"`), p.version...), '"')
	var next, remain []byte
	if p.next != "" || !typed {
		next = append(append([]byte(`"continue":"`), p.next...), '"')
	}
	if p.remain > 0 {
		remain = strconv.AppendInt([]byte(`"remainingItemCount":`), p.remain, 10)
	}
	parts := [][]byte{next, remain, version}
	if typed {
		parts = [][]byte{version, next, remain}
	}
	parts = slices.DeleteFunc(parts, func(part []byte) bool { return part == nil })
	return append(append([]byte{'{'}, bytes.Join(parts, []byte{','})...), '}')
}
