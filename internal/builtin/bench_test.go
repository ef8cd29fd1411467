package builtin

import (
	"testing"

	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/kind"
)

// This file measures what a write of a built-in kind costs before it is stored,
// and what having the kinds costs.

func versionFor(b testing.TB, group, plural string) *kind.Version {
	b.Helper()
	for _, k := range All(nil) {
		if k.Group == group && k.Plural == plural {
			return k.Storage
		}
	}
	b.Fatalf("no kind %s.%s", plural, group)
	return nil
}

func BenchmarkDecode(b *testing.B) {
	for _, c := range []struct{ name, group, plural, text string }{
		{"ConfigMap", "", "configmaps", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"default"},"data":{"a":"b","c":"d"}}`},
		{"Lease", "coordination.k8s.io", "leases", `{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":"a","namespace":"default"},` +
			`"spec":{"acquireTime":"2026-01-01T00:00:00.000000Z","holderIdentity":"me","leaseDurationSeconds":15,"renewTime":"2026-01-01T00:00:00.000000Z"}}`},
		{"Deployment", "apps", "deployments", `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"a","namespace":"default"},"spec":{"selector":` +
			`{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}`},
	} {
		b.Run(c.name, func(b *testing.B) {
			v := versionFor(b, c.group, c.plural)
			var d jsondoc.Doc
			b.ReportAllocs()
			for b.Loop() {
				if _, err := v.Decode(&d, []byte(c.text)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkAll(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		All(nil)
	}
}

func BenchmarkCompileDeployment(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if err := versionFor(b, "apps", "deployments").Schema.Load(); err != nil {
			b.Fatal(err)
		}
	}
}
