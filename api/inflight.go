package api

import (
	"net/http"
	"slices"
	"sync/atomic"

	"github.com/keelson-io/keelson/authn"
)

// This file limits how many requests are served at a time. Watches do not
// count, and administrators are let in when everybody else has to wait.

// Limits of requests in flight, unless the configuration says otherwise.
const (
	defaultReads  = 400
	defaultWrites = 200
)

// inFlight counts the requests of one sort that are being served.
type inFlight struct {
	most int64 // 0: no limit
	now  atomic.Int64
}

// limitOf is a configured limit: 0 means the default, a negative one none.
func limitOf(n, standard int) int64 {
	switch {
	case n == 0:
		return int64(standard)
	case n < 0:
		return 0
	}
	return int64(n)
}

// limit lets a request in, or tells its client to come back.
func limit(q *request) (bool, error) {
	if q.long {
		return false, nil
	}
	c := &q.h.writes
	switch q.r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		c = &q.h.reads
	}
	if c.most == 0 {
		return false, nil
	}
	if c.now.Add(1) > c.most && !slices.Contains(q.user.Groups, authn.Masters) {
		c.now.Add(-1)
		q.w.Header().Set("Retry-After", "1")
		q.plain(http.StatusTooManyRequests, "Too many requests, please try again later.\n")
		return true, nil
	}
	q.counted = c
	return false, nil
}
