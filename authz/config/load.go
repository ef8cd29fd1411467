package config

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"sigs.k8s.io/yaml"
)

// This file decodes a configuration.

// Group is the API group of configuration files.
const Group = "apiserver.config.k8s.io"

const kindName = "AuthorizationConfiguration"

// versions all say the same.
var versions = []string{"v1", "v1beta1", "v1alpha1"}

// siblings are the group's other kinds, which may be given by mistake.
var siblings = []string{"AdmissionConfiguration", "AuthenticationConfiguration", "EgressSelectorConfiguration", "EncryptionConfiguration",
	"TracingConfiguration"}

// Load decodes and validates the text of a file, YAML or JSON. Types that are
// required must be in it. An error is an *Error.
func Load(text []byte, required ...string) (*AuthorizationConfiguration, error) {
	c, err := decode(text)
	if err != nil {
		return nil, newError(text, fmt.Errorf("failed to load AuthorizationConfiguration from file: %w", err))
	}
	c.setDefaults()
	if errs := c.validate(); len(errs) > 0 {
		return nil, newError(text, errs.ToAggregate())
	}
	if errs := c.validateServer(required); len(errs) > 0 {
		return nil, newError(text, utilerrors.NewAggregate(errs))
	}
	return c, nil
}

func decode(text []byte) (*AuthorizationConfiguration, error) {
	if len(text) == 0 {
		return &AuthorizationConfiguration{}, nil
	}
	var what metav1.TypeMeta
	if err := yaml.Unmarshal(text, &what); err == nil {
		gvk := what.GroupVersionKind()
		if gvk.Group == Group && slices.Contains(siblings, gvk.Kind) {
			return nil, fmt.Errorf("expected AuthorizationConfiguration, got *apiserver.%s", gvk.Kind)
		}
	}
	scheme := runtime.NewScheme()
	for _, v := range versions {
		scheme.AddKnownTypeWithName(schema.GroupVersionKind{Group: Group, Version: v, Kind: kindName}, &AuthorizationConfiguration{})
	}
	codecs := serializer.NewCodecFactory(scheme, serializer.EnableStrict)
	obj, err := runtime.Decode(codecs.UniversalDeserializer(), text)
	if err != nil {
		return nil, err
	}
	return obj.(*AuthorizationConfiguration), nil
}
