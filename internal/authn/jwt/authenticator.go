package jwt

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-io/keelson/internal/authn"
	"github.com/keelson-io/keelson/internal/reloads"
	"github.com/keelson-io/keelson/internal/watchfile"
)

// This file verifies tokens with the configuration in force, and replaces it when the file changes.

// Options configure an Authenticator, besides its configuration.
type Options struct {
	Algorithms []string // of accepted tokens; nil means Algorithms
	Disallowed []string // issuer names that a configuration may not use
	ServerID   string   // for metrics, which show its hash

	File     string        // that is read again; "": none
	Text     []byte        // of the file, as first read
	Interval time.Duration // between checks of the file, in addition to file system events; 0 means one minute

	Retry    time.Duration // between attempts to reach an issuer; 0 means 10 s
	Patience time.Duration // time in which the issuers of a new configuration must answer; 0 means one minute
	Metrics  prometheus.Registerer
	Logger   *slog.Logger

	metrics *metrics
}

// Authenticator verifies the tokens of the configured issuers.
type Authenticator struct {
	options   Options
	life      context.Context
	current   atomic.Pointer[generation]
	anonymous *Anonymous // from the first configuration
	seen      string     // text of the file when it was last loaded or refused
}

// generation is one configuration in use.
type generation struct {
	issuers map[string]*issuer
	stop    context.CancelFunc
}

// New returns an Authenticator. It fetches the issuers' keys in the background until ctx ends.
func New(ctx context.Context, c *Configuration, o Options) (*Authenticator, error) {
	if o.Algorithms == nil {
		o.Algorithms = Algorithms
	}
	for _, a := range o.Algorithms {
		if !slices.Contains(Algorithms, a) {
			return nil, fmt.Errorf("oidc: unsupported signing alg: %q", a)
		}
	}
	if o.Retry == 0 {
		o.Retry = 10 * time.Second
	}
	if o.Patience == 0 {
		o.Patience = time.Minute
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	o.metrics = newMetrics(o.Metrics, o.ServerID, o.File != "")
	a := &Authenticator{options: o, life: ctx, anonymous: c.Anonymous, seen: string(o.Text)}
	g, err := a.start(c)
	if err != nil {
		return nil, err
	}
	a.current.Store(g)
	o.metrics.reloads.InForce(o.Text)
	return a, nil
}

// start compiles a configuration and starts to look for the keys of its issuers.
func (a *Authenticator) start(c *Configuration) (*generation, error) {
	programs, errs := c.compile(a.options.Disallowed)
	if err := errs.ToAggregate(); err != nil {
		return nil, fmt.Errorf("invalid authentication configuration: %w", err)
	}
	ctx, stop := context.WithCancel(a.life)
	g := &generation{issuers: map[string]*issuer{}, stop: stop}
	for n, i := range c.JWT {
		made, err := newIssuer(ctx, i, programs[n], &a.options)
		if err != nil {
			stop()
			return nil, err
		}
		g.issuers[i.Issuer.URL] = made
	}
	return g, nil
}

// health returns which issuers' tokens cannot be verified, nil if all can.
func (g *generation) health() error {
	var errs []error
	for _, i := range g.issuers {
		if err := i.health(); err != nil {
			errs = append(errs, err)
		}
	}
	return utilerrors.NewAggregate(errs)
}

// AuthenticateToken implements authn.Token.
func (a *Authenticator) AuthenticateToken(ctx context.Context, token string, _ []string) (*authn.Response, error) {
	name := issuerOf(token)
	i := a.current.Load().issuers[name]
	switch {
	case i != nil:
	case !strings.HasPrefix(name, "https://") || slices.Contains(a.options.Disallowed, name):
		return nil, nil // not a token of such an issuer
	default:
		return nil, authn.Unknown("", "the issuer "+authn.Quote(name)+" is not configured")
	}
	user, err := i.authenticate(ctx, token)
	if err != nil {
		return nil, authn.Refused("issuer "+i.Issuer.Issuer.URL, err)
	}
	user.Groups = authn.WithAuthenticated(user.Name, user.Groups)
	return &authn.Response{User: user}, nil
}

// Run loads the file again whenever it may have changed, until ctx ends.
func (a *Authenticator) Run(ctx context.Context) {
	if a.options.File == "" {
		<-ctx.Done()
		return
	}
	w := watchfile.New(func() { a.check(ctx) }, a.options.File)
	w.Interval, w.Logger, w.What = a.options.Interval, a.options.Logger, "authentication config"
	w.Run(ctx)
}

// check loads the file if its text has changed.
func (a *Authenticator) check(ctx context.Context) {
	text, err := os.ReadFile(a.options.File)
	if err == nil && string(text) == a.seen {
		return
	}
	if err == nil {
		err = a.Reload(ctx, text)
	}
	if err != nil {
		a.options.metrics.reloads.Failed()
		a.options.Logger.Error("failed to reload authentication config", "file", a.options.File, "error", err)
		return
	}
	a.options.metrics.reloads.Succeeded(text)
	a.options.Logger.Info("reloaded authentication config", "file", a.options.File)
}

// errUnreachable is returned for a valid configuration whose issuers do not answer. It is tried
// again.
var errUnreachable = errors.New("issuers cannot be reached")

// Reload replaces the configuration, once the issuers of the new one have answered. If it returns
// an error, the old configuration stays in force. Do not call it while Run is running.
func (a *Authenticator) Reload(ctx context.Context, text []byte) error {
	err := a.reload(ctx, text)
	if !errors.Is(err, errUnreachable) {
		a.seen = string(text) // an invalid text is not tried again
	}
	return err
}

// reload loads a text, waits for its issuers, and replaces the configuration.
func (a *Authenticator) reload(ctx context.Context, text []byte) error {
	c, err := Decode(text)
	if err != nil {
		return err
	}
	errs := c.Validate(a.options.Disallowed)
	if !reflect.DeepEqual(a.anonymous, c.Anonymous) {
		errs = append(errs, field.Forbidden(field.NewPath("anonymous"), "changed from initial configuration file"))
	}
	if err := errs.ToAggregate(); err != nil {
		return err
	}
	return a.Replace(ctx, c, a.options.Patience)
}

// Replace replaces the configuration, once the issuers of the new one have answered, within the time
// of patience. If it returns an error, the old configuration stays in force. c must be valid. Do not
// call it at the same time as Reload.
func (a *Authenticator) Replace(ctx context.Context, c *Configuration, patience time.Duration) error {
	next, err := a.start(c)
	if err != nil {
		return err
	}
	if err := a.await(ctx, next, patience); err != nil {
		next.stop()
		return fmt.Errorf("%w: %w", errUnreachable, err)
	}
	old := a.current.Swap(next)
	a.retire(old, next)
	return nil
}

// await waits until all issuers of a generation have been reached, for the time of patience at most.
func (a *Authenticator) await(ctx context.Context, g *generation, patience time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	tick := time.NewTicker(min(a.options.Retry, 50*time.Millisecond))
	defer tick.Stop()
	for {
		err := g.health()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-tick.C:
		}
	}
}

// retirement is the time for which an old configuration is kept for requests that started with it.
const retirement = time.Minute

// retire ends a generation after retirement, and removes the metrics of issuers that next does not
// have.
func (a *Authenticator) retire(old, next *generation) {
	go func() {
		t := time.NewTimer(retirement)
		defer t.Stop()
		select {
		case <-a.life.Done():
		case <-t.C:
		}
		old.stop()
		for url, i := range old.issuers {
			if a.current.Load().issuers[url] == nil && next.issuers[url] == nil {
				a.options.metrics.forget(i.hash)
			}
		}
	}()
}

// metrics have upstream's names.
type metrics struct {
	id        string
	latencies *prometheus.HistogramVec
	fetchedAt *prometheus.GaugeVec
	keySets   *prometheus.GaugeVec

	reloads *reloads.Metrics // nil if the file is not reloaded
}

func newMetrics(reg prometheus.Registerer, id string, readAgain bool) *metrics {
	const prefix = "apiserver_authentication_jwt_authenticator_"
	m := &metrics{
		id: reloads.Hash(id),
		latencies: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    prefix + "latency_seconds",
			Help:    "[ALPHA] Latency of jwt authentication operations in seconds. This is the time spent authenticating a token for cache miss only (i.e. when the token is not found in the cache).",
			Buckets: []float64{.001, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
		}, []string{"result", "jwt_issuer_hash"}),
		fetchedAt: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: prefix + "jwks_fetch_last_timestamp_seconds",
			Help: "[ALPHA] Timestamp of the last successful or failed JWKS fetch split by result, api server identity and jwt issuer for the JWT authenticator.",
		}, []string{"result", "jwt_issuer_hash", "apiserver_id_hash"}),
		keySets: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: prefix + "jwks_fetch_last_key_set_info",
			Help: "[ALPHA] Information about the last JWKS fetched by the JWT authenticator with hash as label, split by api server identity and jwt issuer.",
		}, []string{"jwt_issuer_hash", "apiserver_id_hash", "hash"}),
	}
	if reg != nil {
		reg.MustRegister(m.latencies, m.fetchedAt, m.keySets)
	}
	if reg != nil && readAgain {
		m.reloads = reloads.New(reg, "authentication", id)
	}
	return m
}

// authenticated records one verification of a token.
func (m *metrics) authenticated(issuer string, err error, took time.Duration) {
	result := "success"
	if err != nil {
		result = "failure"
	}
	m.latencies.WithLabelValues(result, issuer).Observe(took.Seconds())
}

// fetched records one fetch of an issuer's keys.
func (m *metrics) fetched(issuer string, keys []byte, ok bool) {
	result := "failure"
	if ok {
		result = "success"
		m.keySets.DeletePartialMatch(prometheus.Labels{"jwt_issuer_hash": issuer})
		m.keySets.WithLabelValues(issuer, m.id, reloads.Hash(string(keys))).Set(1)
	}
	m.fetchedAt.WithLabelValues(result, issuer, m.id).SetToCurrentTime()
}

// forget removes the series of an issuer.
func (m *metrics) forget(issuer string) {
	m.keySets.DeletePartialMatch(prometheus.Labels{"jwt_issuer_hash": issuer})
	m.fetchedAt.DeletePartialMatch(prometheus.Labels{"jwt_issuer_hash": issuer})
}
