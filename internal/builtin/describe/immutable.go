package describe

import (
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/kind"
	"github.com/keelson-io/keelson/schema"
)

// This file refuses changes of immutable fields.

// Both returns a check that runs several checks in turn.
func Both(first, then Checker) Checker {
	return func(v *kind.Version, new, old *jsondoc.Doc, scope schema.Scope) field.ErrorList {
		return append(first(v, new, old, scope), then(v, new, old, scope)...)
	}
}

// Required returns a check that a member exists.
func Required(detail string, path ...string) Checker {
	return func(_ *kind.Version, d, _ *jsondoc.Doc, scope schema.Scope) field.ErrorList {
		if v := d.Root().At(path...); scope == schema.Status || v.Len() > 0 || v.Text() != "" {
			return nil
		}
		return field.ErrorList{field.Required(field.NewPath(path[0], path[1:]...), detail)}
	}
}

// Immutable returns a check that refuses changes of a member.
func Immutable(path ...string) Checker {
	return ImmutableAs(func(now jsondoc.Value) any { return now.Interface() }, path...)
}

// ImmutableAs is Immutable with a function that returns the value for the error.
func ImmutableAs(shown func(now jsondoc.Value) any, path ...string) Checker {
	return func(_ *kind.Version, new, old *jsondoc.Doc, scope schema.Scope) field.ErrorList {
		if old == nil || scope == schema.Status {
			return nil
		}
		if now := new.Root().At(path...); !jsondoc.Equal(now, old.Root().At(path...)) {
			return field.ErrorList{field.Invalid(field.NewPath(path[0], path[1:]...), shown(now), "field is immutable")}
		}
		return nil
	}
}

// AsText returns a text for errors, empty for none.
func AsText(now jsondoc.Value) any { return strings.Clone(now.Text()) }

// AsGo returns a value for errors with the field names of a Go type.
func AsGo[T any](now jsondoc.Value) any { return InGoNames(ReadAs[T](now)) }
