package server

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"
)

// This file is the HTTP server: TLS 1.2 or newer, HTTP/1.1 and HTTP/2.

// newHTTP returns the HTTP server of an open Server.
func (s *Server) newHTTP() *http.Server {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	return &http.Server{
		Handler:   &s.counted,
		Protocols: protocols,
		TLSConfig: &tls.Config{
			MinVersion: tls.VersionTLS12,
			// Verified per request, so that a wrong one is answered 401.
			ClientAuth:     tls.RequestClientCert,
			GetCertificate: s.identity.certificate,
			// Answers are complete when they are sent: small first records
			// would only make more of them.
			DynamicRecordSizingDisabled: true,
		},
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: 1000, // a client's watches share a connection
			// An upload that is not read yet leaves room for others: upstream has as much for each, and a thousand times that for all.
			MaxReceiveBufferPerStream:     256 << 10,
			MaxReadFrameSize:              256 << 10,
			MaxReceiveBufferPerConnection: 64 << 20,
			SendPingTimeout:               30 * time.Second,
			PingTimeout:                   15 * time.Second,
		},
		ConnContext:       withCorker,
		ReadHeaderTimeout: 32 * time.Second,
		IdleTimeout:       90 * time.Second, // as clients of Go's, and upstream
		MaxHeaderBytes:    1 << 20,          // as upstream: selectors may be long
		ErrorLog:          slog.NewLogLogger(s.logger.Handler(), slog.LevelDebug),
	}
}

// counted knows when no request is left.
type counted struct {
	http.Handler
	open atomic.Int64
}

// ServeHTTP counts the request while it is served.
func (c *counted) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.open.Add(1)
	defer c.open.Add(-1)
	c.Handler.ServeHTTP(w, r)
}

// lastBytes is how long the last answers may take on their way out.
const lastBytes = 20 * time.Millisecond

// drain takes no more requests and lets those under way finish. Connections are
// closed as soon as the last answer is out: left to itself, Shutdown gives
// every HTTP/2 connection another second.
func (s *Server) drain() {
	ctx, cancel := context.WithTimeout(context.Background(), s.config.StopTimeout)
	defer cancel()
	shut := make(chan error, 1)
	go func() { shut <- s.http.Shutdown(ctx) }()
	idle := make(chan struct{})
	go func() {
		time.Sleep(lastBytes) // for requests that were sent before the connection was told
		for s.counted.open.Load() > 0 && ctx.Err() == nil {
			time.Sleep(lastBytes / 4)
		}
		close(idle)
	}()
	select {
	case err := <-shut:
		if err == nil {
			return
		}
		s.logger.Warn("requests were cut off", "error", err)
	case <-idle:
		time.Sleep(lastBytes)
	}
	s.http.Close()
}
