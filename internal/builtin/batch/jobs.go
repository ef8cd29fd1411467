package batch

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
	_ "time/tzdata" // the time zones of cron jobs, for machines without the database

	"github.com/robfig/cron/v3"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-io/keelson/internal/builtin/core"
	"github.com/keelson-io/keelson/internal/builtin/describe"
	"github.com/keelson-io/keelson/internal/texts"
	"github.com/keelson-io/keelson/jsondoc"
)

// This file checks jobs and cron jobs.

// Bounds of jobs.
const (
	maxIndexedParallelism = 100_000
	maxManagedBy          = 63
)

// checkJob checks a job; old is nil on create.
func checkJob(new, old *jsondoc.Doc) field.ErrorList {
	spec, path := describe.ReadAs[batchv1.JobSpec](new.Root().Get("spec")), field.NewPath("spec")
	errs := checkJobSpec(spec, path)
	if spec.Selector == nil {
		errs = append(errs, field.Required(path.Child("selector"), ""))
	} else {
		errs = append(errs, describe.CheckTerms(spec.Selector, path.Child("selector"))...)
	}
	if s, err := metav1.LabelSelectorAsSelector(spec.Selector); err == nil && !s.Matches(labels.Set(spec.Template.Labels)) {
		errs = append(errs, field.Invalid(path.Child("template", "metadata", "labels"), spec.Template.Labels, "`selector` does not match template `labels`"))
	}
	if old != nil {
		return append(errs, checkJobUpdate(spec, describe.ReadAs[batchv1.JobSpec](old.Root().Get("spec")), new, old)...)
	}
	return append(checkGenerated(spec, strings.Clone(new.Root().At("metadata", "uid").Text()), strings.Clone(new.Root().At("metadata", "name").Text())), errs...)
}

// checkGenerated checks that a new job has the labels and the selector that the server generates,
// unless its owner sets the selector.
func checkGenerated(spec *batchv1.JobSpec, uid, name string) field.ErrorList {
	if manual := spec.ManualSelector; manual != nil && *manual || spec.Selector == nil {
		return nil
	}
	var errs field.ErrorList
	path, own := field.NewPath("spec"), labels.Set{}
	for _, label := range []struct{ key, want string }{
		{"controller-uid", uid}, {"job-name", name}, {batchv1.ControllerUidLabel, uid}, {batchv1.JobNameLabel, name},
	} {
		own[label.key] = label.want
		at, want := path.Child("template", "metadata", "labels").Key(label.key), fmt.Sprintf("must be '%s'", label.want)
		if got, ok := spec.Template.Labels[label.key]; !ok {
			errs = append(errs, field.Required(at, want))
		} else if got != label.want {
			errs = append(errs, field.Invalid(at, spec.Template.Labels, want))
		}
	}
	if s, err := metav1.LabelSelectorAsSelector(spec.Selector); err == nil && !s.Matches(own) {
		errs = append(errs, field.Invalid(path.Child("selector"), spec.Selector, "`selector` not auto-generated"))
	}
	return errs
}

// checkJobSpec checks a job, or a template of jobs.
func checkJobSpec(spec *batchv1.JobSpec, path *field.Path) field.ErrorList {
	errs := describe.AtLeast(path.Child("parallelism"), spec.Parallelism, 0)
	errs = append(errs, describe.AtLeast(path.Child("completions"), spec.Completions, 0)...)
	errs = append(errs, describe.AtLeast(path.Child("activeDeadlineSeconds"), spec.ActiveDeadlineSeconds, 0)...)
	errs = append(errs, describe.AtLeast(path.Child("backoffLimit"), spec.BackoffLimit, 0)...)
	errs = append(errs, describe.AtLeast(path.Child("ttlSecondsAfterFinished"), spec.TTLSecondsAfterFinished, 0)...)
	errs = append(errs, describe.AtLeast(path.Child("backoffLimitPerIndex"), spec.BackoffLimitPerIndex, 0)...)
	errs = append(errs, describe.AtLeast(path.Child("maxFailedIndexes"), spec.MaxFailedIndexes, 0)...)
	if spec.MaxFailedIndexes != nil && spec.BackoffLimitPerIndex == nil {
		errs = append(errs, field.Required(path.Child("backoffLimitPerIndex"), "when maxFailedIndexes is specified"))
	}
	if by := spec.ManagedBy; by != nil {
		errs = append(errs, validation.IsDomainPrefixedPath(path.Child("managedBy"), *by)...)
		if len(*by) > maxManagedBy {
			errs = append(errs, field.TooLong(path.Child("managedBy"), "" /*unused*/, maxManagedBy))
		}
	}
	errs = append(errs, checkCompletionMode(spec, path)...)
	if p := spec.PodReplacementPolicy; p != nil {
		errs = append(errs, checkReplacement(spec, path.Child("podReplacementPolicy"))...)
	}
	if spec.PodFailurePolicy != nil {
		for i := range texts.Each(&errs, spec.PodFailurePolicy.Rules) {
			errs = append(errs, checkFailureRule(spec, &spec.PodFailurePolicy.Rules[i], path.Child("podFailurePolicy", "rules").Index(i))...)
		}
	}
	errs = append(errs, core.CheckTemplate(&spec.Template, path.Child("template"), nil)...)
	return append(errs, checkJobRestart(spec, path.Child("template", "spec", "restartPolicy"))...)
}

// checkJobRestart refuses the restart policy Always: pods of a job must end.
func checkJobRestart(spec *batchv1.JobSpec, path *field.Path) field.ErrorList {
	const onFailure, never = corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever
	switch policy := spec.Template.Spec.RestartPolicy; {
	case policy == "" || policy == corev1.RestartPolicyAlways:
		return field.ErrorList{field.Required(path, fmt.Sprintf("valid values: %q, %q", onFailure, never))}
	case policy == onFailure && spec.PodFailurePolicy != nil:
		return field.ErrorList{field.Invalid(path, policy, fmt.Sprintf("only %q is supported when podFailurePolicy is specified", never))}
	default:
		return describe.Among(path, policy, onFailure, never)
	}
}

// checkCompletionMode checks the fields that depend on the completion mode.
func checkCompletionMode(spec *batchv1.JobSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	mode := batchv1.NonIndexedCompletion
	if spec.CompletionMode != nil {
		mode = *spec.CompletionMode
		errs = append(errs, describe.Among(path.Child("completionMode"), mode, batchv1.NonIndexedCompletion, batchv1.IndexedCompletion)...)
	}
	switch mode {
	case batchv1.IndexedCompletion:
		if spec.Completions == nil {
			errs = append(errs, field.Required(path.Child("completions"), "when completion mode is Indexed"))
		}
		if n := spec.Parallelism; n != nil && *n > maxIndexedParallelism {
			errs = append(errs, field.Invalid(path.Child("parallelism"), *n, fmt.Sprintf("must be less than or equal to %d when completion mode is Indexed", maxIndexedParallelism)))
		}
		if n := spec.MaxFailedIndexes; n != nil && spec.Completions != nil && *n > *spec.Completions {
			errs = append(errs, field.Invalid(path.Child("maxFailedIndexes"), *n, "must be less than or equal to completions"))
		}
		return errs
	case batchv1.NonIndexedCompletion:
		for _, of := range []struct {
			name string
			n    *int32
		}{{"backoffLimitPerIndex", spec.BackoffLimitPerIndex}, {"maxFailedIndexes", spec.MaxFailedIndexes}} {
			if of.n != nil {
				errs = append(errs, field.Invalid(path.Child(of.name), *of.n, "requires indexed completion mode"))
			}
		}
	}
	if spec.SuccessPolicy != nil {
		errs = append(errs, field.Invalid(path.Child("successPolicy"), describe.InGoNames(spec.SuccessPolicy), "requires indexed completion mode"))
	}
	return errs
}

// checkReplacement checks the rule for the replacement of terminating pods.
func checkReplacement(spec *batchv1.JobSpec, path *field.Path) field.ErrorList {
	const failed = batchv1.Failed
	if spec.PodFailurePolicy != nil {
		return describe.Among(path, *spec.PodReplacementPolicy, failed)
	}
	return describe.Among(path, *spec.PodReplacementPolicy, failed, batchv1.TerminatingOrFailed)
}

// checkFailureRule checks a rule of the pod failure policy.
func checkFailureRule(spec *batchv1.JobSpec, rule *batchv1.PodFailurePolicyRule, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	const count, failIndex, failJob, ignore = batchv1.PodFailurePolicyActionCount, batchv1.PodFailurePolicyActionFailIndex, batchv1.PodFailurePolicyActionFailJob, batchv1.PodFailurePolicyActionIgnore
	switch at := path.Child("action"); {
	case rule.Action == "":
		errs = append(errs, field.Required(at, fmt.Sprintf("valid values: %q", []batchv1.PodFailurePolicyAction{count, failIndex, failJob, ignore})))
	case rule.Action == failIndex && spec.BackoffLimitPerIndex == nil:
		errs = append(errs, field.Invalid(at, rule.Action, "requires the backoffLimitPerIndex to be set"))
	default:
		errs = append(errs, describe.Among(at, rule.Action, count, failIndex, failJob, ignore)...)
	}
	if rule.OnExitCodes != nil {
		errs = append(errs, checkExitCodes(spec, rule.OnExitCodes, path.Child("onExitCodes"))...)
	}
	for i, c := range texts.Each(&errs, rule.OnPodConditions) {
		at := path.Child("onPodConditions").Index(i)
		errs = append(errs, describe.Invalid(at.Child("type"), string(c.Type), validation.IsQualifiedName(string(c.Type)))...)
		errs = append(errs, describe.Among(at.Child("status"), c.Status, corev1.ConditionFalse, corev1.ConditionTrue, corev1.ConditionUnknown)...)
	}
	switch codes, conditions := rule.OnExitCodes != nil, len(rule.OnPodConditions) > 0; {
	case codes && conditions:
		errs = append(errs, field.Invalid(path, field.OmitValueType{}, "specifying both OnExitCodes and OnPodConditions is not supported"))
	case !codes && !conditions:
		errs = append(errs, field.Invalid(path, field.OmitValueType{}, "specifying one of OnExitCodes and OnPodConditions is required"))
	}
	return errs
}

// checkExitCodes checks the exit codes that a rule matches.
func checkExitCodes(spec *batchv1.JobSpec, r *batchv1.PodFailurePolicyOnExitCodesRequirement, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	operators := []batchv1.PodFailurePolicyOnExitCodesOperator{batchv1.PodFailurePolicyOnExitCodesOpIn, batchv1.PodFailurePolicyOnExitCodesOpNotIn}
	if r.Operator == "" {
		errs = append(errs, field.Required(path.Child("operator"), fmt.Sprintf("valid values: %q", operators)))
	}
	errs = append(errs, describe.Among(path.Child("operator"), r.Operator, operators...)...)
	if name := r.ContainerName; name != nil && !slices.ContainsFunc(slices.Concat(spec.Template.Spec.Containers, spec.Template.Spec.InitContainers),
		func(c corev1.Container) bool { return c.Name == *name }) {
		errs = append(errs, field.Invalid(path.Child("containerName"), *name, "must be one of the container or initContainer names in the pod template"))
	}
	values, have := path.Child("values"), map[int32]bool{}
	if len(r.Values) == 0 {
		errs = append(errs, field.Invalid(values, r.Values, "at least one value is required"))
	}
	for i, n := range texts.Each(&errs, r.Values) {
		if n == 0 && r.Operator == batchv1.PodFailurePolicyOnExitCodesOpIn {
			errs = append(errs, field.Invalid(values.Index(i), n, "must not be 0 for the In operator"))
		}
		if have[n] {
			errs = append(errs, field.Duplicate(values.Index(i), n))
		}
		have[n] = true
	}
	if !slices.IsSorted(r.Values) {
		errs = append(errs, field.Invalid(values, r.Values, "must be ordered"))
	}
	return errs
}

// checkJobUpdate refuses a change of the pods of a job, unless the job has not made any yet.
func checkJobUpdate(now, was *batchv1.JobSpec, new, old *jsondoc.Doc) field.ErrorList {
	var errs field.ErrorList
	mutable := mutableTemplate(was, old)
	suspended := was.Suspend != nil && *was.Suspend
	may := map[string]bool{
		"template": suspended && mutable,
		// An indexed job may be scaled, if completions and parallelism change together.
		"completions": now.CompletionMode != nil && *now.CompletionMode == batchv1.IndexedCompletion,
	}
	for _, name := range []string{"completions", "selector", "template", "completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy"} {
		value := new.Root().At("spec", name)
		if may[name] || jsondoc.Equal(value, old.Root().At("spec", name)) {
			continue
		}
		shown := value.Interface()
		switch name {
		case "selector":
			shown = now.Selector
		case "podFailurePolicy":
			shown = describe.InGoNames(now.PodFailurePolicy)
		case "successPolicy":
			shown = describe.InGoNames(now.SuccessPolicy)
		}
		errs = append(errs, field.Invalid(field.NewPath("spec", name), shown, "field is immutable").WithOrigin("immutable"))
	}
	if may["template"] {
		errs = append(errs, checkWaitingTemplate(&now.Template, was.Template.DeepCopy())...)
	}
	if n := now.Completions; may["completions"] && n != nil && !describe.SameJSON(n, was.Completions) && *n != describe.OrNothing(now.Parallelism) {
		errs = append(errs, field.Invalid(field.NewPath("spec", "completions"), n, "can only be modified in tandem with spec.parallelism"))
	}
	return errs
}

// mutableTemplate reports whether the template of a job may still change in the fields for
// placement and resources: the job is suspended, and none of its pods runs.
func mutableTemplate(was *batchv1.JobSpec, old *jsondoc.Doc) bool {
	status := describe.ReadAs[batchv1.JobStatus](old.Root().Get("status"))
	waits := slices.ContainsFunc(status.Conditions, func(c batchv1.JobCondition) bool {
		return c.Type == batchv1.JobSuspended && c.Status == corev1.ConditionTrue
	})
	return was.Suspend != nil && *was.Suspend && (status.StartTime == nil || waits) && status.Active == 0
}

// checkWaitingTemplate refuses a change of other fields of the template of a suspended job.
func checkWaitingTemplate(now, was *corev1.PodTemplateSpec) field.ErrorList {
	near := now.Spec.Affinity
	switch {
	case near == nil && was.Spec.Affinity != nil:
		if was.Spec.Affinity.NodeAffinity = nil; *was.Spec.Affinity == (corev1.Affinity{}) {
			was.Spec.Affinity = nil
		}
	case near != nil && was.Spec.Affinity == nil:
		was.Spec.Affinity = &corev1.Affinity{NodeAffinity: near.NodeAffinity}
	case near != nil:
		was.Spec.Affinity.NodeAffinity = near.NodeAffinity
	}
	was.Spec.NodeSelector, was.Spec.Tolerations, was.Spec.SchedulingGates = now.Spec.NodeSelector, now.Spec.Tolerations, now.Spec.SchedulingGates
	for _, lists := range [][2][]corev1.Container{{now.Spec.Containers, was.Spec.Containers}, {now.Spec.InitContainers, was.Spec.InitContainers}} {
		for i := range lists[0] {
			if len(lists[0]) == len(lists[1]) && lists[0][i].Name == lists[1][i].Name {
				lists[1][i].Resources = lists[0][i].Resources
			}
		}
	}
	if describe.SameJSON(now.Spec, was.Spec) {
		return nil
	}
	return field.ErrorList{field.Invalid(field.NewPath("spec", "template.spec"), now.Spec, "field is immutable").WithOrigin("immutable")}
}

// maxCronJobName leaves room for what is appended to the names of its jobs.
const maxCronJobName = validation.DNS1035LabelMaxLength - 11

// checkCronJob checks a cron job; old is nil on create.
func checkCronJob(now, old *jsondoc.Doc) field.ErrorList {
	spec, path := describe.ReadAs[batchv1.CronJobSpec](now.Root().Get("spec")), field.NewPath("spec")
	was := new(batchv1.CronJobSpec)
	if old != nil {
		was = describe.ReadAs[batchv1.CronJobSpec](old.Root().Get("spec"))
	}
	var errs field.ErrorList
	if spec.Schedule == "" {
		errs = append(errs, field.Required(path.Child("schedule"), ""))
	} else {
		errs = append(errs, checkSchedule(spec, strings.Contains(was.Schedule, "TZ"), path.Child("schedule"))...)
	}
	errs = append(errs, describe.AtLeast(path.Child("startingDeadlineSeconds"), spec.StartingDeadlineSeconds, 0)...)
	if zone := spec.TimeZone; zone != nil && (old == nil || !describe.SameJSON(zone, was.TimeZone)) {
		errs = append(errs, checkZone(*zone, path.Child("timeZone"))...)
	}
	errs = append(errs, describe.Among(path.Child("concurrencyPolicy"), spec.ConcurrencyPolicy, batchv1.AllowConcurrent, batchv1.ForbidConcurrent, batchv1.ReplaceConcurrent)...)
	job := path.Child("jobTemplate", "spec")
	errs = append(errs, checkJobSpec(&spec.JobTemplate.Spec, job)...)
	if s := spec.JobTemplate.Spec.Selector; s != nil {
		errs = append(errs, field.Invalid(job.Child("selector"), s, "`selector` will be auto-generated"))
	}
	if manual := spec.JobTemplate.Spec.ManualSelector; manual != nil && *manual {
		errs = append(errs, field.NotSupported(job.Child("manualSelector"), *manual, []string{"nil", "false"}))
	}
	errs = append(errs, describe.AtLeast(path.Child("successfulJobsHistoryLimit"), spec.SuccessfulJobsHistoryLimit, 0)...)
	errs = append(errs, describe.AtLeast(path.Child("failedJobsHistoryLimit"), spec.FailedJobsHistoryLimit, 0)...)
	if name := now.Root().At("metadata", "name").Text(); old == nil && len(name) > maxCronJobName {
		errs = append(errs, field.Invalid(field.NewPath("metadata", "name"), strings.Clone(name), "must be no more than 52 characters"))
	}
	return errs
}

// checkSchedule checks a schedule. zoned reports whether there is also a field with a time zone.
func checkSchedule(spec *batchv1.CronJobSpec, zoned bool, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if err := parseSchedule(spec.Schedule); err != nil {
		errs = append(errs, field.Invalid(path, spec.Schedule, err.Error()))
	}
	switch {
	case !strings.Contains(spec.Schedule, "TZ"):
	case !zoned:
		errs = append(errs, field.Invalid(path, spec.Schedule, "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"))
	case spec.TimeZone != nil:
		errs = append(errs, field.Invalid(path, spec.Schedule, "cannot use both timeZone field and TZ or CRON_TZ in schedule"))
	}
	return errs
}

// parseSchedule parses a schedule. The library panics for some texts that have a time zone and no
// times.
func parseSchedule(text string) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("invalid schedule format: %v", v)
		}
	}()
	_, err = cron.ParseStandard(text)
	return err
}

// zonePart is the pattern for each part of the name of a time zone.
var zonePart = regexp.MustCompile(`^[A-Za-z0-9._+-]{1,14}$`)

// checkZone checks the name of a time zone.
func checkZone(name string, path *field.Path) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Invalid(path, name, "timeZone must be nil or non-empty string")}
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == "." || part == ".." || strings.HasPrefix(part, "-") || !zonePart.MatchString(part) {
			return field.ErrorList{field.Invalid(path, name, "unknown time zone "+name)}
		}
	}
	var errs field.ErrorList
	if strings.EqualFold(name, "Local") {
		errs = append(errs, field.Invalid(path, name, "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"))
	}
	if _, err := time.LoadLocation(name); err != nil {
		errs = append(errs, field.Invalid(path, name, err.Error()))
	}
	return errs
}
