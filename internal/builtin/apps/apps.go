// Package apps describes the kinds of the API group apps: workloads, which are stored and never run.
package apps

import (
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-io/keelson/internal/builtin/core"
	"github.com/keelson-io/keelson/internal/builtin/describe"
	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/kind"
	"github.com/keelson-io/keelson/schema"
)

// This file describes the kinds that run pods.

// Kinds returns the descriptions of the kinds of the group.
func Kinds() []describe.Description {
	deployment := appsv1.DeploymentStatus{}.SwaggerDoc()
	return []describe.Description{{
		Group: "apps", Kind: "Deployment", Plural: "deployments", ShortNames: []string{"deploy"}, Categories: describe.AllCategory,
		Versions: describe.V1[appsv1.Deployment](fillDeployment), Status: true, Traits: kind.Traits{StatusKeeps: []string{"labels"}, GenerationMember: "annotations"}, Generation: true, Scale: describe.NewScale(),
		Columns: append([]kind.Column{
			describe.Ratio("Ready", "Number of the pod with ready state", []string{"status", "readyReplicas"}, []string{"spec", "replicas"}),
			describe.Counted("Up-to-date", deployment["updatedReplicas"], describe.NumberAt("status", "updatedReplicas")),
			describe.Counted("Available", deployment["availableReplicas"], describe.NumberAt("status", "availableReplicas")),
			describe.AgeColumn(),
		}, describe.TemplateColumns(appsv1.DeploymentSpec{}.SwaggerDoc()["selector"])...),
		Check: describe.Both(describe.UnlessStatus(checkDeployment), describe.DeploymentCounts.Check), Warnings: core.NamedWarnings("spec", "template"),
	}, {
		Group: "apps", Kind: "ReplicaSet", Plural: "replicasets", ShortNames: []string{"rs"}, Categories: describe.AllCategory,
		Versions: describe.V1[appsv1.ReplicaSet](fillReplicaSet), Status: true, Generation: true, Scale: describe.NewScale(),
		Columns: describe.ReplicaColumns(appsv1.ReplicaSetSpec{}.SwaggerDoc(), appsv1.ReplicaSetStatus{}.SwaggerDoc()),
		Check:   describe.Both(describe.UnlessStatus(checkReplicaSet), describe.ReplicaCounts.Check), Warnings: core.NamedWarnings("spec", "template"),
	}, {
		Group: "apps", Kind: "StatefulSet", Plural: "statefulsets", ShortNames: []string{"sts"}, Categories: describe.AllCategory,
		Versions: describe.V1[appsv1.StatefulSet](fillStatefulSet), ValidName: apivalidation.NameIsDNSLabel, Status: true, Generation: true, Scale: describe.NewScale(),
		Columns: append([]kind.Column{
			describe.Ratio("Ready", "Number of the pod with ready state", []string{"status", "readyReplicas"}, []string{"spec", "replicas"}),
			describe.AgeColumn(),
		}, describe.ContainerColumns("spec", "template", "spec")...),
		Check: describe.Both(describe.UnlessStatus(checkStatefulSet), describe.StatefulCounts.Check), Warnings: statefulSetWarnings,
	}, {
		Group: "apps", Kind: "DaemonSet", Plural: "daemonsets", ShortNames: []string{"ds"}, Categories: describe.AllCategory,
		Versions: describe.V1[appsv1.DaemonSet](fillDaemonSet), Status: true, Generation: true,
		Columns: daemonSetColumns(),
		Create:  func(d *jsondoc.Doc) { setTemplateGeneration(d, 1) }, Update: updateDaemonSet,
		UpdateStatus: func(new, old *jsondoc.Doc) { setTemplateGeneration(new, templateGeneration(old)) },
		Check:        describe.Both(describe.UnlessStatus(checkDaemonSet), describe.DaemonCounts.Check), Warnings: core.DaemonWarnings,
	}, {
		Group: "apps", Kind: "ControllerRevision", Plural: "controllerrevisions",
		Versions: describe.V1[appsv1.ControllerRevision](nil), Check: checkRevision,
		Columns: []kind.Column{
			describe.Cell("Controller", "Controller of the object", controllerOf),
			describe.Counted("Revision", appsv1.ControllerRevision{}.SwaggerDoc()["revision"], describe.NumberAt("revision")),
			describe.AgeColumn(),
		},
	}}
}

// daemonSetColumns returns the columns of daemon sets.
func daemonSetColumns() []kind.Column {
	status := appsv1.DaemonSetStatus{}.SwaggerDoc()
	own := func(name, member string) kind.Column {
		return describe.Counted(name, status[member], describe.NumberAt("status", member))
	}
	counts := describe.Integers(
		own("Desired", "desiredNumberScheduled"), own("Current", "currentNumberScheduled"), own("Ready", "numberReady"),
		own("Up-to-date", "updatedNumberScheduled"), own("Available", "numberAvailable"),
	)
	return append(append(counts,
		describe.Cell("Node Selector", corev1.PodSpec{}.SwaggerDoc()["nodeSelector"], func(obj jsondoc.Value) string {
			return describe.MapText(obj.At("spec", "template", "spec", "nodeSelector"), "<none>")
		}),
		describe.AgeColumn(),
	), describe.TemplateColumns(appsv1.DaemonSetSpec{}.SwaggerDoc()["selector"])...)
}

// controllerOf names the owner that controls an object.
func controllerOf(obj jsondoc.Value) string {
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

// templateGeneration returns the generation of the template of a daemon set, from its annotation.
func templateGeneration(d *jsondoc.Doc) int64 {
	n, err := strconv.ParseInt(d.Root().At("metadata", "annotations", appsv1.DeprecatedTemplateGeneration).Text(), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// setTemplateGeneration sets the deprecated annotation that counts changes of the template.
func setTemplateGeneration(d *jsondoc.Doc, n int64) {
	d.Set(d.NewString(strconv.FormatInt(n, 10)), "metadata", "annotations", appsv1.DeprecatedTemplateGeneration)
}

// updateDaemonSet sets the generation of the template. A value from the client is replaced.
func updateDaemonSet(new, old *jsondoc.Doc) {
	n := templateGeneration(old)
	if !jsondoc.Equal(new.Root().At("spec", "template"), old.Root().At("spec", "template")) {
		n++
	}
	setTemplateGeneration(new, n)
}

// checkRevision refuses a revision without data, and a change of its data.
func checkRevision(_ *kind.Version, d, old *jsondoc.Doc, _ schema.Scope) field.ErrorList {
	var errs field.ErrorList
	data, revision := d.Root().Get("data"), d.Root().Get("revision")
	if data.Kind() != jsondoc.Object && old == nil {
		errs = append(errs, field.Required(field.NewPath("data"), "data is mandatory"))
	}
	if n := revision.Int(); n < 0 {
		errs = append(errs, field.Invalid(field.NewPath("revision"), n, "must be greater than or equal to 0").WithOrigin("minimum"))
	}
	if old != nil && !jsondoc.Equal(data, old.Root().Get("data")) {
		errs = append(errs, field.Invalid(field.NewPath("data"), nil, "field is immutable"))
	}
	return errs
}
