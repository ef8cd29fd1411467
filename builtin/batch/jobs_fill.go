package batch

import (
	"maps"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-io/keelson/builtin/core"
	"github.com/keelson-io/keelson/builtin/describe"
)

// fillJob sets the defaults of a new job.
func fillJob(j *batchv1.Job) {
	fillJobSpec(&j.Spec)
	if labels := j.Spec.Template.Labels; labels != nil && len(j.Labels) == 0 {
		j.Labels = maps.Clone(labels)
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
