package describe

import (
	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/kind"
)

// AllCategory is the category of the kinds that "kubectl get all" lists.
var AllCategory = []string{"all"}

// NewScale returns the scale subresource of workloads.
func NewScale() *kind.Scale {
	return &kind.Scale{
		SpecReplicas: ".spec.replicas", StatusReplicas: ".status.replicas", LabelSelector: ".spec.selector",
		SpecPath: []string{"spec", "replicas"}, StatusPath: []string{"status", "replicas"}, SelectorPath: []string{"spec", "selector"},
	}
}

// NumberField returns a selectable field with a number, 0 if there is none.
func NumberField(label string) kind.Selectable {
	f := kind.NewSelectable("." + label)
	f.Value = func(root jsondoc.Value) string { return Number(root.At(f.Path...)) }
	return f
}
