package server

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-io/keelson/internal/admission/lookup"
	"github.com/keelson-io/keelson/internal/networking"
)

// This file finds the services that webhooks are behind.

// resolver finds the addresses of services.
type resolver struct {
	services *lookup.Lister[corev1.Service]
	slices   *lookup.Lister[discoveryv1.EndpointSlice]
}

// newResolver returns a resolver for the services of a server.
func newResolver(source lookup.Source) *resolver {
	return &resolver{
		services: lookup.New[corev1.Service](source, schema.GroupResource{Resource: "services"}),
		slices:   lookup.New[discoveryv1.EndpointSlice](source, schema.GroupResource{Group: discoveryv1.GroupName, Resource: "endpointslices"}),
	}
}

// resolve returns the address of a service's port, as host:port.
func (r *resolver) resolve(ctx context.Context, namespace, name string, port int32) (string, error) {
	s, err := r.services.Get(ctx, namespace, name)
	if err != nil {
		return "", err
	}
	if s == nil {
		return "", fmt.Errorf("service %q not found", name)
	}
	address, err := r.route(ctx, s, port)
	if networking.IsNoEndpoints(err) {
		// Another server may have written them a moment ago.
		if err := r.slices.Current(ctx); err != nil {
			return "", err
		}
		return r.route(ctx, s, port)
	}
	return address, err
}

// route returns the address of a service's port, as the cache knows it.
func (r *resolver) route(ctx context.Context, s *corev1.Service, port int32) (string, error) {
	if s.Spec.Type == corev1.ServiceTypeExternalName {
		return networking.Route(s, nil, port)
	}
	all, err := r.slices.List(ctx, s.Namespace)
	if err != nil {
		return "", err
	}
	var own []*discoveryv1.EndpointSlice
	for _, slice := range all {
		if slice.Labels[discoveryv1.LabelServiceName] == s.Name {
			own = append(own, slice)
		}
	}
	return networking.Route(s, own, port)
}
