package batch

import (
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-io/keelson/internal/builtin/describe"
	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/kind"
	"github.com/keelson-io/keelson/schema"
)

// This file checks the status of jobs.

// jobState is the status of a job, with some values that several checks need.
type jobState struct {
	batchv1.JobStatus
	complete, failed, target, met bool
}

// newJobState reads the status of a job.
func newJobState(d *jsondoc.Doc) *jobState {
	s := &jobState{JobStatus: *describe.ReadAs[batchv1.JobStatus](d.Root().Get("status"))}
	s.complete, s.failed = s.is(batchv1.JobComplete), s.is(batchv1.JobFailed)
	s.target, s.met = s.is(batchv1.JobFailureTarget), s.is(batchv1.JobSuccessCriteriaMet)
	return s
}

// is reports whether the job has a condition that is true.
func (s *jobState) is(condition batchv1.JobConditionType) bool {
	for _, c := range s.Conditions {
		if c.Type == condition {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// finished reports whether the job completed or failed.
func (s *jobState) finished() bool { return s.complete || s.failed }

// uncounted returns the number of pods that have ended and are not counted yet.
func (s *jobState) uncounted() int {
	if s.UncountedTerminatedPods == nil {
		return 0
	}
	return len(s.UncountedTerminatedPods.Failed) + len(s.UncountedTerminatedPods.Succeeded)
}

// checkJobStatus checks a change of the status of a job. A rule is checked only if a field that it
// is about has changed.
func checkJobStatus(_ *kind.Version, new, old *jsondoc.Doc, scope schema.Scope) field.ErrorList {
	if scope != schema.Status {
		return nil
	}
	now, was, path := newJobState(new), newJobState(old), field.NewPath("status")
	spec := describe.ReadAs[batchv1.JobSpec](new.Root().Get("spec"))
	errs := checkJobCounts(now, was, spec, path)
	errs = append(errs, checkUncounted(now.UncountedTerminatedPods, path.Child("uncountedTerminatedPods"))...)
	errs = append(errs, checkJobConditions(now, was, spec, path.Child("conditions"))...)
	errs = append(errs, checkJobEnd(now, was, spec, path)...)
	return append(errs, checkJobTimes(now, was, spec, path)...)
}

// checkJobCounts checks the counts of pods, which must fit the spec and the status before.
func checkJobCounts(now, was *jobState, spec *batchv1.JobSpec, path *field.Path) field.ErrorList {
	errs := describe.NotNegative(path.Child("active"), now.Active)
	errs = append(errs, describe.NotNegative(path.Child("succeeded"), now.Succeeded)...)
	errs = append(errs, describe.NotNegative(path.Child("failed"), now.Failed)...)
	errs = append(errs, describe.AtLeast(path.Child("ready"), now.Ready, 0)...)
	errs = append(errs, describe.AtLeast(path.Child("terminating"), now.Terminating, 0)...)
	if now.Ready != nil && *now.Ready > now.Active && (!samePointer(now.Ready, was.Ready) || now.Active != was.Active) {
		errs = append(errs, field.Invalid(path.Child("ready"), *now.Ready, "cannot set more ready pods than active"))
	}
	if now.Failed < was.Failed {
		errs = append(errs, field.Invalid(path.Child("failed"), now.Failed, "cannot decrease the failed counter"))
	}
	scaled := isIndexed(spec) && samePointer(spec.Completions, spec.Parallelism)
	if now.Succeeded < was.Succeeded && !scaled {
		errs = append(errs, field.Invalid(path.Child("succeeded"), now.Succeeded, "cannot decrease the succeeded counter"))
	}
	return errs
}

// isIndexed reports whether each completion of the job has an index.
func isIndexed(spec *batchv1.JobSpec) bool {
	return spec.CompletionMode != nil && *spec.CompletionMode == batchv1.IndexedCompletion
}

// samePointer reports whether two pointers point to equal values, or are both nil.
func samePointer[T comparable](a, b *T) bool { return a == b || a != nil && b != nil && *a == *b }

// checkUncounted checks the pods that ended and are not counted yet.
func checkUncounted(pods *batchv1.UncountedTerminatedPods, path *field.Path) field.ErrorList {
	if pods == nil {
		return nil
	}
	var errs field.ErrorList
	seen := map[string]bool{}
	check := func(id string, at *field.Path) {
		switch {
		case id == "":
			errs = append(errs, field.Invalid(at, id, "must not be empty"))
		case seen[id]:
			errs = append(errs, field.Duplicate(at, id))
		}
		seen[id] = true
	}
	for i, id := range pods.Succeeded {
		check(string(id), path.Child("succeeded").Index(i))
	}
	for i, id := range pods.Failed {
		check(string(id), path.Child("failed").Index(i))
	}
	return errs
}

// checkJobConditions checks which conditions a job may have at the same time, and which it must
// keep.
func checkJobConditions(now, was *jobState, spec *batchv1.JobSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	refuse := func(when bool, text string) {
		if when {
			errs = append(errs, field.Invalid(path, field.OmitValueType{}, text))
		}
	}
	completed, failed := now.complete != was.complete, now.failed != was.failed
	indexes := !samePointer(now.FailedIndexes, was.FailedIndexes)
	refuse((completed || failed) && now.complete && now.failed, "cannot set Complete=True and Failed=true conditions")
	refuse((completed || now.target != was.target) && now.complete && now.target, "cannot set Complete=True and FailureTarget=true conditions")
	refuse((failed || indexes) && now.failed && !now.target, "cannot set Failed=True condition without the FailureTarget=true condition")
	refuse((completed || now.met != was.met) && now.complete && !now.met, "cannot set Complete=True condition without the SuccessCriteriaMet=true condition")
	refuse(now.met && now.failed, "cannot set SuccessCriteriaMet=True and Failed=true conditions")
	refuse(now.met && now.target, "cannot set SuccessCriteriaMet=True and FailureTarget=true conditions")
	refuse(spec.SuccessPolicy != nil && !now.met && now.complete, "cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True")
	for _, c := range []batchv1.JobConditionType{batchv1.JobFailed, batchv1.JobComplete, batchv1.JobFailureTarget} {
		refuse(was.is(c) && !now.is(c), fmt.Sprintf("cannot disable the terminal %s=True condition", c))
	}
	refuse(was.met && !now.met, "cannot disable the SuccessCriteriaMet=True condition")
	refuse(was.complete && !was.met && now.met, "cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions")
	return errs
}

// checkJobEnd checks the fields that a job which has ended must not have.
func checkJobEnd(now, was *jobState, spec *batchv1.JobSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if !now.finished() {
		return nil
	}
	ended := !was.finished()
	if now.Active > 0 && (ended || now.Active != was.Active) {
		errs = append(errs, field.Invalid(path.Child("active"), now.Active, "active>0 is invalid for finished job"))
	}
	idle := spec.Suspend != nil && *spec.Suspend && spec.Completions != nil && *spec.Completions == 0
	if now.StartTime == nil && !idle && (ended || was.StartTime != nil) {
		errs = append(errs, field.Required(path.Child("startTime"), "startTime is required for finished job"))
	}
	if n := now.uncounted(); n > 0 && (ended || n != was.uncounted()) {
		errs = append(errs, field.Invalid(path.Child("uncountedTerminatedPods"), now.UncountedTerminatedPods, "must be empty for finished job"))
	}
	if now.Terminating != nil && *now.Terminating > 0 && (ended || !samePointer(now.Terminating, was.Terminating)) {
		errs = append(errs, field.Invalid(path.Child("terminating"), now.Terminating, "terminating>0 is invalid for finished job"))
	}
	return errs
}

// checkJobTimes checks the times of start and completion.
func checkJobTimes(now, was *jobState, spec *batchv1.JobSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	begun, done := path.Child("startTime"), path.Child("completionTime")
	started, ended := !now.StartTime.Equal(was.StartTime), !now.CompletionTime.Equal(was.CompletionTime)
	if completed := now.complete != was.complete; completed || ended {
		if now.CompletionTime != nil && !now.complete {
			errs = append(errs, field.Invalid(done, now.CompletionTime, "cannot set completionTime when there is no Complete=True condition"))
		}
		if now.CompletionTime == nil && now.complete {
			errs = append(errs, field.Required(done, "completionTime is required for Complete jobs"))
		}
	}
	if (started || ended) && now.StartTime != nil && now.CompletionTime != nil && now.CompletionTime.Before(now.StartTime) {
		errs = append(errs, field.Invalid(done, now.CompletionTime, "must be equal to or after `startTime`"))
	}
	if ended && now.CompletionTime != nil && was.CompletionTime != nil {
		errs = append(errs, field.Invalid(done, now.CompletionTime, "field is immutable"))
	}
	resumed := was.is(batchv1.JobSuspended) && jobCondition(now.Conditions, batchv1.JobSuspended, corev1.ConditionFalse)
	if started && !resumed && was.StartTime != nil && (spec.Suspend == nil || !*spec.Suspend) {
		errs = append(errs, field.Invalid(begun, now.StartTime, "field is immutable for unsuspended job once set"))
	}
	return errs
}

// jobCondition reports whether there is a condition of a type and status.
func jobCondition(all []batchv1.JobCondition, condition batchv1.JobConditionType, status corev1.ConditionStatus) bool {
	for _, c := range all {
		if c.Type == condition {
			return c.Status == status
		}
	}
	return false
}
