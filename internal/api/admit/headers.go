package admit

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

// CountHeaders admits a request if its headers fit beside those of all others. If they do not, it forgets them, and the error is
// TooMany.
func (h *Holding) CountHeaders() error {
	n := headerSize(h.r)
	if n <= smallHeader {
		return nil
	}
	if !h.limits.headers.acquire("", n, false) {
		forgetHeaders(h.r)
		return TooMany{1}
	}
	h.headers = n
	return nil
}

// CountUsersHeaders is CountHeaders within the share of the caller. Until the caller is known, no share is charged.
func (h *Holding) CountUsersHeaders() error {
	if h.headers == 0 {
		return nil
	}
	if !h.limits.headers.move("", h.payer, h.headers) {
		forgetHeaders(h.r)
		return TooMany{1}
	}
	h.headersPayer = h.payer
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

// ShedHeaders drops the header fields that are no longer needed, before the request waits for its
// client.
func (h *Holding) ShedHeaders() {
	if h.headers == 0 {
		return
	}
	for name := range h.r.Header {
		if !slices.Contains(neededLater, name) {
			delete(h.r.Header, name)
		}
	}
	if n := headerSize(h.r); n < h.headers {
		h.limits.headers.release(h.headersPayer, h.headers-n)
		h.headers = n
	}
}

// releaseHeaders releases the charge of the request's header. It also drops the header, because an
// HTTP/2 answer may still wait for its client.
func (h *Holding) releaseHeaders() {
	if h.r.ProtoMajor == 2 {
		forgetHeaders(h.r)
	}
	h.limits.headers.release(h.headersPayer, h.headers)
}

// forgetHeaders frees the memory of a header that is no longer needed.
func forgetHeaders(r *http.Request) {
	clear(r.Header)
	r.RequestURI, r.URL.Path, r.URL.RawPath, r.URL.RawQuery = "", "", "", ""
}
