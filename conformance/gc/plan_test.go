package gc

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// This file generates graphs of owners, and what happens to them.

// resource is a kind of the graphs.
type resource struct {
	group, version, kind, plural string
	namespaced                   bool
	late                         bool // it is defined before the step lateStep
}

var resources = []resource{
	{"demo.io", "v1", "Node", "nodes", true, false},
	{"demo.io", "v1", "Tree", "trees", false, false},
	{"", "v1", "ConfigMap", "configmaps", true, false},
	{"rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles", false, false},
	{"late.io", "v1", "Leaf", "leaves", true, true},
	{"late.io", "v1", "Oak", "oaks", false, true},
}

func (r *resource) apiVersion() string {
	if r.group == "" {
		return r.version
	}
	return r.group + "/" + r.version
}

// otherVersions are further versions in owner references: served ones, and some that are not.
var otherVersions = map[string][]string{
	"Node":        {"demo.io/v1beta1", "demo.io/v1beta1", "demo.io/v1alpha1", "demo.io/v9"},
	"Tree":        {"demo.io/v1beta1", "demo.io/v9"},
	"ConfigMap":   {"v2"},
	"ClusterRole": {"rbac.authorization.k8s.io/v1beta1"},
	"Leaf":        {"late.io/v1beta1"},
	"Oak":         {"late.io/v1beta1"},
}

const (
	hold = "demo.io/hold" // a finalizer that nobody but the test removes

	keep   = "keep"   // the label of objects that may not be deleted
	frozen = "frozen" // the label of objects that may not be changed

	// The steps: in the first the graph is created. Before lateStep the late kinds are defined, and
	// in it labels that refuse something are removed.
	lateStep = 4
	allSteps = 7
)

// plan is a graph, and what happens to it.
type plan struct {
	seed    uint64
	live    bool // the collectors run while the graph is created; otherwise they start after it
	mixed   bool // some references do not block their owners
	objects []object
	steps   [][]operation
}

type object struct {
	kind       *resource
	namespace  string
	name       string
	finalizers []string
	label      string
	owners     []reference
}

type reference struct {
	apiVersion, kind, name string
	of                     int    // the object with the uid; negative: uid
	uid                    string // made up
	block                  string // true, false, or empty: unset
}

type operation struct {
	verb       string // create, delete, owners, finalizers, or free: remove the label
	object     int
	policy     metav1.DeletionPropagation // of a delete
	owners     []reference
	finalizers []string
}

type dice struct{ *rand.Rand }

// chance reports true in percent of the calls.
func (d dice) chance(percent int) bool { return d.IntN(100) < percent }

func pick[T any](d dice, from []T) T { return from[d.IntN(len(from))] }

// generate returns the plan of a seed.
func generate(seed uint64) *plan {
	d := dice{rand.New(rand.NewPCG(seed, 1))}
	p := &plan{seed: seed, live: isLive(seed), mixed: d.chance(30), steps: make([][]operation, allSteps)}
	for range 2 + d.IntN(7) {
		p.create(d, 0)
	}
	for range d.IntN(4) { // references to later objects, and so cycles
		i := d.IntN(len(p.objects))
		o := operation{verb: "owners", object: i, owners: slices.Clone(p.objects[i].owners)}
		o.owners = p.refer(d, o.owners, p.objects[i].kind, p.objects[i].namespace)
		p.steps[0] = append(p.steps[0], o)
	}
	if !p.live { // the collectors have missed it
		for range d.IntN(2) {
			p.happen(d, 0)
		}
	}
	for step := 1; step < allSteps; step++ {
		for range 1 + d.IntN(2)*d.IntN(2) {
			p.happen(d, step)
		}
	}
	for i := range p.objects {
		if p.objects[i].label != "" && d.chance(70) {
			p.steps[lateStep] = append(p.steps[lateStep], operation{verb: "free", object: i})
		}
	}
	return p
}

// create adds an object, which is created in a step.
func (p *plan) create(d dice, step int) {
	o := object{namespace: pick(d, []string{"a", "a", "a", "b"}), name: fmt.Sprintf("o%d", len(p.objects))}
	for {
		o.kind = &resources[pick(d, []int{0, 0, 0, 0, 0, 1, 1, 2, 2, 3, 4, 4, 5})]
		if !o.kind.late || step >= lateStep {
			break
		}
	}
	if !o.kind.namespaced {
		o.namespace = ""
	}
	if len(p.objects) > 0 && d.chance(10) { // in the place of another one, which may be gone
		other := pick(d, p.objects)
		if !other.kind.late || step >= lateStep {
			o.kind, o.namespace, o.name = other.kind, other.namespace, other.name
		}
	}
	o.finalizers = finalizers(d)
	if d.chance(8) {
		o.label = pick(d, []string{keep, keep, frozen})
	}
	for range pick(d, []int{0, 0, 1, 1, 1, 1, 2, 2, 3}) {
		o.owners = p.refer(d, o.owners, o.kind, o.namespace)
	}
	p.objects = append(p.objects, o)
	p.steps[step] = append(p.steps[step], operation{verb: "create", object: len(p.objects) - 1})
}

func finalizers(d dice) []string {
	var list []string
	for f, percent := range []int{15, 5, 5} {
		if d.chance(percent) {
			list = append(list, []string{hold, metav1.FinalizerDeleteDependents, metav1.FinalizerOrphanDependents}[f])
		}
	}
	d.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	return list
}

// happen adds an operation to a step.
func (p *plan) happen(d dice, step int) {
	i := d.IntN(len(p.objects))
	o := operation{object: i}
	switch n := d.IntN(100); {
	case n < 50:
		o.verb = "delete"
		o.policy = pick(d, []metav1.DeletionPropagation{"", metav1.DeletePropagationBackground, metav1.DeletePropagationForeground,
			metav1.DeletePropagationForeground, metav1.DeletePropagationForeground, metav1.DeletePropagationOrphan})
	case n < 65:
		o.verb, o.finalizers = "finalizers", finalizers(d)
	case n < 80:
		o.verb = "owners"
		for range d.IntN(3) {
			o.owners = p.refer(d, o.owners, p.objects[i].kind, p.objects[i].namespace)
		}
	default:
		p.create(d, step)
		return
	}
	p.steps[step] = append(p.steps[step], o)
}

// refer adds a reference to a list, unless its uid is in the list: upstream loses one of two
// references with the same uid when it compares lists.
func (p *plan) refer(d dice, list []reference, k *resource, namespace string) []reference {
	r := p.reference(d, k, namespace)
	if slices.ContainsFunc(list, func(o reference) bool { return o.of == r.of && o.uid == r.uid }) {
		return list
	}
	return append(list, r)
}

// reference returns an owner reference of an object of a kind in a namespace. If it is to an object that this one cannot have as its owner,
// it has a UID of its own: upstream waits for such dependents, too.
// Ledger: foreign-dependents.
func (p *plan) reference(d dice, k *resource, namespace string) reference {
	r := p.anyReference(d, k, namespace)
	if p.isForeign(r, namespace) {
		r.of, r.uid = -1, fmt.Sprintf("made-up-%d", d.IntN(4))
	}
	return r
}

// isForeign reports whether a reference has the UID of an object, but not its group, kind, name and namespace.
func (p *plan) isForeign(r reference, namespace string) bool {
	if r.of < 0 {
		return false
	}
	o := &p.objects[r.of]
	return group(o.kind.apiVersion()) != group(r.apiVersion) || o.kind.kind != r.kind || o.name != r.name || o.namespace != "" && o.namespace != namespace
}

// group returns the group of an apiVersion; "" is the core group.
func group(apiVersion string) string {
	group, _, ok := strings.Cut(apiVersion, "/")
	if !ok {
		return ""
	}
	return group
}

// anyReference returns an owner reference of an object of a kind in a namespace, which may be foreign.
func (p *plan) anyReference(d dice, k *resource, namespace string) reference {
	r := reference{block: "true"}
	if p.mixed {
		r.block = pick(d, []string{"", "true", "false"})
	}
	made := func() (int, string) { return -1, fmt.Sprintf("made-up-%d", d.IntN(4)) }
	of := -1
	for range 1 + 4*d.IntN(2) { // often one that the object may have as an owner
		if len(p.objects) == 0 {
			break
		}
		of = d.IntN(len(p.objects))
		if o := &p.objects[of]; o.namespace == "" || o.namespace == namespace {
			break
		}
	}
	switch n := d.IntN(100); {
	case n < 5, of < 0: // missing
		other := &resources[d.IntN(len(resources))]
		r.apiVersion, r.kind, r.name = other.apiVersion(), other.kind, fmt.Sprintf("missing%d", d.IntN(3))
		r.of, r.uid = made()
		return r
	case n < 10: // of an unknown kind
		unknown := pick(d, [][2]string{{"nothing.io/v1", "Ghost"}, {"demo.io/v1", "Ghost"}, {"v1", "Node"}, {"demo.io/v1", "ConfigMap"}})
		r.apiVersion, r.kind, r.name = unknown[0], unknown[1], p.objects[of].name
		if r.of, r.uid = made(); d.chance(50) {
			r.of, r.uid = of, ""
		}
		return r
	}
	o := &p.objects[of]
	r.apiVersion, r.kind, r.name, r.of = o.kind.apiVersion(), o.kind.kind, o.name, of
	switch n := d.IntN(100); {
	case n < 12:
		r.apiVersion = pick(d, otherVersions[r.kind])
	case n < 20: // wrong uid
		r.of, r.uid = made()
	case n < 24: // wrong name
		r.name = pick(d, p.objects).name
	case n < 28: // wrong kind
		other := pick(d, p.objects).kind
		r.apiVersion, r.kind = other.apiVersion(), other.kind
	}
	return r
}

// String renders a plan for a reader.
func (p *plan) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d, created while the collectors run: %t\n", p.seed, p.live)
	for step, ops := range p.steps {
		for _, o := range ops {
			fmt.Fprintf(&b, "  step %d: %s %s", step, o.verb, p.label(o.object))
			switch o.verb {
			case "create":
				of := &p.objects[o.object]
				fmt.Fprintf(&b, " finalizers=%v label=%q", of.finalizers, of.label)
				p.writeOwners(&b, of.owners)
			case "delete":
				fmt.Fprintf(&b, " %s", o.policy)
			case "owners":
				p.writeOwners(&b, o.owners)
			case "finalizers":
				fmt.Fprintf(&b, " %v", o.finalizers)
			}
			b.WriteByte('\n')
		}
	}
	return b.String()
}

func (p *plan) writeOwners(b *strings.Builder, owners []reference) {
	for _, r := range owners {
		uid := r.uid
		if r.of >= 0 {
			uid = fmt.Sprintf("uid-of-#%d", r.of)
		}
		fmt.Fprintf(b, "\n      owner %s %s %s %s block=%s", r.apiVersion, r.kind, r.name, uid, r.block)
	}
}

// label names an object.
func (p *plan) label(i int) string {
	o := &p.objects[i]
	return fmt.Sprintf("#%d %s %s/%s", i, o.kind.kind, o.namespace, o.name)
}

// smaller returns plans that lack one thing of p each.
func (p *plan) smaller() []*plan {
	var out []*plan
	with := func(change func(q *plan)) {
		q := *p
		q.objects = slices.Clone(p.objects)
		q.steps = make([][]operation, len(p.steps))
		for i := range p.steps {
			q.steps[i] = slices.Clone(p.steps[i])
		}
		change(&q)
		out = append(out, &q)
	}
	without := func(owners []reference, drop func(i int, r reference) bool) []reference {
		var left []reference
		for i, r := range owners {
			if !drop(i, r) {
				left = append(left, r)
			}
		}
		return left
	}
	for i := range p.objects { // an object, with its operations and the references to it
		with(func(q *plan) {
			to := func(_ int, r reference) bool { return r.of == i }
			for j := range q.objects {
				q.objects[j].owners = without(q.objects[j].owners, to)
			}
			for s := range q.steps {
				q.steps[s] = slices.DeleteFunc(q.steps[s], func(o operation) bool { return o.object == i })
				for j := range q.steps[s] {
					q.steps[s][j].owners = without(q.steps[s][j].owners, to)
				}
			}
			if len(slices.Concat(q.steps...)) == len(slices.Concat(p.steps...)) { // it was dropped before
				q.steps = nil
			}
		})
		with(func(q *plan) { q.objects[i].label = "" })
		for f := range p.objects[i].finalizers {
			with(func(q *plan) {
				q.objects[i].finalizers = slices.Delete(slices.Clone(q.objects[i].finalizers), f, f+1)
			})
		}
		for r := range p.objects[i].owners {
			with(func(q *plan) {
				q.objects[i].owners = without(q.objects[i].owners, func(at int, _ reference) bool { return at == r })
			})
		}
	}
	for s := range p.steps {
		for o := range p.steps[s] {
			if p.steps[s][o].verb != "create" {
				with(func(q *plan) { q.steps[s] = slices.Delete(q.steps[s], o, o+1) })
			}
			for r := range p.steps[s][o].owners {
				with(func(q *plan) {
					q.steps[s][o].owners = without(q.steps[s][o].owners, func(at int, _ reference) bool { return at == r })
				})
			}
		}
	}
	size := len(p.String())
	return slices.DeleteFunc(out, func(q *plan) bool { return q.steps == nil || len(q.String()) >= size })
}
