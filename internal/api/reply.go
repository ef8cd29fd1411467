package api

import (
	"errors"
	"net/http"
	"strconv"

	"github.com/keelson-io/keelson/internal/api/stream"
	"github.com/keelson-io/keelson/internal/negotiation"
	"github.com/keelson-io/keelson/internal/status"
)

// This file sends answers that are built while they are sent.

// reply is the body of an answer that is built piece by piece. The header is sent with the first
// piece: until then the answer can still be an error.
type reply struct {
	stream.Pieces
	q     *request
	code  int
	media []string
	size  int // of the body, before it is compressed; 0 if that is not known
	begun bool
	last  bool                    // what is sent next is all that is left
	zip   *negotiation.Compressor // nil: not compressed
}

// reply begins an answer with a code and a media type.
func (q *request) reply(code int, media []string) *reply {
	a := &reply{q: q, code: code, media: media}
	a.Pieces = stream.Pieces{Most: stream.PieceSize, Send: a.write, Room: q.room(q.ctx)}
	if negotiation.AcceptsGzip(q.r) {
		a.Most = negotiation.GzipAbove // longer answers are compressed
	}
	a.Begin()
	return a
}

// errUnread ends the building of an answer: the client has gone, does not read, or asked for the
// header only.
var errUnread = errors.New("the client does not read the answer")

// write sends a piece.
func (a *reply) write(b []byte) error {
	if !a.begun {
		long := !a.last // or the first piece would not be full
		if a.size > 0 {
			long = a.size > negotiation.GzipAbove
		}
		if long && a.Room.Refusable {
			if err := a.q.holds.Sends(); err != nil {
				return err
			}
		}
		a.header(long && negotiation.AcceptsGzip(a.q.r))
		a.Most = stream.PieceSize
	} else {
		a.q.holds.GiveWay()
	}
	if a.q.r.Method == http.MethodHead {
		return errUnread
	}
	var err error
	if a.zip != nil {
		_, err = a.zip.Write(b)
	} else {
		_, err = a.q.w.Write(b)
	}
	if err != nil {
		return errUnread
	}
	return nil
}

// header sends the header.
func (a *reply) header(zip bool) {
	a.begun, a.Room.Refusable = true, false
	h := a.q.w.Header()
	h["Content-Type"] = a.media
	switch {
	case zip:
		negotiation.MarkGzip(h)
		a.zip = negotiation.NewCompressor(a.q.w)
	case a.size > 0:
		h["Content-Length"] = []string{strconv.Itoa(a.size)}
	}
	a.q.header(a.code)
}

// end gives back what the answer holds.
func (a *reply) end() {
	a.Pieces.End()
	if a.zip != nil {
		a.zip.Release()
	}
}

// finish sends what is left, in one write if that is all.
func (a *reply) finish() error {
	if !a.begun {
		a.size, a.last = len(a.B), true
	}
	err := a.Flush()
	if err == nil && a.zip != nil {
		err = a.zip.Close()
	}
	return a.fail(err)
}

// fail ends an answer that cannot be built. If it has begun, the connection is cut: the client must
// not mistake half an answer for a whole one.
func (a *reply) fail(err error) error {
	switch {
	case err == nil, errors.Is(err, errUnread):
		return nil
	case !a.begun:
		return err
	}
	a.q.h.logger.Error("answer was cut off", "path", a.q.path, "error", status.From(err).Message)
	a.end() // the audit record waits for room, and this answer may hold the last of it
	panic(http.ErrAbortHandler)
}
