package admit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/keelson-io/keelson/internal/status"
)

// This file receives the bodies of requests. A body arrives as slowly as its client likes, so the
// request holds no slot meanwhile. Until the request ends, its body is charged to the budget of all
// bodies and to its user's share. The HTTP server ends reading at the request's deadline.

const (
	// LeastBody is the least charge for a body: a waiting request needs memory, too.
	LeastBody = 64 << 10
	// bodyGrowth is the factor by which the full buffer of a large body grows.
	bodyGrowth = 4
)

// ReadBody reads the body; the bytes are the caller's.
func (h *Holding) ReadBody(ctx context.Context) ([]byte, error) {
	if h.r.ContentLength > MaxBody {
		return nil, tooLarge()
	}
	var body []byte
	err := h.Wait(ctx, func() (err error) {
		h.bodyArrives()
		h.ShedHeaders()
		if body, err = h.receive(h.r.ContentLength); err == nil {
			err = h.workOnBody(ctx, len(body))
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return body, nil
}

// tooLarge returns the error for a body over the limit.
func tooLarge() error { return status.TooLarge(fmt.Sprintf("limit is %d", MaxBody)) }

// receive reads a body of a size; -1 is not known. The buffer grows as the body arrives, so that
// the announcement of a large body costs no memory.
func (h *Holding) receive(size int64) ([]byte, error) {
	if err := h.claimBody(LeastBody); err != nil {
		return nil, err
	}
	end := size // of the body, as far as it is known
	if size < 0 {
		end = MaxBody + 1
	}
	first := min(end, LeastBody)
	if size < 0 {
		first = min(end, 4<<10)
	}
	body := make([]byte, 0, first)
	for {
		n, err := h.r.Body.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		switch {
		case int64(len(body)) == size:
			return body, nil
		case len(body) > MaxBody:
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
		if err := h.claimBody(larger); err != nil {
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

// DropBody reads and drops the body of a request that needs none, so that the body occupies no
// memory during the request.
func (h *Holding) DropBody() error {
	if Bodyless(h.r) {
		return nil
	}
	n, err := io.Copy(io.Discard, io.LimitReader(h.r.Body, MaxBody+1))
	switch {
	case err != nil:
		return unreceived(err)
	case n > MaxBody:
		return tooLarge()
	}
	return nil
}

// Bounds for refused requests whose bodies are still on their way.
const (
	mostRefused  = 500         // that wait for the end of their bodies
	longestAwait = time.Second // of one
)

// AwaitEnd drops the rest of the body of a request that is refused. The end of the handler would reset
// an HTTP/2 stream whose body has not ended, and some clients then lose the answer. For HTTP/1.1,
// net/http does this by itself. A body that is too long, or too slow, gets the answer with the reset.
func (h *Holding) AwaitEnd(w http.ResponseWriter) {
	if h.r.ProtoMajor != 2 || Bodyless(h.r) || h.r.ContentLength > MaxBody {
		return
	}
	defer h.limits.refused.Add(-1)
	if h.limits.refused.Add(1) > mostRefused {
		return
	}
	if http.NewResponseController(w).SetReadDeadline(time.Now().Add(longestAwait)) == nil {
		_, _ = io.Copy(io.Discard, io.LimitReader(h.r.Body, MaxBody+1))
	}
}

// Bodyless reports whether a request can have no body.
func Bodyless(r *http.Request) bool {
	return r.ContentLength == 0 || r.Body == nil || r.Body == http.NoBody
}
