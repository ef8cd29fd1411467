// This file measures the engine alone: what both sides do to one object between its bytes and the store, and what they keep
// of a definition.

package main

import (
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"time"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	"github.com/keelson-io/keelson/crd"
	"github.com/keelson-io/keelson/internal/testcrds"
	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/kind"
	"github.com/keelson-io/keelson/schema"
)

// objectFiles are objects as a controller sends them back: with the metadata and status that are there by then.
//
//go:embed testdata/objects/*.yaml
var objectFiles embed.FS

// subject is a definition and an object of it.
type subject struct {
	name string
	crd  *apiextv1.CustomResourceDefinition
	body []byte
}

// subjects are HTTPRoute and the kinds of other projects, by increasing size of their definitions' schemas.
func subjects() ([]subject, error) {
	var (
		karpenter  = testcrds.Module{Path: "sigs.k8s.io/karpenter", Version: "v1.15.0"}
		clusterAPI = testcrds.Module{Path: "sigs.k8s.io/cluster-api", Version: "v1.14.2"}
		argo       = testcrds.Module{Path: "github.com/argoproj/argo-cd/v3", Version: "v3.6.1"}
	)
	rows := []struct {
		module       testcrds.Module
		dir, crd, at string
	}{
		{karpenter, "pkg/apis/crds", "nodepools.karpenter.sh", "nodepool"},
		{testcrds.CertManager, "deploy/crds", "certificates.cert-manager.io", "certificate"},
		{testcrds.GatewayAPI, "config/crd/standard", crdName, "httproute"},
		{testcrds.PrometheusOperator, "example/prometheus-operator-crd", "servicemonitors.monitoring.coreos.com", "servicemonitor"},
		{clusterAPI, "core/config/crd/bases", "clusters.cluster.x-k8s.io", "cluster"},
		{argo, "manifests/crds", "applications.argoproj.io", "application"},
		{testcrds.PrometheusOperator, "example/prometheus-operator-crd", "prometheuses.monitoring.coreos.com", "prometheus"},
	}
	var out []subject
	for _, row := range rows {
		text, err := testcrds.CRD(testcrds.Family{Module: row.module, CRDs: row.dir}, row.crd)
		if err != nil {
			return nil, err
		}
		s := subject{crd: new(apiextv1.CustomResourceDefinition)}
		if err := yaml.Unmarshal(text, s.crd); err != nil {
			return nil, err
		}
		crd.Default(s.crd)
		s.name = s.crd.Spec.Names.Kind
		object, err := objectFiles.ReadFile("testdata/objects/" + row.at + ".yaml")
		if err != nil {
			return nil, err
		}
		if s.body, err = yaml.YAMLToJSON(object); err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	return out, nil
}

// version is the version of the definition that the object is of.
func (s *subject) version() (*apiextv1.CustomResourceDefinitionVersion, error) {
	var o struct{ APIVersion string }
	if err := json.Unmarshal(s.body, &o); err != nil {
		return nil, err
	}
	_, name, _ := strings.Cut(o.APIVersion, "/")
	for i := range s.crd.Spec.Versions {
		if v := &s.crd.Spec.Versions[i]; v.Name == name {
			return v, nil
		}
	}
	return nil, fmt.Errorf("%s has no version %q", s.crd.Name, name)
}

// keelsonEngine is a version of a kind with the document that its objects are decoded into.
type keelsonEngine struct {
	version *kind.Version
	d       *jsondoc.Doc
}

func newKeelsonEngine(definition *apiextv1.CustomResourceDefinition, version string) (*keelsonEngine, error) {
	k, err := compiler.Compile(definition)
	if err != nil {
		return nil, err
	}
	return &keelsonEngine{k.Version(version), new(jsondoc.Doc)}, nil
}

func (e *keelsonEngine) check(body []byte) field.ErrorList {
	if _, err := e.version.Decode(e.d, body); err != nil {
		return field.ErrorList{field.InternalError(nil, err)}
	}
	return e.version.Validate(context.Background(), e.d, nil, schema.Whole).Errors
}

// objectRow is what one object takes, in microseconds, one figure for each round.
type objectRow struct {
	name                string
	bytes               int
	cost                int64 // of its rules, in units of CEL cost
	unmarshal, up, ours []float64
	allocs, upAllocs    float64
}

// turn is the time of one call of fn in microseconds, taken over a millisecond or two: short enough that on a busy machine some
// turns are not interrupted. That leaves out most of the garbage collector's work, of which encoding/json and upstream
// make more.
func turn(fn func()) float64 {
	const least = time.Millisecond
	for n := 1; ; n *= 2 {
		start := time.Now()
		for range n {
			fn()
		}
		if took := time.Since(start); took >= least {
			return float64(took.Nanoseconds()) / 1e3 / float64(n)
		}
	}
}

// leastOf is the least time of many turns of each of the functions, which take turns.
func leastOf(turns int, fns ...func()) []float64 {
	out := make([]float64, len(fns))
	for range turns {
		for i, fn := range fns {
			if t := turn(fn); out[i] == 0 || t < out[i] {
				out[i] = t
			}
		}
	}
	return out
}

// measureObject gives the same bytes to both engines and to encoding/json in turns.
func measureObject(s *subject, rounds int) (*objectRow, error) {
	v, err := s.version()
	if err != nil {
		return nil, err
	}
	ours, err := newKeelsonEngine(s.crd, v.Name)
	if err != nil {
		return nil, err
	}
	up, err := newUpstreamEngine(v.Schema.OpenAPIV3Schema)
	if err != nil {
		return nil, err
	}
	row := &objectRow{name: s.name, bytes: len(s.body)}
	if errs := ours.check(s.body); len(errs) > 0 {
		return nil, fmt.Errorf("%s: %w", s.name, errs.ToAggregate())
	}
	errs, cost := up.check(s.body)
	if len(errs) > 0 {
		return nil, fmt.Errorf("%s: upstream: %w", s.name, errs.ToAggregate())
	}
	row.cost = cost
	unmarshal := func() {
		var o map[string]any
		if err := json.Unmarshal(s.body, &o); err != nil {
			panic("BUG: an object that was read before cannot be read: " + err.Error())
		}
	}
	for range rounds {
		t := leastOf(20, unmarshal, func() { ours.check(s.body) }, func() { up.check(s.body) })
		row.unmarshal, row.ours, row.up = append(row.unmarshal, t[0]), append(row.ours, t[1]), append(row.up, t[2])
	}
	row.allocs = allocations(100, func() { ours.check(s.body) })
	row.upAllocs = allocations(100, func() { up.check(s.body) })
	return row, nil
}

// allocations is how many allocations a call of fn makes, on average of a few.
func allocations(few int, fn func()) float64 {
	times := uint64(min(few, 100))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range times {
		fn()
	}
	runtime.ReadMemStats(&after)
	return float64((after.Mallocs - before.Mallocs) / times)
}

// share is the time of Keelson as a part of encoding/json's: the median of the rounds.
func (r *objectRow) share() float64 { return median(quotients(r.ours, r.unmarshal)) }

// perUnit is the time of Keelson for a unit of cost, in nanoseconds.
func (r *objectRow) perUnit() float64 { return median(r.ours) * 1e3 / float64(max(r.cost, 1)) }

// verdict says whether the row is as wanted: half of what encoding/json takes or 3 ns for a unit of cost, and few
// allocations.
func (r *objectRow) verdict() string {
	if r.share() <= 0.5 && r.allocs <= 8 {
		return "yes"
	}
	if r.perUnit() <= 3 && r.allocs <= 8 {
		return "yes, by cost"
	}
	return "**no**"
}

func quotients(a, b []float64) []float64 {
	out := make([]float64, len(a))
	for i := range a {
		out[i] = a[i] / b[i]
	}
	return out
}

// definitionRow is what one version of a definition takes to compile, in milliseconds, and keeps, in bytes.
type definitionRow struct {
	name            string
	rules           int
	up, ours        []float64
	upKept, ourKept int64 // for the rules
	idle, decodes   int64 // of a definition that nobody used yet, and of a version whose objects are decoded
	versions        int
}

// measureDefinition compiles a version cold: what the last turn made is gone before the next.
func measureDefinition(s *subject, rounds int) (*definitionRow, error) {
	v, err := s.version()
	if err != nil {
		return nil, err
	}
	row := &definitionRow{name: s.name, rules: countRules(v.Schema.OpenAPIV3Schema), versions: len(s.crd.Spec.Versions)}
	one := s.crd.DeepCopy()
	one.Spec.Versions = slices.DeleteFunc(one.Spec.Versions, func(x apiextv1.CustomResourceDefinitionVersion) bool { return x.Name != v.Name })
	one.Spec.Versions[0].Storage = true
	for range rounds {
		up, ours, err := compileTurns(v, one)
		if err != nil {
			return nil, err
		}
		row.up, row.ours = append(row.up, up), append(row.ours, ours)
	}
	return row, row.measureMemory(s, v)
}

// compileTurns is the least time, in milliseconds, that each side takes to compile a version in a few turns.
func compileTurns(v *apiextv1.CustomResourceDefinitionVersion, one *apiextv1.CustomResourceDefinition) (up, ours float64, err error) {
	up, ours = math.Inf(1), math.Inf(1)
	for range 3 {
		collect()
		start := time.Now()
		theirs, err := newUpstreamEngine(v.Schema.OpenAPIV3Schema)
		if err != nil {
			return 0, 0, err
		}
		up = min(up, float64(time.Since(start).Microseconds())/1e3)
		runtime.KeepAlive(theirs)
		theirs = nil
		collect()
		start = time.Now()
		e, err := newKeelsonEngine(one, v.Name)
		if err != nil {
			return 0, 0, err
		}
		if errs := e.version.Schema.CheckRules(schema.RuleCheck{}); len(errs) > 0 {
			return 0, 0, errs.ToAggregate()
		}
		ours = min(ours, float64(time.Since(start).Microseconds())/1e3)
		runtime.KeepAlive(e)
	}
	return up, ours, nil
}

func (r *definitionRow) measureMemory(s *subject, v *apiextv1.CustomResourceDefinitionVersion) error {
	text, err := storedText(s.crd)
	if err != nil {
		return err
	}
	// What all definitions share, such as the tables of the parser, is there from here on.
	first, err := idleKind(text)
	if err != nil {
		return err
	}
	first.Version(v.Name).Schema.CheckRules(schema.RuleCheck{})
	first = nil
	empty := heap()
	k, err := idleKind(text)
	if err != nil {
		return err
	}
	ours := &keelsonEngine{k.Version(v.Name), new(jsondoc.Doc)}
	r.idle = heap() - empty
	before := heap()
	if err := ours.version.Schema.Load(); err != nil {
		return err
	}
	r.decodes = heap() - before
	before = heap()
	ours.version.Schema.CheckRules(schema.RuleCheck{})
	r.ourKept = heap() - before
	runtime.KeepAlive(ours)
	runtime.KeepAlive(text)
	before = heap()
	up, err := newUpstreamEngine(v.Schema.OpenAPIV3Schema)
	if err != nil {
		return err
	}
	all := heap() - before
	up.rules = nil
	r.upKept = all - (heap() - before)
	runtime.KeepAlive(up)
	return nil
}

// compiler is that of the server that is measured.
var compiler crd.Compiler

// idleKind is the kind of a stored definition, as a server has it before anybody uses it.
func idleKind(text []byte) (*kind.Kind, error) {
	stored, err := compiler.ParseStored(text)
	if err != nil {
		return nil, err
	}
	return compiler.CompileStored(stored)
}

// storedText is the definition as a server stores it once it is established. The watch cache holds that text anyway.
func storedText(definition *apiextv1.CustomResourceDefinition) ([]byte, error) {
	stored := definition.DeepCopy()
	stored.APIVersion, stored.Kind = apiextv1.SchemeGroupVersion.String(), "CustomResourceDefinition"
	stored.Status.AcceptedNames = stored.Spec.Names
	crd.SetCondition(stored, apiextv1.CustomResourceDefinitionCondition{Type: apiextv1.Established, Status: apiextv1.ConditionTrue}, time.Now())
	return json.Marshal(stored)
}

// collect frees what is not in use; what weak pointers held goes with the second turn.
func collect() {
	runtime.GC()
	runtime.GC()
}

// heap is how many bytes are in use.
func heap() int64 {
	collect()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// countRules counts the rules of a schema.
func countRules(s *apiextv1.JSONSchemaProps) int {
	if s == nil {
		return 0
	}
	n := len(s.XValidations)
	for name := range s.Properties {
		p := s.Properties[name]
		n += countRules(&p)
	}
	if s.Items != nil {
		n += countRules(s.Items.Schema)
	}
	if s.AdditionalProperties != nil {
		n += countRules(s.AdditionalProperties.Schema)
	}
	return n
}
