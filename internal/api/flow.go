package api

import (
	"net/http"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-io/keelson/internal/api/admit"
	"github.com/keelson-io/keelson/internal/flow"
)

// This file says what requests are for priority and fairness, and estimates their work.

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
	watch := admit.NoWatch
	if q.long {
		watch = admit.AnyWatch
		if q.watchesNode() {
			watch = admit.NodeWatch
		}
	}
	h := q.w.Header()
	h[schemaHeader], h[levelHeader] = q.holds.Classify(q.flowRequest(), q, watch, q.isProbe())
	return true
}

// flowRequest returns what FlowSchemas look at.
func (q *request) flowRequest() flow.Request {
	return flow.Request{User: q.user.Name, Groups: q.user.Groups, Payer: q.payer(), IsResource: q.resource, Verb: q.verb, Path: q.path, Group: q.group,
		Version: q.info.version, Resource: q.plural, Subresource: q.subresource, Namespace: q.namespace, Name: q.name}
}

// EstimateWork implements admit.Estimator.
func (q *request) EstimateWork(t *flow.Ticket, arrived bool) flow.Work {
	if q.row == nil || q.row.seats == nil {
		return flow.Work{Initial: 1}
	}
	return q.row.seats(q, t, arrived)
}

// writeSeats estimates the work of a write.
func (q *request) writeSeats(t *flow.Ticket, arrived bool) flow.Work {
	if !arrived && !admit.Bodyless(q.r) {
		return flow.Work{Initial: 1} // it gets its seats when the body has arrived
	}
	if q.plural == "serviceaccounts" && q.subresource == "token" {
		return flow.Work{Initial: 1} // no watcher is notified
	}
	return t.WriteWork(q.holds.Watchers())
}

// listSeats estimates the work of a list, or of the start of a watch.
func (q *request) listSeats(t *flow.Ticket, _ bool) flow.Work {
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
