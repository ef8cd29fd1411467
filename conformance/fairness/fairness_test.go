// Package fairness compares priority and fairness with upstream's: which schema and queue a request gets, when it is served, how seats
// are divided, how much work requests are, and when rejected clients may come back. Both run in one process, by one clock that moves only
// while everybody waits.
package fairness

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fcboot "k8s.io/apiserver/pkg/apis/flowcontrol/bootstrap"
	"k8s.io/apiserver/pkg/authentication/user"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/server/mux"
	"k8s.io/apiserver/pkg/storage"
	fc "k8s.io/apiserver/pkg/util/flowcontrol"
	"k8s.io/apiserver/pkg/util/flowcontrol/metrics"
	fcrequest "k8s.io/apiserver/pkg/util/flowcontrol/request"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/klog/v2"

	"github.com/keelson-io/keelson/internal/flow"
	"github.com/keelson-io/keelson/internal/flow/bootstrap"
)

func TestMain(m *testing.M) {
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	os.Exit(m.Run())
}

// pair is upstream's controller and ours, with the same configuration.
type pair struct {
	t      *testing.T
	theirs fc.Interface
	dumps  *mux.PathRecorderMux
	ours   *flow.Controller
	reg    *prometheus.Registry
}

// newPair starts both. It is called in a bubble.
func newPair(t *testing.T, seats int, levels []*flowcontrolv1.PriorityLevelConfiguration, schemas []*flowcontrolv1.FlowSchema) *pair {
	var objects []runtime.Object
	for _, l := range levels {
		objects = append(objects, l.DeepCopy())
	}
	for _, s := range schemas {
		objects = append(objects, s.DeepCopy())
	}
	client := fake.NewClientset(objects...)
	factory := informers.NewSharedInformerFactory(client, 0)
	p := &pair{t: t, theirs: fc.New(factory, client.FlowcontrolV1(), seats), reg: prometheus.NewRegistry(), dumps: mux.NewPathRecorderMux("dumps")}
	p.theirs.Install(p.dumps)
	ctx, cancel := context.WithCancel(context.Background())
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	var running sync.WaitGroup
	running.Go(func() { p.theirs.Run(ctx.Done()) })
	p.ours = flow.New(flow.Config{Seats: seats, Metrics: p.reg, Unprotected: true, Logger: slog.New(slog.DiscardHandler)})
	p.ours.Configure(levels, schemas)
	running.Go(func() { p.ours.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
		factory.Shutdown()
	})
	time.Sleep(time.Second) // it looks whether informers have synced now and then
	synctest.Wait()
	return p
}

// digest returns upstream's form of a request.
func digest(r *flow.Request) fc.RequestDigest {
	return fc.RequestDigest{User: &user.DefaultInfo{Name: r.User, Groups: r.Groups}, RequestInfo: &apirequest.RequestInfo{
		IsResourceRequest: r.IsResource, Verb: r.Verb, Path: r.Path, APIGroup: r.Group, APIVersion: r.Version, Resource: r.Resource, Subresource: r.Subresource,
		Namespace: r.Namespace, Name: r.Name}}
}

// estimate returns upstream's form of an estimate.
func estimate(w flow.Work) fcrequest.WorkEstimate {
	return fcrequest.WorkEstimate{InitialSeats: uint64(w.Initial), FinalSeats: uint64(w.Final), AdditionalLatency: w.Extra}
}

// handle takes a request through upstream's controller.
func (p *pair) handle(r *flow.Request, w flow.Work, wait time.Duration, do func()) (schema, level string) {
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	p.theirs.Handle(ctx, digest(r), func(s *flowcontrolv1.FlowSchema, l *flowcontrolv1.PriorityLevelConfiguration, _ string) {
		schema, level = s.Name, l.Name
	},
		func() fcrequest.WorkEstimate { return estimate(w) }, func(bool) {}, do)
	return schema, level
}

// enter takes a request through ours.
func (p *pair) enter(r *flow.Request, w flow.Work, wait time.Duration, do func()) (schema, level string) {
	var t flow.Ticket
	p.ours.Classify(&t, r)
	if ok, _ := t.Enter(context.Background(), w, wait); ok {
		do()
		t.Leave()
	}
	return t.Names()
}

func TestBootstrapObjects(t *testing.T) {
	for mandatory, levels := range map[bool][]*flowcontrolv1.PriorityLevelConfiguration{true: fcboot.MandatoryPriorityLevelConfigurations,
		false: slices.Concat(fcboot.MandatoryPriorityLevelConfigurations, fcboot.SuggestedPriorityLevelConfigurations)} {
		equal(t, bootstrap.Levels(mandatory), levels, func(o *flowcontrolv1.PriorityLevelConfiguration) string { return o.Name })
	}
	for mandatory, schemas := range map[bool][]*flowcontrolv1.FlowSchema{true: fcboot.MandatoryFlowSchemas,
		false: slices.Concat(fcboot.MandatoryFlowSchemas, fcboot.SuggestedFlowSchemas)} {
		equal(t, bootstrap.Schemas(mandatory), schemas, func(o *flowcontrolv1.FlowSchema) string { return o.Name })
	}
}

// equal compares objects by name.
func equal[T any](t *testing.T, ours, theirs []*T, name func(*T) string) {
	t.Helper()
	if len(ours) != len(theirs) {
		t.Errorf("got %d objects, want %d", len(ours), len(theirs))
	}
	for _, want := range theirs {
		i := slices.IndexFunc(ours, func(o *T) bool { return name(o) == name(want) })
		if i < 0 || !reflect.DeepEqual(ours[i], want) {
			t.Errorf("%s: got %+v, want %+v", name(want), ours, want)
		}
	}
}

// generator makes configurations and requests that often fit each other.
type generator struct{ *rand.Rand }

func (g generator) pick(of ...string) string { return of[g.IntN(len(of))] }

func (g generator) some(of ...string) []string {
	if g.IntN(4) == 0 {
		return []string{"*"}
	}
	var out []string
	for range 1 + g.IntN(3) {
		out = append(out, g.pick(of...))
	}
	if g.IntN(10) == 0 { // more names than are compared one by one
		for i := range 12 {
			out = append(out, fmt.Sprintf("more%d", i))
		}
	}
	return out
}

var (
	users      = []string{"jane", "system:serviceaccount:a:b", "system:serviceaccount:a:c", "system:serviceaccount:ab:b", "system:serviceaccount:a", "system:kube-scheduler", "*"}
	groups     = []string{"system:authenticated", "system:masters", "system:nodes", "system:serviceaccounts", "dev", "*"}
	verbs      = []string{"get", "list", "watch", "create", "update"}
	apiGroups  = []string{"", "apps", "coordination.k8s.io"}
	resources  = []string{"pods", "pods/status", "nodes", "leases", "pods/"}
	namespaces = []string{"a", "ab", "kube-system"}
	paths      = []string{"/healthz", "/healthz/etcd", "/healthzz", "/", "/apis", "/apis/apps", "/livez", "/readyz"}
	urls       = []string{"/healthz", "/healthz/*", "/apis/*", "/", "/apis"}
)

func (g generator) subject() flowcontrolv1.Subject {
	switch g.IntN(3) {
	case 0:
		return flowcontrolv1.Subject{Kind: "User", User: &flowcontrolv1.UserSubject{Name: g.pick(users...)}}
	case 1:
		return flowcontrolv1.Subject{Kind: "Group", Group: &flowcontrolv1.GroupSubject{Name: g.pick(groups...)}}
	}
	return flowcontrolv1.Subject{Kind: "ServiceAccount", ServiceAccount: &flowcontrolv1.ServiceAccountSubject{Namespace: g.pick("a", "ab"), Name: g.pick("b", "c", "*")}}
}

func (g generator) schema(i int, level string) *flowcontrolv1.FlowSchema {
	s := &flowcontrolv1.FlowSchema{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("schema%d", i), UID: "u"}}
	s.Spec.MatchingPrecedence, s.Spec.PriorityLevelConfiguration.Name = int32(2+g.IntN(40)), level
	if d := g.pick("", "ByUser", "ByNamespace"); d != "" {
		s.Spec.DistinguisherMethod = &flowcontrolv1.FlowDistinguisherMethod{Type: flowcontrolv1.FlowDistinguisherMethodType(d)}
	}
	for range 1 + g.IntN(2) {
		var r flowcontrolv1.PolicyRulesWithSubjects
		for range 1 + g.IntN(2) {
			r.Subjects = append(r.Subjects, g.subject())
		}
		for range g.IntN(3) {
			r.ResourceRules = append(r.ResourceRules, flowcontrolv1.ResourcePolicyRule{Verbs: g.some(verbs...), APIGroups: g.some(apiGroups...), Resources: g.some(resources...),
				Namespaces: g.some(namespaces...), ClusterScope: g.IntN(2) == 0})
		}
		for range g.IntN(2) {
			r.NonResourceRules = append(r.NonResourceRules, flowcontrolv1.NonResourcePolicyRule{Verbs: g.some(verbs...), NonResourceURLs: g.some(urls...)})
		}
		s.Spec.Rules = append(s.Spec.Rules, r)
	}
	return s
}

func (g generator) request() *flow.Request {
	r := &flow.Request{User: g.pick(users...), Groups: []string{g.pick(groups...), g.pick("system:authenticated", "system:unauthenticated")}, Verb: g.pick(verbs...)}
	r.Payer = r.User
	if g.IntN(4) == 0 {
		r.Path = g.pick(paths...)
		return r
	}
	r.IsResource, r.Group, r.Version, r.Namespace = true, g.pick(apiGroups...), "v1", g.pick(append(namespaces, "")...)
	r.Resource, r.Subresource, _ = strings.Cut(g.pick(resources...), "/")
	return r
}

func (g generator) level(name string) *flowcontrolv1.PriorityLevelConfiguration {
	shares, lends, borrows := int32(g.IntN(100)), int32(g.IntN(101)), int32(g.IntN(300))
	l := &flowcontrolv1.LimitedPriorityLevelConfiguration{NominalConcurrencyShares: &shares, LendablePercent: &lends}
	if g.IntN(2) == 0 {
		l.BorrowingLimitPercent = &borrows
	}
	l.LimitResponse.Type = flowcontrolv1.LimitResponseTypeReject
	if g.IntN(4) > 0 {
		hand := int32(1 + g.IntN(6))
		l.LimitResponse.Type = flowcontrolv1.LimitResponseTypeQueue
		l.LimitResponse.Queuing = &flowcontrolv1.QueuingConfiguration{Queues: hand + int32(g.IntN(100)), HandSize: hand, QueueLengthLimit: 1 + int32(g.IntN(20))}
	}
	return &flowcontrolv1.PriorityLevelConfiguration{ObjectMeta: metav1.ObjectMeta{Name: name, UID: "u"}, Spec: flowcontrolv1.PriorityLevelConfigurationSpec{
		Type: flowcontrolv1.PriorityLevelEnablementLimited, Limited: l}}
}

// config returns levels and schemas, some of them of the bootstrap configuration, some broken.
func (g generator) config() (levels []*flowcontrolv1.PriorityLevelConfiguration, schemas []*flowcontrolv1.FlowSchema) {
	if g.IntN(2) == 0 {
		levels, schemas = bootstrap.Levels(false), bootstrap.Schemas(false)
	}
	for i := range g.IntN(5) {
		levels = append(levels, g.level(fmt.Sprintf("level%d", i)))
	}
	for i := range g.IntN(12) {
		schemas = append(schemas, g.schema(i, fmt.Sprintf("level%d", g.IntN(5))))
	}
	return levels, schemas
}

// rounds is how often each comparison is made.
func rounds(n int) int {
	if testing.Short() {
		return max(1, n/5)
	}
	return n
}

func TestClassification(t *testing.T) {
	for seed := range uint64(rounds(60)) {
		synctest.Test(t, func(t *testing.T) {
			g := generator{rand.New(rand.NewPCG(seed, 1))}
			levels, schemas := g.config()
			p := newPair(t, 100, levels, schemas)
			for range 200 {
				r := g.request()
				done := func() {}
				wantSchema, wantLevel := p.handle(r, flow.Work{Initial: 1}, 0, done)
				gotSchema, gotLevel := p.enter(r, flow.Work{Initial: 1}, 0, done)
				if gotSchema != wantSchema || gotLevel != wantLevel {
					t.Errorf("seed %d, %+v: got %s in %s, want %s in %s", seed, *r, gotSchema, gotLevel, wantSchema, wantLevel)
				}
			}
		})
	}
}

// outcome is what became of one request of a run.
type outcome struct {
	began    time.Duration // since the start of the run; -1: never
	rejected time.Duration
}

// TestQueues compares when each request of random loads is served, or rejected.
func TestQueues(t *testing.T) {
	for seed := range uint64(rounds(60)) {
		synctest.Test(t, func(t *testing.T) {
			g := generator{rand.New(rand.NewPCG(seed, 2))}
			seats := 1 + g.IntN(19)
			level := g.level("level")
			shares, none := int32(95), int32(0)
			*level.Spec.Limited.NominalConcurrencyShares, *level.Spec.Limited.LendablePercent, level.Spec.Limited.BorrowingLimitPercent = shares, none, &none
			schema := bootstrap.Schemas(true)[1]
			schema.Name, schema.Spec.MatchingPrecedence, schema.Spec.PriorityLevelConfiguration.Name = "all", 100, "level"
			p := newPair(t, seats, []*flowcontrolv1.PriorityLevelConfiguration{level}, []*flowcontrolv1.FlowSchema{schema})
			const requests = 400
			var theirs, ours [requests]outcome
			var wg sync.WaitGroup
			start := time.Now()
			flows := 1 + g.IntN(6)
			for i := range requests {
				time.Sleep(time.Duration(g.Int64N(int64(6 * time.Millisecond / time.Duration(seats+1)))))
				r := &flow.Request{User: fmt.Sprintf("user%d", g.IntN(1+g.IntN(flows))), Groups: []string{user.AllAuthenticated}, IsResource: true, Verb: "get", Resource: "pods", Namespace: "a"}
				w := flow.Work{Initial: 1 + g.IntN(1+g.IntN(3))}
				if g.IntN(5) == 0 {
					w.Final, w.Extra = 1+g.IntN(10), time.Duration(g.Int64N(int64(5*time.Millisecond)))
				}
				takes := time.Duration(g.Int64N(int64(8 * time.Millisecond)))
				run := func(o *outcome, pass func(*flow.Request, flow.Work, time.Duration, func()) (string, string)) {
					wg.Go(func() {
						o.began = -1
						pass(r, w, time.Hour, func() {
							o.began = time.Since(start)
							time.Sleep(takes)
						})
						if o.began < 0 {
							o.rejected = time.Since(start)
						}
					})
				}
				run(&theirs[i], p.handle)
				run(&ours[i], p.enter)
				synctest.Wait()
				if i%50 == 0 {
					p.compareRequests(seed)
				}
			}
			wg.Wait()
			time.Sleep(time.Minute) // final seats
			for i := range requests {
				if ours[i] != theirs[i] {
					t.Fatalf("seed %d, %d seats, %+v: request %d: got %+v, want %+v", seed, seats, level.Spec.Limited.LimitResponse, i, ours[i], theirs[i])
				}
			}
		})
	}
}

// compareRequests compares which requests wait and execute in which queues.
func (p *pair) compareRequests(seed uint64) {
	p.t.Helper()
	w := httptest.NewRecorder()
	p.dumps.ServeHTTP(w, httptest.NewRequest("GET", "/debug/api_priority_and_fairness/dump_requests", nil))
	var ours bytes.Buffer
	p.ours.Dump("dump_requests", false, &ours)
	if got, want := requestsIn(ours.String()), requestsIn(w.Body.String()); !slices.Equal(got, want) {
		p.t.Errorf("seed %d: requests in queues: got\n%s\nwant\n%s", seed, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// requestsIn returns level, schema, queue, place, distinguisher and seats of the requests of a dump, sorted.
func requestsIn(dump string) []string {
	var out []string
	for line := range strings.Lines(dump) {
		cells := strings.Split(strings.TrimSpace(line), ",")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		out = append(out, strings.Join(append(cells[:5:5], cells[6:9]...), ","))
	}
	slices.Sort(out)
	return out
}

// limitsOf returns the limits of all levels in a registry.
func limitsOf(t *testing.T, from prometheus.Gatherer) map[string]float64 {
	families, err := from.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]float64{}
	for _, f := range families {
		switch name := strings.TrimPrefix(f.GetName(), "apiserver_flowcontrol_"); name {
		case "nominal_limit_seats", "lower_limit_seats", "upper_limit_seats", "current_limit_seats", "demand_seats_high_watermark", "demand_seats_average", "demand_seats_stdev", "demand_seats_smoothed":
			for _, m := range f.GetMetric() {
				out[name+" "+m.GetLabel()[0].GetValue()] = m.GetGauge().GetValue()
			}
		}
	}
	return out
}

// TestLimits compares the seats of levels, at the start and after periods of random demand.
func TestLimits(t *testing.T) {
	metrics.Register()
	for seed := range uint64(rounds(60)) {
		synctest.Test(t, func(t *testing.T) {
			metrics.Reset()
			g := generator{rand.New(rand.NewPCG(seed, 3))}
			levels, schemas := g.config()
			for i, l := range levels { // one user for each level
				s := bootstrap.Schemas(true)[1]
				s.Name, s.Spec.MatchingPrecedence, s.Spec.PriorityLevelConfiguration.Name = fmt.Sprintf("of-%d", i), 50+int32(i), l.Name
				s.Spec.Rules[0].Subjects = []flowcontrolv1.Subject{{Kind: "User", User: &flowcontrolv1.UserSubject{Name: l.Name}}}
				schemas = append(schemas, s)
			}
			began := time.Now()
			p := newPair(t, 20+g.IntN(600), levels, schemas)
			compare := func(when string) {
				t.Helper()
				got, want := limitsOf(t, p.reg), limitsOf(t, legacyregistry.DefaultGatherer)
				for name, w := range want {
					if name == "demand_seats_stdev exempt" || name == "demand_seats_smoothed exempt" {
						continue // its requests take no lock, so that only the average is exact, and nothing follows from these
					}
					tolerance := 1e-6 * max(1, w)
					if strings.HasPrefix(name, "current_limit_seats") {
						tolerance = 1 // a half is rounded up or down
					}
					if d := got[name] - w; d > tolerance || d < -tolerance {
						t.Errorf("seed %d, %s: %s: got %v, want %v", seed, when, name, got[name], w)
					}
				}
				if len(want) < 16 {
					t.Errorf("seed %d: only %d limits", seed, len(want))
				}
			}
			compare("at the start")
			// Both adjust every 10 s, a moment apart. The demand does not change around that.
			for period := range 4 {
				time.Sleep(time.Until(began.Add(time.Duration(period)*10*time.Second + 3*time.Second)))
				var wg sync.WaitGroup
				for _, l := range levels {
					for range g.IntN(40) {
						r := &flow.Request{User: l.Name, Groups: []string{user.AllAuthenticated}, IsResource: true, Verb: "get", Resource: "x", Namespace: "n"}
						takes := time.Duration(g.Int64N(int64(3 * time.Second)))
						do := func() { time.Sleep(takes) }
						wg.Go(func() { p.handle(r, flow.Work{Initial: 1}, time.Second, do) })
						wg.Go(func() { p.enter(r, flow.Work{Initial: 1}, time.Second, do) })
						synctest.Wait()
					}
				}
				wg.Wait()
				time.Sleep(time.Until(began.Add(time.Duration(period+1)*10*time.Second + time.Second)))
				compare(fmt.Sprintf("after period %d", period))
			}
		})
	}
}

// TestWork compares the estimates of requests.
func TestWork(t *testing.T) {
	g := generator{rand.New(rand.NewPCG(1, 4))}
	for range 3000 {
		level := g.level("level")
		schema := bootstrap.Schemas(true)[1]
		schema.Name, schema.Spec.MatchingPrecedence, schema.Spec.PriorityLevelConfiguration.Name = "all", 100, "level"
		f := flow.New(flow.Config{Seats: 1 + g.IntN(2000)})
		f.Configure([]*flowcontrolv1.PriorityLevelConfiguration{level}, []*flowcontrolv1.FlowSchema{schema})
		var ticket flow.Ticket
		f.Classify(&ticket, &flow.Request{User: "jane", Groups: []string{user.AllAuthenticated}, IsResource: true, Verb: "list", Resource: "pods"})
		stats := storage.Stats{ObjectCount: g.Int64N(1 + g.Int64N(5000)), EstimatedAverageObjectSizeBytes: g.Int64N(20_000)}
		watches := g.IntN(1 + g.IntN(300))
		theirs := fcrequest.NewWorkEstimator(func(string) (storage.Stats, error) { return stats, nil }, func(*apirequest.RequestInfo) int { return watches },
			fcrequest.DefaultWorkEstimatorConfig(), func(string) uint64 { return uint64(ticket.MostSeats()) })
		query := "/api/v1/pods?a=b"
		l := flow.List{Objects: stats.ObjectCount, Size: stats.EstimatedAverageObjectSizeBytes}
		name := ""
		if g.IntN(3) == 0 {
			l.Limit = 1 + g.Int64N(600)
			query += fmt.Sprintf("&limit=%d", l.Limit)
		}
		if g.IntN(3) == 0 {
			l.Selects = true
			query += g.pick("&labelSelector=a", "&fieldSelector=metadata.namespace%3Da")
		}
		if g.IntN(5) == 0 {
			l.Single, name = true, "x"
		}
		if g.IntN(3) == 0 {
			l.Exact = true
			query += g.pick("&resourceVersion=7&resourceVersionMatch=Exact", "&continue=abc")
		} else {
			query += "&resourceVersion=0" // without it, upstream asks whether etcd reports its progress, which no etcd does here
		}
		ask := func(verb, method string) flow.Work {
			r := httptest.NewRequest(method, query, nil)
			info := &apirequest.RequestInfo{IsResourceRequest: true, Verb: verb, Resource: "pods", Name: name, Path: "/api/v1/pods"}
			w := theirs.EstimateWork(r.WithContext(apirequest.WithRequestInfo(r.Context(), info)), "all", "level")
			return flow.Work{Initial: int(w.InitialSeats), Final: int(w.FinalSeats), Extra: w.AdditionalLatency}
		}
		if got, want := ticket.ListWork(l), ask("list", http.MethodGet); got != want {
			t.Errorf("%s of %+v: got %+v, want %+v", query, stats, got, want)
		}
		if got, want := ticket.WriteWork(watches), ask("create", http.MethodPost); got != want {
			t.Errorf("a write with %d watches: got %+v, want %+v", watches, got, want)
		}
	}
}

// TestRetryAfter compares when clients of random loads may come back.
func TestRetryAfter(t *testing.T) {
	for seed := range uint64(rounds(50)) {
		synctest.Test(t, func(t *testing.T) {
			g := generator{rand.New(rand.NewPCG(seed, 5))}
			theirs := fc.NewDroppedRequestsTracker()
			f := flow.New(flow.Config{Seats: 10})
			var ticket flow.Ticket
			f.Classify(&ticket, &flow.Request{User: "jane", Groups: []string{user.AllAuthenticated}})
			for i := range 2000 {
				theirs.RecordDroppedRequest("catch-all")
				if got, want := ticket.RetryAfter(), theirs.GetRetryAfter("catch-all"); got != want {
					t.Fatalf("seed %d, request %d: got %d s, want %d s", seed, i, got, want)
				}
				time.Sleep(time.Duration(g.Int64N(1 + g.Int64N([]int64{3e6, 1e9, 30e9}[i/700%3]))))
			}
		})
	}
}
