package api

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/keelson-io/keelson/admission"
	"github.com/keelson-io/keelson/apply"
	"github.com/keelson-io/keelson/doc"
	"github.com/keelson-io/keelson/kind"
	"github.com/keelson-io/keelson/meta"
	"github.com/keelson-io/keelson/schema"
	"github.com/keelson-io/keelson/status"
	"github.com/keelson-io/keelson/store"
)

// This file creates objects.

// maxGenerated is how many names are tried for an object that asks for one.
const maxGenerated = 8

func (q *request) create() error {
	body, o, err := q.wholeObject(meta.ParseCreateOptions)
	if err != nil {
		return err
	}
	d := doc.Get()
	defer d.Release()
	if err := q.decode(d, body, o.FieldValidation); err != nil {
		return err
	}
	q.recordObject(d)
	return q.createDoc(d, o, func(m *apply.Manager, _, next *doc.Doc) error { return m.Update(nil, next, q.writer(o)) })
}

// createDoc stores a new object and answers. track is nil if managedFields are
// settled already.
func (q *request) createDoc(d *doc.Doc, o *meta.WriteOptions, track func(m *apply.Manager, live, next *doc.Doc) error) error {
	rev, err := q.insert(d, o, track)
	if err != nil {
		return err
	}
	return q.sendDoc(http.StatusCreated, d, rev)
}

// insert stores a new object.
func (q *request) insert(d *doc.Doc, o *meta.WriteOptions, track func(m *apply.Manager, live, next *doc.Doc) error) (int64, error) {
	obj := meta.Object{Doc: d}
	if err := q.checkNamespace(obj); err != nil {
		return 0, err
	}
	// Opened before it is written, the cache can tell watchers what came after.
	if err := q.res.Ready(q.ctx); err != nil {
		return 0, storeError(err)
	}
	q.warn(meta.WipeCreate(obj)...)
	if track != nil {
		m, err := q.h.managers.get(q.h, q.v)
		if err != nil {
			return 0, err
		}
		if err := track(m, nil, d); err != nil {
			return 0, err
		}
	}
	base, err := q.admitCreate(d, o)
	if err != nil {
		q.settled(err)
		return 0, err
	}
	for try := 1; ; try++ {
		rev, err := q.store(d, o, track != nil)
		q.settled(err)
		if err == nil {
			return rev, nil
		}
		if !errors.Is(err, store.ErrExists) {
			return 0, storeError(err)
		}
		if base == "" || try == maxGenerated {
			return 0, q.exists(strings.Clone(obj.Name()), obj.GenerateName() != "")
		}
		obj.SetName(meta.GenerateName(base))
		if err := q.claim(d, nil, o.DryRun); err != nil {
			return 0, err
		}
	}
}

// admitCreate runs everything that may change or refuse a new object, and fills
// in what is the server's. base is what its name was generated from, if it was.
func (q *request) admitCreate(d *doc.Doc, o *meta.WriteOptions) (base string, err error) {
	obj := meta.Object{Doc: d}
	if err := q.checkTerminating(obj); err != nil {
		return "", err
	}
	r := &admission.Request{Operation: admission.Create, Version: q.v, Subresource: q.subresource, Namespace: q.namespace,
		Name: strings.Clone(obj.Name()), New: d, User: q.user, DryRun: o.DryRun, Named: q.name != "", Write: o, Client: q}
	if err := q.h.admission.Mutate(q.ctx, r); err != nil {
		return "", err
	}
	if r.Mutated() {
		if err := q.checkNamespace(obj); err != nil {
			return "", err
		}
		q.warn(meta.DedupOwners(obj, afterMutation)...)
	}
	meta.FillCreate(obj, time.Now())
	q.v.PrepareCreate(d)
	if b := q.kind.Builtin; b != nil && b.CreateAs != nil {
		b.CreateAs(d, &kind.Requester{Name: q.user.Name, UID: q.user.UID, Groups: q.user.Groups, Extra: q.user.Extra})
	}
	if obj.Name() == "" && obj.GenerateName() != "" {
		base = strings.Clone(obj.GenerateName())
		obj.SetName(meta.GenerateName(base))
	}
	r.Name = strings.Clone(obj.Name())
	if err := q.claim(d, nil, o.DryRun); err != nil {
		return "", err
	}
	if err := q.validate(d, nil, schema.Whole, q.sentKind(d), schema.Kept{}); err != nil {
		return "", err
	}
	return base, q.h.admission.Validate(q.ctx, r)
}

// checkTerminating refuses new objects of a definition that is being deleted.
func (q *request) checkTerminating(obj meta.Object) error {
	if !q.kind.Terminating {
		return nil
	}
	return status.Forbidden(q.kind.GroupResource(), strings.Clone(obj.Name()),
		errors.New("create not allowed while custom resource definition is terminating"))
}

// store writes a new object; one that is too large is tried once more without its managedFields, if it may. Its revision is 0 if that was
// a dry run.
func (q *request) store(d *doc.Doc, o *meta.WriteOptions, without bool) (int64, error) {
	encoded, err := q.encode(d)
	if err != nil {
		return 0, err
	}
	key := q.kind.Key(q.namespace, strings.Clone(meta.Object{Doc: d}.Name()))
	if o.DryRun {
		_, err := q.h.Store.Get(q.ctx, key)
		if err == nil {
			return 0, store.ErrExists
		}
		if errors.Is(err, store.ErrNotFound) {
			return 0, q.asStored(d, encoded)
		}
		return 0, err
	}
	if v, err := strconv.ParseUint(meta.Object{Doc: d}.ResourceVersion(), 10, 64); err == nil && v != 0 {
		return 0, status.Plain500("resourceVersion should not be set on objects to be created")
	}
	rev, err := q.h.Store.Create(q.ctx, key, encoded)
	if without && errors.Is(err, store.ErrTooLarge) {
		d.Remove("metadata", "managedFields")
		if encoded, err = q.encode(d); err == nil {
			rev, err = q.h.Store.Create(q.ctx, key, encoded)
		}
	}
	if err != nil {
		return 0, err
	}
	return rev, q.handOver(key, d, encoded, rev)
}

// asStored makes a dry run's object in another version than the stored one what reading it would say, with that one's defaults.
func (q *request) asStored(d *doc.Doc, encoded []byte) error {
	if q.kind.Builtin != nil || q.v.IsStorage {
		return nil
	}
	sent := strings.Clone(meta.Object{Doc: d}.ResourceVersion())
	err := q.v.Load(d, encoded, 0)
	if d.Remove("metadata", "resourceVersion"); sent != "" {
		meta.Object{Doc: d}.SetResourceVersion(sent)
	}
	return err
}

// exists is the error for a name that is taken, of an object that also says what to generate names from or not.
func (q *request) exists(name string, generated bool) error {
	e := status.AlreadyExists(q.kind.GroupResource(), name)
	if generated {
		e = status.GenerateNameConflict(q.kind.GroupResource(), name)
	}
	item, err := q.h.Store.Get(q.ctx, q.kind.Key(q.namespace, name))
	if err != nil {
		return e
	}
	d := doc.Get()
	defer d.Release()
	if q.v.Load(d, item.Value, item.Rev) == nil && (meta.Object{Doc: d}).DeletionTimestamp() != "" {
		e.Message = "object is being deleted: " + e.Message
	}
	return e
}
