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
	"status":                 "",
	"internal/poison":        "",
	"internal/buffer":        "internal/poison",
	"jsondoc":                "internal/poison",
	"internal/negotiation":   "",
	"internal/dfa":           "",
	"internal/watchfile":     "",
	"internal/weakcert":      "",
	"internal/webhook":       "internal/weakcert",
	"internal/often":         "",
	"internal/memory":        "",
	"internal/reloads":       "internal/watchfile",
	"internal/series":        "",
	"internal/configfile":    "",
	"internal/fastpath":      "",
	"internal/quantity":      "",
	"kubernetes":             "",
	"cel/internal/lib":       "",
	"cel/internal/val":       "cel/internal/lib internal/dfa internal/quantity jsondoc",
	"cel/internal/fast":      "cel/internal/val jsondoc",
	"cel/internal/check":     "cel/internal/lib cel/internal/val internal/fastpath kubernetes",
	"cel/internal/eval":      "cel/internal/check cel/internal/fast cel/internal/lib cel/internal/val jsondoc internal/fastpath",
	"cel":                    "cel/internal/check cel/internal/eval cel/internal/fast cel/internal/lib cel/internal/val jsondoc kubernetes",
	"cel/requests":           "cel",
	"cel/sql":                "cel jsondoc",
	"schema/structural":      "internal/dfa",
	"schema":                 "cel jsondoc internal/dfa kubernetes schema/structural",
	"witness":                "cel jsondoc schema schema/structural",
	"internal/yamljson":      "internal/fastpath",
	"internal/selector":      "",
	"meta":                   "jsondoc internal/yamljson status",
	"store":                  "",
	"store/etcd":             "internal/often store",
	"store/encrypt":          "internal/configfile store",
	"store/encrypt/kms":      "store/encrypt",
	"store/format":           "store",
	"store/mem":              "store",
	"store/storetest":        "store",
	"cache":                  "store meta",
	"cache/follow":           "cache store",
	"kind":                   "internal/quantity jsondoc meta schema schema/structural",
	"crd":                    "cel jsondoc internal/poison kind meta schema schema/structural internal/fastpath kubernetes",
	"networking":             "",
	"builtin":                "builtin/admissionregistration builtin/apiregistration builtin/apps builtin/authentication builtin/authorization builtin/autoscaling builtin/batch builtin/certificates builtin/coordination builtin/core builtin/describe builtin/discovery builtin/events builtin/flowcontrol builtin/networking builtin/node builtin/policy builtin/rbac builtin/resource builtin/scheduling builtin/storage builtin/storagemigration crd jsondoc kind meta schema schema/structural",
	"flow/bootstrap":         "",
	"flow":                   "flow/bootstrap",
	"apply":                  "jsondoc schema/structural status internal/fastpath",
	"internal/kubehook":      "internal/reloads internal/weakcert",
	"conversion":             "jsondoc internal/series internal/webhook",
	"conversion/declared":    "cel internal/nearest jsondoc schema schema/structural witness",
	"authn":                  "authz",
	"authn/jwt":              "authn cel internal/configfile internal/reloads internal/watchfile",
	"authn/bootstrap":        "authn",
	"authn/externalsigner":   "authn/serviceaccount",
	"authn/serviceaccount":   "authn",
	"authn/webhook":          "authn internal/kubehook internal/reloads internal/weakcert",
	"audit":                  "authn authz internal/kubehook internal/reloads internal/weakcert jsondoc",
	"authz":                  "status",
	"authz/match":            "authz authz/partial cel",
	"authz/config":           "authz/match internal/configfile",
	"authz/webhook":          "authn authz authz/match authz/partial internal/kubehook internal/weakcert",
	"authz/feed":             "cache cache/follow kind",
	"authz/partial":          "authn authz",
	"authz/rbac":             "authn authz authz/feed authz/partial status",
	"authz/abac":             "authn authz authz/partial",
	"authz/node":             "authn authz authz/feed authz/partial",
	"authz/reload":           "authn authz authz/config authz/webhook internal/kubehook internal/reloads internal/watchfile internal/weakcert",
	"admission":              "authn authz jsondoc internal/series kind meta status",
	"admission/match":        "admission jsondoc internal/selector kind meta status",
	"admission/conditions":   "admission admission/match authn authz cel cel/requests jsondoc",
	"admission/manifests":    "internal/manifest internal/watchfile jsondoc kind schema",
	"admission/webhook":      "admission admission/conditions admission/manifests admission/match authz cache cel cel/requests jsondoc internal/webhook kind meta status",
	"admission/policy":       "admission admission/conditions admission/manifests admission/match authn authz cache cel cel/requests jsondoc internal/selector internal/series kind status",
	"admission/plugins":      "admission admission/certificates admission/devices admission/eventrate admission/lookup admission/manifests admission/noderestriction admission/pods admission/podsecurity admission/policy admission/quota admission/services admission/storage authz cache internal/configfile kind meta",
	"admission/typecheck":    "openapi cel kind",
	"api/admit":              "flow internal/memory status",
	"api/stream":             "api/admit",
	"api/discovery":          "internal/negotiation kind status",
	"api/health":             "",
	"api/impersonation":      "authn authz status",
	"api/review":             "status",
	"api/zpages":             "internal/negotiation",
	"api/program":            "",
	"api/metrics":            "authn authz internal/series kind",
	"api/refusal":            "authn internal/often",
	"api/served":             "cache/follow kind",
	"api/selection":          "cache internal/selector kind meta objects status",
	"api/connect":            "",
	"api/encoding":           "internal/negotiation status",
	"api/unreadable":         "cache jsondoc kind status",
	"openapi":                "internal/negotiation kind builtin schema/structural",
	"api/table":              "jsondoc kind status",
	"objects":                "admission apply authn authn/serviceaccount cache internal/buffer internal/fastpath internal/poison internal/yamljson jsondoc kind meta schema status store",
	"api":                    "admission api/admit api/connect api/discovery api/encoding api/health api/impersonation api/metrics api/program api/refusal api/review api/selection api/served api/stream api/table api/unreadable api/zpages audit authn authn/serviceaccount authz cache crd flow internal/buffer internal/memory internal/negotiation internal/poison internal/yamljson jsondoc kind meta objects openapi schema status store",
	"controller/definitions": "cache cache/follow crd jsondoc kind store",
	"controller/loop":        "cache cache/follow jsondoc kind meta status store",
	"allocator":              "cache controller/loop jsondoc kind networking meta status store",
	"controller/namespace":   "cache controller/loop jsondoc kind meta status store",
	"controller/flows":       "cache controller/loop flow flow/bootstrap jsondoc kind meta status store",
	"controller/gc":          "cache cache/follow jsondoc kind meta status store",
	"controller/expiry":      "cache controller/loop jsondoc kind store",
	"controller/migration":   "cache controller/loop kind meta status store",
	"controller/policies":    "admission/typecheck cache controller/loop kind store",
	"controller/roles":       "authz/rbac cache controller/loop internal/selector kind store",
	"controller/service":     "cache controller/loop jsondoc kind meta store",
	"controller/trust":       "store",
	"controller/signer":      "cache controller/loop kind meta store",
	"controller/ensure":      "cache controller/loop controller/trust kind meta status store",
	"controller/systemmaps":  "cache controller/loop controller/trust jsondoc kind meta store",
	"controller/token":       "cache controller/loop controller/trust jsondoc kind meta store",
	"server":                 "admission admission/lookup admission/manifests admission/plugins admission/policy admission/webhook allocator api api/admit api/health api/program api/stream audit authn authn/bootstrap authn/jwt authn/serviceaccount authn/webhook authz authz/abac authz/config authz/feed authz/node authz/rbac authz/reload builtin cache controller/definitions controller/ensure controller/expiry controller/flows controller/gc controller/migration controller/namespace controller/policies controller/protection controller/quota controller/roles controller/service controller/servicecidr controller/signer controller/systemmaps controller/token controller/trust conversion crd flow internal/memory internal/often internal/poison internal/reloads internal/watchfile internal/weakcert internal/webhook jsondoc kind meta networking objects schema status store store/encrypt store/format store/mem",
	"server/etcd":            "authn/externalsigner server store/encrypt/kms store/etcd",
	"servertest":             "server",
	"internal/source":        "",
	"internal/mistype":       "internal/source kind schema/structural",
	"internal/report":        "",
	"internal/nearest":       "",
	"internal/manifest":      "internal/source internal/yamljson jsondoc",
	"internal/settings":      "internal/manifest internal/nearest",
	"internal/crdsource":     "internal/manifest",
	"internal/atrest":        "cel cel/sql jsondoc",
	"offline":                "admission admission/plugins admission/policy allocator api/impersonation api/program api/review authn authz authz/feed authz/rbac builtin cache controller/definitions controller/ensure controller/roles crd internal/manifest internal/nearest jsondoc kind meta objects schema status store store/mem",
	"lint":                   "admission admission/conditions admission/match admission/typecheck cel internal/nearest internal/mistype internal/source jsondoc kind builtin meta schema schema/structural crd kubernetes internal/yamljson",
	"coverage":               "internal/manifest jsondoc kind schema",
	"suite":                  "coverage internal/manifest internal/source kind offline schema witness internal/yamljson",
	"internal/cli/command":   "crd internal/manifest offline",
	"internal/cli/eval":      "cel cel/sql crd internal/cli/command internal/manifest jsondoc schema schema/structural",
	"internal/cli/authz":     "audit authn authz authz/abac authz/config authz/node authz/partial authz/rbac authz/reload authz/webhook builtin controller/roles internal/cli/command internal/kubehook internal/manifest internal/nearest kind",
	"internal/cli/convert":   "conversion/declared internal/cli/command internal/manifest internal/watchfile offline",
	"internal/cli/query":     "cel crd internal/atrest internal/cli/command internal/manifest internal/source jsondoc kind schema",
	"internal/cli/snapshot":  "internal/cli/command server store/encrypt store/etcd",
	"internal/cli/export":    "internal/atrest internal/cli/command internal/manifest store/encrypt store/etcd",
	"internal/cli":           "audit authz/config authz/partial controller/service coverage internal/cli/authz internal/cli/command internal/cli/convert internal/cli/eval internal/cli/export internal/cli/kubeconfig internal/cli/query internal/cli/snapshot internal/crdsource internal/fastpath internal/manifest internal/memory internal/mistype internal/nearest internal/report internal/settings internal/source jsondoc kind kubernetes lint offline schema server status store/etcd suite witness server/etcd",
	"internal/figures":       "",
	"internal/longruns":      "",
	"internal/testcrds":      "",
	"internal/testcerts":     "",
	"internal/testports":     "",
	"internal/testpty":       "",
	"internal/testdir":       "",
	"internal/testprogram":   "",
	"internal/testpeers":     "",
	"internal/testkinds":     "kind builtin crd",
	"internal/testkit":       "",
	"internal/testfastpath":  "internal/fastpath",
	"internal/testaccess":    "internal/testkit",
	"internal/testsigner":    "",
	"internal/testapi":       "admission api authn builtin cache jsondoc kind objects store store/mem",
	"cmd/keelson":            "internal/cli internal/fastpath",
	"cmd/try":                "",
	"internal/site":          "internal/cli internal/cli/command server server/etcd",

	"admission/noderestriction": "admission authz authz/node jsondoc meta status",
	"admission/lookup":          "cache kind status",
	"admission/pods":            "admission admission/lookup admission/noderestriction builtin/core meta status",
	"admission/storage":         "admission admission/lookup jsondoc meta",
	"admission/services":        "admission admission/lookup",
	"admission/certificates":    "admission authn authz jsondoc",
	"admission/devices":         "admission authn authz status",
	"admission/eventrate":       "admission status",
	"admission/podsecurity":     "admission admission/lookup status",
	"admission/quota":           "admission admission/lookup admission/pods admission/storage builtin/core jsondoc kind meta status",
	"controller/protection":     "admission/storage cache controller/loop kind meta store",
	"controller/servicecidr":    "allocator cache controller/loop jsondoc kind meta store",
	"controller/quota":          "admission/quota cache controller/loop jsondoc kind meta store",
	"internal/cli/kubeconfig":   "internal/cli/command server",

	"builtin/describe":              "jsondoc kind meta schema",
	"builtin/core":                  "builtin/describe jsondoc kind meta networking schema schema/structural",
	"builtin/admissionregistration": "builtin/describe cel cel/requests crd jsondoc kind schema",
	"builtin/apiregistration":       "jsondoc kind schema/structural",
	"builtin/apps":                  "builtin/core builtin/describe jsondoc kind schema",
	"builtin/authentication":        "builtin/describe kind",
	"builtin/authorization":         "builtin/describe kind",
	"builtin/autoscaling":           "builtin/core builtin/describe jsondoc kind schema",
	"builtin/batch":                 "builtin/core builtin/describe jsondoc kind meta schema",
	"builtin/certificates":          "builtin/describe jsondoc kind schema",
	"builtin/coordination":          "builtin/describe jsondoc kind schema",
	"builtin/discovery":             "builtin/describe jsondoc kind schema",
	"builtin/events":                "builtin/describe jsondoc kind schema",
	"builtin/flowcontrol":           "builtin/describe flow/bootstrap jsondoc kind",
	"builtin/networking":            "builtin/describe jsondoc kind schema",
	"builtin/node":                  "builtin/describe jsondoc kind schema",
	"builtin/policy":                "builtin/describe jsondoc kind",
	"builtin/rbac":                  "builtin/describe jsondoc kind schema",
	"builtin/resource":              "builtin/core builtin/describe jsondoc kind schema",
	"builtin/scheduling":            "builtin/describe jsondoc kind schema",
	"builtin/storage":               "builtin/core builtin/describe jsondoc kind schema",
	"builtin/storagemigration":      "builtin/describe jsondoc kind schema",
}

// modules lists every module whose packages the product's own packages import, with what it is for. Tests, and the nested
// modules for comparisons and measurements, may use others.
var modules = map[string]string{
	"github.com/bmatcuk/doublestar/v4":     "internal/manifest: globs with **, as CI users write them",
	"github.com/blang/semver/v4":           "rules: the semver library",
	"github.com/coreos/go-oidc/v3":         "authn/jwt: OpenID Connect discovery and the verification of its tokens",
	"github.com/fsnotify/fsnotify":         "internal/watchfile: events of files",
	"github.com/go-jose/go-jose/v4":        "authn/serviceaccount: signing and verifying tokens",
	"github.com/google/cel-go":             "cel: parses, type-checks and estimates rules; witness: parses them",
	"github.com/google/gnostic-models":     "openapi: the protobuf form that kubectl asks for",
	"github.com/jackc/pgx/v5":              "internal/atrest: PostgreSQL",
	"github.com/munnerz/goautoneg":         "internal/negotiation: the Accept header as upstream reads it",
	"github.com/prometheus/client_golang":  "/metrics: api and what counts for it",
	"github.com/prometheus/client_model":   "internal/series: the labels of a series",
	"github.com/robfig/cron/v3":            "builtin/batch: schedules of cron jobs, read and refused as upstream does",
	"github.com/spf13/cobra":               "internal/cli: commands, flags, completion",
	"github.com/spf13/pflag":               "internal/cli: flags in groups",
	"github.com/tidwall/btree":             "cache, kind, store/mem: sorted snapshots that share what did not change",
	"go.etcd.io/etcd/api/v3":               "store/etcd: the wire types and errors of etcd",
	"go.etcd.io/etcd/client/pkg/v3":        "store/etcd: TLS of the client",
	"go.etcd.io/etcd/client/v3":            "store/etcd: the client",
	"go.etcd.io/etcd/etcdutl/v3":           "store/etcd: restoring snapshots",
	"go.etcd.io/etcd/server/v3":            "store/etcd: the embedded server",
	"go.uber.org/zap":                      "store/etcd: etcd's log, to be passed on",
	"go.yaml.in/yaml/v2":                   "internal/yamljson: the parser below sigs.k8s.io/yaml, for one reading that can be ended",
	"go.yaml.in/yaml/v3":                   "internal/source, lint, suite: where in a YAML text something stands",
	"golang.org/x/crypto":                  "store/encrypt: NaCl's secretbox",
	"golang.org/x/net":                     "api: watches over WebSockets, with the library that upstream uses",
	"golang.org/x/sys":                     "server: what the kernel knows of a client's end of a connection",
	"golang.org/x/time":                    "audit: how many calls a webhook is sent",
	"golang.org/x/term":                    "internal/cli: colours for a terminal only",
	"google.golang.org/grpc":               "store/etcd: dialling the embedded server without a port; store/encrypt/kms",
	"google.golang.org/protobuf":           "openapi: the protobuf form that kubectl asks for",
	"gopkg.in/natefinch/lumberjack.v2":     "audit: log files that are rotated, as kube-apiserver does it",
	"k8s.io/api":                           "wire types",
	"k8s.io/apiextensions-apiserver":       "wire types of definitions",
	"k8s.io/apimachinery":                  "wire types, errors, selectors, validation of names",
	"k8s.io/client-go":                     "kubeconfig, JSON paths of printer columns",
	"k8s.io/component-helpers":             "admission: the resources of pods, and the features that updates of pods need, as Kubernetes computes them",
	"k8s.io/externaljwt":                   "authn/externalsigner: the protocol of programs that sign tokens",
	"k8s.io/kms":                           "store/encrypt: the protocol of KMS plugins",
	"k8s.io/kube-openapi":                  "OpenAPI documents, string formats",
	"k8s.io/pod-security-admission":        "admission/podsecurity: the checks of the Pod Security Standards",
	"modernc.org/sqlite":                   "internal/atrest: SQLite without C",
	"sigs.k8s.io/json":                     "jsondoc: the words of strict decoding",
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

// layers are the layers of the design, from the ground up. A package belongs to the entry that is the longest prefix of its path.
// Arrows within a line may go either way, as long as there is no circle. Packages below internal that no line names are
// helpers, which import helpers only.
var layers = []string{
	"internal",
	"status",
	"jsondoc",
	"kubernetes",
	"cel",
	"schema",
	"witness",
	"meta",
	"kind",
	"crd",
	"networking",
	"conversion",
	"flow",
	"builtin internal/testkinds",
	"openapi",
	"authn authz",
	"audit",
	"store",
	"cache",
	"authz/feed authz/rbac authz/node authz/reload", // they keep themselves current
	"apply",
	"internal/manifest", // of commands, and of folders with admission configuration
	"admission",
	"objects",
	"controller allocator",
	"api internal/testapi",
	"offline", // without HTTP and without what only a server has
	"server",
	"internal/settings internal/crdsource internal/atrest",
	"coverage internal/mistype",
	"lint suite",
	"server/etcd servertest",
	"internal/cli",
	"cmd/keelson cmd/try internal/site",
}

// layerOf returns the index of a package's layer, and the entry that it belongs to.
func layerOf(name string) (layer int, entry string) {
	layer = -1
	for i, line := range layers {
		for _, e := range strings.Fields(line) {
			if (name == e || strings.HasPrefix(name, e+"/")) && len(e) > len(entry) {
				layer, entry = i, e
			}
		}
	}
	return layer, entry
}

func TestArrowsPointToLowerLayers(t *testing.T) {
	for _, name := range slices.Sorted(maps.Keys(arrows)) {
		from, _ := layerOf(name)
		if from < 0 {
			t.Errorf("package %s: no layer of the design has it", name)
		}
		for _, to := range strings.Fields(arrows[name]) {
			if layer, entry := layerOf(to); layer > from {
				t.Errorf("package %s: arrow to %s points up: the layer of %s is above", name, to, entry)
			}
		}
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
