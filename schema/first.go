package schema

import (
	"context"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-io/keelson/doc"
	"github.com/keelson-io/keelson/schema/structural"
)

const unbuilt = "BUG: not built yet"

type node struct{}

// Compile compiles s.
func Compile(s *structural.Schema, o Options) (*Program, error) { panic(unbuilt) }

// CompileRules compiles all rules.
func (p *Program) CompileRules(stored bool) field.ErrorList { panic(unbuilt) }

// Decode decodes src into d.
func (p *Program) Decode(d *doc.Doc, src []byte) (Found, error) { panic(unbuilt) }

// Strict lists unknown and duplicate fields.
func (p *Program) Strict(src []byte) []string { panic(unbuilt) }

// Validate validates.
func (p *Program) Validate(ctx context.Context, new, old *doc.Doc, at Scope) Result { panic(unbuilt) }

// String dumps.
func (p *Program) String() string { panic(unbuilt) }
