package api

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"golang.org/x/net/websocket"

	"github.com/keelson-io/keelson/internal/api/stream"
	"github.com/keelson-io/keelson/internal/authn"
)

// This file sends the events of a watch over a WebSocket (RFC 6455), as browsers ask for them: each event is a message, of text if
// it is JSON, of bytes if it is protobuf. The headers of the handshake, and whose pages may ask, are up to the library that
// Kubernetes uses for it, too.

// runSocket serves a watch that has begun over a WebSocket; failed is why it cannot go on, nil if it can.
func (w *watcher) runSocket(failed error) error {
	q := w.q
	if _, ok := q.w.(http.Hijacker); !ok {
		return errors.New("the connection cannot become a WebSocket")
	}
	authn.DropToken(q.r)
	q.code = http.StatusSwitchingProtocols
	q.audit.Code(q.code)
	q.holds.Leave()
	var err error
	websocket.Handler(func(conn *websocket.Conn) {
		// From here on nobody else notices that the client is gone.
		ctx, cancel := context.WithCancel(q.ctx)
		defer cancel()
		defer conn.Close()
		defer context.AfterFunc(q.h.stopping, func() { conn.SetDeadline(time.Now().Add(time.Second)) })()
		go func() {
			defer cancel()
			io.Copy(io.Discard, conn) // clients send nothing that has a meaning
		}()
		q.ctx = ctx
		q.cutStalls(stream.NewSocket(conn, q.accept.Protobuf))
		w.out.Whole = true // an event is a message
		err = w.runOrRefuse(failed)
	}).ServeHTTP(q.w, q.r)
	return err
}
