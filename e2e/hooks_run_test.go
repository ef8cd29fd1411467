package e2e

import (
	"testing"
)

// This file runs the tests of admission webhooks one after the other on one server: configurations are everybody's business.

// Ledger: webhook-services, webhook-unknown-fields, webhook-patch-errors, webhook-changes, webhook-refusals.
func TestWebhooks(t *testing.T) {
	x := startHooked(t)
	x.define(t)
	for _, part := range []struct {
		name string
		run  func(t *testing.T)
	}{
		{"answers", x.webhookAnswers}, {"addresses", x.webhookAddresses}, {"selection", x.webhookSelection}, {"reviews", x.webhookReviews}, {"nodes", x.webhookNodes},
		{"order", x.webhookOrder}, {"promise", x.webhookPromise}, {"metadata", x.webhookMetadata}, {"parts", x.webhookParts}, {"subresources", x.webhookSubresources}, {"actions", x.webhookActions}, {"connections", x.webhookConnections}, {"conversions", x.webhookConversions},
		{"times", x.webhookTimes}, {"conditions", x.webhookConditions}, {"dry_runs", x.webhookDryRuns}, {"metrics", x.webhookMetrics},
	} {
		t.Run(part.name, part.run)
		for _, namespace := range []string{"default", "kube-system"} {
			x.do(t, 200, "DELETE", "/apis/demo.io/v1/namespaces/"+namespace+"/widgets", nil)
		}
	}
}

// hookedKinds are a namespaced kind of three versions, the last of which is not served, and a cluster-scoped one.
var hookedKinds = []string{`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"widgets.demo.io"},"spec":{
	"group":"demo.io","scope":"Namespaced","names":{"plural":"widgets","singular":"widget","kind":"Widget"},"versions":[
	{"name":"v1","served":true,"storage":true,"subresources":{"status":{},"scale":{"specReplicasPath":".spec.size","statusReplicasPath":".status.size"}},"schema":{"openAPIV3Schema":{"type":"object","properties":{
		"spec":{"type":"object","properties":{"color":{"type":"string"},"size":{"type":"integer"},"shape":{"type":"string","default":"round"},"note":{"type":"string","nullable":true}}},
		"status":{"type":"object","properties":{"size":{"type":"integer"}}}}}}},
	{"name":"v2","served":true,"storage":false,"subresources":{"status":{}},"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}},
	{"name":"v3","served":false,"storage":false,"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}]}}`,
	`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"globes.demo.io"},"spec":{
	"group":"demo.io","scope":"Cluster","names":{"plural":"globes","singular":"globe","kind":"Globe"},"versions":[
	{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object"}}}]}}`}

func (x *hooked) define(t *testing.T) {
	t.Helper()
	for _, text := range hookedKinds {
		x.do(t, 201, "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", []byte(text))
	}
	for _, path := range []string{widgetList, "/apis/demo.io/v1/globes"} {
		eventually(t, path, func() bool {
			code, _, err := x.try("GET", path, nil)
			return err == nil && code == 200
		})
	}
}
