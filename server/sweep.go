package server

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"github.com/keelson-io/keelson/internal/admission"
	"github.com/keelson-io/keelson/internal/admission/policy"
	"github.com/keelson-io/keelson/internal/cache"
	"github.com/keelson-io/keelson/internal/conversion"
)

// This file drops the metrics of what has been deleted: definitions, webhooks and policies.

// sweepInterval is the interval at which metrics are swept if they are not scraped.
const sweepInterval = time.Minute

// swept are the metrics with labels that clients choose, besides the API's own.
type swept struct {
	mu          sync.Mutex
	at          [7]int64            // what the last sweep saw: see sweeper.moment
	conversions *conversion.Metrics // nil: none
	admission   *admission.Metrics
	policies    *policy.Metrics
}

// sweptResources are the resources of the group admissionregistration.k8s.io whose names are
// labels.
var sweptResources = [...]string{
	"validatingwebhookconfigurations", "mutatingwebhookconfigurations", "validatingadmissionpolicies",
	"validatingadmissionpolicybindings", "mutatingadmissionpolicies", "mutatingadmissionpolicybindings",
}

// sweepRegularly drops the metrics of what has been deleted, also if /metrics is not scraped.
func (s *Server) sweepRegularly(ctx context.Context) {
	tick := time.NewTicker(sweepInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			s.sweepMetrics()
		}
	}
}

// sweepMetrics drops the metrics of what has been deleted. If nothing has changed since the last
// time, it returns at once.
func (s *Server) sweepMetrics() {
	w := &s.swept
	w.mu.Lock()
	defer w.mu.Unlock()
	kinds := s.kinds.Load()
	now := [7]int64{int64(kinds.Rev)}
	for i, resource := range sweptResources {
		now[i+1] = s.named(resource).Changed()
	}
	if now == w.at {
		return
	}
	w.at = now
	s.handler.SweepMetrics()
	if w.conversions != nil {
		w.conversions.Sweep(func(definition, version string) bool {
			plural, group, _ := strings.Cut(definition, ".")
			k := kinds.Lookup(group, plural)
			return k != nil && k.Version(version[strings.LastIndexByte(version, '/')+1:]) != nil
		})
	}
	hooks := s.webhookNames()
	names := func(resource string) map[string]bool { return s.objectNames(s.named(resource)) }
	validating, mutating := names("validatingadmissionpolicies"), names("mutatingadmissionpolicies")
	w.admission.Sweep(func(kind, name string) bool {
		if kind == "policy" {
			return validating[name] || mutating[name]
		}
		return hooks[name]
	})
	w.policies.Sweep(validating, names("validatingadmissionpolicybindings"), mutating, names("mutatingadmissionpolicybindings"))
}

// named returns the objects of a resource of the group admissionregistration.k8s.io.
func (s *Server) named(resource string) *cache.Resource {
	return s.cache.Resource(s.kinds.Load().Lookup(admissionv1.GroupName, resource).StoragePrefix)
}

// objectNames returns the names of objects without a namespace: keys end with them.
func (s *Server) objectNames(objects *cache.Resource) map[string]bool {
	names := map[string]bool{}
	objects.Snapshot().Ascend("", func(o *cache.Object) bool {
		names[o.Key[strings.LastIndexByte(o.Key, '/')+1:]] = true
		return true
	})
	return names
}

// webhookNames returns the names of all webhooks. A configuration that cannot be read has none.
func (s *Server) webhookNames() map[string]bool {
	names := map[string]bool{}
	for _, resource := range sweptResources[:2] {
		k := s.kinds.Load().Lookup(admissionv1.GroupName, resource)
		s.named(resource).Snapshot().Ascend("", func(o *cache.Object) bool {
			var c struct{ Webhooks []struct{ Name string } }
			if view, err := o.View(k.Storage); err == nil && json.Unmarshal(view.JSON, &c) == nil {
				for _, hook := range c.Webhooks {
					names[hook.Name] = true
				}
			}
			return true
		})
	}
	return names
}
