package builtin

import (
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"

	"github.com/keelson-io/keelson/doc"
	"github.com/keelson-io/keelson/kind"
)

// This file describes the kinds of priority and fairness. They are kept for those who write them; what bounds requests here is how
// many may be served at a time.

// noFairness is what writers of these kinds are told.
const noFairness = "flow control is not applied by this server: requests are bounded by --max-requests-inflight and --max-mutating-requests-inflight"

func flowKinds() []description {
	schema, level := flowcontrolv1.FlowSchemaSpec{}.SwaggerDoc(), flowcontrolv1.PriorityLevelConfigurationSpec{}.SwaggerDoc()
	limited, queuing := flowcontrolv1.LimitedPriorityLevelConfiguration{}.SwaggerDoc(), flowcontrolv1.QueuingConfiguration{}.SwaggerDoc()
	limit := []string{"spec", "limited"}
	queue := append(limit, "limitResponse", "queuing")
	under := func(parent []string, member string) []string { return append(append([]string(nil), parent...), member) }
	all := []description{{
		kind: "FlowSchema", plural: "flowschemas", versions: v1(fillFlowSchema), check: unlessStatus(checkFlowSchema),
		columns: []kind.Column{
			cell("PriorityLevel", flowcontrolv1.PriorityLevelConfigurationReference{}.SwaggerDoc()["name"], textAt("spec", "priorityLevelConfiguration", "name")),
			counted("MatchingPrecedence", schema["matchingPrecedence"], numberAt("spec", "matchingPrecedence")),
			orNone("DistinguisherMethod", schema["distinguisherMethod"], "<none>", "spec", "distinguisherMethod", "type"),
			ageColumn(),
			cell("MissingPL", "references a broken or non-existent PriorityLevelConfiguration", func(obj doc.Value) string {
				for _, c := range obj.At("status", "conditions").Items() {
					if c.Get("type").Text() == string(flowcontrolv1.FlowSchemaConditionDangling) {
						return c.Get("status").Text()
					}
				}
				return "?"
			}),
		},
	}, {
		kind: "PriorityLevelConfiguration", plural: "prioritylevelconfigurations", versions: v1(fillPriorityLevel), check: unlessStatus(checkPriorityLevel),
		columns: []kind.Column{
			cell("Type", level["type"], textAt("spec", "type")),
			numberOrNone("NominalConcurrencyShares", limited["nominalConcurrencyShares"], under(limit, "nominalConcurrencyShares")...),
			numberOrNone("Queues", queuing["queues"], under(queue, "queues")...),
			numberOrNone("HandSize", queuing["handSize"], under(queue, "handSize")...),
			numberOrNone("QueueLengthLimit", queuing["queueLengthLimit"], under(queue, "queueLengthLimit")...),
			ageColumn(),
		},
	}}
	for i := range all {
		d := &all[i]
		d.group, d.cluster, d.status, d.statusKeeps, d.generation = "flowcontrol.apiserver.k8s.io", true, true, wholeMetadata, true
		d.warnings = func(_, _ *doc.Doc) []string { return []string{noFairness} }
	}
	return all
}

func fillFlowSchema(s *flowcontrolv1.FlowSchema) {
	if s.Spec.MatchingPrecedence == 0 {
		s.Spec.MatchingPrecedence = 1000
	}
}

func fillPriorityLevel(p *flowcontrolv1.PriorityLevelConfiguration) {
	if e := p.Spec.Exempt; e != nil {
		orDefault(&e.NominalConcurrencyShares, 0)
		orDefault(&e.LendablePercent, 0)
	}
	l := p.Spec.Limited
	if l == nil {
		return
	}
	orDefault(&l.NominalConcurrencyShares, 30)
	orDefault(&l.LendablePercent, 0)
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
