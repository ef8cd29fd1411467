// Package bootstrap has the objects of priority and fairness that every server starts with: tables of
// facts about Kubernetes. The mandatory objects cannot be changed or missed; the suggested ones are a
// default. [Levels] and [Schemas] return copies.
package bootstrap

import (
	"strings"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// AutoUpdate is the annotation of objects that the server keeps as they are below.
const AutoUpdate = flowcontrolv1.AutoUpdateAnnotationKey

// levelRow describes a priority level. A level without queues rejects what finds no seat.
type levelRow struct {
	name                 string
	shares, lends        int32
	queues, hand, length int32
	exempt, mandatory    bool
}

var levelRows = []levelRow{
	{name: "exempt", exempt: true, mandatory: true},
	{name: "catch-all", shares: 5, mandatory: true},
	{name: "system", shares: 30, lends: 33, queues: 64, hand: 6, length: 50},
	{name: "node-high", shares: 40, lends: 25, queues: 64, hand: 6, length: 50},
	{name: "leader-election", shares: 10, queues: 16, hand: 4, length: 50},
	{name: "workload-high", shares: 40, lends: 50, queues: 128, hand: 6, length: 50},
	{name: "workload-low", shares: 100, lends: 90, queues: 128, hand: 6, length: 50},
	{name: "global-default", shares: 20, lends: 50, queues: 128, hand: 6, length: 50},
}

// schemaRow describes a FlowSchema. Subjects are users, groups ("group NAME") or all service accounts
// of a namespace ("accounts NAMESPACE"). resources are rules: verbs, groups, resources, and "cluster"
// if they match requests without a namespace; "*" is everything, paths included.
type schemaRow struct {
	name, level string
	precedence  int32
	flows       flowcontrolv1.FlowDistinguisherMethodType
	subjects    string
	resources   string // separated by semicolons
	paths       string // verb and paths
	mandatory   bool
}

const (
	byUser      = flowcontrolv1.FlowDistinguisherMethodByUserType
	byNamespace = flowcontrolv1.FlowDistinguisherMethodByNamespaceType
	allUsers    = "group system:unauthenticated,group system:authenticated"
)

var schemaRows = []schemaRow{
	{name: "exempt", level: "exempt", precedence: 1, subjects: "group system:masters", resources: "*", mandatory: true},
	{name: "probes", level: "exempt", precedence: 2, subjects: allUsers, paths: "get /healthz,/readyz,/livez"},
	{name: "system-leader-election", level: "leader-election", precedence: 100, flows: byUser,
		subjects: "system:kube-controller-manager,system:kube-scheduler,accounts kube-system", resources: "get,create,update coordination.k8s.io leases"},
	{name: "system-node-high", level: "node-high", precedence: 400, flows: byUser, subjects: "group system:nodes",
		resources: "*  nodes,nodes/status cluster;* coordination.k8s.io leases"},
	{name: "system-nodes", level: "system", precedence: 500, flows: byUser, subjects: "group system:nodes", resources: "*"},
	{name: "kube-controller-manager", level: "workload-high", precedence: 800, flows: byNamespace, subjects: "system:kube-controller-manager", resources: "*"},
	{name: "kube-scheduler", level: "workload-high", precedence: 800, flows: byNamespace, subjects: "system:kube-scheduler", resources: "*"},
	{name: "kube-system-service-accounts", level: "workload-high", precedence: 900, flows: byNamespace, subjects: "accounts kube-system", resources: "*"},
	{name: "service-accounts", level: "workload-low", precedence: 9000, flows: byUser, subjects: "group system:serviceaccounts", resources: "*"},
	{name: "global-default", level: "global-default", precedence: 9900, flows: byUser, subjects: allUsers, resources: "*"},
	{name: "catch-all", level: "catch-all", precedence: 10_000, flows: byUser, subjects: allUsers, resources: "*", mandatory: true},
}

// Levels returns new copies of the levels that every server has, or only of the mandatory
// ones.
func Levels(mandatory bool) []*flowcontrolv1.PriorityLevelConfiguration {
	var all []*flowcontrolv1.PriorityLevelConfiguration
	for _, r := range levelRows {
		if r.mandatory || !mandatory {
			all = append(all, r.object())
		}
	}
	return all
}

// Schemas returns new copies of the FlowSchemas that every server has, or only of the
// mandatory ones.
func Schemas(mandatory bool) []*flowcontrolv1.FlowSchema {
	var all []*flowcontrolv1.FlowSchema
	for _, r := range schemaRows {
		if r.mandatory || !mandatory {
			all = append(all, r.object())
		}
	}
	return all
}

// IsMandatory reports whether objects of a name are mandatory.
func IsMandatory(name string) bool {
	return name == flowcontrolv1.FlowSchemaNameExempt || name == flowcontrolv1.FlowSchemaNameCatchAll
}

func metadata(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Annotations: map[string]string{AutoUpdate: "true"}}
}

func (r *levelRow) object() *flowcontrolv1.PriorityLevelConfiguration {
	p := &flowcontrolv1.PriorityLevelConfiguration{ObjectMeta: metadata(r.name)}
	if r.exempt {
		p.Spec.Type = flowcontrolv1.PriorityLevelEnablementExempt
		p.Spec.Exempt = &flowcontrolv1.ExemptPriorityLevelConfiguration{NominalConcurrencyShares: &r.shares, LendablePercent: &r.lends}
		return p.DeepCopy() // the row is not shared
	}
	l := &flowcontrolv1.LimitedPriorityLevelConfiguration{NominalConcurrencyShares: &r.shares, LendablePercent: &r.lends}
	l.LimitResponse.Type = flowcontrolv1.LimitResponseTypeReject
	if r.queues > 0 {
		l.LimitResponse.Type = flowcontrolv1.LimitResponseTypeQueue
		l.LimitResponse.Queuing = &flowcontrolv1.QueuingConfiguration{Queues: r.queues, HandSize: r.hand, QueueLengthLimit: r.length}
	}
	p.Spec.Type, p.Spec.Limited = flowcontrolv1.PriorityLevelEnablementLimited, l
	return p.DeepCopy()
}

func (r *schemaRow) object() *flowcontrolv1.FlowSchema {
	s := &flowcontrolv1.FlowSchema{ObjectMeta: metadata(r.name)}
	s.Spec.PriorityLevelConfiguration.Name, s.Spec.MatchingPrecedence = r.level, r.precedence
	if r.flows != "" {
		s.Spec.DistinguisherMethod = &flowcontrolv1.FlowDistinguisherMethod{Type: r.flows}
	}
	rules := flowcontrolv1.PolicyRulesWithSubjects{}
	for _, name := range strings.Split(r.subjects, ",") {
		to := flowcontrolv1.Subject{Kind: flowcontrolv1.SubjectKindUser}
		switch what, of, _ := strings.Cut(name, " "); what {
		case "group":
			to.Kind, to.Group = flowcontrolv1.SubjectKindGroup, &flowcontrolv1.GroupSubject{Name: of}
		case "accounts":
			to.Kind, to.ServiceAccount = flowcontrolv1.SubjectKindServiceAccount, &flowcontrolv1.ServiceAccountSubject{Namespace: of, Name: flowcontrolv1.NameAll}
		default:
			to.User = &flowcontrolv1.UserSubject{Name: name}
		}
		rules.Subjects = append(rules.Subjects, to)
	}
	list := func(text string) []string { return strings.Split(text, ",") }
	every := []string{"*"}
	switch {
	case r.resources == "*":
		rules.ResourceRules = []flowcontrolv1.ResourcePolicyRule{{Verbs: every, APIGroups: every, Resources: every, Namespaces: every, ClusterScope: true}}
		rules.NonResourceRules = []flowcontrolv1.NonResourcePolicyRule{{Verbs: every, NonResourceURLs: every}}
	case r.resources != "":
		for _, text := range strings.Split(r.resources, ";") {
			f := strings.Split(text, " ")
			rules.ResourceRules = append(rules.ResourceRules, flowcontrolv1.ResourcePolicyRule{
				Verbs: list(f[0]), APIGroups: list(f[1]), Resources: list(f[2]), Namespaces: every, ClusterScope: len(f) > 3})
		}
	}
	if verb, paths, ok := strings.Cut(r.paths, " "); ok {
		rules.NonResourceRules = []flowcontrolv1.NonResourcePolicyRule{{Verbs: list(verb), NonResourceURLs: list(paths)}}
	}
	s.Spec.Rules = []flowcontrolv1.PolicyRulesWithSubjects{rules}
	return s
}
