// Package batch describes the kinds of the API group batch: jobs and cron jobs.
package batch

import (
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/keelson-io/keelson/internal/builtin/core"
	"github.com/keelson-io/keelson/internal/builtin/describe"
	"github.com/keelson-io/keelson/internal/meta"
	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/kind"
)

// Kinds returns the descriptions of the kinds of the group.
func Kinds() []describe.Description {
	cron := batchv1.CronJobSpec{}.SwaggerDoc()
	return []describe.Description{{
		Group: "batch", Kind: "Job", Plural: "jobs", Categories: describe.AllCategory,
		Traits:   kind.Traits{DefaultOrphan: true, OrphanWarning: "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or set propagationPolicy=Orphan to suppress this warning"},
		Versions: describe.V1[batchv1.Job](fillJob), Status: true, Generation: true,
		Fields: []kind.Selectable{describe.NumberField("status.successful")},
		Columns: append([]kind.Column{
			describe.Cell("Status", "Status of the job.", jobStatus),
			describe.Cell("Completions", batchv1.JobStatus{}.SwaggerDoc()["succeeded"], jobCompletions),
			describe.Timed("Duration", "Time required to complete the job.", jobDuration),
			describe.AgeColumn(),
		}, describe.TemplateColumns(batchv1.JobSpec{}.SwaggerDoc()["selector"])...),
		Decoded: shareLabels, Create: createJob, Check: describe.Both(describe.UnlessStatus(checkJob), checkJobStatus), Warnings: core.JobWarnings("spec"),
	}, {
		Group: "batch", Kind: "CronJob", Plural: "cronjobs", ShortNames: []string{"cj"}, Categories: describe.AllCategory,
		Versions: describe.V1[batchv1.CronJob](fillCronJob), Status: true, Generation: true,
		Columns: append([]kind.Column{
			describe.At("Schedule", "string", ".spec.schedule", cron["schedule"]),
			describe.OrNone("Timezone", cron["timeZone"], "<none>", "spec", "timeZone"),
			kind.Column{Name: "Suspend", Type: "boolean", Description: cron["suspend"], Word: true, Cell: func(obj jsondoc.Value, _ time.Time) string {
				if obj.At("spec", "suspend").Bool() {
					return "True"
				}
				return "False"
			}},
			describe.Sizes("Active", batchv1.CronJobStatus{}.SwaggerDoc()["active"], "status", "active"),
			describe.Timed("Last Schedule", batchv1.CronJobStatus{}.SwaggerDoc()["lastScheduleTime"], func(obj jsondoc.Value, now time.Time) string {
				if t := obj.At("status", "lastScheduleTime").Text(); t != "" {
					return describe.Age(t, now)
				}
				return "<none>"
			}),
			describe.AgeColumn(),
		}, append(describe.ContainerColumns("spec", "jobTemplate", "spec", "template", "spec"),
			describe.SelectorColumn(batchv1.JobSpec{}.SwaggerDoc()["selector"], "spec", "jobTemplate", "spec", "selector"))...),
		Check: describe.UnlessStatus(checkCronJob), Warnings: core.JobWarnings("spec", "jobTemplate", "spec"),
	}}
}

// jobStatus returns the state of a job as tables show it.
func jobStatus(obj jsondoc.Value) string {
	switch {
	case describe.HasCondition(obj, "Complete"):
		return "Complete"
	case describe.HasCondition(obj, "Failed"):
		return "Failed"
	case obj.At("metadata", "deletionTimestamp").Text() != "":
		return "Terminating"
	case describe.HasCondition(obj, "Suspended"):
		return "Suspended"
	case describe.HasCondition(obj, "FailureTarget"):
		return "FailureTarget"
	case describe.HasCondition(obj, "SuccessCriteriaMet"):
		return "SuccessCriteriaMet"
	}
	return "Running"
}

// jobCompletions returns how many pods completed, of how many.
func jobCompletions(obj jsondoc.Value) string {
	done := describe.Number(obj.At("status", "succeeded"))
	if want := obj.At("spec", "completions"); want.Kind() == jsondoc.Int {
		return done + "/" + describe.Number(want)
	}
	if n := obj.At("spec", "parallelism"); n.Int() > 1 {
		return done + "/1 of " + describe.Number(n)
	}
	return done + "/1"
}

// jobDuration returns how long a job has run.
func jobDuration(obj jsondoc.Value, now time.Time) string {
	start, err := time.Parse(time.RFC3339, obj.At("status", "startTime").Text())
	if err != nil {
		return ""
	}
	if end, err := time.Parse(time.RFC3339, obj.At("status", "completionTime").Text()); err == nil {
		now = end
	}
	return duration.HumanDuration(now.Sub(start))
}

// createJob sets a label and a selector that distinguish the pods of a new job from those of
// others, unless its owner sets the selector (manualSelector).
func createJob(d *jsondoc.Doc) {
	o := meta.Object{Doc: d}
	if d.Root().At("spec", "manualSelector").Bool() {
		return
	}
	uid := strings.Clone(o.UID())
	// A job that is sent without labels has the labels of its pods, and the server adds the same to
	// both. One that is sent with the same labels as its pods keeps them.
	own := o.Meta().Get("labels")
	shared := own.Len() == 0 || own.Node == d.Root().At(templateLabels...).Node
	for _, label := range []struct{ name, value string }{
		{"job-name", strings.Clone(o.Name())}, {batchv1.JobNameLabel, strings.Clone(o.Name())},
		{"controller-uid", uid}, {batchv1.ControllerUidLabel, uid},
	} {
		if !d.Root().At(append(slices.Clone(templateLabels), label.name)...).Exists() {
			d.Set(d.NewString(label.value), append(slices.Clone(templateLabels), label.name)...)
		}
	}
	d.Set(d.NewString(uid), "spec", "selector", "matchLabels", batchv1.ControllerUidLabel)
	if shared {
		d.Set(d.Import(d.Root().At(templateLabels...)), "metadata", "labels")
	}
}
