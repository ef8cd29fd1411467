package builtin

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
	podutil "k8s.io/kubernetes/pkg/api/pod"
	"k8s.io/kubernetes/pkg/apis/core"
	corev1defaults "k8s.io/kubernetes/pkg/apis/core/v1"
	"k8s.io/kubernetes/pkg/apis/core/validation"

	"github.com/keelson-io/keelson/internal/builtin"
	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/kind"
	"github.com/keelson-io/keelson/schema"
)

// This file compares how the resources of a pod as a whole are filled in and checked, with upstream's code.

// randomResources returns requests and limits of few resources, which often overlap.
func randomResources(r *rand.Rand) corev1.ResourceRequirements {
	list := func() corev1.ResourceList {
		l := corev1.ResourceList{}
		for _, name := range []corev1.ResourceName{"cpu", "memory", "hugepages-2Mi", "ephemeral-storage", "a.io/b", "pods", "x"} {
			if r.IntN(3) == 0 {
				l[name] = *resource.NewQuantity(int64(1+r.IntN(4))<<21, resource.BinarySI)
			}
		}
		if len(l) == 0 && r.IntN(2) == 0 {
			return nil
		}
		return l
	}
	return corev1.ResourceRequirements{Requests: list(), Limits: list()}
}

// wholeProblems returns the errors about the resources of the pod as a whole and about huge pages, in order. An error
// that is there twice, as the same text for two resources, counts once.
func wholeProblems(errs field.ErrorList) []string {
	var problems []string
	for _, err := range errs {
		if strings.HasPrefix(err.Field, "spec.resources") || strings.HasPrefix(err.Detail, "HugePages") {
			problems = append(problems, err.Error())
		}
	}
	slices.Sort(problems)
	return slices.Compact(problems)
}

// TestWholeResources compares 20,000 pods with random resources: what is filled in, and what is refused.
func TestWholeResources(t *testing.T) {
	all := builtin.All(nil)
	pods := all[slices.IndexFunc(all, func(k *kind.Kind) bool { return k.Group == "" && k.Plural == "pods" })].Storage
	always := corev1.ContainerRestartPolicyAlways
	for seed := range uint64(20_000) {
		r := rand.New(rand.NewPCG(seed, 1))
		pod := &corev1.Pod{}
		pod.APIVersion, pod.Kind, pod.Name = "v1", "Pod", "p"
		for i := range 1 + r.IntN(2) {
			pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: string(rune('a' + i)), Image: "i", Resources: randomResources(r)})
		}
		for i := range r.IntN(3) {
			c := corev1.Container{Name: string(rune('m' + i)), Image: "i", Resources: randomResources(r)}
			if r.IntN(2) == 0 {
				c.RestartPolicy = &always
			}
			pod.Spec.InitContainers = append(pod.Spec.InitContainers, c)
		}
		if r.IntN(8) > 0 {
			whole := randomResources(r)
			pod.Spec.Resources = &whole
		}
		text, err := json.Marshal(pod)
		if err != nil {
			t.Fatal(err)
		}
		d := jsondoc.Get()
		if _, err := pods.Decode(d, text); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		pods.PrepareCreate(d)
		problems := wholeProblems(pods.Validate(t.Context(), d, nil, schema.Whole).Errors)
		got := ""
		if r := d.Root().At("spec", "resources"); r.Exists() {
			got = string(r.AppendJSON(nil))
		}
		d.Release()

		var internal core.Pod
		corev1defaults.SetObjectDefaults_Pod(pod)
		if err := corev1defaults.Convert_v1_Pod_To_core_Pod(pod, &internal, nil); err != nil {
			t.Fatal(err)
		}
		podutil.DefaultPodLevelResources(&internal)
		options := podutil.GetValidationOptionsFromPodSpecAndMeta(&internal.Spec, nil, &internal.ObjectMeta, nil)
		if theirs := wholeProblems(validation.ValidatePodCreate(&internal, options)); !slices.Equal(problems, theirs) {
			t.Errorf("seed %d: got %q, want %q: %s", seed, problems, theirs, text)
		}
		var out corev1.Pod
		if err := corev1defaults.Convert_core_Pod_To_v1_Pod(&internal, &out, nil); err != nil {
			t.Fatal(err)
		}
		want := ""
		if out.Spec.Resources != nil {
			raw, err := json.Marshal(out.Spec.Resources)
			if err != nil {
				t.Fatal(err)
			}
			want = string(raw)
		}
		if got != want {
			t.Errorf("seed %d: got %s, want %s: %s", seed, got, want, text)
		}
	}
}
