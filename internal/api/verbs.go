package api

import (
	"net/http"

	"github.com/keelson-io/keelson/internal/flow"
)

// This file has what the server knows of each verb on resources.

// verb is a verb on resources. It is a row of the table, and a function in a file of its own.
type verb struct {
	name   string
	method string
	on     target
	label  string // in metrics
	writes bool   // it has the time limit of writes
	// seats estimates the seats of priority and fairness; nil: one.
	seats func(q *request, t *flow.Ticket, arrived bool) flow.Work
	// serve serves the verb on objects, and on subresources that are parts of objects.
	serve func(q *request) error
	// scale serves it on the subresource scale; nil: the subresource does not have it.
	scale func(q *request) error
}

// target says for which paths a method means the verb.
type target uint8

// The targets.
const (
	onPath       target = iota // whatever it names
	onObject                   // with a name
	onCollection               // without a name
	onChanges                  // of a collection with the parameter watch, or beginning with watch/
)

// verbTable has the verbs on resources.
var verbTable = [...]*verb{
	{name: "get", method: http.MethodGet, on: onObject, label: "GET", serve: (*request).get, scale: (*request).getScale},
	{name: "list", method: http.MethodGet, on: onCollection, label: "LIST", seats: (*request).listSeats, serve: (*request).list},
	{name: "watch", method: http.MethodGet, on: onChanges, label: "WATCH", seats: (*request).listSeats, serve: (*request).watch},
	{name: "create", method: http.MethodPost, label: "POST", writes: true, seats: (*request).writeSeats, serve: (*request).create},
	{name: "update", method: http.MethodPut, label: "PUT", writes: true, seats: (*request).writeSeats, serve: (*request).update, scale: (*request).updateScale},
	{name: "patch", method: http.MethodPatch, label: "PATCH", writes: true, seats: (*request).writeSeats, serve: (*request).patch, scale: (*request).patchScale},
	{name: "delete", method: http.MethodDelete, on: onObject, label: "DELETE", writes: true, seats: (*request).writeSeats, serve: (*request).delete},
	{name: "deletecollection", method: http.MethodDelete, on: onCollection, label: "DELETECOLLECTION", writes: true, serve: (*request).deleteCollection},
}

// verbOf returns the verb of a method on a target; nil if it means none. HEAD is GET whose answer has no body.
func verbOf(method string, on target) *verb {
	if method == http.MethodHead {
		method = http.MethodGet
	}
	for _, v := range verbTable {
		if v.method == method && (v.on == on || v.on == onPath) {
			return v
		}
	}
	return nil
}
