package server

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/keelson-io/keelson/internal/api/admit"
)

// This file has the HTTP server: TLS 1.2 or newer, HTTP/1.1 and HTTP/2.

// newHTTP returns the HTTP server of an open Server.
func (s *Server) newHTTP() (*http.Server, error) {
	handler, err := s.config.TLS.withHSTS(s.handler)
	if err != nil {
		return nil, err
	}
	s.counted.Handler = handler
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	encryption, err := s.newTLS()
	if err != nil {
		return nil, err
	}
	return &http.Server{
		Handler:   &s.counted,
		Protocols: protocols,
		TLSConfig: encryption,
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: 1000, // a client's watches share a connection
			// Unread data is memory that no budget counts. Upstream allows the same for a stream,
			// but a thousand times as much for a connection, and frames of 256 KiB; a connection
			// keeps a buffer for the longest frame that it announced.
			MaxReceiveBufferPerStream:     256 << 10,
			MaxReadFrameSize:              32 << 10,
			MaxReceiveBufferPerConnection: 4 << 20,
			SendPingTimeout:               30 * time.Second,
			PingTimeout:                   15 * time.Second,
			WriteByteTimeout:              30 * time.Second, // for clients that read nothing at all
		},
		ConnContext:       withConnection,
		ReadHeaderTimeout: 32 * time.Second,
		// The handler ends a request when its time is up. It cannot end a blocked read from its
		// client, or a blocked write to it.
		ReadTimeout:    s.config.RequestTimeout + lastAnswer/5,
		WriteTimeout:   s.config.RequestTimeout + lastAnswer,
		IdleTimeout:    90 * time.Second, // as Go's HTTP client, and upstream
		MaxHeaderBytes: 1 << 20,          // as upstream: selectors in URLs may be long
		ErrorLog:       slog.NewLogLogger(s.logger.Handler(), slog.LevelDebug),
	}, nil
}

// newTLS returns the TLS configuration. Its handshakes announce the authorities of client
// certificates, so that a client with several certificates chooses the right one.
func (s *Server) newTLS() (*tls.Config, error) {
	base := &tls.Config{
		MinVersion: tls.VersionTLS12,
		NextProtos: []string{"h2", "http/1.1"},
		// Certificates are verified by the authenticator, so that an invalid one is answered with
		// 401.
		ClientAuth:     tls.RequestClientCert,
		GetCertificate: s.identity.certificate,
		// Small first TLS records would let browsers render earlier, but answers of an API are used
		// complete.
		DynamicRecordSizingDisabled: true,
	}
	if err := s.config.TLS.restrict(base, s.logger); err != nil {
		return nil, err
	}
	// The configuration is made once for each set of authorities, which are replaced when files change.
	type made struct {
		clients, proxies *authorities
		config           *tls.Config
	}
	var last atomic.Pointer[made]
	config := base.Clone()
	config.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		clients, proxies := s.identity.trusted.clients.Load(), s.identity.trusted.proxies.Load()
		if m := last.Load(); m != nil && m.clients == clients && m.proxies == proxies {
			return m.config, nil
		}
		m := &made{clients, proxies, base.Clone()}
		m.config.ClientCAs = clients.pool.Clone()
		for _, ca := range proxies.certs {
			m.config.ClientCAs.AddCert(ca)
		}
		last.Store(m)
		return m.config, nil
	}
	return config, nil
}

// lastAnswer is the time to send an answer after the deadline of its request.
const lastAnswer = 5 * time.Second

// counted counts requests, to find out when the last one has ended.
type counted struct {
	http.Handler
	open atomic.Int64
}

// ServeHTTP counts the request while it is served.
func (c *counted) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.open.Add(1)
	defer c.open.Add(-1)
	if conn, ok := admit.ConnectionOf(r.Context()).(*clientConn); ok {
		if r.TLS != nil && len(r.TLS.PeerCertificates) > 0 && conn.certs.Load() == nil {
			conn.certs.Store(&r.TLS.PeerCertificates)
		}
		conn.begin(r.ProtoMajor)
		defer conn.end(r.ProtoMajor)
	}
	c.Handler.ServeHTTP(w, r)
}

// lastBytes is the time for the last answers to leave the machine.
const lastBytes = 20 * time.Millisecond

// drain stops accepting requests and waits for those in progress. It closes connections as soon as
// the last answer was sent; http.Server.Shutdown alone would give each HTTP/2 connection another
// second.
func (s *Server) drain() {
	ctx, cancel := context.WithTimeout(context.Background(), s.config.StopTimeout)
	defer cancel()
	shut := make(chan error, 1)
	go func() { shut <- s.http.Shutdown(ctx) }()
	idle := make(chan struct{})
	go func() {
		time.Sleep(lastBytes) // a client may have sent a request before it learned that the connection closes
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
