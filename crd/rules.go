package crd

import (
	"sync"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-io/keelson/cel"
	"github.com/keelson-io/keelson/kubernetes"
	"github.com/keelson-io/keelson/schema"
	"github.com/keelson-io/keelson/schema/structural"
)

// This file compiles the rules of a definition, to check them.

// language has the CEL environments of one release. They do not change once they are made.
type language struct {
	stored func() (*cel.Env, error)        // evaluates all rules, and compiles stored ones
	fresh  func() (schema.NewRules, error) // for rules that are new in a definition
}

// languages has an entry for each release, by its minor minus that of the oldest.
var languages = sync.OnceValue(func() []language {
	var all []language
	for _, r := range kubernetes.All() {
		l := language{stored: sync.OnceValues(func() (*cel.Env, error) {
			return cel.NewEnv(cel.EnvOptions{Stored: true, Release: r})
		})}
		// New rules are compiled in the language of the previous minor version, so that an upgrade
		// can be rolled back.
		l.fresh = sync.OnceValues(func() (schema.NewRules, error) {
			stored, err := l.stored()
			if err != nil {
				return schema.NewRules{}, err
			}
			previous, err := cel.NewEnv(cel.EnvOptions{Version: r.Compatible(), Release: r})
			if err != nil {
				return schema.NewRules{}, err
			}
			return schema.NewRules{Env: previous, Added: stored.Added(previous)}, nil
		})
		all = append(all, l)
	}
	return all
})

// language returns the environments of the release whose definitions c checks.
func (c *Compiler) language() *language {
	r := kubernetes.Newest()
	if c != nil {
		r = c.Release
	}
	return &languages()[r.Minor()-kubernetes.Oldest().Minor()]
}

// Prepare makes the environments in advance, so that the first definition need not wait for them.
// Errors are reported when a definition is checked.
func Prepare() { new(Compiler).language().fresh() }

// programOf returns the lazily compiled program of s. It checks the defaults and rules of s now,
// and objects later. It is nil if the CEL environment cannot be made. wire is the schema from which
// s was parsed.
func (c *Compiler) programOf(wire *apiextv1.JSONSchemaProps, s *structural.Schema) *schema.Program {
	opts, err := c.options(false)
	if err != nil {
		return nil
	}
	p := schema.Lazy(func() (*structural.Schema, error) { return s, nil }, opts)
	if known := c.rememberedWire(wire); known != nil {
		known.program.Store(p)
	}
	return p
}

// validateRules returns the errors of the rules of s, except those of nodes in w.bad. p is the
// program of s. If the schema is unchanged, rules that exceed the cost limit are accepted.
func validateRules(s *structural.Schema, p *schema.Program, unchanged bool, w *schemaWalk, path *field.Path) field.ErrorList {
	if !hasRules(s) {
		return nil
	}
	fresh, err := w.compiler.language().fresh()
	if err != nil {
		return field.ErrorList{field.InternalError(path, err)}
	}
	fresh.Stored = w.stored
	return p.CheckRules(schema.RuleCheck{
		Path: path, KeepCost: unchanged, New: fresh,
		Skip: func(path string) bool { return w.bad[path] }, Loose: func(path string) bool { return w.loose[path] },
	})
}

// hasRules reports whether there is a rule at or below s.
func hasRules(s *structural.Schema) bool {
	if s == nil {
		return false
	}
	if len(s.Rules) > 0 || hasRules(s.Items) || hasRules(s.Additional) {
		return true
	}
	for _, p := range s.Properties {
		if hasRules(p) {
			return true
		}
	}
	return false
}

// storedRules returns a function that reports whether a definition has a rule, or a message
// expression, with that text. The definition is searched at the first call.
func storedRules(spec *apiextv1.CustomResourceDefinitionSpec) func(text string, message bool) bool {
	type expression struct {
		text    string
		message bool
	}
	var all map[expression]bool // made when somebody asks
	return func(text string, message bool) bool {
		if all == nil {
			all = map[expression]bool{}
			anySchema(spec, func(s *apiextv1.JSONSchemaProps) bool {
				for _, r := range s.XValidations {
					all[expression{r.Rule, false}], all[expression{r.MessageExpression, true}] = true, true
				}
				return false
			})
		}
		return all[expression{text, message}]
	}
}
