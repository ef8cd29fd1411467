// Package services has the admission plugins for Services and Ingresses.
//
// [DefaultClass] sets the class of an Ingress without one. [DenyExternalIPs] refuses Services with
// addresses that the cluster does not assign. Decisions and texts are those of Kubernetes' plugins
// DefaultIngressClass and DenyServiceExternalIPs.
package services

import (
	"context"
	"errors"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-io/keelson/internal/admission"
	"github.com/keelson-io/keelson/internal/admission/lookup"
)

// The resources that the steps are for.
var (
	Ingresses = schema.GroupResource{Group: "networking.k8s.io", Resource: "ingresses"}
	Services  = schema.GroupResource{Resource: "services"}
)

// classAnnotation is the older way to name the class of an Ingress.
const classAnnotation = "kubernetes.io/ingress.class"

// DefaultClass returns the plugin DefaultIngressClass, for Ingresses. Of several default classes
// the newest counts.
func DefaultClass(s lookup.Source) admission.Func {
	classes := lookup.New[networkingv1.IngressClass](s, schema.GroupResource{Group: "networking.k8s.io", Resource: "ingressclasses"})
	return func(ctx context.Context, r *admission.Request) error {
		if r.Operation != admission.Create || r.Subresource != "" {
			return nil
		}
		root := r.New.Root()
		if root.At("spec", "ingressClassName").Exists() || root.At("metadata", "annotations", classAnnotation).Exists() {
			return nil
		}
		all, err := classes.List(ctx, "")
		if err != nil {
			return r.Forbidden(err)
		}
		var found *networkingv1.IngressClass
		for _, c := range all { // in the order of their names
			if c.Annotations[networkingv1.AnnotationIsDefaultIngressClass] != "true" {
				continue
			}
			if found == nil || c.CreationTimestamp.UnixNano() > found.CreationTimestamp.UnixNano() {
				found = c
			}
		}
		if found == nil {
			return nil
		}
		return r.Edit(found.Name, "spec", "ingressClassName")
	}
}

// DenyExternalIPs returns the plugin DenyServiceExternalIPs, for Services: an update may keep and remove
// external addresses.
func DenyExternalIPs() admission.Func {
	return func(_ context.Context, r *admission.Request) error {
		if r.Operation == admission.Delete || r.Subresource != "" {
			return nil
		}
		had := map[string]bool{}
		if r.Old != nil {
			for _, ip := range r.Old.Root().At("spec", "externalIPs").Items() {
				had[ip.Text()] = true
			}
		}
		for _, ip := range r.New.Root().At("spec", "externalIPs").Items() {
			if !had[ip.Text()] {
				return r.Forbidden(errors.New("Use of external IPs is denied by admission control"))
			}
		}
		return nil
	}
}
