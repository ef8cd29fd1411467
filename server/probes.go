package server

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/keelson-io/keelson/internal/memory"
)

// This file serves the health endpoints on an address of their own, where neither handshakes nor the connections of others are in their
// way.

const (
	// mostProbes is the number of connections to the health endpoints.
	mostProbes = 64
	// probeTime is the longest time of a request to them.
	probeTime = 5 * time.Second
)

// openProbes listens on the address of the health endpoints, if there is one.
func (s *Server) openProbes() error {
	if s.config.HealthBindAddress == "" {
		return nil
	}
	l, err := net.Listen("tcp", s.config.HealthBindAddress)
	if err != nil {
		return fmt.Errorf("the address of the health endpoints: %v", err) // what is done about a taken port of the API does not help here
	}
	s.probes = l
	s.opened = append(s.opened, l)
	return nil
}

// serveProbes answers health requests until ctx ends.
func (s *Server) serveProbes(ctx context.Context) {
	if s.probes == nil {
		return
	}
	connections := newConnections(0, memory.SharesOf(0).Pending, probeTime, s.logger)
	connections.strangers = mostProbes
	server := &http.Server{
		Handler: s.handler.Probes(), ReadTimeout: probeTime, WriteTimeout: probeTime, IdleTimeout: probeTime, MaxHeaderBytes: 8 << 10,
		ErrorLog: slog.NewLogLogger(s.logger.Handler(), slog.LevelDebug),
	}
	go func() {
		<-ctx.Done()
		server.Close()
	}()
	s.logger.Info("health endpoints without TLS", "url", "http://"+s.probes.Addr().String()+"/livez")
	if err := server.Serve(connections.limitListener(s.probes)); err != http.ErrServerClosed {
		s.fail(err)
	}
}
