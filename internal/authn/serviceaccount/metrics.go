package serviceaccount

import "github.com/prometheus/client_golang/prometheus"

// This file counts the tokens that are used, under upstream's metric names.

// metrics counts the uses of tokens by their sort.
type metrics struct {
	legacy, stale, manual, automatic, invalid, valid prometheus.Counter
}

// newMetrics registers the counters, unless the registerer is nil.
func newMetrics(reg prometheus.Registerer) *metrics {
	counter := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Name: "serviceaccount_" + name, Help: help})
		if reg != nil {
			reg.MustRegister(c)
		}
		return c
	}
	return &metrics{
		legacy:    counter("legacy_tokens_total", "[BETA] Cumulative legacy service account tokens used"),
		stale:     counter("stale_tokens_total", "[BETA] Cumulative stale projected service account tokens used"),
		manual:    counter("legacy_manual_token_uses_total", "[ALPHA] Cumulative manually created legacy tokens used"),
		automatic: counter("legacy_auto_token_uses_total", "[ALPHA] Cumulative auto-generated legacy tokens used"),
		invalid:   counter("invalid_legacy_auto_token_uses_total", "[ALPHA] Cumulative invalid auto-generated legacy tokens used"),
		valid:     counter("valid_tokens_total", "[BETA] Cumulative valid projected service account tokens used"),
	}
}
