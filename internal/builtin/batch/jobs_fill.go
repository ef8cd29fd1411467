package batch

import (
	"reflect"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/keelson-io/keelson/internal/builtin/core"
	"github.com/keelson-io/keelson/internal/builtin/describe"
	"github.com/keelson-io/keelson/jsondoc"
)

// fillJob sets the defaults of a new job.
func fillJob(j *batchv1.Job) {
	fillJobSpec(&j.Spec)
	if labels := j.Spec.Template.Labels; labels != nil && len(j.Labels) == 0 {
		j.Labels = labels // the same map, see shareLabels
	}
	if j.Spec.Completions == nil && j.Spec.Parallelism == nil {
		j.Spec.Completions = new(int32(1))
	}
	describe.OrDefault(&j.Spec.Parallelism, 1)
	describe.OrDefault(&j.Spec.CompletionMode, batchv1.NonIndexedCompletion)
	describe.OrDefault(&j.Spec.Suspend, false)
	describe.OrDefault(&j.Spec.ManualSelector, false)
	if j.Spec.BackoffLimitPerIndex != nil {
		describe.OrDefault(&j.Spec.BackoffLimit, 1<<31-1)
	}
	describe.OrDefault(&j.Spec.BackoffLimit, 6)
	replacement := batchv1.TerminatingOrFailed
	if j.Spec.PodFailurePolicy != nil {
		replacement = batchv1.Failed
	}
	describe.OrDefault(&j.Spec.PodReplacementPolicy, replacement)
}

// templateLabels is the path of the labels of a job's pods.
var templateLabels = []string{"spec", "template", "metadata", "labels"}

// shareLabels makes the labels of the job and those of its pods one node, if they are one map in the
// Go object: the job was sent without labels. The labels that the server adds to the pods of a new
// job are added to the job, too, if they share the node.
func shareLabels(d *jsondoc.Doc, obj runtime.Object) {
	j := obj.(*batchv1.Job)
	if len(j.Labels) > 0 && reflect.ValueOf(j.Labels).Pointer() == reflect.ValueOf(j.Spec.Template.Labels).Pointer() {
		d.Set(d.Root().At(templateLabels...).Node, "metadata", "labels")
	}
}

// fillJobSpec sets the few defaults that both jobs and templates of jobs have.
func fillJobSpec(spec *batchv1.JobSpec) {
	core.FillPodSpec(&spec.Template.Spec)
	if spec.PodFailurePolicy == nil {
		return
	}
	for i := range spec.PodFailurePolicy.Rules {
		for j := range spec.PodFailurePolicy.Rules[i].OnPodConditions {
			if c := &spec.PodFailurePolicy.Rules[i].OnPodConditions[j]; c.Status == "" {
				c.Status = corev1.ConditionTrue
			}
		}
	}
}

// fillCronJob sets the defaults of a cron job and its template.
func fillCronJob(c *batchv1.CronJob) { fillJobSpec(&c.Spec.JobTemplate.Spec) }
