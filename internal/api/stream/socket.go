package stream

import (
	"bytes"
	"encoding/binary"
	"net/http"
	"time"

	"golang.org/x/net/websocket"
)

// This file sends the events of a watch as messages of a WebSocket.

// NewSocket returns the writer of the events of a watch. proto says that they are protobuf.
func NewSocket(conn *websocket.Conn, proto bool) http.ResponseWriter {
	return &socket{conn: conn, proto: proto, header: http.Header{}}
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
