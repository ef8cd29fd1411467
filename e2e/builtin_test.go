package e2e

import (
	"context"
	"regexp"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/tools/record"
)

// This file uses the built-in kinds as their clients do: kubectl's commands,
// leader election, recorders of events.

// clientset is a typed client in an encoding.
func (s *server) clientset(t *testing.T, media string) *kubernetes.Clientset {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", s.kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	config.ContentType = media
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

var spaces = regexp.MustCompile(` {2,}`)

func TestKubectlAndBuiltinKinds(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	k := newKubectl(t, s)
	for _, c := range []struct {
		line string
		want []string
	}{
		{"create deployment web --image=nginx:1 --replicas=2", []string{"deployment.apps/web created"}},
		{"create configmap cm --from-literal=a=b", []string{"configmap/cm created"}},
		{"create secret generic s --from-literal=a=b", []string{"secret/s created"}},
		{"create serviceaccount bot", []string{"serviceaccount/bot created"}},
		{"create role r --verb=get --resource=pods", []string{"role.rbac.authorization.k8s.io/r created"}},
		{"create rolebinding rb --role=r --serviceaccount=default:bot", []string{"rolebinding.rbac.authorization.k8s.io/rb created"}},
		{"create clusterrole cr --verb=get --resource=pods", []string{"clusterrole.rbac.authorization.k8s.io/cr created"}},
		{"create job once --image=busybox -- true", []string{"job.batch/once created"}},
		{"create cronjob tick --image=busybox --schedule=@hourly -- true", []string{"cronjob.batch/tick created"}},
		{"create ingress in --rule=a.com/*=web:80", []string{"ingress.networking.k8s.io/in created"}},
		{"create quota q --hard=pods=3", []string{"resourcequota/q created"}},
		{"create pdb p --selector=app=web --min-available=1", []string{"poddisruptionbudget.policy/p created"}},
		{"create priorityclass high --value=1000", []string{"priorityclass.scheduling.k8s.io/high created"}},
		{"expose deployment web --port=80", []string{"service/web exposed"}},
		{"autoscale deployment web --min=1 --max=3", []string{"horizontalpodautoscaler.autoscaling/web autoscaled"}},
		{"run pod --image=nginx:1.2", []string{"pod/pod created"}},

		{"get deploy -o wide", []string{"NAME READY UP-TO-DATE AVAILABLE AGE CONTAINERS IMAGES SELECTOR", "web 0/2 0 0"}},
		{"get configmaps cm", []string{"NAME DATA AGE", "cm 1"}},
		{"get secrets s", []string{"NAME TYPE DATA AGE", "s Opaque 1"}},
		{"get sa bot", []string{"NAME", "AGE"}},
		{"get rolebinding rb -o wide", []string{"NAME ROLE AGE USERS GROUPS SERVICEACCOUNTS", "default/bot"}},
		{"get jobs -o wide", []string{"NAME STATUS COMPLETIONS DURATION AGE CONTAINERS IMAGES SELECTOR", "once Running 0/1"}},
		{"get cj", []string{"NAME SCHEDULE TIMEZONE SUSPEND ACTIVE LAST SCHEDULE AGE", "tick @hourly <none> False 0 <none>"}},
		{"get ing", []string{"NAME CLASS HOSTS ADDRESS PORTS AGE", "in <none> a.com 80"}},
		{"get pdb", []string{"NAME MIN AVAILABLE MAX UNAVAILABLE ALLOWED DISRUPTIONS AGE", "p 1 N/A 0"}},
		{"get pc high", []string{"NAME VALUE GLOBAL-DEFAULT AGE PREEMPTIONPOLICY", "high 1000 false"}},
		{"get svc web -o wide", []string{"NAME TYPE CLUSTER-IP EXTERNAL-IP PORT(S) AGE SELECTOR", "web ClusterIP"}},
		{"get hpa", []string{"NAME REFERENCE TARGETS MINPODS MAXPODS REPLICAS AGE", "web Deployment/web cpu: <unknown>/80% 1 3 0"}},
		{"get pods -o wide", []string{"NAME READY STATUS RESTARTS AGE IP NODE NOMINATED NODE READINESS GATES", "pod 0/1 Pending 0"}},

		{"scale deployment web --replicas=5", []string{"deployment.apps/web scaled"}},
		{"set image deployment/web nginx=nginx:2", []string{"deployment.apps/web image updated"}},
		{"label deployment web tier=front", []string{"deployment.apps/web labeled"}},
		{"get deployment web -o jsonpath={.spec.replicas}/{.spec.template.spec.containers[*].image}/{.metadata.labels.tier}/{.metadata.generation}", []string{"5/nginx:2/front/3"}},
		{"explain deployment.spec.strategy.rollingUpdate.maxSurge", []string{"FIELD: maxSurge", "maximum number of pods that can be scheduled above"}},
		{"api-resources --api-group=apps", []string{"deployments deploy apps/v1 true Deployment"}},
		{"delete pod pod", []string{`pod "pod" deleted`}},
	} {
		out, code := k.run(t, "", strings.Fields(c.line)...)
		out = spaces.ReplaceAllString(out, " ")
		if code != 0 {
			t.Errorf("kubectl %s: exit code %d", c.line, code)
		}
		contains(t, strings.Fields(c.line), out, c.want)
	}
	k.in(t, deploymentYAML("nginx:3"), args("apply --server-side --force-conflicts -f -"), "deployment.apps/web serverside-applied")
	k.in(t, deploymentYAML("nginx:4"), args("apply --server-side -f -"), "deployment.apps/web serverside-applied")
	k.in(t, strings.ReplaceAll(deploymentYAML("nginx:1"), "web", "web2"), args("apply -f -"), "deployment.apps/web2 created")
	k.fails(t, strings.ReplaceAll(deploymentYAML("nginx:2"), "web", "web2"), args("diff -f -"), "-      - image: nginx:1", "+      - image: nginx:2")
	k.in(t, strings.ReplaceAll(deploymentYAML("nginx:1"), "web", "web2"), args("apply -f -"), "deployment.apps/web2 unchanged")
}

func deploymentYAML(image string) string {
	return `{apiVersion: apps/v1, kind: Deployment, metadata: {name: web}, spec: {selector: {matchLabels: {app: web}}, template: {` +
		`metadata: {labels: {app: web}}, spec: {containers: [{name: nginx, image: "` + image + `", ports: [{containerPort: 80}]}]}}}}`
}

func TestLeaderElection(t *testing.T) {
	s := startServer(t)
	for _, media := range []string{"application/json", "application/vnd.kubernetes.protobuf"} {
		client := s.clientset(t, media)
		led := make(chan string, 2)
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		first, stop := context.WithCancel(ctx)
		run := func(ctx context.Context, id string) {
			lock := &resourcelock.LeaseLock{
				LeaseMeta: metav1.ObjectMeta{Namespace: "default", Name: "lock"}, Client: client.CoordinationV1(),
				LockConfig: resourcelock.ResourceLockConfig{Identity: id},
			}
			leaderelection.RunOrDie(ctx, leaderelection.LeaderElectionConfig{
				Lock: lock, ReleaseOnCancel: true, LeaseDuration: 3 * time.Second, RenewDeadline: 2 * time.Second, RetryPeriod: 200 * time.Millisecond,
				Callbacks: leaderelection.LeaderCallbacks{
					OnStartedLeading: func(context.Context) { led <- id }, OnStoppedLeading: func() {},
				},
			})
		}
		done := make(chan struct{}, 2)
		go func() { run(first, "a"); done <- struct{}{} }()
		if got := <-led; got != "a" {
			t.Fatalf("%s leads, want a", got)
		}
		second, end := context.WithCancel(ctx)
		go func() { run(second, "b"); done <- struct{}{} }()
		stop()
		select {
		case got := <-led:
			if got != "b" {
				t.Errorf("%s leads, want b", got)
			}
		case <-ctx.Done():
			t.Error("nobody took over")
		}
		end()
		<-done
		<-done
		cancel()
	}
}

func TestEventRecorders(t *testing.T) {
	s := startServer(t)
	client := s.clientset(t, "application/vnd.kubernetes.protobuf")
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	about, err := client.CoreV1().ConfigMaps("default").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "about"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	old := record.NewBroadcaster()
	defer old.Shutdown()
	old.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: client.CoreV1().Events("")})
	recorder := old.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "old"})
	for range 3 { // the later ones are patches of the first
		recorder.Event(about, corev1.EventTypeNormal, "Old", "said in the old way")
	}
	newer := events.NewBroadcaster(&events.EventSinkImpl{Interface: client.EventsV1()})
	defer newer.Shutdown()
	if err := newer.StartRecordingToSinkWithContext(ctx); err != nil {
		t.Fatal(err)
	}
	newer.NewRecorder(scheme.Scheme, "example.org/new").Eventf(about, nil, corev1.EventTypeWarning, "New", "Test", "said in the new way")

	eventually(t, "both events, in both groups", func() bool {
		core, err := client.CoreV1().Events("default").List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.name=about"})
		if err != nil {
			t.Fatal(err)
		}
		group, err := client.EventsV1().Events("default").List(ctx, metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		var count, notes int
		for _, e := range core.Items {
			if e.Reason == "Old" {
				count = int(e.Count)
			}
		}
		for _, e := range group.Items {
			if e.Note == "said in the old way" || e.Note == "said in the new way" {
				notes++
			}
		}
		return len(core.Items) == 2 && count == 3 && notes == 2
	})
	k := newKubectl(t, s)
	k.ok(t, args("events --for=configmap/about"), "said in the old way", "said in the new way")
	k.ok(t, args("get events --field-selector=type=Warning"), "LAST SEEN", "configmap/about", "said in the new way")
}
