package api

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net/http"
	"time"

	"golang.org/x/net/websocket"

	"github.com/keelson-io/keelson/authn"
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
		q.cutStalls(&socket{conn: conn, proto: q.accept.proto, header: http.Header{}})
		w.out.whole = true // an event is a message
		err = w.runOrRefuse(failed)
	}).ServeHTTP(q.w, q.r)
	return err
}

// socket writes the events of a watch as messages. Each write has whole events.
type socket struct {
	conn   *websocket.Conn
	proto  bool
	header http.Header // of nothing: the handshake is over
}

// Header implements http.ResponseWriter.
func (s *socket) Header() http.Header { return s.header }

// WriteHeader implements http.ResponseWriter: the handshake was the header.
func (s *socket) WriteHeader(int) {}

// Write sends each of the events as a message.
func (s *socket) Write(events []byte) (int, error) {
	for rest := events; len(rest) > 0; {
		var message []byte
		if s.proto {
			n := 4 + binary.BigEndian.Uint32(rest)
			message, rest = rest[4:n], rest[n:]
		} else {
			n := bytes.IndexByte(rest, '\n') + 1
			message, rest = rest[:n], rest[n:]
		}
		if err := s.send(message); err != nil {
			return 0, err
		}
	}
	return len(events), nil
}

// SetWriteDeadline is for http.ResponseController.
func (s *socket) SetWriteDeadline(t time.Time) error { return s.conn.SetWriteDeadline(t) }

// Messages as they are, without a copy.
var (
	textMessage   = websocket.Codec{Marshal: func(v any) ([]byte, byte, error) { return v.([]byte), websocket.TextFrame, nil }}
	binaryMessage = websocket.Codec{Marshal: func(v any) ([]byte, byte, error) { return v.([]byte), websocket.BinaryFrame, nil }}
)

// send sends one message, in binary for protobuf.
func (s *socket) send(message []byte) error {
	if s.proto {
		return binaryMessage.Send(s.conn, message)
	}
	return textMessage.Send(s.conn, message)
}
