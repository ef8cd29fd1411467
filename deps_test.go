// This file holds the arrows between the packages and the list of modules that the product may use. Both are design, not
// bookkeeping: a build that breaks here is mended in the code, or the design is changed first and this table with it.

package keelson

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/keelson-io/keelson"

// arrows names, for every package, the packages of this module that it may import; from the ground up.
var arrows = map[string]string{
	"status":               "",
	"doc":                  "",
	"internal/dfa":         "",
	"internal/watchfile":   "",
	"internal/webhook":     "",
	"internal/reloads":     "",
	"internal/configfile":  "",
	"cel":                  "doc internal/dfa",
	"cel/requests":         "cel",
	"schema/structural":    "internal/dfa",
	"schema":               "cel doc internal/dfa schema/structural",
	"meta":                 "doc status",
	"store":                "",
	"store/etcd":           "store",
	"store/mem":            "store",
	"store/storetest":      "store",
	"cache":                "store",
	"kind":                 "cache cel doc meta schema schema/structural", // a version renders what the cache serves
	"kind/service":         "",
	"kind/builtin":         "cel cel/requests doc kind kind/service meta schema schema/structural",
	"apply":                "doc schema/structural status",
	"internal/kubehook":    "",
	"conversion":           "doc internal/webhook",
	"authn":                "",
	"authn/jwt":            "authn cel internal/configfile internal/reloads internal/watchfile",
	"authn/bootstrap":      "authn",
	"authn/serviceaccount": "authn",
	"authn/webhook":        "authn internal/kubehook",
	"audit":                "authn authz internal/kubehook",
	"authz":                "authn",
	"authz/match":          "authz authz/partial cel",
	"authz/config":         "authz/match internal/configfile",
	"authz/webhook":        "authn authz authz/match authz/partial internal/kubehook",
	"authz/follow":         "cache",
	"authz/partial":        "authn authz",
	"authz/rbac":           "authn authz authz/follow authz/partial",
	"authz/abac":           "authn authz authz/partial",
	"authz/node":           "authn authz authz/follow authz/partial",
	"authz/reload":         "authn authz authz/config authz/webhook internal/reloads internal/watchfile",
	"admission":            "authn authz cache doc kind meta status",
	"admission/match":      "admission doc kind meta status",
	"admission/conditions": "admission admission/match authn authz cel cel/requests doc",
	"admission/webhook":    "admission admission/conditions admission/match authz cache cel cel/requests doc internal/webhook kind meta status",
	"admission/policy":     "admission admission/conditions admission/match authn authz cache cel cel/requests doc kind status",
	"admission/typecheck":  "api/openapi cel kind",
	"api/discovery":        "api/negotiation kind",
	"api/impersonation":    "authn authz status",
	"api/negotiation":      "",
	"api/openapi":          "api/negotiation kind kind/builtin schema/structural",
	"api/table":            "doc kind",
	"api":                  "admission api/discovery api/impersonation api/negotiation api/openapi api/table apply audit authn authn/serviceaccount authz cache doc kind meta schema status store",
	"controller/crd":       "cache doc kind store",
	"controller/loop":      "cache doc kind meta status store",
	"allocator":            "cache controller/loop doc kind kind/service meta status store",
	"controller/namespace": "cache controller/loop doc kind meta status store",
	"controller/gc":        "cache doc kind meta status store",
	"controller/expiry":    "cache controller/loop doc kind store",
	"controller/policies":  "admission/typecheck cache controller/loop kind store",
	"controller/roles":     "authz/rbac cache controller/loop kind store",
	"controller/service":   "cache controller/loop doc kind meta store",
	"controller/trust":     "store",
	"controller/ensure":    "cache controller/loop controller/trust kind meta status store",
	"controller/token":     "cache controller/loop controller/trust doc kind meta store",
	"server":               "admission admission/policy admission/webhook allocator api audit authn authn/bootstrap authn/jwt authn/serviceaccount authn/webhook authz authz/abac authz/config authz/follow authz/node authz/rbac authz/reload cache controller/crd controller/ensure controller/expiry controller/gc controller/namespace controller/policies controller/roles controller/service controller/token controller/trust conversion doc internal/reloads kind kind/builtin schema status store store/etcd",
	"keelsontest":          "server store/mem",
	"internal/manifest":    "",
	"internal/offline":     "audit doc internal/manifest kind meta server status store store/mem",
	"lint":                 "admission admission/conditions admission/match admission/typecheck cel doc kind kind/builtin meta schema schema/structural",
	"suite":                "internal/manifest internal/offline",
	"internal/cli":         "audit authn authz authz/abac authz/config authz/node authz/partial authz/rbac authz/reload authz/webhook cel controller/roles controller/service doc internal/kubehook internal/manifest internal/offline kind lint server status store/etcd suite",
	"internal/testcrds":    "",
	"internal/testcerts":   "",
	"internal/testports":   "",
	"internal/testdir":     "",
	"internal/testpeers":   "",
	"internal/testkinds":   "kind kind/builtin",
	"cmd/keelson":          "internal/cli",
}

// modules lists every module whose packages the product's own packages import, with what it is for. Tests, and the nested
// modules for comparisons and measurements, may use others.
var modules = map[string]string{
	"github.com/blang/semver/v4":           "rules: the semver library",
	"github.com/coreos/go-oidc/v3":         "authn/jwt: OpenID Connect discovery and the verification of its tokens",
	"github.com/fsnotify/fsnotify":         "internal/watchfile: events of files",
	"github.com/go-jose/go-jose/v4":        "authn/serviceaccount: signing and verifying tokens",
	"github.com/google/cel-go":             "cel: parses, type-checks and estimates rules",
	"github.com/google/gnostic-models":     "api/openapi: the protobuf form that kubectl asks for",
	"github.com/munnerz/goautoneg":         "api/negotiation: the Accept header as upstream reads it",
	"github.com/prometheus/client_golang":  "/metrics: api and what counts for it",
	"github.com/robfig/cron/v3":            "kind/builtin: schedules of cron jobs, read and refused as upstream does",
	"github.com/spf13/cobra":               "internal/cli: commands, flags, completion",
	"github.com/spf13/pflag":               "internal/cli: flags in groups",
	"github.com/tidwall/btree":             "cache, kind, store/mem: sorted snapshots that share what did not change",
	"go.etcd.io/etcd/api/v3":               "store/etcd: the wire types and errors of etcd",
	"go.etcd.io/etcd/client/pkg/v3":        "store/etcd: TLS of the client",
	"go.etcd.io/etcd/client/v3":            "store/etcd: the client",
	"go.etcd.io/etcd/etcdutl/v3":           "store/etcd: restoring snapshots",
	"go.etcd.io/etcd/server/v3":            "store/etcd: the embedded server",
	"go.uber.org/zap":                      "store/etcd: etcd's log, to be passed on",
	"go.yaml.in/yaml/v3":                   "lint, suite: where in a YAML text something stands",
	"golang.org/x/net":                     "api: watches over WebSockets, with the library that upstream uses",
	"golang.org/x/time":                    "audit: how many calls a webhook is sent",
	"golang.org/x/term":                    "internal/cli: colours for a terminal only",
	"google.golang.org/grpc":               "store/etcd: dialling the embedded server without a port",
	"google.golang.org/protobuf":           "api/openapi: the protobuf form that kubectl asks for",
	"gopkg.in/natefinch/lumberjack.v2":     "audit: log files that are rotated, as kube-apiserver does it",
	"k8s.io/api":                           "wire types",
	"k8s.io/apiextensions-apiserver":       "wire types of definitions",
	"k8s.io/apimachinery":                  "wire types, errors, selectors, validation of names",
	"k8s.io/client-go":                     "kubeconfig, JSON paths of printer columns",
	"k8s.io/kube-openapi":                  "OpenAPI documents, string formats",
	"sigs.k8s.io/json":                     "doc: the words of strict decoding",
	"sigs.k8s.io/structured-merge-diff/v6": "apply: field sets and merging",
	"sigs.k8s.io/yaml":                     "YAML as Kubernetes reads it",
}

// never lists import paths that must not come into the product, not even by way of another module.
var never = []string{
	"k8s.io/apiserver",
	"k8s.io/apiextensions-apiserver/pkg/apiserver",
	"k8s.io/apiextensions-apiserver/pkg/registry",
	"k8s.io/kubernetes",
}

// goPackage is what go list says of a package.
type goPackage struct {
	ImportPath string
	Standard   bool
	Imports    []string
	GoFiles    []string
	Module     *struct{ Path string }
}

func TestPackagesImportOnlyWhatTheDesignAllows(t *testing.T) {
	for _, p := range goList(t, "./...") {
		if len(p.GoFiles) == 0 {
			continue // tests only
		}
		name := strings.TrimPrefix(p.ImportPath, module+"/")
		text, ok := arrows[name]
		if !ok {
			t.Errorf("package %s: not in the table of arrows", name)
			continue
		}
		allowed := strings.Fields(text)
		for _, i := range p.Imports {
			to, ours := strings.CutPrefix(i, module+"/")
			if ours && !slices.Contains(allowed, to) {
				t.Errorf("package %s: imports %s, which the table of arrows does not allow", name, to)
			}
		}
		for _, to := range allowed {
			if !slices.Contains(p.Imports, module+"/"+to) {
				t.Errorf("package %s: does not import %s: take the arrow out of the table", name, to)
			}
		}
	}
}

func TestArrowsPointDown(t *testing.T) {
	// A depth-first walk finds a cycle that go build would only report package by package.
	var visit func(name string, path []string)
	visit = func(name string, path []string) {
		if slices.Contains(path, name) {
			t.Fatalf("arrows in a circle: %s", strings.Join(append(path, name), " -> "))
		}
		for _, to := range strings.Fields(arrows[name]) {
			if _, ok := arrows[to]; !ok {
				t.Errorf("package %s: arrow to %s, which is not in the table", name, to)
			}
			visit(to, append(slices.Clone(path), name))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(arrows)) {
		visit(name, nil)
	}
}

func TestProductUsesOnlyListedModules(t *testing.T) {
	owner := map[string]string{} // import path -> module
	for _, p := range goList(t, "-deps", "./...") {
		if p.Module != nil {
			owner[p.ImportPath] = p.Module.Path
		}
		for _, n := range never {
			if p.ImportPath == n || strings.HasPrefix(p.ImportPath, n+"/") {
				t.Errorf("the product depends on %s, which only comparisons may use", p.ImportPath)
			}
		}
	}
	used := map[string]bool{}
	for _, p := range goList(t, "./...") {
		for _, i := range p.Imports {
			m := owner[i]
			if m == "" || m == module {
				continue
			}
			used[m] = true
			if modules[m] == "" {
				t.Errorf("package %s: imports %s of module %s, which is not on the list", p.ImportPath, i, m)
			}
		}
	}
	for m := range modules {
		if !used[m] {
			t.Errorf("module %s: nothing imports it: take it off the list", m)
		}
	}
}

func goList(t *testing.T, args ...string) []goPackage {
	t.Helper()
	cmd := exec.Command("go", append([]string{"list", "-json=ImportPath,Standard,Imports,GoFiles,Module"}, args...)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, stderr.Bytes())
	}
	var list []goPackage
	dec := json.NewDecoder(bytes.NewReader(out))
	for {
		var p goPackage
		if err := dec.Decode(&p); err == io.EOF {
			return list
		} else if err != nil {
			t.Fatal(err)
		}
		list = append(list, p)
	}
}
