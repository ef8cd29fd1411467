package describe

import (
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/kind"
	"github.com/keelson-io/keelson/schema"
)

// This file refuses changes of what must stay as it was created.

// Both runs one check after another.
func Both(first, then Checker) Checker {
	return func(v *kind.Version, new, old *jsondoc.Doc, scope schema.Scope) field.ErrorList {
		return append(first(v, new, old, scope), then(v, new, old, scope)...)
	}
}

// Required refuses an object without what stands at a path.
func Required(detail string, path ...string) Checker {
	return func(_ *kind.Version, d, _ *jsondoc.Doc, scope schema.Scope) field.ErrorList {
		if v := d.Root().At(path...); scope == schema.Status || v.Len() > 0 || v.Text() != "" {
			return nil
		}
		return field.ErrorList{field.Required(field.NewPath(path[0], path[1:]...), detail)}
	}
}

// Immutable refuses changes of what stands at a path.
func Immutable(path ...string) Checker {
	return ImmutableAs(func(now jsondoc.Value) any { return now.Interface() }, path...)
}

// ImmutableAs refuses them with a value as it is shown.
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

// AsText shows a text, empty if there is none.
func AsText(now jsondoc.Value) any { return strings.Clone(now.Text()) }

// AsGo shows a value by the names of fields of a Go type.
func AsGo[T any](now jsondoc.Value) any { return InGoNames(ReadAs[T](now)) }
