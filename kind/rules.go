package kind

import (
	"sync"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-io/keelson/cel"
	"github.com/keelson-io/keelson/schema"
	"github.com/keelson-io/keelson/schema/structural"
)

// This file compiles the rules of a definition to check them.

// env is what rules are compiled with, stored ones and new ones: the newest
// version's language is the same for both. It is immutable, made once.
var env = sync.OnceValues(func() (*cel.Env, error) { return cel.NewEnv(cel.EnvOptions{Stored: true}) })

// options are those of the schema of a whole resource.
func options(preserveUnknown bool) (schema.Options, error) {
	e, err := env()
	return schema.Options{Resource: true, Env: e, PreserveUnknown: preserveUnknown}, err
}

// validateRules compiles the rules of s, except those of nodes that w found bad.
// unchanged excuses rules that cost too much by themselves.
func validateRules(s *structural.Schema, unchanged bool, w *schemaWalk, path *field.Path) field.ErrorList {
	if !hasRules(s) {
		return nil
	}
	opts, err := options(false)
	if err != nil {
		return field.ErrorList{field.InternalError(path, err)}
	}
	return schema.Lazy(func() (*structural.Schema, error) { return s, nil }, opts).CheckRules(schema.RuleCheck{
		Path: path, KeepCost: unchanged,
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
