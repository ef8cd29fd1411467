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
	"internal/texts":                  "",
	"internal/status":                 "internal/texts",
	"internal/poison":                 "",
	"internal/buffer":                 "internal/poison",
	"jsondoc":                         "internal/poison",
	"internal/negotiation":            "",
	"internal/dfa":                    "",
	"internal/watchfile":              "",
	"internal/weakcert":               "",
	"internal/keysize":                "",
	"internal/webhook":                "internal/keysize internal/weakcert",
	"internal/often":                  "",
	"internal/memory":                 "",
	"internal/reloads":                "internal/watchfile",
	"internal/series":                 "",
	"internal/configfile":             "",
	"internal/datadir":                "",
	"internal/fastpath":               "",
	"internal/quantity":               "",
	"kubernetes":                      "",
	"cel/internal/lib":                "",
	"cel/internal/val":                "cel/internal/lib internal/dfa internal/quantity jsondoc",
	"cel/internal/fast":               "cel/internal/val jsondoc",
	"cel/internal/check":              "cel/internal/lib cel/internal/val internal/fastpath kubernetes",
	"cel/internal/eval":               "cel/internal/check cel/internal/fast cel/internal/lib cel/internal/val jsondoc internal/fastpath",
	"cel":                             "cel/internal/check cel/internal/eval cel/internal/fast cel/internal/lib cel/internal/val jsondoc kubernetes",
	"internal/requests":               "cel",
	"cel/sql":                         "cel jsondoc",
	"schema/structural":               "internal/dfa",
	"schema":                          "cel jsondoc internal/dfa kubernetes schema/structural",
	"internal/witness":                "cel jsondoc schema schema/structural",
	"internal/yamljson":               "internal/fastpath",
	"internal/selector":               "",
	"internal/meta":                   "jsondoc internal/yamljson internal/status internal/texts",
	"internal/store":                  "",
	"internal/store/etcd":             "internal/keysize internal/often internal/store",
	"internal/store/encrypt":          "internal/configfile internal/store",
	"internal/store/encrypt/kms":      "internal/store/encrypt",
	"internal/store/format":           "internal/store",
	"internal/store/mem":              "internal/store",
	"internal/store/storetest":        "internal/store",
	"internal/cache":                  "internal/store internal/meta",
	"internal/cache/follow":           "internal/cache internal/store",
	"kind":                            "internal/quantity jsondoc internal/meta schema schema/structural",
	"crd":                             "cel jsondoc internal/poison kind internal/meta schema schema/structural internal/fastpath kubernetes",
	"internal/networking":             "internal/texts",
	"internal/builtin":                "internal/builtin/admissionregistration internal/builtin/apiregistration internal/builtin/apps internal/builtin/authentication internal/builtin/authorization internal/builtin/autoscaling internal/builtin/batch internal/builtin/certificates internal/builtin/coordination internal/builtin/core internal/builtin/describe internal/builtin/discovery internal/builtin/events internal/builtin/flowcontrol internal/builtin/networking internal/builtin/node internal/builtin/policy internal/builtin/rbac internal/builtin/resource internal/builtin/scheduling internal/builtin/storage internal/builtin/storagemigration crd jsondoc kind internal/meta schema schema/structural internal/texts",
	"internal/flow/bootstrap":         "",
	"internal/flow":                   "internal/flow/bootstrap",
	"internal/apply":                  "jsondoc schema/structural internal/status internal/fastpath",
	"internal/kubehook":               "internal/keysize internal/reloads internal/weakcert",
	"internal/conversion":             "jsondoc internal/series internal/webhook",
	"internal/conversion/declared":    "cel internal/nearest jsondoc schema schema/structural internal/witness",
	"internal/authn":                  "authz internal/keysize",
	"internal/authn/jwt":              "internal/authn cel internal/configfile internal/keysize internal/reloads internal/watchfile",
	"internal/authn/bootstrap":        "internal/authn",
	"internal/authn/externalsigner":   "internal/authn/serviceaccount internal/keysize",
	"internal/authn/serviceaccount":   "internal/authn internal/keysize",
	"internal/authn/webhook":          "internal/authn internal/kubehook internal/reloads internal/weakcert",
	"internal/audit":                  "internal/authn authz internal/kubehook internal/reloads internal/weakcert jsondoc",
	"authz":                           "internal/status",
	"internal/authz/match":            "authz internal/authz/partial cel",
	"internal/authz/config":           "internal/authz/match internal/configfile",
	"internal/authz/webhook":          "internal/authn authz internal/authz/match internal/authz/partial internal/kubehook internal/weakcert",
	"internal/authz/feed":             "internal/cache internal/cache/follow kind",
	"internal/authz/partial":          "internal/authn authz",
	"internal/authz/rbac":             "internal/authn authz internal/authz/feed internal/authz/partial internal/status",
	"internal/authz/abac":             "internal/authn authz internal/authz/partial",
	"internal/authz/node":             "internal/authn authz internal/authz/feed internal/authz/partial",
	"internal/authz/reload":           "internal/authn authz internal/authz/config internal/authz/webhook internal/kubehook internal/reloads internal/watchfile internal/weakcert",
	"internal/admission":              "internal/authn authz jsondoc internal/series kind internal/meta internal/status",
	"internal/admission/match":        "internal/admission jsondoc internal/selector kind internal/meta internal/status",
	"internal/admission/conditions":   "internal/admission internal/admission/match internal/authn authz cel internal/requests jsondoc",
	"internal/admission/manifests":    "internal/manifest internal/watchfile jsondoc kind schema",
	"internal/admission/webhook":      "internal/admission internal/admission/conditions internal/admission/manifests internal/admission/match authz internal/cache cel internal/requests jsondoc internal/webhook kind internal/meta internal/status",
	"internal/admission/policy":       "internal/admission internal/admission/conditions internal/admission/manifests internal/admission/match internal/authn authz internal/cache cel internal/requests jsondoc internal/selector internal/series kind internal/status",
	"internal/admission/plugins":      "internal/admission internal/admission/certificates internal/admission/devices internal/admission/eventrate internal/admission/lookup internal/admission/manifests internal/admission/noderestriction internal/admission/pods internal/admission/podsecurity internal/admission/policy internal/admission/quota internal/admission/services internal/admission/storage authz internal/cache internal/configfile kind internal/meta",
	"internal/admission/typecheck":    "internal/openapi cel kind",
	"internal/api/admit":              "internal/flow internal/memory internal/status",
	"internal/api/stream":             "internal/api/admit",
	"internal/api/discovery":          "internal/negotiation kind internal/status",
	"internal/api/health":             "",
	"internal/api/impersonation":      "internal/authn authz internal/status",
	"internal/api/review":             "internal/status",
	"internal/api/zpages":             "internal/negotiation",
	"internal/api/program":            "",
	"internal/api/metrics":            "internal/authn authz internal/series kind",
	"internal/api/refusal":            "internal/authn internal/often",
	"internal/api/served":             "internal/cache/follow kind",
	"internal/api/selection":          "internal/cache internal/selector kind internal/meta internal/objects internal/status",
	"internal/api/connect":            "",
	"internal/api/encoding":           "internal/negotiation internal/status",
	"internal/api/unreadable":         "internal/cache jsondoc kind internal/status",
	"internal/openapi":                "internal/negotiation kind internal/builtin schema/structural",
	"internal/api/table":              "jsondoc kind internal/status",
	"internal/objects":                "internal/admission internal/apply internal/authn internal/authn/serviceaccount internal/cache internal/buffer internal/fastpath internal/poison internal/yamljson jsondoc kind internal/meta schema internal/status internal/store",
	"internal/api":                    "internal/admission internal/api/admit internal/api/connect internal/api/discovery internal/api/encoding internal/api/health internal/api/impersonation internal/api/metrics internal/api/program internal/api/refusal internal/api/review internal/api/selection internal/api/served internal/api/stream internal/api/table internal/api/unreadable internal/api/zpages internal/audit internal/authn internal/authn/serviceaccount authz internal/cache crd internal/flow internal/buffer internal/memory internal/negotiation internal/poison internal/yamljson jsondoc kind internal/meta internal/objects internal/openapi schema internal/status internal/store",
	"internal/controller/definitions": "internal/cache internal/cache/follow crd jsondoc kind internal/store",
	"internal/controller/loop":        "internal/cache internal/cache/follow jsondoc kind internal/meta internal/status internal/store",
	"internal/allocator":              "internal/cache internal/controller/loop jsondoc kind internal/networking internal/meta internal/status internal/store",
	"internal/controller/namespace":   "internal/cache internal/controller/loop jsondoc kind internal/meta internal/status internal/store",
	"internal/controller/flows":       "internal/cache internal/controller/loop internal/flow internal/flow/bootstrap jsondoc kind internal/meta internal/status internal/store",
	"internal/controller/gc":          "internal/cache internal/cache/follow jsondoc kind internal/meta internal/status internal/store",
	"internal/controller/expiry":      "internal/cache internal/controller/loop jsondoc kind internal/store",
	"internal/controller/migration":   "internal/cache internal/controller/loop kind internal/meta internal/status internal/store",
	"internal/controller/policies":    "internal/admission/typecheck internal/cache internal/controller/loop kind internal/store",
	"internal/controller/roles":       "internal/authz/rbac internal/cache internal/controller/loop internal/selector kind internal/store",
	"internal/controller/service":     "internal/cache internal/controller/loop jsondoc kind internal/meta internal/store",
	"internal/controller/trust":       "internal/keysize internal/store",
	"internal/controller/signer":      "internal/cache internal/controller/loop internal/keysize kind internal/meta internal/store",
	"internal/controller/ensure":      "internal/cache internal/controller/loop internal/controller/trust kind internal/meta internal/status internal/store",
	"internal/controller/systemmaps":  "internal/cache internal/controller/loop internal/controller/trust jsondoc kind internal/meta internal/store",
	"internal/controller/token":       "internal/cache internal/controller/loop internal/controller/trust jsondoc kind internal/meta internal/store",
	"server":                          "internal/admission internal/admission/lookup internal/admission/manifests internal/admission/plugins internal/admission/policy internal/admission/webhook internal/allocator internal/api internal/api/admit internal/api/health internal/api/program internal/api/stream internal/audit internal/authn internal/authn/bootstrap internal/authn/jwt internal/authn/serviceaccount internal/authn/webhook authz internal/authz/abac internal/authz/config internal/authz/feed internal/authz/node internal/authz/rbac internal/authz/reload internal/builtin internal/cache internal/controller/definitions internal/controller/ensure internal/controller/expiry internal/controller/flows internal/controller/gc internal/controller/migration internal/controller/namespace internal/controller/policies internal/controller/protection internal/controller/quota internal/controller/roles internal/controller/service internal/controller/servicecidr internal/controller/signer internal/controller/systemmaps internal/controller/token internal/controller/trust internal/conversion internal/datadir crd internal/flow internal/keysize internal/memory internal/often internal/poison internal/reloads internal/watchfile internal/weakcert internal/webhook jsondoc kind internal/meta internal/networking internal/objects schema internal/status internal/store internal/store/encrypt internal/store/format internal/store/mem",
	"authz/chain":                     "authz internal/authz/abac internal/authz/config internal/authz/node internal/authz/rbac internal/authz/reload internal/authz/webhook internal/controller/roles internal/kubehook",
	"server/etcd":                     "internal/authn/externalsigner server internal/store/encrypt/kms internal/store/etcd",
	"servertest":                      "server",
	"internal/source":                 "",
	"internal/mistype":                "internal/source kind schema/structural",
	"internal/report":                 "",
	"internal/nearest":                "",
	"internal/manifest":               "internal/source internal/yamljson jsondoc",
	"internal/settings":               "internal/manifest internal/nearest",
	"internal/crdsource":              "internal/keysize internal/manifest",
	"internal/atrest":                 "cel cel/sql jsondoc",
	"offline":                         "internal/admission internal/admission/plugins internal/admission/policy internal/allocator internal/api/impersonation internal/api/program internal/api/review internal/authn authz internal/authz/feed internal/authz/rbac internal/builtin internal/cache internal/controller/definitions internal/controller/ensure internal/controller/roles crd internal/manifest internal/nearest jsondoc kind internal/meta internal/objects schema internal/status internal/store internal/store/mem",
	"lint":                            "internal/admission internal/admission/conditions internal/admission/match internal/admission/typecheck cel internal/nearest internal/mistype internal/source jsondoc kind internal/builtin internal/meta schema schema/structural crd kubernetes internal/yamljson",
	"internal/coverage":               "internal/manifest jsondoc kind schema",
	"suite":                           "internal/coverage internal/manifest internal/source kind offline schema internal/witness internal/yamljson",
	"internal/cli/command":            "crd internal/manifest offline",
	"internal/cli/eval":               "cel cel/sql crd internal/cli/command internal/manifest jsondoc schema schema/structural",
	"internal/cli/authz":              "internal/audit internal/authn authz internal/authz/abac internal/authz/config internal/authz/node internal/authz/partial internal/authz/rbac internal/authz/reload internal/authz/webhook internal/builtin internal/controller/roles internal/cli/command internal/kubehook internal/manifest internal/nearest kind",
	"internal/cli/convert":            "internal/conversion/declared internal/cli/command internal/keysize internal/manifest internal/watchfile offline",
	"internal/cli/query":              "cel crd internal/atrest internal/cli/command internal/manifest internal/source jsondoc kind schema",
	"internal/cli/doctor":             "internal/cli/command internal/datadir internal/keysize internal/store/etcd internal/store/format server",
	"internal/cli/snapshot":           "internal/cli/command internal/keysize server internal/store/encrypt internal/store/etcd",
	"internal/cli/export":             "internal/atrest internal/cli/command internal/keysize internal/manifest internal/store/encrypt internal/store/etcd",
	"internal/cli":                    "internal/audit internal/authz/config internal/authz/partial internal/controller/service internal/coverage internal/cli/authz internal/cli/command internal/cli/convert internal/cli/doctor internal/cli/eval internal/cli/export internal/cli/kubeconfig internal/cli/query internal/cli/snapshot internal/crdsource internal/fastpath internal/manifest internal/memory internal/mistype internal/nearest internal/report internal/settings internal/source jsondoc kind kubernetes lint offline schema server internal/status internal/store/etcd suite internal/witness server/etcd",
	"internal/figures":                "",
	"internal/longruns":               "",
	"internal/testcrds":               "",
	"internal/testcerts":              "",
	"internal/testpages":              "",
	"internal/testports":              "",
	"internal/testpty":                "",
	"internal/testdir":                "",
	"internal/testprogram":            "",
	"internal/testpeers":              "",
	"internal/testkinds":              "kind internal/builtin crd",
	"internal/testkit":                "",
	"internal/testfastpath":           "internal/fastpath",
	"internal/testaccess":             "internal/testkit",
	"internal/testsigner":             "",
	"internal/testapi":                "internal/admission internal/api internal/authn internal/builtin internal/cache jsondoc kind internal/objects internal/store internal/store/mem",
	"cmd/keelson":                     "internal/cli internal/fastpath",
	"cmd/try":                         "",
	"examples/authorization/webhook":  "",
	"internal/site":                   "cel internal/cli internal/cli/command server server/etcd",

	"internal/admission/noderestriction": "internal/admission authz internal/authz/node jsondoc internal/keysize internal/meta internal/status",
	"internal/admission/lookup":          "internal/cache kind internal/status",
	"internal/admission/pods":            "internal/admission internal/admission/lookup internal/admission/noderestriction internal/builtin/core internal/meta internal/status",
	"internal/admission/storage":         "internal/admission internal/admission/lookup jsondoc internal/meta",
	"internal/admission/services":        "internal/admission internal/admission/lookup",
	"internal/admission/certificates":    "internal/admission internal/authn authz jsondoc internal/keysize",
	"internal/admission/devices":         "internal/admission internal/authn authz internal/status",
	"internal/admission/eventrate":       "internal/admission internal/status",
	"internal/admission/podsecurity":     "internal/admission internal/admission/lookup internal/status",
	"internal/admission/quota":           "internal/admission internal/admission/lookup internal/admission/pods internal/admission/storage internal/builtin/core jsondoc kind internal/meta internal/status",
	"internal/controller/protection":     "internal/admission/storage internal/cache internal/controller/loop kind internal/meta internal/store",
	"internal/controller/servicecidr":    "internal/allocator internal/cache internal/controller/loop jsondoc kind internal/meta internal/store",
	"internal/controller/quota":          "internal/admission/quota internal/cache internal/controller/loop jsondoc kind internal/meta internal/store",
	"internal/cli/kubeconfig":            "internal/cli/command server",

	"internal/builtin/describe":              "jsondoc kind internal/meta schema internal/texts",
	"internal/builtin/core":                  "internal/builtin/describe jsondoc internal/keysize kind internal/meta internal/networking schema schema/structural internal/texts",
	"internal/builtin/admissionregistration": "internal/builtin/describe cel internal/requests crd jsondoc kind schema internal/texts",
	"internal/builtin/apiregistration":       "jsondoc kind schema/structural",
	"internal/builtin/apps":                  "internal/builtin/core internal/builtin/describe jsondoc kind schema internal/texts",
	"internal/builtin/authentication":        "internal/builtin/describe kind",
	"internal/builtin/authorization":         "internal/builtin/describe kind",
	"internal/builtin/autoscaling":           "internal/builtin/core internal/builtin/describe jsondoc kind schema internal/texts",
	"internal/builtin/batch":                 "internal/builtin/core internal/builtin/describe jsondoc kind internal/meta schema internal/texts",
	"internal/builtin/certificates":          "internal/builtin/describe jsondoc internal/keysize kind schema internal/texts",
	"internal/builtin/coordination":          "internal/builtin/describe jsondoc kind schema",
	"internal/builtin/discovery":             "internal/builtin/describe jsondoc kind schema internal/texts",
	"internal/builtin/events":                "internal/builtin/describe jsondoc kind schema",
	"internal/builtin/flowcontrol":           "internal/builtin/describe internal/flow/bootstrap jsondoc kind internal/texts",
	"internal/builtin/networking":            "internal/builtin/describe jsondoc kind schema internal/texts",
	"internal/builtin/node":                  "internal/builtin/describe jsondoc kind schema",
	"internal/builtin/policy":                "internal/builtin/describe jsondoc kind",
	"internal/builtin/rbac":                  "internal/builtin/describe jsondoc kind schema internal/texts",
	"internal/builtin/resource":              "internal/builtin/core internal/builtin/describe jsondoc kind schema internal/texts",
	"internal/builtin/scheduling":            "internal/builtin/describe jsondoc kind schema",
	"internal/builtin/storage":               "internal/builtin/core internal/builtin/describe jsondoc kind schema internal/texts",
	"internal/builtin/storagemigration":      "internal/builtin/describe jsondoc kind schema",
}

// modules lists every module whose packages the product's own packages import, with what it is for. Tests, and the nested
// modules for comparisons and measurements, may use others.
var modules = map[string]string{
	"github.com/bmatcuk/doublestar/v4":     "internal/manifest: globs with **, as CI users write them",
	"github.com/blang/semver/v4":           "rules: the semver library",
	"github.com/coreos/go-oidc/v3":         "internal/authn/jwt: OpenID Connect discovery and the verification of its tokens",
	"github.com/fsnotify/fsnotify":         "internal/watchfile: events of files",
	"github.com/go-jose/go-jose/v4":        "internal/authn/serviceaccount: signing and verifying tokens",
	"github.com/google/cel-go":             "cel: parses, type-checks and estimates rules; witness: parses them",
	"github.com/google/gnostic-models":     "internal/openapi: the protobuf form that kubectl asks for",
	"github.com/jackc/pgx/v5":              "internal/atrest: PostgreSQL",
	"github.com/munnerz/goautoneg":         "internal/negotiation: the Accept header as upstream reads it",
	"github.com/prometheus/client_golang":  "/metrics: internal/api and what counts for it",
	"github.com/prometheus/client_model":   "internal/series: the labels of a series",
	"github.com/robfig/cron/v3":            "internal/builtin/batch: schedules of cron jobs, read and refused as upstream does",
	"github.com/spf13/cobra":               "internal/cli: commands, flags, completion",
	"github.com/spf13/pflag":               "internal/cli: flags in groups",
	"github.com/tidwall/btree":             "internal/cache, kind, internal/store/mem: sorted snapshots that share what did not change",
	"go.etcd.io/etcd/api/v3":               "internal/store/etcd: the wire types and errors of etcd",
	"go.etcd.io/etcd/client/pkg/v3":        "internal/store/etcd: TLS of the client",
	"go.etcd.io/etcd/client/v3":            "internal/store/etcd: the client",
	"go.etcd.io/etcd/etcdutl/v3":           "internal/store/etcd: restoring snapshots",
	"go.etcd.io/etcd/server/v3":            "internal/store/etcd: the embedded server",
	"go.uber.org/zap":                      "internal/store/etcd: etcd's log, to be passed on",
	"go.yaml.in/yaml/v2":                   "internal/yamljson: the parser below sigs.k8s.io/yaml, for one reading that can be ended",
	"go.yaml.in/yaml/v3":                   "internal/source, lint, suite: where in a YAML text something stands",
	"golang.org/x/crypto":                  "internal/store/encrypt: NaCl's secretbox",
	"golang.org/x/net":                     "internal/api: watches over WebSockets, with the library that upstream uses",
	"golang.org/x/sys":                     "server: what the kernel knows of a client's end of a connection",
	"golang.org/x/time":                    "internal/audit: how many calls a webhook is sent",
	"golang.org/x/term":                    "internal/cli: colours for a terminal only",
	"google.golang.org/grpc":               "internal/store/etcd: dialling the embedded server without a port; internal/store/encrypt/kms",
	"google.golang.org/protobuf":           "internal/openapi: the protobuf form that kubectl asks for",
	"gopkg.in/natefinch/lumberjack.v2":     "internal/audit: log files that are rotated, as kube-apiserver does it",
	"k8s.io/api":                           "wire types",
	"k8s.io/apiextensions-apiserver":       "wire types of definitions",
	"k8s.io/apimachinery":                  "wire types, errors, selectors, validation of names",
	"k8s.io/client-go":                     "kubeconfig, JSON paths of printer columns",
	"k8s.io/component-helpers":             "internal/admission: the resources of pods, and the features that updates of pods need, as Kubernetes computes them",
	"k8s.io/externaljwt":                   "internal/authn/externalsigner: the protocol of programs that sign tokens",
	"k8s.io/kms":                           "internal/store/encrypt: the protocol of KMS plugins",
	"k8s.io/kube-openapi":                  "OpenAPI documents, string formats",
	"k8s.io/pod-security-admission":        "internal/admission/podsecurity: the checks of the Pod Security Standards",
	"modernc.org/libc":                     "internal/atrest: the call that makes SQLite count its memory",
	"modernc.org/sqlite":                   "internal/atrest: SQLite without C",
	"sigs.k8s.io/json":                     "jsondoc: the words of strict decoding",
	"sigs.k8s.io/structured-merge-diff/v6": "internal/apply: field sets and merging",
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
	"internal/status",
	"jsondoc",
	"kubernetes",
	"cel internal/requests",
	"schema",
	"internal/witness",
	"internal/meta",
	"kind",
	"crd",
	"internal/networking",
	"internal/conversion",
	"internal/flow",
	"internal/builtin internal/testkinds",
	"internal/openapi",
	"internal/authn authz internal/authz",
	"internal/audit",
	"internal/store",
	"internal/cache",
	"internal/authz/feed internal/authz/rbac internal/authz/node internal/authz/reload", // they keep themselves current
	"internal/apply",
	"internal/manifest", // of commands, and of folders with admission configuration
	"internal/admission",
	"internal/objects",
	"internal/controller internal/allocator",
	"internal/api internal/testapi",
	"authz/chain",
	"offline", // without HTTP and without what only a server has
	"server",
	"internal/settings internal/crdsource internal/atrest",
	"internal/coverage internal/mistype",
	"lint suite",
	"server/etcd servertest",
	"internal/cli",
	"cmd/keelson cmd/try examples internal/site",
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
