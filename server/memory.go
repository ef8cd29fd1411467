package server

import (
	"fmt"
	"path/filepath"

	"github.com/keelson-io/keelson/audit"
	"github.com/keelson-io/keelson/internal/memory"
	"github.com/keelson-io/keelson/store"
)

// This file describes the parts of the server to the memory governor, and what it can free.

// governMemory registers the parts of the server.
func (s *Server) governMemory() {
	g, shares := s.memory, s.memory.Shares()
	g.Track(memory.Stored, shares.Stored, s.cache.Stored)
	g.Track(memory.Made, 0, s.cache.Made)
	g.Track("logs", shares.Logs, s.cache.LogBytes)
	g.Track("views", shares.Views, s.cache.Views().Bytes)
	g.Track("states", shares.States, s.cache.StateBytes)
	g.Track("webhooks", shares.Webhooks, s.hooks.Rooms.Bytes)
	s.handler.TrackMemory()
	if c := &s.config; c.Store == nil && len(c.EtcdServers) == 0 && c.DataDir != "" {
		if file, err := filepath.Abs(filepath.Join(etcdDir(c.DataDir), "member", "snap", "db")); err == nil {
			g.Evict("pages", func() { pageOut(file) })
		}
	}
	g.Evict("views", s.cache.ShedViews)
	g.Evict("logs", s.cache.ShedLogs)
	g.Evict("states", s.cache.ShedStates)
}

// trackAudit registers a backend of audit events, if events wait in it.
func (s *Server) trackAudit(name string, b audit.Backend) {
	if q, ok := b.(interface{ Waiting() int64 }); ok {
		s.memory.Track(name, s.memory.Shares().Audit, q.Waiting)
	}
}

// grow returns an error if there is no memory for n more bytes of what is stored.
func (s *Server) grow(n int64, privileged bool) error {
	if err := s.memory.Grow(n, privileged); err != nil {
		return fmt.Errorf("%w: %w", store.ErrNoMemory, err)
	}
	return nil
}
