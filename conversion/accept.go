package conversion

import (
	"fmt"
	"strings"

	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-io/keelson/doc"
)

// This file checks what a webhook made of an object, and puts back what was not its to change.

// accept is the converted object with the metadata of the one that was sent, save for labels and annotations. The error goes on a
// sentence that ends in "returned".
func accept(sent, got []byte, apiVersion, at string) ([]byte, error) {
	in, out := doc.Get(), doc.Get()
	defer in.Release()
	defer out.Release()
	if err := doc.Parse(in, sent); err != nil {
		return nil, fmt.Errorf("nothing for what was sent%s: %w", at, err)
	}
	if err := doc.Parse(out, got); err != nil {
		return nil, fmt.Errorf("invalid converted object%s: %w", orFirst(at), err)
	}
	if out.Root().Kind() != doc.Object {
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

// whose names the object that something is wrong with.
func whose(at string) string {
	if at == "" {
		return "invalid object"
	}
	return "invalid converted object"
}

// orFirst is at; of a single object some sentences say where it stands, too.
func orFirst(at string) string {
	if at == "" {
		return " at index 0"
	}
	return at
}

// restore gives out the metadata of in, but keeps its labels and annotations.
func restore(in, out *doc.Doc) error {
	metadata := out.Root().Get("metadata")
	switch metadata.Kind() {
	case doc.Absent:
		return fmt.Errorf("missing metadata in converted object")
	case doc.Object:
	default:
		return fmt.Errorf("invalid metadata of type %s in converted object", goType(metadata))
	}
	var kept [2]doc.Node
	fields := [2]string{"labels", "annotations"}
	for i, name := range fields {
		had, got := in.Root().At("metadata", name), metadata.Get(name)
		if err := checkPairs(name, had, got); err != nil {
			return err
		}
		kept[i] = got.Node
	}
	if before := in.Root().Get("metadata"); before.Kind() == doc.Object {
		out.Set(out.Import(before), "metadata")
	} else {
		out.Set(out.NewMap(nil), "metadata")
	}
	for i, name := range fields {
		if kind := kept[i].Kind(); kind == doc.Absent || kind == doc.Null {
			out.Remove("metadata", name)
		} else {
			out.Set(kept[i], "metadata", name)
		}
	}
	return nil
}

// checkPairs refuses labels or annotations that a webhook made and that a client could not have set.
func checkPairs(name string, had, got doc.Value) error {
	if !got.Exists() || got.Kind() == doc.Null {
		return nil
	}
	if got.Kind() != doc.Object {
		return fmt.Errorf("invalid metadata.%s of type %s in converted object", name, goType(got))
	}
	changed := had.Len() != got.Len()
	pairs := make(map[string]string, got.Len())
	for key, value := range got.Members() {
		if value.Kind() != doc.String {
			return fmt.Errorf("metadata.%s[%s] must be a string, but is %s in converted object", name, key, goType(value))
		}
		key = strings.Clone(key)
		pairs[key] = strings.Clone(value.Text())
		changed = changed || had.Get(key).Kind() != doc.String || had.Get(key).Text() != pairs[key]
	}
	if !changed {
		return nil
	}
	if name == "labels" {
		return metav1validation.ValidateLabels(pairs, field.NewPath("metadata", "labels")).ToAggregate()
	}
	return apivalidation.ValidateAnnotations(pairs, field.NewPath("metadata", "annotation")).ToAggregate()
}

// goType is how Go would call a value that was decoded from JSON.
func goType(v doc.Value) string { return fmt.Sprintf("%T", v.Interface()) }
