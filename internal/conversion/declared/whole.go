package declared

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/schema"
)

// This file converts objects of users, which may not be valid, as a server would.

// InvalidError is the error of an object that is not valid in its version.
type InvalidError struct {
	Version string
	Errors  field.ErrorList
}

// Error returns the errors of the object.
func (e *InvalidError) Error() string {
	return fmt.Sprintf("the object is not valid in version %s: %v", e.Version, e.Errors.ToAggregate())
}

// Converts reports whether an object has the kind of c.
func (c *Converter) Converts(object []byte) bool {
	apiVersion, kind := heading(object)
	group, _, _ := strings.Cut(apiVersion, "/")
	return kind == c.kind && group == c.group
}

// Whole converts an object to the version with a name, as a server does: the object is pruned, gets
// the defaults of its version and is validated, and the result is pruned. dropped lists the fields of
// the object that its version does not declare, and those that it has twice. The error is an
// *InvalidError if the object is not valid.
func (c *Converter) Whole(ctx context.Context, object []byte, name string) (result []byte, dropped []string, err error) {
	apiVersion, _ := heading(object)
	to := c.group + "/" + name
	if _, err := c.route(apiVersion, to); err != nil {
		return nil, nil, err
	}
	from := c.version(apiVersion)
	d := jsondoc.Get()
	defer d.Release()
	found, err := from.program.Decode(d, object)
	if err != nil {
		return nil, nil, err
	}
	if found != 0 {
		dropped = jsondoc.StrictTexts(from.program.Strict(object))
	}
	if errs := from.program.Validate(ctx, d, nil, schema.Whole).Errors; len(errs) > 0 {
		return nil, dropped, &InvalidError{from.name, errs}
	}
	if result, err = c.one(ctx, to, d.AppendJSON(nil, d.Root().Node)); err != nil {
		return nil, dropped, err
	}
	if _, err := c.version(to).program.DecodeConverted(d, result); err != nil {
		return nil, dropped, fmt.Errorf("conversion to %s: %w", to, err)
	}
	return d.AppendJSON(nil, d.Root().Node), dropped, nil
}

// version returns the version with an apiVersion, nil if there is none.
func (c *Converter) version(apiVersion string) *version {
	if s := c.spoke(apiVersion); s != nil {
		return s.version
	}
	if apiVersion == c.hub.apiVersion {
		return c.hub
	}
	return nil
}
