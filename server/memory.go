package server

import (
	"fmt"
	"path/filepath"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-io/keelson/crd"
	"github.com/keelson-io/keelson/internal/audit"
	"github.com/keelson-io/keelson/internal/authz/node"
	"github.com/keelson-io/keelson/internal/authz/rbac"
	"github.com/keelson-io/keelson/internal/datadir"
	"github.com/keelson-io/keelson/internal/memory"
	"github.com/keelson-io/keelson/internal/store"
	"github.com/keelson-io/keelson/kind"
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
		if file, err := filepath.Abs(filepath.Join(datadir.Etcd(c.DataDir), "member", "snap", "db")); err == nil {
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

// grow returns an error that wraps store.ErrNoMemory if objects of the kind cannot grow by n bytes. All
// cluster-scoped objects together may take half of the memory for stored objects: no ResourceQuota
// bounds them, and their writers must not stop the writes in all namespaces.
func (s *Server) grow(k *kind.Kind, n int64, privileged bool) error {
	if err := s.memory.Grow(n, privileged); err != nil {
		return fmt.Errorf("%w: %w", store.ErrNoMemory, err)
	}
	if s.memory == nil || privileged || k.Namespaced || s.memory.HasHalf(s.cache.Stored()+n) {
		return nil
	}
	var used int64
	for k := range s.kinds.Load().All() {
		if !k.Namespaced && k.Storage.Kind == k { // other kinds share its objects
			used += s.cache.Resource(k.StoragePrefix).Stored()
		}
	}
	if err := s.memory.GrowHalf("cluster-scoped objects", used, n); err != nil {
		return fmt.Errorf("%w: %w", store.ErrNoMemory, err)
	}
	return nil
}

// memoryOf returns the functions that tell how much memory is kept for an object, by the prefixes of the resources of which more is
// kept than what is stored.
func memoryOf(kinds *kind.Snapshot) map[string]func([]byte) int64 {
	of := map[string]func([]byte) int64{}
	for resource, memory := range map[schema.GroupResource]func([]byte) int64{
		{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"}:                 crd.Memory,
		{Group: "rbac.authorization.k8s.io", Resource: "roles"}:                                rbac.RoleMemory,
		{Group: "rbac.authorization.k8s.io", Resource: "clusterroles"}:                         rbac.RoleMemory,
		{Group: "rbac.authorization.k8s.io", Resource: "rolebindings"}:                         rbac.BindingMemory,
		{Group: "rbac.authorization.k8s.io", Resource: "clusterrolebindings"}:                  rbac.BindingMemory,
		{Group: "admissionregistration.k8s.io", Resource: "mutatingwebhookconfigurations"}:     times(12),
		{Group: "admissionregistration.k8s.io", Resource: "validatingwebhookconfigurations"}:   times(12),
		{Group: "admissionregistration.k8s.io", Resource: "validatingadmissionpolicies"}:       times(12),
		{Group: "admissionregistration.k8s.io", Resource: "validatingadmissionpolicybindings"}: times(12),
		{Group: "admissionregistration.k8s.io", Resource: "mutatingadmissionpolicies"}:         times(12),
		{Group: "admissionregistration.k8s.io", Resource: "mutatingadmissionpolicybindings"}:   times(12),
		{Group: "flowcontrol.apiserver.k8s.io", Resource: "flowschemas"}:                       times(6),
		{Resource: "pods"}:              node.Memory,
		{Resource: "persistentvolumes"}: node.Memory,
	} {
		if k := kinds.Lookup(resource.Group, resource.Resource); k != nil {
			of[k.StoragePrefix] = memory
		}
	}
	return of
}

// times returns the memory of objects of which so many times their stored bytes are kept. The numbers of memoryOf are above what was
// measured with lists of 1,000 small items, as "make attack" sends them.
func times(factor int64) func([]byte) int64 {
	return func(raw []byte) int64 { return factor * int64(len(raw)) }
}
