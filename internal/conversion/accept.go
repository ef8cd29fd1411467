package conversion

import (
	"fmt"
	"strings"

	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-io/keelson/jsondoc"
)

// This file validates a converted object and restores the fields that a webhook must not change.

// accept returns the converted object with the metadata of the original, except for labels and
// annotations. The error text completes a sentence that ends in "returned".
func accept(sent, got []byte, apiVersion, at string) ([]byte, error) {
	in, out := jsondoc.Get(), jsondoc.Get()
	defer in.Release()
	defer out.Release()
	if err := jsondoc.Parse(in, sent); err != nil {
		return nil, fmt.Errorf("nothing for what was sent%s: %w", at, err)
	}
	if err := jsondoc.Parse(out, got); err != nil {
		return nil, fmt.Errorf("invalid converted object%s: %w", orFirst(at), err)
	}
	if out.Root().Kind() != jsondoc.Object {
		return nil, fmt.Errorf("invalid converted object%s: it is no object", orFirst(at))
	}
	have := gvkOf(out)
	if have.GroupVersion().String() != apiVersion {
		return nil, fmt.Errorf("%s%s: invalid groupVersion (expected %v, received %v)", whose(at), orFirst(at), apiVersion, have.GroupVersion())
	}
	if want := gvkOf(in).Kind; have.Kind != want {
		return nil, fmt.Errorf("%s%s: invalid kind (expected %v, received %v)", whose(at), orFirst(at), want, have.Kind)
	}
	for _, same := range []struct{ name, path string }{{"name", "name"}, {"namespace", "namespace"}, {"UID", "uid"}} {
		want, have := in.Root().At("metadata", same.path).Text(), out.Root().At("metadata", same.path).Text()
		if want != have {
			return nil, fmt.Errorf("%s%s: must have the same %s: %v != %v", whose(at), at, same.name, want, have)
		}
	}
	if err := restore(in, out); err != nil {
		if at == "" {
			return nil, fmt.Errorf("invalid metadata: %w", err)
		}
		return nil, fmt.Errorf("invalid metadata in object%s: %w", at, err)
	}
	return out.AppendJSON(nil, out.Root().Node), nil
}

// whose returns the phrase that says which object an error is about.
func whose(at string) string {
	if at == "" {
		return "invalid object"
	}
	return "invalid converted object"
}

// orFirst returns at, or the index of the first object if at is "": some of upstream's texts name
// the index even for a single object.
func orFirst(at string) string {
	if at == "" {
		return " at index 0"
	}
	return at
}

// restore copies the metadata of in to out, and keeps the labels and annotations of out.
func restore(in, out *jsondoc.Doc) error {
	metadata := out.Root().Get("metadata")
	switch metadata.Kind() {
	case jsondoc.Absent:
		return fmt.Errorf("missing metadata in converted object")
	case jsondoc.Object:
	default:
		return fmt.Errorf("invalid metadata of type %s in converted object", goType(metadata))
	}
	var kept [2]jsondoc.Node
	fields := [2]string{"labels", "annotations"}
	for i, name := range fields {
		had, got := in.Root().At("metadata", name), metadata.Get(name)
		if err := checkPairs(name, had, got); err != nil {
			return err
		}
		kept[i] = got.Node
	}
	if before := in.Root().Get("metadata"); before.Kind() == jsondoc.Object {
		out.Set(out.Import(before), "metadata")
	} else {
		out.Set(out.NewMap(nil), "metadata")
	}
	for i, name := range fields {
		if kind := kept[i].Kind(); kind == jsondoc.Absent || kind == jsondoc.Null {
			out.Remove("metadata", name)
		} else {
			out.Set(kept[i], "metadata", name)
		}
	}
	return nil
}

// checkPairs refuses new labels or annotations that a client could not have set.
func checkPairs(name string, had, got jsondoc.Value) error {
	if !got.Exists() || got.Kind() == jsondoc.Null {
		return nil
	}
	if got.Kind() != jsondoc.Object {
		return fmt.Errorf("invalid metadata.%s of type %s in converted object", name, goType(got))
	}
	changed := had.Len() != got.Len()
	pairs := make(map[string]string, got.Len())
	for key, value := range got.Members() {
		if value.Kind() != jsondoc.String {
			return fmt.Errorf("metadata.%s[%s] must be a string, but is %s in converted object", name, key, goType(value))
		}
		key = strings.Clone(key)
		pairs[key] = strings.Clone(value.Text())
		changed = changed || had.Get(key).Kind() != jsondoc.String || had.Get(key).Text() != pairs[key]
	}
	if !changed {
		return nil
	}
	if name == "labels" {
		return metav1validation.ValidateLabels(pairs, field.NewPath("metadata", "labels")).ToAggregate()
	}
	return apivalidation.ValidateAnnotations(pairs, field.NewPath("metadata", "annotation")).ToAggregate()
}

// goType returns the Go type of a value as encoding/json decodes it, for upstream's texts.
func goType(v jsondoc.Value) string { return fmt.Sprintf("%T", v.Interface()) }
