package api

import (
	"net/http"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-io/keelson/flow"
)

// This file passes requests through priority and fairness. Package flow decides. Requests hold
// seats in place of slots (inflight.go), while the server works on them.

// queueWait is the part of a request's time that it may wait in a queue: one of so many.
const queueWait = 4

// longestWait bounds the time in a queue.
const longestWait = time.Minute

// flowing is what a request needs for priority and fairness.
type flowing struct {
	ticket   flow.Ticket
	request  flow.Request
	wait     time.Duration // how long it may wait in a queue each time; 0: what requests without a timeout may
	waited   time.Duration
	received bool // the body has arrived, or is arriving
	unwatch  func()
}

// Names of the headers with the classification of a request, in the spelling of the HTTP library.
const (
	schemaHeader = "X-Kubernetes-Pf-Flowschema-Uid"
	levelHeader  = "X-Kubernetes-Pf-Prioritylevel-Uid"
)

// classify finds the request's place among FlowSchemas and priority levels. It returns false if
// requests like this do not have one, or the feature is off.
func (q *request) classify() bool {
	if q.h.Flow == nil || q.long && q.verb != "watch" {
		return false
	}
	r := &q.flow.request
	*r = flow.Request{User: q.user.Name, Groups: q.user.Groups, Payer: q.payer(), IsResource: q.resource, Verb: q.verb, Path: q.path, Group: q.group,
		Version: q.info.version, Resource: q.plural, Subresource: q.subresource, Namespace: q.namespace, Name: q.name}
	q.h.Flow.Classify(&q.flow.ticket, r)
	h := q.w.Header()
	h[schemaHeader], h[levelHeader] = q.flow.ticket.Headers()
	return true
}

// enterFlow acquires the request's seats. If there are none, the error is tooMany. Probes do not wait:
// concurrent probes share one run of their checks.
func (q *request) enterFlow() error {
	if q.inSlot || q.isProbe() {
		return nil
	}
	wait := q.flow.wait
	if wait == 0 {
		wait = q.h.Timeout / queueWait
	}
	ok, waited := q.flow.ticket.Enter(q.ctx, q.work(), min(wait, longestWait))
	q.flow.waited += waited
	if !ok {
		return tooMany{q.flow.ticket.RetryAfter()}
	}
	q.inSlot = true
	if q.long && q.flow.unwatch == nil {
		q.flow.unwatch = q.h.Flow.Watch(&q.flow.request, q.watchesNode())
	}
	return nil
}

// work estimates the request's work.
func (q *request) work() flow.Work {
	t := &q.flow.ticket
	switch {
	case !q.resource:
	case q.verb == "list", q.verb == "watch":
		return q.listWork()
	case q.verb == "create", q.verb == "update", q.verb == "patch", q.verb == "delete":
		if !q.flow.received && !bodyless(q.r) {
			break // the write gets its seats when the body has arrived
		}
		if q.plural == "serviceaccounts" && q.subresource == "token" {
			break // no watcher is notified
		}
		return t.WriteWork(q.h.Flow.Watchers(&q.flow.request))
	}
	return flow.Work{Initial: 1}
}

// listWork estimates the work of a list, or of the start of a watch.
func (q *request) listWork() flow.Work {
	t := &q.flow.ticket
	var o metav1.ListOptions
	if len(q.query) > 0 {
		query := q.query
		if err := metav1.Convert_url_Values_To_v1_ListOptions(&query, &o, nil); err != nil {
			return t.MostListWork()
		}
	}
	if q.verb == "watch" && (o.SendInitialEvents == nil || !*o.SendInitialEvents) && o.ResourceVersion != "" && o.ResourceVersion != "0" {
		return flow.Work{Initial: 1}
	}
	k := q.h.Kinds.Load().Lookup(q.group, q.plural)
	if k == nil {
		return flow.Work{Initial: 1}
	}
	objects, bytes := q.h.Cache.Resource(k.StoragePrefix).Size()
	l := flow.List{Objects: int64(objects), Limit: o.Limit, Single: q.name != "", Selects: o.LabelSelector != "" || o.FieldSelector != ""}
	if objects > 0 {
		l.Size = bytes / l.Objects
	}
	switch o.ResourceVersionMatch {
	case metav1.ResourceVersionMatchNotOlderThan:
	case "":
		l.Exact = o.Continue != "" || o.Limit > 0 && o.ResourceVersion != "" && o.ResourceVersion != "0"
	default:
		l.Exact = true
	}
	l.Exact = l.Exact && q.verb == "list"
	return t.ListWork(l)
}

// watchesNode reports whether a watch is for the pods of one node.
func (q *request) watchesNode() bool {
	return q.plural == "pods" && strings.Contains(q.query.Get("fieldSelector"), "spec.nodeName=")
}

// dumpFlow answers what is at /debug/api_priority_and_fairness/.
func (q *request) dumpFlow(name string) bool {
	if q.h.Flow == nil {
		return false
	}
	var text strings.Builder
	if !q.h.Flow.Dump(name, q.query.Get("includeRequestDetails") != "", &text) {
		return false
	}
	q.sendBytes(http.StatusOK, []string{"text/plain; charset=utf-8"}, []byte(text.String()))
	return true
}
