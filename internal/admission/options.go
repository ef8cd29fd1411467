package admission

import (
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// This file presents the options of a write to webhooks and expressions.

// OptionsJSON returns CreateOptions, UpdateOptions (also for patches) or DeleteOptions; nil if the
// request has none.
func (r *Request) OptionsJSON() []byte {
	var dryRun []string
	if r.DryRun {
		dryRun = []string{metav1.DryRunAll}
	}
	var o any
	switch {
	case r.Delete != nil:
		o = r.deleteOptions(dryRun)
	case r.Write == nil:
		return nil
	case r.Operation == Create:
		o = &metav1.CreateOptions{
			TypeMeta: optionsType("CreateOptions"), DryRun: dryRun, FieldManager: r.Write.FieldManager, FieldValidation: r.Write.FieldValidation}
	default:
		o = &metav1.UpdateOptions{
			TypeMeta: optionsType("UpdateOptions"), DryRun: dryRun, FieldManager: r.Write.FieldManager, FieldValidation: r.Write.FieldValidation}
	}
	b, err := json.Marshal(o)
	if err != nil {
		panic("BUG: options do not marshal: " + err.Error())
	}
	return b
}

// deleteOptions returns the options of a delete.
func (r *Request) deleteOptions(dryRun []string) *metav1.DeleteOptions {
	d := r.Delete
	o := &metav1.DeleteOptions{TypeMeta: optionsType("DeleteOptions"), DryRun: dryRun, GracePeriodSeconds: d.GracePeriodSeconds}
	//lint:ignore SA1019 clients still send it
	o.OrphanDependents = d.OrphanDependents
	if d.UID != nil || d.ResourceVersion != nil {
		o.Preconditions = &metav1.Preconditions{UID: (*types.UID)(d.UID), ResourceVersion: d.ResourceVersion}
	}
	if d.PropagationPolicy != "" {
		p := metav1.DeletionPropagation(d.PropagationPolicy)
		o.PropagationPolicy = &p
	}
	return o
}

// optionsType returns the type of the options of a request, as webhooks get it.
func optionsType(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{Kind: kind, APIVersion: "meta.k8s.io/v1"}
}
