// Package envtest runs a controller of controller-runtime, with all that such a program uses, on Keelson: once on the assets that
// controller-runtime's own envtest starts, which are the keelson binary under the names kube-apiserver and etcd, and once on package
// servertest.
package envtest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	upstream "sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/recorder"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/keelson-io/keelson/conformance/internal/module"
	"github.com/keelson-io/keelson/internal/testdir"
	"github.com/keelson-io/keelson/servertest"
)

// assets is the folder that keelson envtest-assets laid out.
var assets string

func TestMain(m *testing.M) { os.Exit(testdir.Run(func(dir string) int { return run(m, dir) })) }

func run(m *testing.M, dir string) int {
	ctrl.SetLogger(logr.Discard())
	assets = filepath.Join(dir, "assets")
	bin, err := module.Keelson(dir)
	if err == nil {
		var out []byte
		if out, err = exec.Command(bin, "envtest-assets", assets).CombinedOutput(); err != nil {
			err = fmt.Errorf("envtest-assets: %w\n%s", err, out)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// host is a server to test on.
type host struct {
	config   *rest.Config
	user     func(t *testing.T, name string, groups ...string) *rest.Config
	collects bool // it has a garbage collector
}

// onEach runs a test on both kinds of server, and says how long they took to start.
func onEach(t *testing.T, test func(t *testing.T, h host)) {
	t.Run("envtest", func(t *testing.T) {
		start := time.Now()
		env := &upstream.Environment{BinaryAssetsDirectory: assets, ControlPlaneStartTimeout: time.Minute, ControlPlaneStopTimeout: 20 * time.Second}
		config, err := env.Start()
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("started in %v", time.Since(start).Round(time.Millisecond))
		t.Cleanup(func() {
			stop := time.Now()
			if err := env.Stop(); err != nil {
				t.Error(err)
			}
			t.Logf("stopped in %v", time.Since(stop).Round(time.Millisecond))
		})
		test(t, host{config: config, user: func(t *testing.T, name string, groups ...string) *rest.Config {
			u, err := env.AddUser(upstream.User{Name: name, Groups: groups}, nil)
			if err != nil {
				t.Fatal(err)
			}
			return u.Config()
		}})
	})
	t.Run("servertest", func(t *testing.T) {
		start := time.Now()
		s := servertest.Start(t)
		t.Logf("started in %v", time.Since(start).Round(time.Millisecond))
		test(t, host{config: s.Config, collects: true,
			user: func(_ *testing.T, name string, groups ...string) *rest.Config { return s.User(name, groups...) }})
	})
}

// reconciler gives each task a config map of its own, and says so.
type reconciler struct {
	client.Client
	events recorder.EventRecorder
}

const finalizer = group + "/tidy"

// Reconcile implements reconcile.Reconciler.
func (r *reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var task Task
	if err := r.Get(ctx, req.NamespacedName, &task); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if task.DeletionTimestamp != nil {
		if controllerutil.RemoveFinalizer(&task, finalizer) {
			return ctrl.Result{}, r.Update(ctx, &task)
		}
		return ctrl.Result{}, nil
	}
	if controllerutil.AddFinalizer(&task, finalizer) {
		if err := r.Update(ctx, &task); err != nil {
			return ctrl.Result{}, err
		}
	}
	owned := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: task.Namespace, Name: task.Name}}
	op, err := controllerutil.CreateOrUpdate(ctx, r.Client, owned, func() error {
		owned.Data = map[string]string{"text": task.Spec.Text}
		return controllerutil.SetControllerReference(&task, owned, r.Scheme())
	})
	if err != nil {
		return ctrl.Result{}, err
	}
	if op == controllerutil.OperationResultCreated {
		r.events.Eventf(&task, nil, corev1.EventTypeNormal, "Made", "Reconcile", "made config map %s", owned.Name)
	}
	if task.Status.Phase != "Done" {
		task.Status.Phase = "Done"
		return ctrl.Result{}, r.Status().Update(ctx, &task)
	}
	return ctrl.Result{}, nil
}

// startManager runs the controller, as the leader, with the conversion webhook.
func startManager(t *testing.T, config *rest.Config, hooks *upstream.WebhookInstallOptions) manager.Manager {
	t.Helper()
	skip := true // the name of a controller is checked in the whole process
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme: newScheme(), Metrics: server.Options{BindAddress: "0"},
		LeaderElection: true, LeaderElectionID: "tasks", LeaderElectionNamespace: "default", LeaderElectionReleaseOnCancel: true,
		WebhookServer: webhook.NewServer(webhook.Options{Host: hooks.LocalServingHost, Port: hooks.LocalServingPort, CertDir: hooks.LocalServingCertDir}),
	})
	if err != nil {
		t.Fatal(err)
	}
	r := &reconciler{mgr.GetClient(), mgr.GetEventRecorder("tasks")}
	b := ctrl.NewControllerManagedBy(mgr).For(&Task{}).Owns(&corev1.ConfigMap{}).WithOptions(controller.Options{SkipNameValidation: &skip})
	if err := b.Complete(r); err != nil {
		t.Fatal(err)
	}
	if err := ctrl.NewWebhookManagedBy(mgr, &Task{}).Complete(); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Errorf("manager: %v", err)
		}
	})
	return mgr
}

func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not after a minute: %s", what)
		}
	}
}

func TestManager(t *testing.T) {
	onEach(t, func(t *testing.T, h host) {
		ctx := t.Context()
		hooks := &upstream.WebhookInstallOptions{}
		if err := hooks.PrepWithoutInstalling(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { hooks.Cleanup() })
		crds, err := upstream.InstallCRDs(h.config, upstream.CRDInstallOptions{
			Scheme: newScheme(), CRDs: []*apiextv1.CustomResourceDefinition{definition()}, WebhookOptions: *hooks,
		})
		if err != nil {
			t.Fatal(err)
		}
		if c := crds[0].Spec.Conversion; c == nil || c.Strategy != apiextv1.WebhookConverter {
			t.Fatalf("got conversion %+v, want the webhook", c)
		}
		mgr := startManager(t, h.config, hooks)
		until(t, "the webhook answers", func() bool { return mgr.GetWebhookServer().StartedChecker()(nil) == nil })
		c, err := client.New(h.config, client.Options{Scheme: newScheme()})
		if err != nil {
			t.Fatal(err)
		}
		task := &TaskV2{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "one"}}
		task.Spec.Title = "write"
		if err := c.Create(ctx, task); err != nil {
			t.Fatal(err)
		}
		key := client.ObjectKeyFromObject(task)
		until(t, "the task is done", func() bool {
			return c.Get(ctx, key, task) == nil && task.Status.Phase == "Done"
		})
		var stored Task
		if err := c.Get(ctx, key, &stored); err != nil || stored.Spec.Text != "write" || stored.Finalizers[0] != finalizer {
			t.Errorf("in v1: got %+v, error %v", stored, err)
		}
		var owned corev1.ConfigMap
		if err := c.Get(ctx, key, &owned); err != nil || owned.Data["text"] != "write" || !metav1.IsControlledBy(&owned, &stored) {
			t.Errorf("got config map %+v, error %v", owned, err)
		}
		until(t, "the event is there", func() bool {
			var events eventsv1.EventList
			if err := c.List(ctx, &events, client.InNamespace("default")); err != nil {
				t.Fatal(err)
			}
			for _, e := range events.Items {
				if e.Reason == "Made" && e.Regarding.UID == task.UID {
					return true
				}
			}
			return false
		})
		var lease coordinationv1.Lease
		if err := c.Get(ctx, client.ObjectKey{Namespace: "default", Name: "tasks"}, &lease); err != nil || lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == "" {
			t.Errorf("got lease %+v, error %v", lease.Spec, err)
		}
		if err := c.Delete(ctx, task); err != nil {
			t.Fatal(err)
		}
		until(t, "the task is gone", func() bool { return apierrors.IsNotFound(c.Get(ctx, key, task)) })
		if h.collects {
			until(t, "the config map is gone", func() bool { return apierrors.IsNotFound(c.Get(ctx, key, &owned)) })
		} else if err := c.Get(ctx, key, &owned); err != nil {
			t.Errorf("nobody collects garbage here, and yet: %v", err)
		}
	})
}

// TestUsers holds that users whom a test adds may do what roles let them: nothing, to begin with.
func TestUsers(t *testing.T) {
	onEach(t, func(t *testing.T, h host) {
		jane, err := client.New(h.user(t, "jane", "people"), client.Options{Scheme: newScheme()})
		if err != nil {
			t.Fatal(err)
		}
		if err := jane.List(t.Context(), &corev1.SecretList{}); !apierrors.IsForbidden(err) {
			t.Errorf("got %v, want that jane may not", err)
		}
		root, err := client.New(h.user(t, "root", "system:masters"), client.Options{Scheme: newScheme()})
		if err != nil {
			t.Fatal(err)
		}
		if err := root.List(t.Context(), &corev1.SecretList{}); err != nil {
			t.Error(err)
		}
	})
}
