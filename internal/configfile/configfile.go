// Package configfile decodes configuration files of the group apiserver.config.k8s.io, such as
// those of authentication (KEP-3331) and authorization (KEP-3221). All versions of a kind have the
// same fields. Decoding is strict: an unknown or repeated field is an error, with the text of
// apimachinery's decoder.
package configfile

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"sigs.k8s.io/yaml"
)

// group is the API group of configuration files.
const group = "apiserver.config.k8s.io"

// legacy is the API version of the first configuration files, which had only one kind that is still read here.
var legacy = schema.GroupVersionKind{Group: "apiserver.k8s.io", Version: "v1alpha1", Kind: "AdmissionConfiguration"}

var versions = []string{"v1", "v1beta1", "v1alpha1"}

// kinds lists the kinds of the group, so that the error for a wrong kind can name it.
var kinds = []string{"AdmissionConfiguration", "AuthenticationConfiguration", "AuthorizationConfiguration", "EgressSelectorConfiguration",
	"EncryptionConfiguration", "TracingConfiguration"}

// Decode decodes text, YAML or JSON, as a kind of the group into the Go type of empty.
func Decode[T runtime.Object](text []byte, kind string, empty T) (T, error) {
	var none T
	var what metav1.TypeMeta
	if err := yaml.Unmarshal(text, &what); err == nil {
		gvk := what.GroupVersionKind()
		if gvk.Group == group && gvk.Kind != kind && slices.Contains(kinds, gvk.Kind) {
			return none, fmt.Errorf("expected %s, got *apiserver.%s", kind, gvk.Kind)
		}
	}
	var all []schema.GroupVersionKind
	for _, v := range versions {
		all = append(all, schema.GroupVersionKind{Group: group, Version: v, Kind: kind})
	}
	if kind == legacy.Kind {
		all = append(all, legacy)
	}
	return DecodeAny(text, empty, all...)
}

// DecodeAny decodes text, YAML or JSON, as any of some kinds into the Go type of empty. The kinds may
// be of any group, such as those of the configurations of admission plugins.
func DecodeAny[T runtime.Object](text []byte, empty T, kinds ...schema.GroupVersionKind) (T, error) {
	var none T
	scheme := runtime.NewScheme()
	for _, gvk := range kinds {
		scheme.AddKnownTypeWithName(gvk, empty)
	}
	obj, err := runtime.Decode(serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer(), text)
	if err != nil {
		return none, err
	}
	return obj.(T), nil
}
