package api

import (
	"fmt"
	"net/http"
	"strconv"

	"github.com/keelson-io/keelson/internal/api/encoding"
	"github.com/keelson-io/keelson/internal/cache"
	"github.com/keelson-io/keelson/internal/objects"
	"github.com/keelson-io/keelson/internal/status"
	"github.com/keelson-io/keelson/kind"
)

// This file reads objects of which nothing is stored: they follow from what is served, so they are as new as the definitions.

// serveListed serves a verb on such a kind: APIService, of which there is one for each version of a
// group, or ComponentStatus.
func (q *request) serveListed() error {
	listed := q.kind.Behavior.Listed
	switch {
	case q.verb == "get", q.verb == "list":
	case listed.Refusal != "":
		e := status.UnknownMethod()
		e.Message = fmt.Sprintf("%s %s", q.kind.GroupResource(), listed.Refusal)
		return e
	case q.verb == "watch":
		return status.MethodNotAllowed(q.kind.GroupResource(), q.verb)
	default:
		return status.UnknownMethod()
	}
	var err error
	if q.accept, err = q.negotiate(); err != nil {
		return err
	}
	// API services follow from definitions, so that their revision is that of the definitions.
	definitions := q.h.Cache.Resource(q.h.Kinds.Load().Lookup("apiextensions.k8s.io", "customresourcedefinitions").StoragePrefix)
	if err := definitions.Fresh(q.ctx); err != nil {
		return objects.StoreError(err)
	}
	rev, snapshot := definitions.Snapshot().Rev(), q.h.Kinds.Load()
	all := listed.Objects(q.ctx, kind.ListedSource{Kinds: snapshot, Check: q.h.health.Named})
	if q.verb == "get" {
		for _, o := range all {
			if o.Name == q.name {
				return q.sendStored(http.StatusOK, &cache.Object{Key: q.kind.Key(q.namespace, q.name), Rev: rev, Raw: o.Text})
			}
		}
		missing := q.kind.GroupResource()
		if listed.Missing != "" {
			missing.Resource = listed.Missing
		}
		return status.NotFound(missing, q.name)
	}
	_, f, err := q.selection()
	if err != nil {
		return err
	}
	p := &page{q: q, version: strconv.FormatInt(rev, 10), remain: -1}
	for _, o := range all {
		obj := &cache.Object{Key: q.kind.Key("", o.Name), Rev: rev, Raw: o.Text}
		ok, err := f.Matches(obj)
		if err != nil {
			return err
		}
		// There are few, so that they are sent in one page.
		if ok && (!f.One || obj.Key == f.Prefix) {
			p.add(obj)
		}
	}
	if q.accept.Form == encoding.Partial {
		return q.notList()
	}
	return q.sendList(p)
}
