package gc

import (
	"context"
	"maps"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/controller-manager/pkg/informerfactory"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/controller/garbagecollector"
)

// This file runs upstream's garbage collector as kube-controller-manager does, and reports when its
// queues are empty.

func init() {
	klog.SetLogger(logr.Discard())
	workqueue.SetProvider(depths{})
}

const (
	upstreamWorkers = 20
	longestRetry    = 500 * time.Millisecond // of deletions, which lookAgain tries at once
	orphanRetry     = 20 * time.Millisecond
	discoverEvery   = 200 * time.Millisecond // kube-controller-manager: 30 s
)

// upstream is a running garbage collector of upstream's.
type upstream struct {
	collector *garbagecollector.GarbageCollector
	queued    *atomic.Int64 // items in its queues, and those that a worker processes
}

// startUpstream starts upstream's garbage collector on a server. It ends when ctx does; done is
// closed then.
func startUpstream(ctx context.Context, t *testing.T, config *rest.Config) (u *upstream, done <-chan struct{}) {
	t.Helper()
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	metadataClient, err := metadata.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	discover, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	mapped, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(mapped))
	factory := informerfactory.NewInformerFactory(informers.NewSharedInformerFactory(client, 0), metadatainformer.NewSharedInformerFactory(metadataClient, 0))
	started := make(chan struct{})
	close(started)
	u = &upstream{queued: new(atomic.Int64)}
	current = u.queued
	u.collector, err = garbagecollector.NewGarbageCollector(ctx, client, metadataClient, mapper, garbagecollector.DefaultIgnoredResources(), factory, started)
	if err != nil {
		t.Fatal(err)
	}
	toDelete, toOrphan, _ := u.collector.GetDependencyGraphBuilder().GetGraphResources()
	retrySoon(toDelete, longestRetry)
	retrySoon(toOrphan, orphanRetry)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		u.collector.Run(ctx, upstreamWorkers, 30*time.Second)
	}()
	go u.collector.Sync(ctx, discover, discoverEvery)
	return u, ended
}

// retrySoon replaces the rate limiter of a queue. Upstream's allows ten retries a second for all
// items together, and lets an item wait up to 17 minutes.
func retrySoon[T comparable](queue workqueue.TypedRateLimitingInterface[T], longest time.Duration) {
	field := reflect.ValueOf(queue).Elem().FieldByName("rateLimiter")
	limiter := (*workqueue.TypedRateLimiter[T])(unsafe.Pointer(field.UnsafeAddr()))
	*limiter = workqueue.NewTypedItemExponentialFailureRateLimiter[T](5*time.Millisecond, longest)
}

// follows reports whether the collector has listed a resource.
func (u *upstream) follows(group, version, resource string) bool {
	return u.collector.GetDependencyGraphBuilder().IsResourceSynced(schema.GroupVersionResource{Group: group, Version: version, Resource: resource})
}

// lookAgain makes the collector look at every object that it knows, as it does when it starts.
func (u *upstream) lookAgain() {
	builder := u.collector.GetDependencyGraphBuilder()
	toDelete, _, _ := builder.GetGraphResources()
	addAll(toDelete, builder)
}

func addAll[T comparable](queue workqueue.TypedRateLimitingInterface[T], builder *garbagecollector.GraphBuilder) {
	graph := reflect.ValueOf(builder).Elem().FieldByName("uidToNode").Elem()
	lock := (*sync.RWMutex)(unsafe.Pointer(graph.FieldByName("uidToNodeLock").UnsafeAddr()))
	nodes := (*map[types.UID]T)(unsafe.Pointer(graph.FieldByName("uidToNode").UnsafeAddr()))
	lock.RLock()
	all := slices.Collect(maps.Values(*nodes))
	lock.RUnlock()
	for _, n := range all {
		queue.Add(n)
	}
}

// current counts the items of the queues that are made next.
var current = new(atomic.Int64)

// depths is a provider of metrics that counts the items in all queues of a collector.
type depths struct{}

type (
	depth     struct{ n *atomic.Int64 }
	processed struct{ n *atomic.Int64 }
	ignored   struct{}
)

func (d depth) Inc()                { d.n.Add(1) }
func (depth) Dec()                  {} // a worker processes it now
func (p processed) Observe(float64) { p.n.Add(-1) }
func (ignored) Inc()                {}
func (ignored) Observe(float64)     {}
func (ignored) Set(float64)         {}

func (depths) NewDepthMetric(string) workqueue.GaugeMetric                         { return depth{current} }
func (depths) NewWorkDurationMetric(string) workqueue.HistogramMetric              { return processed{current} }
func (depths) NewAddsMetric(string) workqueue.CounterMetric                        { return ignored{} }
func (depths) NewLatencyMetric(string) workqueue.HistogramMetric                   { return ignored{} }
func (depths) NewRetriesMetric(string) workqueue.CounterMetric                     { return ignored{} }
func (depths) NewUnfinishedWorkSecondsMetric(string) workqueue.SettableGaugeMetric { return ignored{} }
func (depths) NewLongestRunningProcessorSecondsMetric(string) workqueue.SettableGaugeMetric {
	return ignored{}
}
