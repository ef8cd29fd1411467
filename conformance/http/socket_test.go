package http

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"golang.org/x/net/websocket"
)

// This file reads watches over WebSockets.

// frames reads messages with what they are made of.
var frames = websocket.Codec{Unmarshal: func(data []byte, typ byte, v any) error {
	into := v.(*[]byte)
	*into = fmt.Appendf(*into, "%q ", map[byte]string{websocket.TextFrame: "text", websocket.BinaryFrame: "bytes"}[typ])
	if typ == websocket.BinaryFrame {
		data = fmt.Appendf(nil, "%q\n", kindsIn(data))
	}
	*into = append(*into, data...)
	return nil
}}

// kindsIn says what an event in protobuf begins with, and what it holds.
func kindsIn(event []byte) string {
	for _, name := range []string{"PartialObjectMetadata", "Widget", "Status"} {
		if bytes.Contains(event, []byte(name)) {
			return strings.ToValidUTF8(string(event[:min(12, len(event))]), "?") + " " + name
		}
	}
	return "?"
}

// startSocket asks for a watch over a WebSocket.
func startSocket(p *peer, build func(context.Context) (*http.Request, error)) *watching {
	ctx, cancel := context.WithCancel(context.Background())
	w := &watching{cancel: cancel, done: make(chan struct{}), last: time.Now()}
	go func() {
		defer close(w.done)
		conn, err := dial(ctx, p, build)
		w.mu.Lock()
		if w.answer.code = http.StatusSwitchingProtocols; err != nil {
			w.answer.err = err
		} else {
			w.answer.header = http.Header{"Sec-Websocket-Protocol": conn.Config().Protocol}
		}
		w.last = time.Now()
		w.mu.Unlock()
		if err != nil {
			return
		}
		defer context.AfterFunc(ctx, func() { conn.Close() })()
		for {
			var message []byte
			err := frames.Receive(conn, &message)
			w.mu.Lock()
			w.answer.body = append(w.answer.body, message...)
			w.last = time.Now()
			w.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	return w
}

func dial(ctx context.Context, p *peer, build func(context.Context) (*http.Request, error)) (*websocket.Conn, error) {
	req, err := build(ctx)
	if err != nil {
		return nil, err
	}
	config, err := websocket.NewConfig("wss"+strings.TrimPrefix(req.URL.String(), "https"), p.base)
	if err != nil {
		return nil, err
	}
	config.TlsConfig = p.tls.Clone()
	config.TlsConfig.NextProtos = nil
	if protocols := req.Header.Get("Sec-Websocket-Protocol"); protocols != "" {
		config.Protocol = strings.Split(protocols, ", ")
	}
	for _, name := range []string{"Upgrade", "Connection", "Sec-Websocket-Protocol"} {
		req.Header.Del(name)
	}
	config.Header = req.Header
	conn, err := config.DialContext(ctx)
	if err != nil {
		if failed := (*websocket.DialError)(nil); errors.As(err, &failed) {
			err = failed.Err
		}
		return nil, err
	}
	return conn, nil
}
