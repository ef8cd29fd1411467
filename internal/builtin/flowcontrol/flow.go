// Package flowcontrol describes the kinds of the API group flowcontrol.apiserver.k8s.io. Package
// flow queues requests by their rules.
package flowcontrol

import (
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"

	"github.com/keelson-io/keelson/internal/builtin/describe"
	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/kind"
)

// This file describes the kinds of priority and fairness.

// Kinds returns the descriptions of the kinds of the group.
func Kinds() []describe.Description {
	schema, level := flowcontrolv1.FlowSchemaSpec{}.SwaggerDoc(), flowcontrolv1.PriorityLevelConfigurationSpec{}.SwaggerDoc()
	limited, queuing := flowcontrolv1.LimitedPriorityLevelConfiguration{}.SwaggerDoc(), flowcontrolv1.QueuingConfiguration{}.SwaggerDoc()
	limit := []string{"spec", "limited"}
	queue := append(limit, "limitResponse", "queuing")
	under := func(parent []string, member string) []string { return append(append([]string(nil), parent...), member) }
	all := []describe.Description{{
		Kind: "FlowSchema", Plural: "flowschemas", Versions: describe.V1(fillFlowSchema), Check: describe.UnlessStatus(checkFlowSchema),
		Columns: []kind.Column{
			describe.Cell("PriorityLevel", flowcontrolv1.PriorityLevelConfigurationReference{}.SwaggerDoc()["name"], describe.TextAt("spec", "priorityLevelConfiguration", "name")),
			describe.Counted("MatchingPrecedence", schema["matchingPrecedence"], describe.NumberAt("spec", "matchingPrecedence")),
			describe.OrNone("DistinguisherMethod", schema["distinguisherMethod"], "<none>", "spec", "distinguisherMethod", "type"),
			describe.AgeColumn(),
			describe.Cell("MissingPL", "references a broken or non-existent PriorityLevelConfiguration", func(obj jsondoc.Value) string {
				for _, c := range obj.At("status", "conditions").Items() {
					if c.Get("type").Text() == string(flowcontrolv1.FlowSchemaConditionDangling) {
						return c.Get("status").Text()
					}
				}
				return "?"
			}),
		},
	}, {
		Kind: "PriorityLevelConfiguration", Plural: "prioritylevelconfigurations", Versions: describe.V1(fillPriorityLevel), Check: describe.UnlessStatus(checkPriorityLevel),
		Columns: []kind.Column{
			describe.Cell("Type", level["type"], describe.TextAt("spec", "type")),
			describe.NumberOrNone("NominalConcurrencyShares", limited["nominalConcurrencyShares"], under(limit, "nominalConcurrencyShares")...),
			describe.NumberOrNone("Queues", queuing["queues"], under(queue, "queues")...),
			describe.NumberOrNone("HandSize", queuing["handSize"], under(queue, "handSize")...),
			describe.NumberOrNone("QueueLengthLimit", queuing["queueLengthLimit"], under(queue, "queueLengthLimit")...),
			describe.AgeColumn(),
		},
	}}
	for i := range all {
		d := &all[i]
		d.Group, d.ClusterScoped, d.Status, d.StatusKeeps, d.Generation = "flowcontrol.apiserver.k8s.io", true, true, describe.AllMetadata, true
	}
	return all
}

// fillFlowSchema sets the default precedence.
func fillFlowSchema(s *flowcontrolv1.FlowSchema) {
	if s.Spec.MatchingPrecedence == 0 {
		s.Spec.MatchingPrecedence = 1000
	}
}

// fillPriorityLevel sets the default shares, and the default response to requests over the limit.
func fillPriorityLevel(p *flowcontrolv1.PriorityLevelConfiguration) {
	if e := p.Spec.Exempt; e != nil {
		describe.OrDefault(&e.NominalConcurrencyShares, 0)
		describe.OrDefault(&e.LendablePercent, 0)
	}
	l := p.Spec.Limited
	if l == nil {
		return
	}
	describe.OrDefault(&l.NominalConcurrencyShares, 30)
	describe.OrDefault(&l.LendablePercent, 0)
	if q := l.LimitResponse.Queuing; q != nil {
		for _, d := range []struct {
			field *int32
			value int32
		}{{&q.Queues, 64}, {&q.HandSize, 8}, {&q.QueueLengthLimit, 50}} {
			if *d.field == 0 {
				*d.field = d.value
			}
		}
	}
}
