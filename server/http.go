package server

import (
	"crypto/tls"
	"log/slog"
	"net/http"
	"time"
)

// This file is the HTTP server: TLS 1.2 or newer, HTTP/1.1 and HTTP/2.

// newHTTP returns the HTTP server of an open Server.
func (s *Server) newHTTP() *http.Server {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	return &http.Server{
		Handler:   s.handler,
		Protocols: protocols,
		TLSConfig: &tls.Config{
			MinVersion: tls.VersionTLS12,
			// Verified per request, so that a wrong one is answered 401.
			ClientAuth:     tls.RequestClientCert,
			GetCertificate: s.identity.certificate,
		},
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: 1000, // a client's watches share a connection
			SendPingTimeout:      30 * time.Second,
			PingTimeout:          15 * time.Second,
		},
		ReadHeaderTimeout: 32 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(s.logger.Handler(), slog.LevelDebug),
	}
}
