package crd

import (
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/kind"
)

// This file defines the table columns of definitions, beyond the ones that custom resources have by
// default.

// definitionColumns returns the columns that kubectl shows for definitions.
func definitionColumns() []kind.Column {
	at := func(path ...string) func(jsondoc.Value, time.Time) string {
		return func(d jsondoc.Value, _ time.Time) string { return d.At(path...).Text() }
	}
	return []kind.Column{
		{Name: "Scope", Type: "string", Description: "Cluster/Namespaced", Cell: at("spec", "scope")},
		{Name: "Versions", Type: "string", Description: "Served versions", Cell: servedVersions},
		{Name: "Created At", Type: "date", Description: metav1.ObjectMeta{}.SwaggerDoc()["creationTimestamp"], JSONPath: ".metadata.creationTimestamp"},
		{Name: "Group", Type: "string", Priority: 1, Description: "API group", Cell: at("spec", "group")},
		{Name: "Kind", Type: "string", Priority: 1, Description: "CustomResource kind", Cell: at("spec", "names", "kind")},
		{Name: "ShortNames", Type: "string", Priority: 1, Description: "Short names", Cell: shortNames},
		{Name: "Established", Type: "boolean", Priority: 1, Description: "Established status", Cell: isEstablished},
	}
}

// servedVersions returns the sorted names of the served versions.
func servedVersions(d jsondoc.Value, _ time.Time) string {
	var names []string
	for _, v := range d.At("spec", "versions").Items() {
		if !v.Get("served").Bool() {
			continue
		}
		name := v.Get("name").Text()
		if v.Get("storage").Bool() {
			name += "(storage)"
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return strings.Join(names, ",")
}

// shortNames returns the short names of the kind.
func shortNames(d jsondoc.Value, _ time.Time) string {
	var names []string
	for _, name := range d.At("spec", "names", "shortNames").Items() {
		names = append(names, name.Text())
	}
	return strings.Join(names, ",")
}

// isEstablished returns the status of the condition Established, as the text of a boolean cell.
func isEstablished(d jsondoc.Value, _ time.Time) string {
	for _, c := range d.At("status", "conditions").Items() {
		if c.Get("type").Text() == "Established" && c.Get("status").Text() == "True" {
			return "true"
		}
	}
	return "false"
}
