// Command argocd makes a server hold what a folder of manifests says, with the library that Argo CD does it with: what is missing or
// differs is applied in the order of sync waves, with hooks, and what the folder no longer has is pruned.
//
//	argocd -kubeconfig FILE [-server-side] [-prune=false] DIR
//
// It prints a line for each resource, "GROUP/KIND/NAMESPACE/NAME STATUS MESSAGE", and fails if the sync does.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/argoproj/argo-cd/gitops-engine/pkg/cache"
	"github.com/argoproj/argo-cd/gitops-engine/pkg/diff"
	"github.com/argoproj/argo-cd/gitops-engine/pkg/sync"
	"github.com/argoproj/argo-cd/gitops-engine/pkg/sync/common"
	"github.com/argoproj/argo-cd/gitops-engine/pkg/utils/kube"
	"github.com/argoproj/argo-cd/gitops-engine/pkg/utils/tracing"
	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// mark is the annotation of what this program manages: what has it and is not in the folder is pruned.
const mark = "keelson.example.org/managed"

type options struct {
	kubeconfig, dir   string
	prune, serverSide bool
}

func main() {
	var o options
	flag.StringVar(&o.kubeconfig, "kubeconfig", "", "whom to talk to")
	flag.BoolVar(&o.prune, "prune", true, "delete what the folder no longer has")
	flag.BoolVar(&o.serverSide, "server-side", false, "apply on the server")
	flag.Parse()
	o.dir = flag.Arg(0)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	config, err := clientcmd.BuildConfigFromFlags("", o.kubeconfig)
	if err != nil {
		return err
	}
	targets, err := read(o.dir)
	if err != nil {
		return err
	}
	config.QPS = -1
	results, err := syncOnce(ctx, config, targets, o)
	for _, r := range results {
		k := r.ResourceKey
		fmt.Printf("%s/%s/%s/%s %s %s %s\n", k.Group, k.Kind, k.Namespace, k.Name, r.Status, r.HookPhase, r.Message)
	}
	return err
}

// read reads the manifests of a folder and marks them.
func read(dir string) ([]*unstructured.Unstructured, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil {
		return nil, err
	}
	var all []*unstructured.Unstructured
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			return nil, err
		}
		objects, err := kube.SplitYAML(b)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f, err)
		}
		for _, o := range objects {
			annotations := o.GetAnnotations()
			if annotations == nil {
				annotations = map[string]string{}
			}
			annotations[mark] = "yes"
			o.SetAnnotations(annotations)
		}
		all = append(all, objects...)
	}
	return all, nil
}

// again is how long it takes until a sync that waits, for a hook to end or for an object to be healthy, looks again.
const again = 100 * time.Millisecond

// syncOnce takes the steps of one sync, as Argo CD's controller does: each begins with what the cluster has then, and with the state
// that the step before it left.
func syncOnce(ctx context.Context, config *rest.Config, targets []*unstructured.Unstructured, o options) ([]common.ResourceSyncResult, error) {
	managed := func(un *unstructured.Unstructured, _ bool) (any, bool) {
		_, ok := un.GetAnnotations()[mark]
		return ok, ok
	}
	log := logr.Discard()
	cluster := cache.NewClusterCache(config, cache.SetLogr(log), cache.SetPopulateResourceInfoHandler(managed))
	if err := cluster.EnsureSynced(); err != nil {
		return nil, err
	}
	defer cluster.Invalidate()
	kubectl := &kube.KubectlCmd{Log: log, Tracer: tracing.NopTracer{}}
	state := sync.WithInitialState(common.OperationRunning, "", nil, metav1.Now())
	for began := metav1.Now(); ; {
		live, err := cluster.GetManagedLiveObjs(targets, func(r *cache.Resource) bool { return r.Info == true })
		if err != nil {
			return nil, err
		}
		now := sync.Reconcile(targets, live, "default", cluster)
		differences, err := diff.DiffArray(now.Target, now.Live, diff.WithLogr(log))
		if err != nil {
			return nil, err
		}
		step, done, err := sync.NewSyncContext("1", now, config, config, kubectl, "default", state, sync.WithLogr(log),
			sync.WithPrune(o.prune), sync.WithServerSideApply(o.serverSide), sync.WithServerSideApplyManager("argocd-controller"),
			sync.WithResourceModificationChecker(true, differences))
		if err != nil {
			return nil, err
		}
		step.Sync()
		done()
		phase, message, results := step.GetState()
		if phase.Completed() {
			if !phase.Successful() {
				return results, fmt.Errorf("sync: %s: %s", phase, message)
			}
			return results, nil
		}
		state = sync.WithInitialState(phase, message, results, began)
		select {
		case <-time.After(again):
		case <-ctx.Done():
			return results, fmt.Errorf("sync: %s: %s: %w", phase, message, ctx.Err())
		}
	}
}
