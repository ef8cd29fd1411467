package schema

import (
	"context"
	"strings"

	"k8s.io/apimachinery/pkg/api/operation"
	"k8s.io/apimachinery/pkg/api/validate/content"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apischema "k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-io/keelson/jsondoc"
)

// This file validates embedded resources: their apiVersion, kind and metadata.

// embeddedErrors returns the errors of the resources that are embedded at x and below.
func (n *node) embeddedErrors(at *field.Path, x jsondoc.Value) field.ErrorList {
	if !n.deepEmbedded {
		return nil
	}
	var errs field.ErrorList
	switch x.Kind() {
	case jsondoc.Array:
		if n.items != nil {
			for i := range x.Len() {
				errs = append(errs, n.items.embeddedErrors(at.Index(i), x.Item(i))...)
			}
		}
	case jsondoc.Object:
		if n.embedded {
			errs = append(errs, resourceErrors(at, x)...)
		}
		for name, m := range x.Members() {
			if p := n.prop(name); p != nil {
				errs = append(errs, p.embeddedErrors(at.Child(name), m)...)
			} else if n.additional != nil {
				errs = append(errs, n.additional.embeddedErrors(at.Key(name), m)...)
			}
		}
	}
	return errs
}

// resourceErrors returns the errors of one embedded resource.
func resourceErrors(at *field.Path, x jsondoc.Value) field.ErrorList {
	var errs field.ErrorList
	version, kind, meta := x.Get("apiVersion"), x.Get("kind"), x.Get("metadata")
	if !version.Exists() {
		errs = append(errs, field.Required(at.Child("apiVersion"), ""))
	}
	if !kind.Exists() {
		errs = append(errs, field.Required(at.Child("kind"), ""))
	}
	if version.Exists() {
		errs = append(errs, textErrors(at.Child("apiVersion"), version, func(s string) string {
			if _, err := apischema.ParseGroupVersion(s); err != nil {
				return err.Error()
			}
			return ""
		})...)
	}
	if kind.Exists() {
		errs = append(errs, textErrors(at.Child("kind"), kind, func(s string) string {
			if bad := validation.IsDNS1035Label(strings.ToLower(s)); len(bad) > 0 {
				return "may have mixed case, but should otherwise match: " + strings.Join(bad, ",")
			}
			return ""
		})...)
	}
	if meta.Exists() {
		errs = append(errs, metaErrors(at.Child("metadata"), meta)...)
	}
	return errs
}

// textErrors returns the error of a string that must not be empty. check returns the text of an
// error, or "".
func textErrors(at *field.Path, v jsondoc.Value, check func(string) string) field.ErrorList {
	if v.Kind() != jsondoc.String {
		return field.ErrorList{field.Invalid(at, v.Interface(), "must be a string")}
	}
	s := strings.Clone(v.Text())
	if s == "" {
		return field.ErrorList{field.Invalid(at, s, "must not be empty")}
	}
	if bad := check(s); bad != "" {
		return field.ErrorList{field.Invalid(at, s, bad)}
	}
	return nil
}

// metaErrors returns the errors of the metadata of an embedded resource.
func metaErrors(at *field.Path, v jsondoc.Value) field.ErrorList {
	var meta metav1.ObjectMeta
	if err := utiljson.Unmarshal(v.AppendJSON(nil), &meta); err != nil {
		return field.ErrorList{field.Invalid(at, v.Interface(), err.Error())}
	}
	if meta.Name == "" {
		meta.Name = "fakename" // a name is optional, but checked if present
	}
	return apivalidation.ValidateObjectMetaDeclaratively(context.Background(), operation.Create, &meta, nil, meta.Namespace != "", segmentName, at, true)
}

// segmentName accepts any name that can be a segment of a URL path.
func segmentName(name string, prefix bool) []string {
	if prefix {
		return content.IsPathSegmentPrefix(name)
	}
	return content.IsPathSegmentName(name)
}
