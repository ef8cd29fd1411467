package describe

import (
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/kind"
	"github.com/keelson-io/keelson/schema"
)

// Counts has the numbers in a status. None is negative, and some must not exceed others.
type Counts struct {
	members  []string
	within   []string // counts that are at most replicas
	ready    string   // the name of the ready replicas in errors about available ones; "": there are none
	collided bool     // there is a count of collisions, which never falls
}

// The counts of each kind.
var (
	ReplicaCounts    = Counts{[]string{"replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas", "observedGeneration", "terminatingReplicas"}, []string{"fullyLabeledReplicas", "readyReplicas", "availableReplicas"}, "readyReplicas", false}
	DeploymentCounts = Counts{[]string{"observedGeneration", "replicas", "updatedReplicas", "readyReplicas", "availableReplicas", "unavailableReplicas", "terminatingReplicas", "collisionCount"}, []string{"updatedReplicas", "readyReplicas", "availableReplicas"}, "readyReplicas", true}
	StatefulCounts   = Counts{[]string{"replicas", "readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas", "observedGeneration", "collisionCount"}, []string{"readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas"}, "status.readyReplicas", true}
	DaemonCounts     = Counts{[]string{"currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady", "observedGeneration", "updatedNumberScheduled", "numberAvailable", "numberUnavailable", "collisionCount"}, nil, "", true}
	BudgetCounts     = Counts{members: []string{"disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"}}
)

// Check checks a status that is written.
func (c Counts) Check(_ *kind.Version, new, old *jsondoc.Doc, scope schema.Scope) field.ErrorList {
	if scope != schema.Status {
		return nil
	}
	var errs field.ErrorList
	status, path := new.Root().Get("status"), field.NewPath("status")
	for _, name := range c.members {
		errs = append(errs, NotNegative(path.Child(name), status.Get(name).Int())...)
	}
	more := func(name, than, said string) {
		if n := status.Get(name).Int(); n > status.Get(than).Int() {
			errs = append(errs, field.Invalid(path.Child(name), n, "cannot be greater than "+said))
		}
	}
	for _, name := range c.within {
		more(name, "replicas", "status.replicas")
	}
	if c.ready != "" {
		more("availableReplicas", "readyReplicas", c.ready)
	}
	if n := status.Get("collisionCount").Int(); c.collided && n < old.Root().At("status", "collisionCount").Int() {
		errs = append(errs, field.Invalid(path.Child("collisionCount"), n, "cannot be decremented"))
	}
	return errs
}
