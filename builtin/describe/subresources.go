package describe

import (
	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/kind"
)

// AllCategory is the category of what "kubectl get all" shows.
var AllCategory = []string{"all"}

// These are the scopes of subresources that may change what an update of the object itself may not: of pods, and of requests for
// certificates.
const (
	PartEphemeral = kind.Finalize + 1 + iota
	PartResize
	PartApproval
)

// PartVerbs are the verbs of subresources that are a part of their object.
var PartVerbs = []string{"get", "patch", "update"}

// NewScale is where the scale of all kinds of workloads is.
func NewScale() *kind.Scale {
	return &kind.Scale{
		SpecReplicas: ".spec.replicas", StatusReplicas: ".status.replicas", LabelSelector: ".spec.selector",
		SpecPath: []string{"spec", "replicas"}, StatusPath: []string{"status", "replicas"}, SelectorPath: []string{"spec", "selector"},
	}
}

// NumberField is a selectable number, which is 0 where it is not said.
func NumberField(label string) kind.Selectable {
	f := kind.NewSelectable("." + label)
	f.Value = func(root jsondoc.Value) string { return Number(root.At(f.Path...)) }
	return f
}
