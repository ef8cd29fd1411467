// This file reads what a command line names.

package command

import (
	"errors"
	"fmt"
	"io"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/keelson-io/keelson/crd"
	"github.com/keelson-io/keelson/internal/manifest"
)

// OnceStdin refuses a second "-", because standard input can be read only once.
func OnceStdin(lists ...[]string) error {
	n := 0
	for _, l := range lists {
		for _, p := range l {
			if p == "-" {
				n++
			}
		}
	}
	if n > 1 {
		return UsageError(errors.New(`"-" (standard input) is named more than once`))
	}
	return nil
}

// ReadOne returns the only document of a file.
func ReadOne(file string, stdin io.Reader) ([]byte, error) {
	docs, err := manifest.Read([]string{file}, stdin)
	if err != nil {
		return nil, err
	}
	name := file
	if file == "-" {
		name = "standard input"
	}
	switch len(docs) {
	case 0:
		return nil, fmt.Errorf("%s: there is nothing in it", name)
	case 1:
		return docs[0].JSON, docs[0].Err
	}
	return nil, fmt.Errorf("%s: got %d documents, want one", name, len(docs))
}

// Definition returns the CustomResourceDefinition in a document. Errors start with the document's place.
func Definition(d manifest.Document) (*apiextv1.CustomResourceDefinition, error) {
	def, errs, err := crd.New(d.JSON)
	if err == nil && len(errs) > 0 {
		err = errs.ToAggregate()
	}
	if err != nil {
		return nil, fmt.Errorf("%s: the definition is not valid: %w", d, err)
	}
	return def, nil
}
