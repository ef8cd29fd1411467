package crd

import (
	"sync"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-io/keelson/cel"
	"github.com/keelson-io/keelson/schema"
	"github.com/keelson-io/keelson/schema/structural"
)

// This file compiles the rules of a definition to check them.

// env is what stored rules are compiled and all are evaluated with. It is immutable, made once.
var env = sync.OnceValues(func() (*cel.Env, error) { return cel.NewEnv(cel.EnvOptions{Stored: true}) })

// newRules is what new rules are checked with: the language of the version before.
var newRules = sync.OnceValues(func() (schema.NewRules, error) {
	stored, err := env()
	if err != nil {
		return schema.NewRules{}, err
	}
	previous, err := cel.NewEnv(cel.EnvOptions{Version: cel.PreviousKubernetes})
	if err != nil {
		return schema.NewRules{}, err
	}
	return schema.NewRules{Env: previous, Added: stored.Added(previous)}, nil
})

// Prepare makes what definitions are checked with, so that the first one need not wait for it. If that fails, the first one says why.
func Prepare() { newRules() }

// programOf returns the lazily compiled program of s, which wire was parsed to. It checks the defaults
// and rules of s now, and objects later. It is nil if the CEL environment cannot be made.
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

// validateRules compiles the rules of s, which p is the program of, except those of
// nodes that w found bad. unchanged excuses rules that cost too much by themselves.
func validateRules(s *structural.Schema, p *schema.Program, unchanged bool, w *schemaWalk, path *field.Path) field.ErrorList {
	if !hasRules(s) {
		return nil
	}
	fresh, err := newRules()
	if err != nil {
		return field.ErrorList{field.InternalError(path, err)}
	}
	fresh.Stored = w.stored
	return p.CheckRules(schema.RuleCheck{
		Path: path, KeepCost: unchanged, New: fresh,
		Skip: func(path string) bool { return w.bad[path] }, Loose: func(path string) bool { return w.loose[path] },
	})
}

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

// storedRules tells the expressions that a definition holds.
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
