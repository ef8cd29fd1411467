package config

import (
	"fmt"

	utilerrors "k8s.io/apimachinery/pkg/util/errors"

	"github.com/keelson-io/keelson/internal/configfile"
)

// This file decodes and validates a configuration file.

// Load decodes and validates the text of a file, YAML or JSON. The required types of authorizers
// must be in it. Errors are of type *Error.
func Load(text []byte, required ...string) (*AuthorizationConfiguration, error) {
	return load(text, false, required)
}

// LoadElsewhere is Load for the configuration of a server on another machine: kubeconfig files need
// not exist here, and the other server may be in a cluster.
func LoadElsewhere(text []byte) (*AuthorizationConfiguration, error) {
	return load(text, true, nil)
}

// load decodes a configuration and checks it.
func load(text []byte, elsewhere bool, required []string) (*AuthorizationConfiguration, error) {
	c, err := decode(text)
	if err != nil {
		return nil, newError(text, fmt.Errorf("failed to load AuthorizationConfiguration from file: %w", err))
	}
	c.setDefaults()
	if errs := c.validate(elsewhere); len(errs) > 0 {
		return nil, newError(text, errs.ToAggregate())
	}
	if errs := c.validateServer(required, elsewhere); len(errs) > 0 {
		return nil, newError(text, utilerrors.NewAggregate(errs))
	}
	return c, nil
}

// decode decodes the file strictly, as the kind AuthorizationConfiguration.
func decode(text []byte) (*AuthorizationConfiguration, error) {
	if len(text) == 0 {
		return &AuthorizationConfiguration{}, nil
	}
	return configfile.Decode(text, "AuthorizationConfiguration", &AuthorizationConfiguration{})
}
