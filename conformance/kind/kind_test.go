// Package kind compares the checks of definitions with those of Kubernetes.
package kind

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/install"
	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	"github.com/keelson-io/keelson/crd"
	"github.com/keelson-io/keelson/internal/testcrds"
)

// This file holds the comparison: real definitions, and damaged copies of them.

var scheme = func() *runtime.Scheme {
	s := runtime.NewScheme()
	install.Install(s)
	return s
}()

// theirs is what Kubernetes says; old is nil on create.
func theirs(t *testing.T, definition, old *apiextv1.CustomResourceDefinition) field.ErrorList {
	t.Helper()
	internal := func(in *apiextv1.CustomResourceDefinition) *apiextensions.CustomResourceDefinition {
		out := new(apiextensions.CustomResourceDefinition)
		if err := scheme.Convert(in, out, nil); err != nil {
			t.Fatal(err)
		}
		return out
	}
	if old == nil {
		return validation.ValidateCustomResourceDefinition(context.Background(), internal(definition))
	}
	return validation.ValidateCustomResourceDefinitionUpdate(context.Background(), internal(definition), internal(old))
}

func ours(definition, old *apiextv1.CustomResourceDefinition) field.ErrorList {
	if old == nil {
		return crd.Validate(definition)
	}
	return crd.ValidateUpdate(definition, old)
}

// typeNumbers are the numbers of the types of roots, which upstream takes from the clock.
var typeNumbers = regexp.MustCompile(`\bselfType\d+\b`)

// keyword is the unsupported keyword that was found first: of several, upstream
// finds any.
var keyword = regexp.MustCompile(`OpenAPIV3Schema '[^']*' is not supported`)

// dearest is one of the most expensive rules: among equals, upstream names any.
var dearest = regexp.MustCompile(`\S+: Forbidden: contributed to estimated rule cost`)

// wholeSchema is a schema as errors show it.
var wholeSchema = regexp.MustCompile(`\{"ID":.*\}`)

// texts are the errors as a set: upstream walks Go maps, so that the order of
// siblings is not fixed.
func texts(errs field.ErrorList) []string {
	var out []string
	for _, e := range errs {
		text := typeNumbers.ReplaceAllString(e.Error(), "selfType")
		text = dearest.ReplaceAllString(text, "DEAREST")
		if strings.Contains(text, `"XEmbeddedResource":true`) {
			text = wholeSchema.ReplaceAllString(text, "SCHEMA") // upstream changes its defaults, see the ledger
		}
		out = append(out, string(e.Type)+" "+keyword.ReplaceAllString(text, "KEYWORD"))
	}
	slices.Sort(out)
	return out
}

// compare reports the differences, one text each.
func compare(ours, theirs field.ErrorList) []string {
	a, b := texts(ours), texts(theirs)
	var out []string
	for len(a) > 0 || len(b) > 0 {
		switch {
		case len(b) == 0 || len(a) > 0 && a[0] < b[0]:
			out, a = append(out, "ours only:   "+a[0]), a[1:]
		case len(a) == 0 || b[0] < a[0]:
			out, b = append(out, "theirs only: "+b[0]), b[1:]
		default:
			a, b = a[1:], b[1:]
		}
	}
	return out
}

func parse(t testing.TB, text []byte) *apiextv1.CustomResourceDefinition {
	t.Helper()
	definition := new(apiextv1.CustomResourceDefinition)
	if err := json.Unmarshal(text, definition); err != nil {
		t.Fatal(err)
	}
	crd.Default(definition)
	return definition
}

func real(t *testing.T) map[string][]byte {
	t.Helper()
	all := map[string][]byte{}
	for _, f := range testcrds.Families() {
		docs, err := testcrds.CRDs(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range docs {
			text, err := yaml.YAMLToJSON(d.YAML)
			if err != nil {
				t.Fatal(err)
			}
			all[f.Name+"/"+d.Name] = text
		}
	}
	return all
}

func TestRealDefinitions(t *testing.T) {
	for name, text := range real(t) {
		definition := parse(t, text)
		for _, diff := range compare(ours(definition, nil), theirs(t, definition, nil)) {
			t.Errorf("%s: %s", name, diff)
		}
		for _, diff := range compare(ours(definition, definition.DeepCopy()), theirs(t, definition, definition.DeepCopy())) {
			t.Errorf("%s, update: %s", name, diff)
		}
	}
}

// TestDamagedDefinitions changes definitions at random places and compares
// what both sides say, as a new definition and as an update of and to it.
func TestDamagedDefinitions(t *testing.T) {
	seed := drawn()
	if s := os.Getenv("SEED"); s != "" {
		seed, _ = strconv.ParseUint(s, 10, 64)
	}
	rounds := 3
	if s := os.Getenv("ROUNDS"); s != "" {
		rounds, _ = strconv.Atoi(s)
	}
	r := rand.New(rand.NewPCG(seed, 0))
	compared, wrong := 0, 0
	defs := real(t)
	names := make([]string, 0, len(defs))
	for name, text := range defs {
		if len(text) < 200_000 { // the largest cost upstream seconds each
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for round := range rounds {
		for _, name := range names {
			var tree map[string]any
			if err := json.Unmarshal(defs[name], &tree); err != nil {
				t.Fatal(err)
			}
			what := damage(r, tree)
			text, err := json.Marshal(tree)
			if err != nil {
				t.Fatal(err)
			}
			definition := new(apiextv1.CustomResourceDefinition)
			if json.Unmarshal(text, definition) != nil {
				continue // would not even be read
			}
			crd.Default(definition)
			compared++
			whole := parse(t, defs[name])
			for label, pair := range map[string][2]*apiextv1.CustomResourceDefinition{
				"create": {definition, nil}, "update to": {definition, whole}, "update from": {whole, definition},
			} {
				want, panicked := try(func() field.ErrorList { return theirs(t, pair[0], pair[1]) })
				got := ours(pair[0], pair[1])
				if panicked {
					continue // some damage is too much for upstream; we must only survive it
				}
				for _, diff := range compare(got, want) {
					wrong++
					t.Errorf("%s\n\tseed %d round %d, %s, %s: %s", diff, seed, round, name, label, what)
				}
			}
			if wrong > 60 {
				t.Fatal("too many differences")
			}
		}
	}
	t.Logf("seed %d: %d damaged definitions", seed, compared)
}

// try calls f and reports whether it panicked.
func try(f func() field.ErrorList) (errs field.ErrorList, panicked bool) {
	defer func() { panicked = recover() != nil }()
	return f(), false
}

// damage changes one to three things in a definition and says what.
func damage(r *rand.Rand, tree map[string]any) string {
	var what []string
	for range 1 + r.IntN(3) {
		var nodes []map[string]any
		var paths []string
		collect(tree, "", &nodes, &paths)
		if len(nodes) == 0 {
			break // nothing is left to damage
		}
		i := r.IntN(len(nodes))
		d := damages[r.IntN(len(damages))]
		d.do(r, nodes[i])
		what = append(what, fmt.Sprintf("%s at %s", d.name, paths[i]))
		if r.IntN(3) == 0 {
			s := specDamages[r.IntN(len(specDamages))]
			s.do(r, tree)
			what = append(what, s.name)
		}
	}
	return strings.Join(what, "; ")
}

// collect finds the schema nodes.
func collect(v any, path string, nodes *[]map[string]any, paths *[]string) {
	switch v := v.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(func(yield func(string) bool) {
			for k := range v {
				if !yield(k) {
					return
				}
			}
		}) {
			child := v[key]
			here := path + "." + key
			m, ok := child.(map[string]any)
			isSchema := ok && (key == "openAPIV3Schema" || strings.HasSuffix(path, ".properties") || key == "items" || key == "additionalProperties" || key == "not")
			if isSchema {
				*nodes = append(*nodes, m)
				*paths = append(*paths, here)
			}
			collect(child, here, nodes, paths)
		}
	case []any:
		for i, child := range v {
			here := fmt.Sprintf("%s[%d]", path, i)
			if m, ok := child.(map[string]any); ok && (strings.HasSuffix(path, "Of")) {
				*nodes = append(*nodes, m)
				*paths = append(*paths, here)
			}
			collect(child, here, nodes, paths)
		}
	}
}

type damager struct {
	name string
	do   func(*rand.Rand, map[string]any)
}

func set(name string, values ...any) damager {
	return damager{name, func(r *rand.Rand, n map[string]any) { n[name] = values[r.IntN(len(values))] }}
}

func drop(name string) damager {
	return damager{"no " + name, func(_ *rand.Rand, n map[string]any) { delete(n, name) }}
}

func object(kv ...any) map[string]any {
	m := map[string]any{}
	for i := 0; i < len(kv); i += 2 {
		m[kv[i].(string)] = kv[i+1]
	}
	return m
}

func list(items ...any) []any { return items }

var damages = []damager{
	set("type", "", "object", "string", "integer", "null", "array", "strange", "number", "boolean"),
	drop("type"), drop("items"), drop("properties"), drop("additionalProperties"), drop("required"), drop("default"),
	set("nullable", true),
	set("default", nil, 1, "x", true, object("a", 1), list("a"), object(), list(object("name", "x"))),
	set("x-kubernetes-preserve-unknown-fields", true, false),
	set("x-kubernetes-embedded-resource", true),
	set("x-kubernetes-int-or-string", true),
	set("x-kubernetes-list-type", "map", "set", "atomic", "odd", ""),
	set("x-kubernetes-list-map-keys", list("name"), list("name", "name"), list("nope"), list()),
	set("x-kubernetes-map-type", "atomic", "granular", "odd"),
	set("additionalProperties", true, false, object("type", "string"), object("type", "object", "default", object())),
	set("properties", object("a", object("type", "string")), object("metadata", object("type", "object")), object("kind", object("type", "integer"))),
	set("items", object("type", "string"), object("type", "object", "nullable", true), object()),
	set("pattern", "[", "^a$", "(?=x)"),
	set("format", "date-time", "odd", "int32"),
	set("uniqueItems", true, false), set("id", "x"), set("$ref", "#/x"), set("$schema", "x"),
	set("patternProperties", object("a", object("type", "string"))),
	set("definitions", object("a", object("type", "string"))),
	set("dependencies", object("a", list("b"))),
	set("additionalItems", true),
	set("anyOf", list(object("type", "integer"), object("type", "string")), list(object("required", list("a"))),
		list(object("properties", object("q", object("minimum", 1)))), list(object("nullable", true, "default", 1))),
	set("allOf", list(object("anyOf", list(object("type", "integer"), object("type", "string")))), list(object("title", "x", "description", "y")),
		list(object("items", object("type", "string")))),
	set("oneOf", list(object("x-kubernetes-validations", list(object("rule", "true")))), list(object("additionalProperties", true))),
	set("not", object("properties", object("metadata", object("maxLength", 1))), object("required", list("a"))),
	set("maxItems", 0, 3), set("maxLength", 3, -1), set("maxProperties", 2), set("minimum", 1.5), set("maximum", 2),
	set("enum", list("a", 1, nil), list()),
	set("required", list("name"), list("nope"), list()),
	set("x-kubernetes-validations",
		list(object("rule", "self == self")),
		list(object("rule", "")), list(object("rule", "self.nope == 1")), list(object("rule", "1 +")), list(object("rule", "1")),
		list(object("rule", "true", "message", " ")), list(object("rule", "true", "message", "a\nb")), list(object("rule", "true\n&& true")),
		list(object("rule", "true", "messageExpression", " ")), list(object("rule", "true", "messageExpression", "1")), list(object("rule", "true", "messageExpression", "'a' +")),
		list(object("rule", "true", "reason", "Odd")), list(object("rule", "true", "fieldPath", ".spec")), list(object("rule", "true", "fieldPath", ".a['b']", "reason", "FieldValueRequired")),
		list(object("rule", "true", "fieldPath", "\n")), list(object("rule", "self == oldSelf")), list(object("rule", "true", "optionalOldSelf", true)),
		list(object("rule", "oldSelf.hasValue()", "optionalOldSelf", true))),
}

var specDamages = []damager{
	inSpec("scope", "", "Odd", "Cluster", "Namespaced"), inSpec("group", "", "x", "UP.x", "other.io", "x.k8s.io"),
	inSpec("preserveUnknownFields", true),
	inSpec("names", object(), object("plural", "x", "kind", "X"), object("plural", "UP", "kind", "a_b", "listKind", "a_b", "shortNames", list("-"), "categories", list("A"))),
	inSpec("conversion", object(), object("strategy", "Odd"), object("strategy", "Webhook"),
		object("strategy", "Webhook", "webhook", object("conversionReviewVersions", list("v1", "v1", "-"), "clientConfig", object("url", "http://u:p@x/?q#f"))),
		object("strategy", "Webhook", "webhook", object("conversionReviewVersions", list("v9"), "clientConfig", object("service", object("name", "", "namespace", "n", "path", "x//y"), "caBundle", "eA=="))),
		object("strategy", "None", "webhook", object("conversionReviewVersions", list("v1"), "clientConfig", object("url", "https://x")))),
	inVersion("name", "v1", "UP", ""), inVersion("storage", true, false), inVersion("served", false), inVersion("schema", nil, object()),
	inVersion("deprecated", true), inVersion("deprecationWarning", "", "a\tb", strings.Repeat("x", 300), "fine"),
	inVersion("subresources", object("status", object()), object("scale", object()),
		object("scale", object("specReplicasPath", "x", "statusReplicasPath", ".spec.x", "labelSelectorPath", ".x"))),
	inVersion("additionalPrinterColumns", list(object()), list(object("name", "x", "type", "odd", "format", "odd", "jsonPath", "x")),
		list(object("name", "x", "type", "string", "jsonPath", ".x"))),
	inVersion("selectableFields", list(object()), list(object("jsonPath", ".metadata.name"), object("jsonPath", ".spec")),
		list(object("jsonPath", ".kind"), object("jsonPath", ".kind"), object("jsonPath", ".apiVersion[0]"), object("jsonPath", "x"), object("jsonPath", "."))),
	{"metadata.name", func(_ *rand.Rand, t map[string]any) { t["metadata"].(map[string]any)["name"] = "Odd" }},
	{"annotations", func(r *rand.Rand, t map[string]any) {
		t["metadata"].(map[string]any)["annotations"] = []any{nil, object("api-approved.kubernetes.io", "odd"), object("api-approved.kubernetes.io", "unapproved, x")}[r.IntN(3)]
	}},
	{"two versions", func(_ *rand.Rand, t map[string]any) {
		spec := t["spec"].(map[string]any)
		versions := spec["versions"].([]any)
		spec["versions"] = append(versions, object("name", "v9", "served", true, "schema", object("openAPIV3Schema", object("type", "object"))))
	}},
	{"established", func(_ *rand.Rand, t map[string]any) {
		t["status"] = object("conditions", list(object("type", "Established", "status", "True")), "storedVersions", list("v0", "v1"),
			"acceptedNames", object("plural", "-", "kind", "X"))
	}},
}

func inSpec(name string, values ...any) damager {
	return damager{"spec." + name, func(r *rand.Rand, t map[string]any) {
		t["spec"].(map[string]any)[name] = values[r.IntN(len(values))]
	}}
}

func inVersion(name string, values ...any) damager {
	return damager{"version's " + name, func(r *rand.Rand, t map[string]any) {
		versions := t["spec"].(map[string]any)["versions"].([]any)
		versions[r.IntN(len(versions))].(map[string]any)[name] = values[r.IntN(len(values))]
	}}
}
