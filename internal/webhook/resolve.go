package webhook

import (
	"context"
	"net/http"
)

// This file sends requests to services.
//
// The address of a service is looked up for each request, as in upstream, and not when a connection is made. The name of the service
// stays the name that the webhook must prove, and the one that it sees in the header Host.

// resolving is a transport that sends each request to the address that a service has at the moment. The connections of all requests
// are kept by address, so that one to an endpoint that is gone is not used again.
type resolving struct {
	next   http.RoundTripper
	target Target // names the service
	port   int32
	// resolve is the function of [Shared].
	resolve func(ctx context.Context, namespace, name string, port int32) (string, error)
}

// RoundTrip implements http.RoundTripper.
func (r resolving) RoundTrip(req *http.Request) (*http.Response, error) {
	address, err := r.resolve(req.Context(), r.target.Namespace, r.target.Service, r.port)
	if err != nil {
		if req.Body != nil {
			req.Body.Close() // which every transport does
		}
		return nil, err
	}
	out := req.Clone(req.Context())
	if out.Host == "" {
		out.Host = req.URL.Host // the webhook sees its own name
	}
	out.URL.Host = address
	return r.next.RoundTrip(out)
}
