package builtin

import (
	"regexp"
	"strings"
)

// This file lists the intended differences, which docs/compat.md describes.

// exception is an intended difference. An empty field matches everything.
type exception struct {
	why                 string
	kind, step, place   string // regular expressions that match the whole text
	theirs, ours        string // the values at that place
	kinds, steps, spots *regexp.Regexp
	theirText, ourText  *regexp.Regexp
}

// ofRecords reports whether an exception is about what webhooks and policies see only.
func (e *exception) ofRecords() bool { return strings.HasPrefix(e.place, `body\.hooks`) }

var exceptions = []exception{
	{why: "ports that the servers happened to get", kind: `/.*/kubernetes`, step: "start", place: `body.*\.(port|targetPort)`},
	// Ledger: aggregated-roles.
	{why: "aggregated roles are complete from the start", kind: `/apis/rbac\.authorization\.k8s\.io/v1/clusterroles/(admin|edit|view)`, step: "start", place: `body\.rules`, theirs: "null"},
	// Ledger: api-services.
	{why: "API services are shown, and come and go by themselves", kind: `/apis/apiregistration\.k8s\.io/v1`, step: "discovery", place: `body\.resources\[0\]\.(verbs|storageVersionHash)`},
	// Ledger: definitions-v1beta1.
	{why: "definitions of v1beta1 are served", kind: `/apis/apiextensions\.k8s\.io/v1beta1`},
	// Ledger: definition-storage-hash.
	{why: "definitions are not stored as v1beta1", kind: `/apis/apiextensions\.k8s\.io/v1`, place: `body\.resources\[0\]\.storageVersionHash`},
	// Ledger: patch-error-order.
	{why: "an object in an error, in the order of Go's fields", step: "merge strict", place: `body\.(message|details\.causes\[0\]\.message)`},
	// Ledger: job-template-errors.
	{why: "a template of pods in an error, by the names of Go's fields", kind: "batch/jobs", step: `put without version|wrong update .*/spec/template.*|full (put .*|take .*|directive|apply.*)`,
		place: `body\.(message|details\.causes.*)`, theirs: `.*spec.template.*|.*\\"Spec\\".*|.*\\"Volumes\\".*`},
	// Ledger: job-completions.
	{why: "upstream's server fails", kind: "batch/jobs", step: "full take /spec/completions", theirs: `0|null|".*EOF"`},
	// Ledger: spec-differences.
	{why: "what differs between two specs, as Go prints it, in an error", kind: "pods|persistentvolumes|persistentvolumeclaims", step: "put without version|(wrong update|full) .*",
		place: `body\.(message|details\.causes\[\d\]\.message)`, theirs: `.*\\n@@ .*`},
	// Ledger: namespace-finalizer-fields.
	{why: "managed fields of finalizers in a namespace's spec, which an update cannot change", kind: "namespaces", step: "wrong update .*finalizers.*", place: `body.*managedFields.*`, theirs: ""},
	// Ledger: slice-dropped-field.
	{why: "a part of a slice that is dropped counts as a change", kind: `resource\.k8s\.io/resourceslices`, step: "full .*", place: `body.*\.metadata\.(generation|resourceVersion)`},
	// Ledger: autoscaler-annotations.
	{why: "metrics in annotations of the first version", kind: "autoscaling/horizontalpodautoscalers", step: "full .*", place: `body.*\.metadata\.(annotations|managedFields.*)`},
	// Ledger: subresource-tables.
	{why: "a part of an object has a table, too", step: "(ephemeralcontainers|resize|approval|status) get as table",
		kind: `pods|certificates\.k8s\.io/certificatesigningrequests|resource\.k8s\.io/(devicetaintrules|resourceclaims)`},
	// Ledger: empty-claim-templates.
	{why: "an empty list of templates in an error", kind: "apps/statefulsets", step: `wrong update .*"/spec/volumeClaimTemplates":\[\].*`, place: `body\.(message|details\.causes\[\d\]\.message)`, theirs: `.*Invalid value: \[\]: field is immutable.*`, ours: `.*Invalid value: null: field is immutable.*`},
	// Ledger: daemonset-metadata.
	{why: "the count of a daemon set's templates in its metadata alone", kind: "apps/daemonsets", place: `body.*\.metadata\.annotations(\.deprecated\..*)?`, theirs: ""},
	// Ledger: external-name-traffic.
	{why: "the internal traffic of a name elsewhere", kind: "services", step: "full .*", place: `body\.spec\.internalTrafficPolicy`, theirs: `"Local"`, ours: ""},
	// Ledger: csinode-drivers.
	{why: "an empty list of drivers belongs to nobody", kind: `storage\.k8s\.io/csinodes`, step: "apply"},
	{why: "an empty list of drivers belongs to nobody", kind: `storage\.k8s\.io/csinodes`, place: `body.*(managedFields.*|resourceVersion)`},
	// Ledger: claim-phase-in-webhooks.
	{why: "the phase of a new claim, as it is stored", kind: "persistentvolumeclaims", place: `body\.hooks.*\.object\.status\.phase`, theirs: "", ours: `"Pending"`},
	// Ledger: scale-managed-fields-in-webhooks.
	{why: "managed fields of a scale's labels, which are not stored", step: "scale merge", place: `body\.hooks.*\.object\.metadata\.managedFields`},
	{why: "an empty list of drivers belongs to nobody", kind: `storage\.k8s\.io/csinodes`, place: `body\.hooks.*\.spec\.drivers`, theirs: `\[\]`, ours: "null"},
	// Ledger: hostile-directives.
	{why: "a patch that does not fit the list that it changes", step: "full (status )?directive", place: `code|body\.code`, theirs: "500", ours: "400"},
	{why: "a patch that does not fit the list that it changes", step: "full (status )?directive", place: `body\.reason`, theirs: "", ours: `"BadRequest"`},
	// Ledger: migration-table.
	{why: "the column of names", kind: `storagemigration\.k8s\.io/storageversionmigrations`, place: `body\.columnDefinitions\[0\]\.format`, theirs: `""`, ours: `"name"`},
	// Ledger: self-link.
	{why: "a link that a client sends", step: `.* metadata: .*`, place: `body.*\.metadata\.selfLink`, theirs: `"/x"`, ours: ""},
	// Ledger: repeated-metadata-errors.
	{why: "errors of metadata several times", kind: `apiextensions\.k8s\.io/customresourcedefinitions`, step: `status metadata: .*`, place: `body\.details\.causes`},
	// Ledger: ipaddress-table.
	{why: "a cell without a column", kind: `networking\.k8s\.io/ipaddresses`, place: `body\.rows\[0\]\.cells`},
}

func init() {
	whole := func(text string) *regexp.Regexp { return regexp.MustCompile("^(?s:" + text + ")$") }
	for i := range exceptions {
		e := &exceptions[i]
		for _, part := range []struct {
			text string
			to   **regexp.Regexp
		}{{e.kind, &e.kinds}, {e.step, &e.steps}, {e.place, &e.spots}, {e.theirs, &e.theirText}, {e.ours, &e.ourText}} {
			if part.text != "" {
				*part.to = whole(part.text)
			}
		}
	}
}

// excuse returns the exception that covers a difference, nil if the difference is not intended.
func excuse(of, step string, d difference) *exception {
	fits := func(re *regexp.Regexp, text string) bool { return re == nil || re.MatchString(text) }
	for i := range exceptions {
		e := &exceptions[i]
		if fits(e.kinds, of) && fits(e.steps, step) && fits(e.spots, d.place) && fits(e.theirText, d.theirs) && fits(e.ourText, d.ours) {
			return e
		}
	}
	return nil
}
