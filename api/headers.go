package api

import (
	"net/http"
	"slices"
)

// This file bounds the memory for the headers of all requests that are being served. A header may
// be 1 MiB long, and an HTTP/2 connection has room for 1,000 requests.

const (
	// smallHeader is the size up to which headers are not counted: nearly all of them are smaller.
	smallHeader = 16 << 10
	// headerField is the memory of a header field in bytes, besides its name and its value.
	headerField = 64
)

// countHeaders admits a request if its headers fit beside those of all others.
func countHeaders(q *request) error {
	n := headerSize(q.r)
	if n <= smallHeader {
		return nil
	}
	if !q.h.largeHeaders.acquire("", n, false) {
		forgetHeaders(q.r)
		q.closeAfter()
		return tooMany{1}
	}
	q.headers = n
	return nil
}

// countUsersHeaders admits a request if its headers fit into its user's share. Until the user is
// known, no share is charged.
func countUsersHeaders(q *request) error {
	if q.headers == 0 {
		return nil
	}
	if !q.h.largeHeaders.move("", q.payer(), q.headers) {
		forgetHeaders(q.r)
		return tooMany{1}
	}
	q.headersPayer = q.payer()
	return nil
}

// headerSize returns the memory for the header of a request, URL included.
func headerSize(r *http.Request) int64 {
	n := len(r.RequestURI)
	for name, values := range r.Header {
		n += len(name) + headerField
		for _, value := range values {
			n += len(value) + headerField/2
		}
	}
	return int64(n)
}

// neededLater are the header fields that are read after a request was authorized.
var neededLater = []string{"Accept", "Accept-Encoding", "Connection", "Content-Type", "If-None-Match", "Origin", "Range",
	"Sec-Websocket-Extensions", "Sec-Websocket-Key", "Sec-Websocket-Protocol", "Sec-Websocket-Version", "Upgrade", "User-Agent"}

// shedHeaders drops the header fields that are no longer needed, before the request waits for its
// client.
func (q *request) shedHeaders() {
	if q.headers == 0 {
		return
	}
	for name := range q.r.Header {
		if !slices.Contains(neededLater, name) {
			delete(q.r.Header, name)
		}
	}
	if n := headerSize(q.r); n < q.headers {
		q.h.largeHeaders.release(q.headersPayer, q.headers-n)
		q.headers = n
	}
}

// releaseHeaders releases the charge of the request's header. It also drops the header, because an
// HTTP/2 answer may still wait for its client.
func (q *request) releaseHeaders() {
	if q.r.ProtoMajor == 2 {
		forgetHeaders(q.r)
	}
	q.h.largeHeaders.release(q.headersPayer, q.headers)
}

// forgetHeaders frees the memory of a header that is no longer needed.
func forgetHeaders(r *http.Request) {
	clear(r.Header)
	r.RequestURI, r.URL.Path, r.URL.RawPath, r.URL.RawQuery = "", "", "", ""
}
