package e2e

import (
	"cmp"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/keelson-io/keelson/internal/testcrds"
)

// TestFamilies applies the published definitions and examples of three projects with kubectl, looks at them in every way that
// kubectl knows, and finds them again after a restart.
func TestFamilies(t *testing.T) {
	t.Parallel()
	for _, f := range testcrds.Families() {
		t.Run(f.Name, func(t *testing.T) { testFamily(t, f) })
	}
}

func testFamily(t *testing.T, f testcrds.Family) {
	s := startServer(t)
	k := newKubectl(t, s)
	crds, err := testcrds.CRDs(f)
	if err != nil {
		t.Fatal(err)
	}
	for i, d := range crds {
		k.write(t, fmt.Sprintf("crds/%02d.yaml", i), d.YAML)
	}
	// Several of them are larger than the annotation that client-side apply keeps.
	out := k.ok(t, args("apply --server-side -f crds"))
	if n := strings.Count(out, "serverside-applied"); n != len(crds) {
		t.Fatalf("applied %d of %d definitions:\n%s", n, len(crds), out)
	}
	if strings.Contains(out, "Warning") {
		t.Errorf("applying the definitions: got warnings:\n%s", out)
	}
	k.established(t, "--all")
	if out := k.ok(t, args("apply --server-side -f crds")); strings.Count(out, "serverside-applied") != len(crds) {
		t.Errorf("applying again: got\n%s", out)
	}
	resources := k.ok(t, args("api-resources -o name"))
	for _, d := range crds {
		if !strings.Contains(resources, d.Name+"\n") {
			t.Errorf("api-resources lacks %s", d.Name)
		}
		k.ok(t, args("explain "+d.Name), "KIND: ", "FIELDS:", "spec\t")
		k.ok(t, args("get "+d.Name+" -A"), "No resources found")
	}
	objects := familyObjects(t, f)
	applyObjects(t, k, objects)
	before := k.ok(t, append(args("get -A -o yaml"), kindsOf(crds)))
	s.stop(15)
	s.start()
	if after := k.ok(t, append(args("get -A -o yaml"), kindsOf(crds))); after != before {
		t.Errorf("objects differ after a restart: before %d bytes, after %d bytes", len(before), len(after))
	}
}

// familyObjects are the family's examples, or for a family without examples a few objects from its documentation.
func familyObjects(t *testing.T, f testcrds.Family) []testcrds.Doc {
	t.Helper()
	objects, err := testcrds.Examples(f)
	if err != nil {
		t.Fatal(err)
	}
	if f.Name == "cert-manager" {
		for i, text := range certManagerObjects {
			objects = append(objects, testcrds.Doc{Source: fmt.Sprintf("cert-manager object %d", i), YAML: []byte(text)})
		}
	}
	return objects
}

// applyObjects applies the objects in the three ways that kubectl has. Each way must take every object.
func applyObjects(t *testing.T, k *kubectl, objects []testcrds.Doc) {
	t.Helper()
	// The same object occurs in several examples; the last one wins, as it does for a user.
	seen := map[string]int{}
	namespaces := map[string]bool{"default": true}
	var files []testcrds.Doc
	for _, d := range objects {
		id := d.Kind + " " + cmp.Or(d.Namespace, "default") + "/" + d.Name
		if i, ok := seen[id]; ok {
			files[i] = d
			continue
		}
		seen[id] = len(files)
		files = append(files, d)
		if d.Namespace != "" && !namespaces[d.Namespace] {
			namespaces[d.Namespace] = true
			k.ok(t, args("create namespace "+d.Namespace))
		}
	}
	for i, d := range files {
		name := strings.NewReplacer("/", "_", "#", "_").Replace(d.Source)
		k.write(t, filepath.Join("objects", fmt.Sprintf("%03d-%s.yaml", i, strings.TrimSuffix(name, ".yaml"))), d.YAML)
	}
	versions := args("get -f objects -o jsonpath={.items[*].metadata.resourceVersion}")
	var before string
	for _, step := range []struct{ args, each string }{
		{"create --dry-run=server -f objects", "created (server dry run)"},
		{"apply -f objects", "created"},
		{"apply -f objects", ""}, // unchanged, or configured where defaults are in lists or in the status
		{"apply -f objects", ""},
		{"apply --server-side --force-conflicts -f objects", "serverside-applied"},
		{"diff --server-side --force-conflicts -f objects", ""},
		{"label -f objects seen=yes", "labeled"},
	} {
		out := k.ok(t, args(step.args))
		if step.each != "" && strings.Count(out, step.each) != len(files) {
			t.Errorf("kubectl %s: %d of %d objects are %q:\n%s", step.args, strings.Count(out, step.each), len(files), step.each, tail(out, 4000))
		}
		if step.args != "apply -f objects" || step.each != "" {
			continue
		}
		// A default of the status is stored with the first update; from then on nothing is left to write.
		after := k.ok(t, versions)
		if before != "" && after != before {
			t.Errorf("applying the same again wrote something: resource versions\n%s\nbefore\n%s", after, before)
		}
		before = after
	}
}

func kindsOf(crds []testcrds.Doc) string {
	var names []string
	for _, d := range crds {
		names = append(names, d.Name)
	}
	return strings.Join(names, ",")
}

// certManagerObjects are after the examples in cert-manager's documentation; its module holds none.
var certManagerObjects = []string{`apiVersion: cert-manager.io/v1
kind: ClusterIssuer
metadata: {name: selfsigned}
spec: {selfSigned: {}}
`, `apiVersion: cert-manager.io/v1
kind: Issuer
metadata: {name: letsencrypt}
spec:
  acme:
    server: https://acme-v02.api.letsencrypt.org/directory
    email: admin@example.com
    privateKeySecretRef: {name: letsencrypt-account}
    solvers:
    - http01: {ingress: {ingressClassName: nginx}}
    - dns01: {cloudflare: {apiTokenSecretRef: {name: cloudflare, key: token}}}
      selector: {dnsZones: [example.com]}
`, `apiVersion: cert-manager.io/v1
kind: Certificate
metadata: {name: shop}
spec:
  secretName: shop-tls
  duration: 2160h
  renewBefore: 360h
  subject: {organizations: [shop]}
  privateKey: {algorithm: RSA, encoding: PKCS1, size: 2048}
  usages: [server auth, client auth]
  dnsNames: [shop.example.com, www.shop.example.com]
  issuerRef: {name: letsencrypt, kind: Issuer}
`, `apiVersion: cert-manager.io/v1
kind: CertificateRequest
metadata: {name: shop-1}
spec:
  request: LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0=
  duration: 24h
  issuerRef: {name: letsencrypt}
`}
