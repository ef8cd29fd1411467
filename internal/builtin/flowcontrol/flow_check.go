package flowcontrol

import (
	"fmt"
	"math"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-io/keelson/internal/builtin/describe"
	"github.com/keelson-io/keelson/internal/flow/bootstrap"
	"github.com/keelson-io/keelson/internal/texts"
	"github.com/keelson-io/keelson/jsondoc"
)

// This file checks the kinds of priority and fairness.

// Bounds of the fields.
const (
	maxPrecedence = 10_000
	maxQueues     = 10_000_000
	maxHashBits   = 60 // of the hash that deals requests to queues
)

// checkFlowSchema checks which requests a schema matches, and their priority level.
func checkFlowSchema(d, _ *jsondoc.Doc) field.ErrorList {
	spec, path := describe.ReadAs[flowcontrolv1.FlowSchemaSpec](d.Root().Get("spec")), field.NewPath("spec")
	var errs field.ErrorList
	precedence := path.Child("matchingPrecedence")
	switch n := spec.MatchingPrecedence; {
	case n <= 0:
		errs = append(errs, field.Invalid(precedence, n, "must be a positive value"))
	case n > maxPrecedence:
		errs = append(errs, field.Invalid(precedence, n, fmt.Sprintf("must not be greater than %v", maxPrecedence)))
	case n == 1 && d.Root().At("metadata", "name").Text() != flowcontrolv1.FlowSchemaNameExempt:
		errs = append(errs, field.Invalid(precedence, n, "only the schema named 'exempt' may have matchingPrecedence 1"))
	}
	if m := spec.DistinguisherMethod; m != nil && m.Type != flowcontrolv1.FlowDistinguisherMethodByNamespaceType && m.Type != flowcontrolv1.FlowDistinguisherMethodByUserType {
		errs = append(errs, field.NotSupported(path.Child("distinguisherMethod", "type"), describe.InGoNames(m),
			[]flowcontrolv1.FlowDistinguisherMethodType{flowcontrolv1.FlowDistinguisherMethodByNamespaceType, flowcontrolv1.FlowDistinguisherMethodByUserType}))
	}
	level, at := spec.PriorityLevelConfiguration.Name, path.Child("priorityLevelConfiguration", "name")
	if level == "" {
		errs = append(errs, field.Required(at, "must reference a priority level"))
	} else {
		errs = append(errs, describe.Invalid(at, level, apivalidation.NameIsDNSSubdomain(level, false))...)
	}
	for i := range texts.Each(&errs, spec.Rules) {
		errs = append(errs, checkRules(&spec.Rules[i], path.Child("rules").Index(i))...)
	}
	name := d.Root().At("metadata", "name").Text()
	for _, m := range bootstrap.Schemas(true) {
		if m.Name == name && !equality.Semantic.DeepEqual(m.Spec, *spec) {
			errs = append(errs, field.Invalid(path, describe.InGoNames(*spec), fmt.Sprintf("spec of '%s' must equal the fixed value", name)))
		}
	}
	return errs
}

// checkPriorityLevel checks the limits of a priority level.
func checkPriorityLevel(d, _ *jsondoc.Doc) field.ErrorList {
	spec, path := describe.ReadAs[flowcontrolv1.PriorityLevelConfigurationSpec](d.Root().Get("spec")), field.NewPath("spec")
	return append(checkLevelSpec(d, spec, path), checkMandatoryLevel(d.Root().At("metadata", "name").Text(), spec, path)...)
}

// checkMandatoryLevel checks that a mandatory level has its fixed content. Only the seats that the
// level exempt lends may differ.
func checkMandatoryLevel(name string, spec *flowcontrolv1.PriorityLevelConfigurationSpec, path *field.Path) field.ErrorList {
	for _, m := range bootstrap.Levels(true) {
		text := "spec of '%s' must equal the fixed value"
		if name == flowcontrolv1.PriorityLevelConfigurationNameExempt {
			m.Spec.Exempt = spec.Exempt
			text = "spec of '%s' except the 'spec.exempt' field must equal the fixed value"
		}
		if m.Name == name && !equality.Semantic.DeepEqual(m.Spec, *spec) {
			return field.ErrorList{field.Invalid(path, describe.InGoNames(*spec), fmt.Sprintf(text, name))}
		}
	}
	return nil
}

// checkLevelSpec checks the limits of any level.
func checkLevelSpec(d *jsondoc.Doc, spec *flowcontrolv1.PriorityLevelConfigurationSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	const exempt, limited = flowcontrolv1.PriorityLevelEnablementExempt, flowcontrolv1.PriorityLevelEnablementLimited
	if (d.Root().At("metadata", "name").Text() == flowcontrolv1.PriorityLevelConfigurationNameExempt) != (spec.Type == exempt) {
		errs = append(errs, field.Invalid(path.Child("type"), spec.Type, "must be 'Exempt' if and only if `name` is 'exempt'"))
	}
	lends := func(at *field.Path, n *int32) field.ErrorList {
		if n == nil || *n >= 0 && *n <= 100 {
			return nil
		}
		return field.ErrorList{field.Invalid(at, *n, "must be between 0 and 100, inclusive")}
	}
	switch {
	case spec.Type == "":
		errs = append(errs, field.Required(path.Child("type"), ""))
	case spec.Type != exempt && spec.Type != limited:
		errs = append(errs, field.NotSupported(path.Child("type"), spec.Type, []flowcontrolv1.PriorityLevelEnablement{exempt, limited}))
	}
	l, at := spec.Limited, path.Child("limited")
	switch {
	case l != nil && spec.Type != limited:
		errs = append(errs, field.Forbidden(at, ""))
	case l == nil && spec.Type == limited:
		errs = append(errs, field.Required(at, ""))
	}
	if e := spec.Exempt; e != nil && spec.Type == limited {
		errs = append(errs, field.Forbidden(path.Child("exempt"), ""))
	} else if e != nil {
		errs = append(errs, lends(path.Child("exempt", "lendablePercent"), e.LendablePercent)...)
	}
	if l == nil || spec.Type != limited {
		return errs
	}
	if n := l.NominalConcurrencyShares; n != nil && *n < 0 {
		errs = append(errs, field.Invalid(at.Child("nominalConcurrencyShares"), *n, "must be a non-negative integer"))
	}
	errs = append(errs, checkLimitResponse(&l.LimitResponse, at.Child("limitResponse"))...)
	errs = append(errs, lends(at.Child("lendablePercent"), l.LendablePercent)...)
	if n := l.BorrowingLimitPercent; n != nil && *n < 0 {
		errs = append(errs, field.Invalid(at.Child("borrowingLimitPercent"), *n, "if specified, must be a non-negative integer"))
	}
	return errs
}

// checkLimitResponse checks that only a response of type Queue has queues.
func checkLimitResponse(r *flowcontrolv1.LimitResponse, path *field.Path) field.ErrorList {
	const queue, reject = flowcontrolv1.LimitResponseTypeQueue, flowcontrolv1.LimitResponseTypeReject
	var errs field.ErrorList
	switch {
	case r.Type == "":
		errs = append(errs, field.Required(path.Child("type"), ""))
	case r.Type != queue && r.Type != reject:
		errs = append(errs, field.NotSupported(path.Child("type"), r.Type, []flowcontrolv1.LimitResponseType{queue, reject}))
	}
	switch {
	case r.Queuing != nil && r.Type != queue:
		errs = append(errs, field.Forbidden(path.Child("queuing"), ""))
	case r.Queuing == nil && r.Type == queue:
		errs = append(errs, field.Required(path.Child("queuing"), ""))
	case r.Queuing != nil:
		errs = append(errs, checkQueues(r.Queuing, path.Child("queuing"))...)
	}
	return errs
}

// checkQueues checks the numbers of queues, and of those that a flow uses.
func checkQueues(q *flowcontrolv1.QueuingConfiguration, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if q.QueueLengthLimit <= 0 {
		errs = append(errs, field.Invalid(path.Child("queueLengthLimit"), q.QueueLengthLimit, "must be positive"))
	}
	if q.Queues <= 0 {
		errs = append(errs, field.Invalid(path.Child("queues"), q.Queues, "must be positive"))
	} else if q.Queues > maxQueues {
		errs = append(errs, field.Invalid(path.Child("queues"), q.Queues, fmt.Sprintf("must not be greater than %d", maxQueues)))
	}
	hand := path.Child("handSize")
	switch bits := entropy(q.Queues, q.HandSize); {
	case q.HandSize <= 0:
		errs = append(errs, field.Invalid(hand, q.HandSize, "must be positive"))
	case q.HandSize > q.Queues:
		errs = append(errs, field.Invalid(hand, q.HandSize, fmt.Sprintf("should not be greater than queues (%d)", q.Queues)))
	case bits > maxHashBits:
		errs = append(errs, field.Invalid(hand, q.HandSize,
			fmt.Sprintf("required entropy bits of deckSize %d and handSize %d should not be greater than %d", q.Queues, q.HandSize, maxHashBits)))
	}
	return errs
}

// entropy returns how many bits of a hash are needed to deal a hand of some size from a deck.
func entropy(deck, hand int32) int {
	return int(math.Ceil(math.Log2(float64(deck)) * float64(hand)))
}
