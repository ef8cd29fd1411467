// Package plugins holds Keelson's admission plugins against those of Kubernetes: the same objects
// around them, the same generated pods and claims, the same verdicts, texts and resulting objects.
package plugins

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	mrand "math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	upstream "k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/initializer"
	"k8s.io/apiserver/pkg/admission/plugin/resourcequota"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/util/compatibility"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	_ "k8s.io/kubernetes/pkg/apis/node/install"
	_ "k8s.io/kubernetes/pkg/apis/scheduling/install"
	_ "k8s.io/kubernetes/pkg/apis/storage/install"
	quotacore "k8s.io/kubernetes/pkg/quota/v1/evaluator/core"
	"k8s.io/kubernetes/plugin/pkg/admission/alwayspullimages"
	"k8s.io/kubernetes/plugin/pkg/admission/antiaffinity"
	"k8s.io/kubernetes/plugin/pkg/admission/defaulttolerationseconds"
	"k8s.io/kubernetes/plugin/pkg/admission/extendedresourcetoleration"
	"k8s.io/kubernetes/plugin/pkg/admission/limitranger"
	"k8s.io/kubernetes/plugin/pkg/admission/podnodeselector"
	"k8s.io/kubernetes/plugin/pkg/admission/podtolerationrestriction"
	"k8s.io/kubernetes/plugin/pkg/admission/podtopologylabels"
	"k8s.io/kubernetes/plugin/pkg/admission/priority"
	"k8s.io/kubernetes/plugin/pkg/admission/runtimeclass"
	"k8s.io/kubernetes/plugin/pkg/admission/security/podsecurity"
	"k8s.io/kubernetes/plugin/pkg/admission/serviceaccount"
	"k8s.io/kubernetes/plugin/pkg/admission/storage/storageclass/setdefault"
	"k8s.io/utils/clock"

	"github.com/keelson-io/keelson/internal/admission"
	"github.com/keelson-io/keelson/internal/admission/lookup"
	"github.com/keelson-io/keelson/internal/admission/pods"
	oursecurity "github.com/keelson-io/keelson/internal/admission/podsecurity"
	"github.com/keelson-io/keelson/internal/admission/quota"
	"github.com/keelson-io/keelson/internal/admission/storage"
	"github.com/keelson-io/keelson/internal/authn"
	"github.com/keelson-io/keelson/internal/builtin"
	"github.com/keelson-io/keelson/internal/cache"
	"github.com/keelson-io/keelson/internal/meta"
	"github.com/keelson-io/keelson/internal/objects"
	"github.com/keelson-io/keelson/internal/status"
	"github.com/keelson-io/keelson/internal/store/mem"
	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/kind"
)

// stored is an object that both sides have.
type stored struct {
	group, resource, text string
	typed                 runtime.Object
}

// namespaces are those of the generated objects.
var namespaces = []string{"plain", "limits", "whole", "marked", "secure", "warned"}

// world returns the objects that both sides have.
func world() []stored {
	var all []stored
	add := func(group, resource string, typed runtime.Object, text string) {
		all = append(all, stored{group, resource, text, typed})
	}
	marks := map[string]string{
		"marked": `,"annotations":{"scheduler.alpha.kubernetes.io/node-selector":"disk=ssd","scheduler.alpha.kubernetes.io/defaultTolerations":"[{\"key\":\"x\",\"operator\":\"Exists\"}]",
			"scheduler.alpha.kubernetes.io/tolerationsWhitelist":"[{\"operator\":\"Exists\",\"effect\":\"NoSchedule\"},{\"key\":\"x\",\"operator\":\"Exists\"}]"}`,
		"secure": `,"labels":{"pod-security.kubernetes.io/enforce":"restricted","pod-security.kubernetes.io/audit":"baseline"}`,
		"warned": `,"labels":{"pod-security.kubernetes.io/warn":"restricted","pod-security.kubernetes.io/warn-version":"v1.25","pod-security.kubernetes.io/enforce":"baseline"}`,
	}
	for _, name := range namespaces {
		add("", "namespaces", new(corev1.Namespace), `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"`+name+`"`+marks[name]+`}}`)
		add("", "serviceaccounts", new(corev1.ServiceAccount), `{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"namespace":"`+name+`","name":"default"}}`)
		add("", "serviceaccounts", new(corev1.ServiceAccount), `{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"namespace":"`+name+
			`","name":"strict","annotations":{"kubernetes.io/enforce-mountable-secrets":"true"}},"secrets":[{"name":"s1"}],"imagePullSecrets":[{"name":"p1"}],"automountServiceAccountToken":false}`)
	}
	add("", "limitranges", new(corev1.LimitRange), `{"apiVersion":"v1","kind":"LimitRange","metadata":{"namespace":"limits","name":"l"},"spec":{"limits":[{"type":"Container","min":{"cpu":"100m"},"max":{"cpu":"2","memory":"1Gi"},
		"default":{"cpu":"1","memory":"512Mi"},"defaultRequest":{"cpu":"500m"},"maxLimitRequestRatio":{"cpu":"3"}},{"type":"PersistentVolumeClaim","min":{"storage":"1Gi"},"max":{"storage":"5Gi"}}]}}`)
	add("", "limitranges", new(corev1.LimitRange), `{"apiVersion":"v1","kind":"LimitRange","metadata":{"namespace":"whole","name":"l"},"spec":{"limits":[{"type":"Pod","min":{"memory":"64Mi"},"max":{"cpu":"2"},"maxLimitRequestRatio":{"memory":"2"}}]}}`)
	for i, class := range []string{`"value":5`, `"value":-5,"preemptionPolicy":"Never"`, `"value":9,"globalDefault":true`} {
		add("scheduling.k8s.io", "priorityclasses", new(schedulingv1.PriorityClass), fmt.Sprintf(`{"apiVersion":"scheduling.k8s.io/v1","kind":"PriorityClass","metadata":{"name":"c%d"},%s}`, i, class))
	}
	for i, class := range []string{``, `,"overhead":{"podFixed":{"cpu":"100m"}}`, `,"scheduling":{"nodeSelector":{"disk":"ssd"},"tolerations":[{"key":"x","operator":"Exists"},{"key":"y","effect":"NoExecute"}]}`} {
		add("node.k8s.io", "runtimeclasses", new(nodev1.RuntimeClass), fmt.Sprintf(`{"apiVersion":"node.k8s.io/v1","kind":"RuntimeClass","metadata":{"name":"r%d"},"handler":"h"%s}`, i, class))
	}
	add("", "nodes", new(corev1.Node), `{"apiVersion":"v1","kind":"Node","metadata":{"name":"n1","labels":{"topology.kubernetes.io/zone":"z","other":"o"}}}`)
	add("", "nodes", new(corev1.Node), `{"apiVersion":"v1","kind":"Node","metadata":{"name":"n2"}}`)
	add("storage.k8s.io", "storageclasses", new(storagev1.StorageClass), `{"apiVersion":"storage.k8s.io/v1","kind":"StorageClass","metadata":{"name":"gold","annotations":{"storageclass.kubernetes.io/is-default-class":"true"}},"provisioner":"p"}`)
	return all
}

// quotaTexts are ResourceQuotas with their statuses.
var quotaTexts = []string{
	`{"metadata":{"namespace":"plain","name":"q1"},"spec":{"hard":{"pods":"5","requests.cpu":"2","limits.memory":"1Gi"}},"status":{"hard":{"pods":"5","requests.cpu":"2","limits.memory":"1Gi"},"used":{"pods":"1","requests.cpu":"500m","limits.memory":"0"}}}`,
	`{"metadata":{"namespace":"whole","name":"q2"},"spec":{"hard":{"pods":"1","requests.a.io/gpu":"1"},"scopes":["NotBestEffort"]},"status":{"hard":{"pods":"1","requests.a.io/gpu":"1"},"used":{"pods":"0","requests.a.io/gpu":"0"}}}`,
	`{"metadata":{"namespace":"marked","name":"q3"},"spec":{"hard":{"pods":"1"},"scopeSelector":{"matchExpressions":[{"scopeName":"PriorityClass","operator":"In","values":["c0"]}]}},"status":{"hard":{"pods":"1"},"used":{"pods":"1"}}}`,
	`{"metadata":{"namespace":"secure","name":"q4"},"spec":{"hard":{"count/pods":"3","cpu":"1"}},"status":{"hard":{"count/pods":"3","cpu":"1"},"used":{"count/pods":"2"}}}`,
}

// sides are the plugins of both sides, by name.
type sides struct {
	theirs map[string]upstream.Interface
	mutate map[string]admission.Mutator
	check  map[string]admission.Validator
	kinds  *kind.Registry
	quota  *quota.Step
	quotas map[string][]corev1.ResourceQuota
}

const nodeSelectors = "podNodeSelectorPluginConfig:\n  clusterDefaultNodeSelector: env=prod\n  plain: env=prod,disk=ssd\n"

const tolerations = `{"apiVersion":"podtolerationrestriction.admission.k8s.io/v1alpha1","kind":"Configuration","default":[{"key":"d","operator":"Exists"}],"whitelist":[{"operator":"Exists","effect":"NoSchedule"},{"key":"d","operator":"Exists"}]}`

func newSides(t *testing.T) *sides {
	t.Helper()
	s := &sides{theirs: map[string]upstream.Interface{}, mutate: map[string]admission.Mutator{}, check: map[string]admission.Validator{}, quotas: map[string][]corev1.ResourceQuota{}}
	s.openTheirs(t)
	s.openOurs(t)
	return s
}

// openTheirs makes upstream's plugins.
func (s *sides) openTheirs(t *testing.T) {
	var all []runtime.Object
	for _, o := range world() {
		if err := json.Unmarshal([]byte(o.text), o.typed); err != nil {
			t.Fatalf("%s: %v", o.text, err)
		}
		legacyscheme.Scheme.Default(o.typed)
		all = append(all, o.typed)
	}
	client := fake.NewClientset(all...)
	f := informers.NewSharedInformerFactory(client, 0)
	registry := upstream.NewPlugins()
	for _, register := range []func(*upstream.Plugins){alwayspullimages.Register, antiaffinity.Register, defaulttolerationseconds.Register, extendedresourcetoleration.Register,
		limitranger.Register, podnodeselector.Register, podtolerationrestriction.Register, podtopologylabels.Register, priority.Register, runtimeclass.Register, podsecurity.Register,
		serviceaccount.Register, setdefault.Register} {
		register(registry)
	}
	configs := map[string]string{podnodeselector.PluginName: nodeSelectors, podtolerationrestriction.PluginName: tolerations}
	start := initializer.New(client, nil, f, nil, utilfeature.DefaultFeatureGate, compatibility.DefaultBuildEffectiveVersion(), nil, nil)
	for _, name := range registry.Registered() {
		var config io.Reader
		if text, ok := configs[name]; ok {
			config = bytes.NewBufferString(text)
		}
		p, err := registry.InitPlugin(name, config, start)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		s.theirs[name] = p
	}
	f.Start(t.Context().Done())
	f.WaitForCacheSync(t.Context().Done())
}

// openOurs makes our plugins, over a store in memory.
func (s *sides) openOurs(t *testing.T) {
	st := mem.New(mem.Options{})
	c := cache.New(st, cache.Options{})
	t.Cleanup(func() { c.Close(); st.Close() })
	s.kinds = kind.NewRegistry(builtin.All(nil)...)
	verbs := objects.New(objects.Config{Kinds: s.kinds, Store: st, Cache: c})
	w := verbs.Writer(objects.Server(), "test")
	create := func(group, resource, text string) {
		var m struct {
			Metadata struct{ Namespace, Name string }
		}
		if err := json.Unmarshal([]byte(text), &m); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Create(t.Context(), s.kinds.Load().Lookup(group, resource), m.Metadata.Namespace, m.Metadata.Name, []byte(text)); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	}
	for _, o := range world() {
		create(o.group, o.resource, o.text)
	}
	for _, text := range quotaTexts {
		var q corev1.ResourceQuota
		if err := json.Unmarshal([]byte(text), &q); err != nil {
			t.Fatal(err)
		}
		s.quotas[q.Namespace] = append(s.quotas[q.Namespace], q)
		create("", "resourcequotas", strings.Replace(text, "{", `{"apiVersion":"v1","kind":"ResourceQuota",`, 1))
		err := w.ModifyPart(t.Context(), s.kinds.Load().Lookup("", "resourcequotas"), q.Namespace, q.Name, "status", quota.On(func(live *corev1.ResourceQuota) error {
			live.Status = q.Status
			return nil
		}))
		if err != nil {
			t.Fatal(err)
		}
	}
	source := lookup.Source{Kinds: s.kinds.Load, Cache: c}
	o := pods.NewObjects(source)
	if err := o.PriorityClasses.Current(t.Context()); err != nil {
		t.Fatal(err)
	}
	both := func(name string, m, v admission.Func) { s.mutate[name], s.check[name] = m, v }
	m, v := pods.ServiceAccount(o)
	both("ServiceAccount", m, v)
	m, v = pods.AlwaysPullImages()
	both("AlwaysPullImages", m, v)
	m, v = pods.NodeSelector(o, map[string]string{"clusterDefaultNodeSelector": "env=prod", "plain": "env=prod,disk=ssd"})
	both("PodNodeSelector", m, v)
	var limits pods.TolerationLimits
	if err := json.Unmarshal([]byte(tolerations), &limits); err != nil {
		t.Fatal(err)
	}
	m, v = pods.PodTolerationRestriction(o, limits)
	both("PodTolerationRestriction", m, v)
	m, v = pods.RuntimeClass(o)
	both("RuntimeClass", m, v)
	both("LimitRanger", pods.DefaultLimits(o), pods.Limits(o))
	s.mutate["Priority"] = pods.Priority(o)
	s.mutate["DefaultTolerationSeconds"] = pods.DefaultTolerationSeconds(300, 300)
	s.mutate["ExtendedResourceToleration"] = pods.ExtendedResourceToleration()
	s.mutate["PodTopologyLabels"] = pods.TopologyLabels(o)
	s.mutate["DefaultStorageClass"] = storage.DefaultClass(storage.NewClasses(source))
	s.check["LimitPodHardAntiAffinityTopology"] = pods.HostAntiAffinity()
	s.check["PodSecurity"] = oursecurity.New(source, new(oursecurity.Configuration), nil)
	s.check["claims"] = pods.ClaimLimits(o)
	s.quota = quota.New(source, nil, nil)
}

// dice makes the same random choices every time.
type dice struct{ *mrand.Rand }

func (d dice) one(in ...string) string { return in[d.IntN(len(in))] }

// container returns a random container.
func (d dice) container(name string) string {
	resources := d.one(``, `"requests":{"cpu":"50m"}`, `"limits":{"cpu":"1","memory":"100Mi"}`, `"requests":{"cpu":"100m","memory":"64Mi"},"limits":{"cpu":"3"}`, `"limits":{"a.io/gpu":"2","b.io/x":"1"}`,
		`"requests":{"cpu":"1","memory":"128Mi"},"limits":{"cpu":"1","memory":"128Mi"}`, `"requests":{"cpu":"0"},"limits":{"memory":"2Gi"}`)
	env := d.one(``, ``, `,"env":[{"name":"A","valueFrom":{"secretKeyRef":{"name":"s1","key":"k"}}}]`, `,"env":[{"name":"A","valueFrom":{"secretKeyRef":{"name":"s2","key":"k"}}}]`, `,"envFrom":[{"secretRef":{"name":"s2"}}]`)
	security := d.one(``, ``, `,"securityContext":{"privileged":true}`, `,"securityContext":{"allowPrivilegeEscalation":false,"runAsNonRoot":true,"capabilities":{"drop":["ALL"]},"seccompProfile":{"type":"RuntimeDefault"}}`,
		`,"securityContext":{"capabilities":{"add":["SYS_ADMIN"]}}`, `,"ports":[{"containerPort":80,"hostPort":80}]`)
	mounts := d.one(``, ``, ``, `,"volumeMounts":[{"name":"v","mountPath":"/var/run/secrets/kubernetes.io/serviceaccount"}]`, `,"volumeMounts":[{"name":"v","mountPath":"/x"}]`)
	return fmt.Sprintf(`{"name":%q,"image":%q,"resources":{%s}%s%s%s}`, name, d.one("i:1", "i"), resources, env, security, mounts)
}

// pod returns a random pod.
func (d dice) pod(namespace string) string {
	parts := []string{`"containers":[` + d.one(d.container("c"), d.container("c")+","+d.container("d")) + `]`}
	for _, part := range []string{
		d.one(``, ``, `"initContainers":[`+d.container("i")+`]`, `"initContainers":[`+strings.Replace(d.container("i"), `{`, `{"restartPolicy":"Always",`, 1)+`]`),
		d.one(``, ``, `"serviceAccountName":"strict"`, `"serviceAccountName":"none"`, `"automountServiceAccountToken":false`),
		d.one(``, ``, `"imagePullSecrets":[{"name":"p1"}]`, `"imagePullSecrets":[{"name":"p2"}]`),
		d.one(``, ``, `"priorityClassName":"c0"`, `"priorityClassName":"c1"`, `"priorityClassName":"none"`, `"priority":9`, `"priority":3`, `"priorityClassName":"c1","preemptionPolicy":"PreemptLowerPriority"`),
		d.one(``, ``, `"runtimeClassName":"r0"`, `"runtimeClassName":"r1"`, `"runtimeClassName":"r2"`, `"runtimeClassName":"none"`, `"runtimeClassName":"r1","overhead":{"cpu":"1"}`, `"overhead":{"cpu":"1"}`),
		d.one(``, ``, `"nodeSelector":{"disk":"ssd"}`, `"nodeSelector":{"disk":"hdd"}`, `"nodeSelector":{"env":"test","a":"b"}`),
		d.one(``, ``, `"nodeName":"n1"`, `"nodeName":"n2"`, `"nodeName":"n3"`),
		d.one(``, ``, `"tolerations":[{"key":"node.kubernetes.io/not-ready","operator":"Exists"}]`, `"tolerations":[{"operator":"Exists"}]`, `"tolerations":[{"key":"x","operator":"Exists","effect":"NoSchedule"},{"key":"a.io/gpu","operator":"Exists","effect":"NoSchedule"}]`,
			`"tolerations":[{"key":"y","operator":"Equal","value":"v","effect":"NoExecute","tolerationSeconds":5},{"key":"y","operator":"Exists","effect":"NoExecute"}]`),
		d.one(``, ``, ``, `"affinity":{"podAntiAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":[{"topologyKey":"`+d.one("kubernetes.io/hostname", "topology.kubernetes.io/zone")+`","labelSelector":{}}]}}`),
		d.one(``, ``, `"volumes":[{"name":"v","emptyDir":{}}]`, `"volumes":[{"name":"kube-api-access-abc","emptyDir":{}}]`, `"volumes":[{"name":"v","secret":{"secretName":"s1"}},{"name":"w","secret":{"secretName":"s2"}}]`,
			`"volumes":[{"name":"v","hostPath":{"path":"/"}}]`, `"volumes":[{"name":"v","image":{"reference":"i"}}]`),
		d.one(``, ``, ``, `"hostNetwork":true`, `"hostPID":true`, `"securityContext":{"runAsNonRoot":true,"seccompProfile":{"type":"RuntimeDefault"}}`, `"securityContext":{"sysctls":[{"name":"kernel.x","value":"1"}]}`),
		d.one(``, ``, ``, `"resources":{"requests":{"cpu":"1"},"limits":{"cpu":"1500m","memory":"1Gi"}}`),
		d.one(``, ``, ``, `"activeDeadlineSeconds":5`),
	} {
		if part != "" {
			parts = append(parts, part)
		}
	}
	annotations := d.one(``, ``, ``, ``, `,"annotations":{"kubernetes.io/config.mirror":"x"}`, `,"annotations":{"a":"b"}`)
	return `{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"` + namespace + `","name":"p"` + annotations + `},"spec":{` + strings.Join(parts, ",") + `}}`
}

// sink collects the messages of a step.
type sink struct{ warnings, annotations []string }

func (s *sink) Warn(w ...string)            { s.warnings = append(s.warnings, w...) }
func (s *sink) Annotate(key, value string)  { s.annotations = append(s.annotations, key+"="+value) }
func (s *sink) AnnotateRequest(_, _ string) {}

var (
	randomName = regexp.MustCompile(`kube-api-access-[a-z0-9]{5}`)
	someone    = &authn.User{Name: "u"}
)

// sorted returns an error's text with the parts of a list in order, since upstream ranges over maps.
func sorted(err error) string {
	text := fmt.Sprint(err)
	head, list, ok := strings.Cut(text, "[")
	if !ok || !strings.HasSuffix(list, "]") || strings.Contains(head, "violates") {
		return text
	}
	parts := strings.Split(strings.TrimSuffix(list, "]"), ", ")
	slices.Sort(parts)
	return head + "[" + strings.Join(parts, ", ") + "]"
}

func codeOf(err error) int32 {
	var s apierrors.APIStatus
	if err == nil {
		return 200
	}
	if errors.As(err, &s) {
		return s.Status().Code
	}
	return 500
}

// verdict is what one side says.
type verdict struct {
	code int32
	text string
}

func ofTheirs(err error) verdict { return verdict{codeOf(err), sorted(err)} }

func ofOurs(err error) verdict {
	if err == nil {
		return verdict{200, sorted(err)}
	}
	return verdict{status.From(err).Code, sorted(err)}
}

// TestPods compares the plugins for pods, one by one, on generated pods.
func TestPods(t *testing.T) {
	s, d := newSides(t), dice{mrand.New(mrand.NewPCG(2, 2))}
	k := s.kinds.Load().Lookup("", "pods")
	n := 20_000
	if testing.Short() {
		n = 3000
	}
	texts, changed, wrong := map[string]bool{}, 0, 0
	for range n {
		namespace := d.one(namespaces...)
		text := d.pod(namespace)
		internal, err := runtime.Decode(legacyscheme.Codecs.UniversalDecoder(), []byte(text))
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		for name, theirs := range s.theirs {
			object := internal.DeepCopyObject()
			attributes := upstream.NewAttributesRecord(object, nil, corev1.SchemeGroupVersion.WithKind("Pod"), namespace, "p", corev1.SchemeGroupVersion.WithResource("pods"), "", upstream.Create, nil, false, &user.DefaultInfo{Name: "u"})
			doc := jsondoc.Get()
			if _, err := k.Storage.Decode(doc, []byte(text)); err != nil {
				t.Fatalf("%s: %v", text, err)
			}
			r := &admission.Request{Operation: admission.Create, Version: k.Storage, Namespace: namespace, Name: "p", New: doc, User: someone, Client: new(sink)}
			var before, after error
			if m, ok := theirs.(upstream.MutationInterface); ok && s.mutate[name] != nil {
				before, after = m.Admit(t.Context(), attributes, nil), s.mutate[name].Mutate(t.Context(), r)
			}
			if v, ok := theirs.(upstream.ValidationInterface); ok && before == nil && after == nil && s.check[name] != nil {
				before, after = v.Validate(t.Context(), attributes, nil), s.check[name].Validate(t.Context(), r)
			}
			if before != nil {
				texts[before.Error()] = true
			}
			var want, got corev1.Pod
			if before == nil {
				if err := legacyscheme.Scheme.Convert(object, &want, nil); err != nil {
					t.Fatal(err)
				}
			}
			asText, _ := json.Marshal(want)
			if err := json.Unmarshal(randomName.ReplaceAll(asText, []byte("kube-api-access-x")), &want); err != nil {
				t.Fatal(err)
			}
			if after == nil {
				if err := json.Unmarshal(randomName.ReplaceAll(doc.AppendJSON(nil, doc.Root().Node), []byte("kube-api-access-x")), &got); err != nil {
					t.Fatal(err)
				}
			}
			got.TypeMeta, want.TypeMeta = corev1.Pod{}.TypeMeta, corev1.Pod{}.TypeMeta
			doc.Release()
			same := before != nil || equality.Semantic.DeepEqual(want.Spec, got.Spec) && equality.Semantic.DeepEqual(want.Labels, got.Labels) && equality.Semantic.DeepEqual(want.Annotations, got.Annotations)
			if ofTheirs(before) != ofOurs(after) || !same {
				if wrong++; wrong > 5 {
					t.Fatal("and more")
				}
				a, _ := json.Marshal(want)
				b, _ := json.Marshal(got)
				t.Errorf("%s: %s\nupstream %v %s\nkeelson  %v %s", name, text, ofTheirs(before), a, ofOurs(after), b)
			}
			changed++
		}
	}
	t.Logf("%d comparisons, %d texts", changed, len(texts))
	if len(texts) < 100 {
		t.Errorf("the pods reach too little: %d texts", len(texts))
	}
}

// TestQuota compares what pods use and which quotas refuse them.
func TestQuota(t *testing.T) {
	s, d := newSides(t), dice{mrand.New(mrand.NewPCG(3, 3))}
	k, evaluator := s.kinds.Load().Lookup("", "pods"), quotacore.NewPodEvaluator(nil, clock.RealClock{})
	measure := quota.MeasureOf(schema.GroupResource{Resource: "pods"})
	texts, wrong := map[string]bool{}, 0
	for range 5000 {
		namespace := d.one(namespaces...)
		text := d.pod(namespace)
		internal, err := runtime.Decode(legacyscheme.Codecs.UniversalDecoder(), []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		attributes := upstream.NewAttributesRecord(internal, nil, corev1.SchemeGroupVersion.WithKind("Pod"), namespace, "p", corev1.SchemeGroupVersion.WithResource("pods"), "", upstream.Create, nil, true, &user.DefaultInfo{Name: "u"})
		_, before := resourcequota.CheckRequest(s.quotas[namespace], attributes, evaluator, nil)
		doc := jsondoc.Get()
		if _, err := k.Storage.Decode(doc, []byte(text)); err != nil {
			t.Fatal(err)
		}
		r := &admission.Request{Operation: admission.Create, Version: k.Storage, Namespace: namespace, Name: "p", New: doc, User: someone, DryRun: true}
		after := s.quota.Validate(t.Context(), r)
		use, err := evaluator.Usage(internal)
		if err != nil {
			t.Fatal(err)
		}
		object, err := measure.Read(doc)
		if err != nil {
			t.Fatal(err)
		}
		doc.Release()
		if before != nil {
			texts[before.Error()] = true
		}
		if !quota.Equal(use, measure.Use(object)) || ofTheirs(before) != ofOurs(after) {
			if wrong++; wrong > 5 {
				t.Fatal("and more")
			}
			t.Errorf("%s\nupstream %v %v\nkeelson  %v %v", text, ofTheirs(before), use, ofOurs(after), measure.Use(object))
		}
	}
	if len(texts) < 20 {
		t.Errorf("the pods reach too little: %d texts", len(texts))
	}
}

// TestClaims compares limits and default classes of claims.
func TestClaims(t *testing.T) {
	s, d := newSides(t), dice{mrand.New(mrand.NewPCG(4, 4))}
	k := s.kinds.Load().Lookup("", "persistentvolumeclaims")
	for range 500 {
		namespace := d.one(namespaces...)
		text := `{"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{"namespace":"` + namespace + `","name":"p"` + d.one(``, `,"annotations":{"volume.beta.kubernetes.io/storage-class":"old"}`) +
			`},"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"` + d.one("1Mi", "2Gi", "10Gi") + `"}}` + d.one(``, `,"storageClassName":""`, `,"storageClassName":"s"`) + `}}`
		internal, err := runtime.Decode(legacyscheme.Codecs.UniversalDecoder(), []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		attributes := upstream.NewAttributesRecord(internal, nil, corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaim"), namespace, "p", corev1.SchemeGroupVersion.WithResource("persistentvolumeclaims"), "", upstream.Create, nil, false, &user.DefaultInfo{})
		doc := jsondoc.Get()
		if _, err := k.Storage.Decode(doc, []byte(text)); err != nil {
			t.Fatal(err)
		}
		r := &admission.Request{Operation: admission.Create, Version: k.Storage, Namespace: namespace, Name: "p", New: doc, User: someone}
		if err := errors.Join(s.theirs["DefaultStorageClass"].(upstream.MutationInterface).Admit(context.Background(), attributes, nil), s.mutate["DefaultStorageClass"].Mutate(t.Context(), r)); err != nil {
			t.Fatal(err)
		}
		var want corev1.PersistentVolumeClaim
		if err := legacyscheme.Scheme.Convert(internal, &want, nil); err != nil {
			t.Fatal(err)
		}
		class := ""
		if want.Spec.StorageClassName != nil {
			class = *want.Spec.StorageClassName
		}
		if got := (meta.Object{Doc: doc}).Doc.Root().At("spec", "storageClassName"); got.Exists() != (want.Spec.StorageClassName != nil) || got.Text() != class {
			t.Errorf("%s: class %s, want %s", text, got.Text(), class)
		}
		before, after := s.theirs["LimitRanger"].(upstream.ValidationInterface).Validate(t.Context(), attributes, nil), s.check["claims"].Validate(t.Context(), r)
		if ofTheirs(before) != ofOurs(after) {
			t.Errorf("%s\nupstream %v\nkeelson  %v", text, ofTheirs(before), ofOurs(after))
		}
		doc.Release()
	}
}
