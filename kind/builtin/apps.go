package builtin

import (
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-io/keelson/doc"
	"github.com/keelson-io/keelson/kind"
	"github.com/keelson-io/keelson/meta"
	"github.com/keelson-io/keelson/schema"
)

// This file describes the kinds that run pods.

func appsKinds() []description {
	deployment := appsv1.DeploymentStatus{}.SwaggerDoc()
	return []description{{
		group: "apps", kind: "Deployment", plural: "deployments", short: []string{"deploy"}, categories: all,
		versions: v1[appsv1.Deployment](fillDeployment), status: true, statusKeeps: []string{"labels"}, generation: true, counts: "annotations", scale: newScale(),
		columns: append([]kind.Column{
			ratio("Ready", "Number of the pod with ready state", []string{"status", "readyReplicas"}, []string{"spec", "replicas"}),
			counted("Up-to-date", deployment["updatedReplicas"], numberAt("status", "updatedReplicas")),
			counted("Available", deployment["availableReplicas"], numberAt("status", "availableReplicas")),
			ageColumn(),
		}, templateColumns(appsv1.DeploymentSpec{}.SwaggerDoc()["selector"])...),
		check: both(unlessStatus(checkDeployment), deploymentCounts.check), warnings: namedWarnings("spec", "template"),
	}, {
		group: "apps", kind: "ReplicaSet", plural: "replicasets", short: []string{"rs"}, categories: all,
		versions: v1[appsv1.ReplicaSet](fillReplicaSet), status: true, generation: true, scale: newScale(),
		columns: replicaColumns(appsv1.ReplicaSetSpec{}.SwaggerDoc(), appsv1.ReplicaSetStatus{}.SwaggerDoc()),
		check:   both(unlessStatus(checkReplicaSet), replicaCounts.check), warnings: namedWarnings("spec", "template"),
	}, {
		group: "apps", kind: "StatefulSet", plural: "statefulsets", short: []string{"sts"}, categories: all,
		versions: v1[appsv1.StatefulSet](fillStatefulSet), name: validation.NameIsDNSLabel, status: true, generation: true, scale: newScale(),
		columns: append([]kind.Column{
			ratio("Ready", "Number of the pod with ready state", []string{"status", "readyReplicas"}, []string{"spec", "replicas"}),
			ageColumn(),
		}, containerColumns("spec", "template", "spec")...),
		check: both(unlessStatus(checkStatefulSet), statefulCounts.check), warnings: statefulSetWarnings,
	}, {
		group: "apps", kind: "DaemonSet", plural: "daemonsets", short: []string{"ds"}, categories: all,
		versions: v1[appsv1.DaemonSet](fillDaemonSet), status: true, generation: true,
		columns: daemonSetColumns(),
		create:  func(d *doc.Doc) { setTemplateGeneration(d, 1) }, update: updateDaemonSet,
		updateStatus: func(new, old *doc.Doc) { setTemplateGeneration(new, templateGeneration(old)) },
		check:        both(unlessStatus(checkDaemonSet), daemonCounts.check), warnings: daemonWarnings,
	}, {
		group: "apps", kind: "ControllerRevision", plural: "controllerrevisions",
		versions: v1[appsv1.ControllerRevision](nil), check: checkRevision,
		columns: []kind.Column{
			cell("Controller", "Controller of the object", controllerOf),
			counted("Revision", appsv1.ControllerRevision{}.SwaggerDoc()["revision"], numberAt("revision")),
			ageColumn(),
		},
	}}
}

func batchKinds() []description {
	cron := batchv1.CronJobSpec{}.SwaggerDoc()
	return []description{{
		group: "batch", kind: "Job", plural: "jobs", categories: all, orphans: true,
		warned:   "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or set propagationPolicy=Orphan to suppress this warning",
		versions: v1[batchv1.Job](fillJob), status: true, generation: true,
		fields: []kind.Selectable{numberField("status.successful")},
		columns: append([]kind.Column{
			cell("Status", "Status of the job.", jobStatus),
			cell("Completions", batchv1.JobStatus{}.SwaggerDoc()["succeeded"], jobCompletions),
			timed("Duration", "Time required to complete the job.", jobDuration),
			ageColumn(),
		}, templateColumns(batchv1.JobSpec{}.SwaggerDoc()["selector"])...),
		create: createJob, check: both(unlessStatus(checkJob), checkJobStatus), warnings: jobWarnings("spec"),
	}, {
		group: "batch", kind: "CronJob", plural: "cronjobs", short: []string{"cj"}, categories: all,
		versions: v1[batchv1.CronJob](fillCronJob), status: true, generation: true,
		columns: append([]kind.Column{
			at("Schedule", "string", ".spec.schedule", cron["schedule"]),
			orNone("Timezone", cron["timeZone"], "<none>", "spec", "timeZone"),
			kind.Column{Name: "Suspend", Type: "boolean", Description: cron["suspend"], Word: true, Cell: func(obj doc.Value, _ time.Time) string {
				if obj.At("spec", "suspend").Bool() {
					return "True"
				}
				return "False"
			}},
			sizes("Active", batchv1.CronJobStatus{}.SwaggerDoc()["active"], "status", "active"),
			timed("Last Schedule", batchv1.CronJobStatus{}.SwaggerDoc()["lastScheduleTime"], func(obj doc.Value, now time.Time) string {
				if t := obj.At("status", "lastScheduleTime").Text(); t != "" {
					return age(t, now)
				}
				return "<none>"
			}),
			ageColumn(),
		}, append(containerColumns("spec", "jobTemplate", "spec", "template", "spec"),
			selectorColumn(batchv1.JobSpec{}.SwaggerDoc()["selector"], "spec", "jobTemplate", "spec", "selector"))...),
		check: unlessStatus(checkCronJob), warnings: jobWarnings("spec", "jobTemplate", "spec"),
	}}
}

func numberAt(path ...string) func(doc.Value) string {
	return func(obj doc.Value) string { return number(obj.At(path...)) }
}

// replicaColumns are those of kinds that keep a number of pods.
func replicaColumns(spec, status map[string]string) []kind.Column {
	counts := integers(
		counted("Desired", spec["replicas"], numberAt("spec", "replicas")),
		counted("Current", status["replicas"], numberAt("status", "replicas")),
		counted("Ready", status["readyReplicas"], numberAt("status", "readyReplicas")),
	)
	return append(append(counts, ageColumn()), templateColumns(spec["selector"])...)
}

func daemonSetColumns() []kind.Column {
	status := appsv1.DaemonSetStatus{}.SwaggerDoc()
	own := func(name, member string) kind.Column {
		return counted(name, status[member], numberAt("status", member))
	}
	counts := integers(
		own("Desired", "desiredNumberScheduled"), own("Current", "currentNumberScheduled"), own("Ready", "numberReady"),
		own("Up-to-date", "updatedNumberScheduled"), own("Available", "numberAvailable"),
	)
	return append(append(counts,
		cell("Node Selector", corev1.PodSpec{}.SwaggerDoc()["nodeSelector"], func(obj doc.Value) string {
			return mapText(obj.At("spec", "template", "spec", "nodeSelector"), "<none>")
		}),
		ageColumn(),
	), templateColumns(appsv1.DaemonSetSpec{}.SwaggerDoc()["selector"])...)
}

// controllerOf names the owner that controls an object.
func controllerOf(obj doc.Value) string {
	for _, ref := range obj.At("metadata", "ownerReferences").Items() {
		if ref.Get("controller").Bool() {
			group, _, ok := strings.Cut(ref.Get("apiVersion").Text(), "/")
			name := strings.ToLower(ref.Get("kind").Text())
			if ok {
				name += "." + group
			}
			return name + "/" + ref.Get("name").Text()
		}
	}
	return "<none>"
}

// hasCondition reports whether a condition is true.
func hasCondition(obj doc.Value, typ string) bool {
	for _, c := range obj.At("status", "conditions").Items() {
		if c.Get("type").Text() == typ && c.Get("status").Text() == "True" {
			return true
		}
	}
	return false
}

func jobStatus(obj doc.Value) string {
	switch {
	case hasCondition(obj, "Complete"):
		return "Complete"
	case hasCondition(obj, "Failed"):
		return "Failed"
	case obj.At("metadata", "deletionTimestamp").Text() != "":
		return "Terminating"
	case hasCondition(obj, "Suspended"):
		return "Suspended"
	case hasCondition(obj, "FailureTarget"):
		return "FailureTarget"
	case hasCondition(obj, "SuccessCriteriaMet"):
		return "SuccessCriteriaMet"
	}
	return "Running"
}

func jobCompletions(obj doc.Value) string {
	done := number(obj.At("status", "succeeded"))
	if want := obj.At("spec", "completions"); want.Kind() == doc.Int {
		return done + "/" + number(want)
	}
	if n := obj.At("spec", "parallelism"); n.Int() > 1 {
		return done + "/1 of " + number(n)
	}
	return done + "/1"
}

func jobDuration(obj doc.Value, now time.Time) string {
	start, err := time.Parse(time.RFC3339, obj.At("status", "startTime").Text())
	if err != nil {
		return ""
	}
	if end, err := time.Parse(time.RFC3339, obj.At("status", "completionTime").Text()); err == nil {
		now = end
	}
	return duration.HumanDuration(now.Sub(start))
}

// createJob tells the pods of a new job from those of others, unless its owner
// does.
func createJob(d *doc.Doc) {
	o := meta.Object{Doc: d}
	if d.Root().At("spec", "manualSelector").Bool() {
		return
	}
	uid := strings.Clone(o.UID())
	template := []string{"spec", "template", "metadata", "labels"}
	// A job without labels has got those of its pods, and gets what these get.
	own := o.Meta().Get("labels")
	shared := own.Len() == 0 || doc.Equal(own, d.Root().At(template...))
	for _, label := range []struct{ name, value string }{
		{"job-name", strings.Clone(o.Name())}, {batchv1.JobNameLabel, strings.Clone(o.Name())},
		{"controller-uid", uid}, {batchv1.ControllerUidLabel, uid},
	} {
		if !d.Root().At(append(template, label.name)...).Exists() {
			d.Set(d.NewString(label.value), append(template, label.name)...)
		}
	}
	d.Set(d.NewString(uid), "spec", "selector", "matchLabels", batchv1.ControllerUidLabel)
	if shared {
		d.Set(d.Import(d.Root().At(template...)), "metadata", "labels")
	}
}

// templateGeneration is how often the template of a daemon set changed, as an annotation says.
func templateGeneration(d *doc.Doc) int64 {
	n, err := strconv.ParseInt(d.Root().At("metadata", "annotations", appsv1.DeprecatedTemplateGeneration).Text(), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

func setTemplateGeneration(d *doc.Doc, n int64) {
	d.Set(d.NewString(strconv.FormatInt(n, 10)), "metadata", "annotations", appsv1.DeprecatedTemplateGeneration)
}

// updateDaemonSet counts changes of the template; clients cannot.
func updateDaemonSet(new, old *doc.Doc) {
	n := templateGeneration(old)
	if !doc.Equal(new.Root().At("spec", "template"), old.Root().At("spec", "template")) {
		n++
	}
	setTemplateGeneration(new, n)
}

// checkRevision refuses revisions without data, and changes of it.
func checkRevision(_ *kind.Version, d, old *doc.Doc, _ schema.Scope) field.ErrorList {
	var errs field.ErrorList
	data, revision := d.Root().Get("data"), d.Root().Get("revision")
	if data.Kind() != doc.Object && old == nil {
		errs = append(errs, field.Required(field.NewPath("data"), "data is mandatory"))
	}
	if n := revision.Int(); n < 0 {
		errs = append(errs, field.Invalid(field.NewPath("revision"), n, "must be greater than or equal to 0").WithOrigin("minimum"))
	}
	if old != nil && !doc.Equal(data, old.Root().Get("data")) {
		errs = append(errs, field.Invalid(field.NewPath("data"), nil, "field is immutable"))
	}
	return errs
}
