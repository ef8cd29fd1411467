// Package metrics counts requests, under the names that dashboards for kube-apiserver know.
package metrics

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Set has the metrics of one server.
type Set struct {
	Requests        *Requests
	Authentications *Authentications
	Authorizations  *Authorizations
	Handler         http.Handler // answers with all of them
}

// New makes and registers the metrics.
func New(reg *prometheus.Registry) *Set {
	// A registry may be shared between handlers of one process; its process
	// metrics are registered once.
	for _, c := range []prometheus.Collector{
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	} {
		_ = reg.Register(c)
	}
	return &Set{
		Requests: NewRequests(reg), Authentications: NewAuthentications(reg), Authorizations: NewAuthorizations(reg),
		Handler: promhttp.HandlerFor(reg, promhttp.HandlerOpts{}),
	}
}
