package envtest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

// This file runs several managers of one election, and takes the leader away.

// turn is one reconciliation.
type turn struct {
	by         string
	start, end time.Time
}

// turns are the reconciliations of all managers.
type turns struct {
	mu  sync.Mutex
	all []turn
}

func (t *turns) add(one turn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.all = append(t.all, one)
}

// last is who reconciled last, "" if nobody has.
func (t *turns) last() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.all) == 0 {
		return ""
	}
	return t.all[len(t.all)-1].by
}

// candidate is a manager that stands for the election.
type candidate struct {
	name string
	down atomic.Bool // it reaches no server any more
	stop context.CancelFunc
	done chan error
}

// cord is what a candidate reaches the server by.
type cord struct {
	*candidate
	http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (c cord) RoundTrip(r *http.Request) (*http.Response, error) {
	if c.down.Load() {
		return nil, errors.New("cut off")
	}
	return c.RoundTripper.RoundTrip(r)
}

const (
	watched = "example.org/leaders"
	doneBy  = "example.org/by"
)

// stand starts a candidate. It writes its name into every config map that has the label.
func stand(t *testing.T, config *rest.Config, name string, log *turns) *candidate {
	t.Helper()
	c := &candidate{name: name, done: make(chan error, 1)}
	config = rest.CopyConfig(config)
	config.Wrap(func(rt http.RoundTripper) http.RoundTripper { return cord{c, rt} })
	lease, renew, retry, skip := 3*time.Second, 2*time.Second, 200*time.Millisecond, true
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme: newScheme(), Metrics: server.Options{BindAddress: "0"},
		LeaderElection: true, LeaderElectionID: "leaders", LeaderElectionNamespace: "default", LeaderElectionReleaseOnCancel: true,
		LeaseDuration: &lease, RenewDeadline: &renew, RetryPeriod: &retry,
	})
	if err != nil {
		t.Fatal(err)
	}
	mine, err := predicate.LabelSelectorPredicate(metav1.LabelSelector{MatchLabels: map[string]string{watched: "yes"}})
	if err != nil {
		t.Fatal(err)
	}
	err = ctrl.NewControllerManagedBy(mgr).For(&corev1.ConfigMap{}).Named("leaders").WithEventFilter(mine).
		WithOptions(controller.Options{SkipNameValidation: &skip}).
		Complete(reconcileFunc(func(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
			one := turn{by: name, start: time.Now()}
			var m corev1.ConfigMap
			err := mgr.GetClient().Get(ctx, req.NamespacedName, &m)
			if err == nil && m.Annotations[doneBy] != name {
				before := m.DeepCopy()
				metav1.SetMetaDataAnnotation(&m.ObjectMeta, doneBy, name)
				err = mgr.GetClient().Patch(ctx, &m, client.MergeFrom(before))
			}
			one.end = time.Now()
			log.add(one)
			return ctrl.Result{}, client.IgnoreNotFound(err)
		}))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	c.stop = stop
	go func() { c.done <- mgr.Start(ctx) }()
	t.Cleanup(stop)
	return c
}

type reconcileFunc func(context.Context, ctrl.Request) (ctrl.Result, error)

// Reconcile implements reconcile.Reconciler.
func (f reconcileFunc) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	return f(ctx, req)
}

// TestLeaders takes the leader of three managers away while objects change: first it is cut off from the server, as one that dies, then
// the next one goes in good order. Each time another takes over and does what is left to do, and at no time two are at work.
func TestLeaders(t *testing.T) {
	onEach(t, func(t *testing.T, h host) {
		ctx, end := context.WithCancel(t.Context())
		defer end()
		c, err := client.New(h.config, client.Options{Scheme: newScheme()})
		if err != nil {
			t.Fatal(err)
		}
		create := func(name string) client.ObjectKey {
			m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Labels: map[string]string{watched: "yes"}}}
			if err := c.Create(ctx, m); err != nil {
				t.Fatal(err)
			}
			return client.ObjectKeyFromObject(m)
		}
		busy := create("busy")
		var changing sync.WaitGroup
		changing.Go(func() { // so that there is work all the time
			for i := 0; ctx.Err() == nil; i++ {
				patch := fmt.Appendf(nil, `{"data":{"n":"%d"}}`, i)
				m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: busy.Namespace, Name: busy.Name}}
				if err := c.Patch(ctx, m, client.RawPatch("application/merge-patch+json", patch)); err != nil && ctx.Err() == nil {
					t.Error(err)
					return
				}
				time.Sleep(5 * time.Millisecond)
			}
		})
		var log turns
		all := map[string]*candidate{}
		for _, name := range []string{"a", "b", "c"} {
			all[name] = stand(t, h.config, name, &log)
		}
		var led []string
		for _, way := range []string{"cut off", "released", "left"} {
			before := ""
			if len(led) > 0 {
				before = led[len(led)-1]
			}
			until(t, "somebody else leads than "+before, func() bool { return log.last() != before })
			leader := log.last()
			led = append(led, leader)
			key := create(fmt.Sprintf("object-%d", len(led)))
			until(t, "the leader has seen to a new object", func() bool {
				var m corev1.ConfigMap
				return c.Get(ctx, key, &m) == nil && m.Annotations[doneBy] == leader
			})
			switch way {
			case "cut off":
				all[leader].down.Store(true)
				if err := <-all[leader].done; err == nil {
					t.Errorf("%s was cut off, and its manager ended without an error", leader)
				}
			case "released":
				all[leader].stop()
				if err := <-all[leader].done; err != nil {
					t.Errorf("%s: %v", leader, err)
				}
			}
		}
		end()
		changing.Wait()
		last := all[led[2]]
		last.stop()
		if err := <-last.done; err != nil {
			t.Errorf("%s: %v", last.name, err)
		}
		log.check(t, led)
	})
}

// check holds that the leaders worked one after the other.
func (t *turns) check(test *testing.T, led []string) {
	test.Helper()
	counts := map[string]int{}
	var latest turn
	at := 0
	for _, one := range t.all {
		counts[one.by]++
		for at < len(led) && led[at] != one.by {
			at++
		}
		if at == len(led) {
			test.Fatalf("%s reconciled at %v, after its successors of %v", one.by, one.start, led)
		}
		if one.by != latest.by && one.start.Before(latest.end) {
			test.Errorf("%s began at %v, when %s was at it until %v", one.by, one.start, latest.by, latest.end)
		}
		latest = one
	}
	test.Logf("led in turn: %v, with %v reconciliations", led, counts)
}
