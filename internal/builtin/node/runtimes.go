// Package node describes runtime classes, of the API group node.k8s.io.
package node

import (
	"strings"

	nodev1 "k8s.io/api/node/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-io/keelson/internal/builtin/describe"
	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/kind"
	"github.com/keelson-io/keelson/schema"
)

// This file describes runtime classes.

// Kinds returns the description of runtime classes.
func Kinds() []describe.Description {
	return []describe.Description{{
		Group: "node.k8s.io", Kind: "RuntimeClass", Plural: "runtimeclasses", ClusterScoped: true, Traits: kind.Traits{RequireResourceVersion: true, CreateOnUpdate: true},
		Versions: describe.V1[nodev1.RuntimeClass](nil), AnyFinalizer: true,
		Columns: []kind.Column{describe.At("Handler", "string", ".handler", ""), describe.AgeColumn()},
		Check: func(_ *kind.Version, d, old *jsondoc.Doc, _ schema.Scope) field.ErrorList {
			errs := describe.CheckLabel(field.NewPath("handler"), strings.Clone(d.Root().Get("handler").Text()))
			if now := d.Root().Get("handler"); old != nil && now.Text() != old.Root().Get("handler").Text() {
				var shown any
				if now.Text() != "" {
					shown = now.Interface()
				}
				errs = append(errs, field.Invalid(field.NewPath("handler"), shown, "field is immutable"))
			}
			return errs
		},
	}}
}
