package api

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/keelson-io/keelson/api/admit"
	"github.com/keelson-io/keelson/status"
)

// This file receives the bodies of requests. A body arrives as slowly as its client likes, so the
// request holds no slot meanwhile. Until the request ends, its body is charged to the budget of all
// bodies and to its user's share. The HTTP server ends reading at the request's deadline.

const (
	maxBody = admit.MaxBody // the largest body that is read

	// the least charge for a body: a waiting request needs memory, too
	leastBody = 64 << 10
	// bodyGrowth is the factor by which the full buffer of a large body grows.
	bodyGrowth = 4
)

// readBody reads the body; the bytes are the caller's.
func (q *request) readBody() ([]byte, error) {
	if q.r.ContentLength > maxBody {
		return nil, tooLarge()
	}
	var body []byte
	err := q.holds.Wait(q.ctx, func() (err error) {
		q.holds.BodyArrives()
		q.holds.ShedHeaders()
		if body, err = q.receive(q.r.ContentLength); err == nil {
			err = q.holds.WorkOnBody(q.ctx, len(body))
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return body, nil
}

// tooLarge returns the error for a body over the limit.
func tooLarge() error { return status.TooLarge(fmt.Sprintf("limit is %d", maxBody)) }

// receive reads a body of a size; -1 is not known. The buffer grows as the body arrives, so that
// the announcement of a large body costs no memory.
func (q *request) receive(size int64) ([]byte, error) {
	if err := q.holds.ClaimBody(leastBody); err != nil {
		return nil, err
	}
	end := size // of the body, as far as it is known
	if size < 0 {
		end = maxBody + 1
	}
	first := min(end, leastBody)
	if size < 0 {
		first = min(end, 4<<10)
	}
	body := make([]byte, 0, first)
	for {
		n, err := q.r.Body.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		switch {
		case int64(len(body)) == size:
			return body, nil
		case len(body) > maxBody:
			return nil, tooLarge()
		case err == io.EOF && size < 0:
			return body, nil
		case err == io.EOF:
			return nil, status.Plain500(io.ErrUnexpectedEOF.Error())
		case err != nil:
			return nil, unreceived(err)
		}
		if len(body) < cap(body) {
			continue
		}
		larger := min(end, int64(cap(body))*bodyGrowth)
		if err := q.holds.ClaimBody(larger); err != nil {
			return nil, err
		}
		body = append(make([]byte, 0, larger), body...)
	}
}

// unreceived returns the error for a body that did not arrive.
func unreceived(err error) error {
	if late := (net.Error)(nil); errors.As(err, &late) && late.Timeout() {
		return status.Timeout("request did not complete within the allotted timeout", 0)
	}
	return status.Plain500(err.Error())
}

// dropBody reads and drops the body of a request that needs none, so that the body occupies no
// memory during the request.
func (q *request) dropBody() error {
	if bodyless(q.r) {
		return nil
	}
	n, err := io.Copy(io.Discard, io.LimitReader(q.r.Body, maxBody+1))
	switch {
	case err != nil:
		return unreceived(err)
	case n > maxBody:
		return tooLarge()
	}
	return nil
}

// Bounds for refused requests whose bodies are still on their way.
const (
	mostRefused  = 500         // that wait for the end of their bodies
	longestAwait = time.Second // of one
)

// awaitEnd drops the rest of the body of a request that is refused. The end of the handler would reset
// an HTTP/2 stream whose body has not ended, and some clients then lose the answer. For HTTP/1.1,
// net/http does this by itself. A body that is too long, or too slow, gets the answer with the reset.
func (q *request) awaitEnd() {
	if q.r.ProtoMajor != 2 || bodyless(q.r) || q.r.ContentLength > maxBody {
		return
	}
	defer q.h.refused.Add(-1)
	if q.h.refused.Add(1) > mostRefused {
		return
	}
	if http.NewResponseController(q.w).SetReadDeadline(time.Now().Add(longestAwait)) == nil {
		_, _ = io.Copy(io.Discard, io.LimitReader(q.r.Body, maxBody+1))
	}
}

// bodyless reports whether a request can have no body.
func bodyless(r *http.Request) bool {
	return r.ContentLength == 0 || r.Body == nil || r.Body == http.NoBody
}
