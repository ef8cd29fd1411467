// This file has the flag --violations of "query".

package query

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/keelson-io/keelson/crd"
	"github.com/keelson-io/keelson/internal/atrest"
	"github.com/keelson-io/keelson/internal/cli/command"
	"github.com/keelson-io/keelson/internal/source"
	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/kind"
	"github.com/keelson-io/keelson/schema"
)

// violation is an object that a definition does not accept.
type violation struct {
	APIVersion string           `json:"apiVersion"`
	Kind       string           `json:"kind"`
	Namespace  string           `json:"namespace,omitempty"`
	Name       string           `json:"name"`
	Findings   []violationCause `json:"findings"`
}

// violationCause is a mistake in an object.
type violationCause struct {
	Path    string `json:"path,omitempty"`
	Message string `json:"message"`
}

// findViolations prints the objects of a table that a definition does not accept. The error has their
// number.
func (q *query) findViolations(ctx context.Context, t *atrest.Table, definition *apiextv1.CustomResourceDefinition) error {
	if q.output == "yaml" {
		return command.UsageError(fmt.Errorf("--output: got yaml, want name or json with --violations"))
	}
	crd.Default(definition)
	if errs := crd.Validate(definition); len(errs) > 0 {
		return fmt.Errorf("%s: %w", q.definition, errs.ToAggregate())
	}
	k, err := crd.Compile(definition)
	if err != nil {
		return fmt.Errorf("%s: %w", q.definition, err)
	}
	all, bad := 0, 0
	err = q.db.Each(ctx, t, func(namespace, name string, doc []byte) error {
		all++
		v, err := violationsOf(ctx, k, doc)
		if err != nil {
			return fmt.Errorf("%s %s/%s: %w", t.Kind, namespace, name, err)
		}
		if len(v.Findings) == 0 {
			return ctx.Err()
		}
		bad++
		v.Namespace, v.Name = namespace, name
		return q.printViolation(t, v)
	})
	switch {
	case err != nil:
		return err
	case q.count:
		fmt.Fprintln(q.out, bad)
	}
	if bad > 0 {
		return fmt.Errorf("%d of %s not valid", bad, command.Plural(all, "object"))
	}
	return nil
}

// violationsOf validates a stored object in its version.
func violationsOf(ctx context.Context, k *kind.Kind, doc []byte) (*violation, error) {
	var head struct{ APIVersion, Kind string }
	if err := json.Unmarshal(doc, &head); err != nil {
		return nil, err
	}
	v := &violation{APIVersion: head.APIVersion, Kind: head.Kind}
	name := head.APIVersion[strings.Index(head.APIVersion, "/")+1:]
	version := k.Version(name)
	if version == nil {
		v.Findings = append(v.Findings, violationCause{"apiVersion", fmt.Sprintf("the CustomResourceDefinition does not serve version %q", name)})
		return v, nil
	}
	d := jsondoc.Get()
	defer d.Release()
	if _, err := version.Decode(d, doc); err != nil {
		message := fmt.Sprintf("%s in version %q cannot be handled as a %s: %v", head.Kind, name, head.Kind, err)
		v.Findings = append(v.Findings, violationCause{Message: message})
		return v, nil
	}
	for _, e := range version.Validate(ctx, d, nil, schema.Whole).Errors {
		v.Findings = append(v.Findings, violationCause{source.FieldOf(e.Field, e.ErrorBody()), e.ErrorBody()})
	}
	return v, nil
}

// printViolation prints the object, and each mistake on a line of its own.
func (q *query) printViolation(t *atrest.Table, v *violation) error {
	switch {
	case q.count:
		return nil
	case q.output == "json":
		return command.PrintJSON(q.out, v)
	}
	if err := q.print(t, v.Namespace, v.Name, nil); err != nil {
		return err
	}
	var b bytes.Buffer
	for _, f := range v.Findings {
		text := source.Shorten(f.Message)
		if f.Path != "" {
			text = f.Path + ": " + text
		}
		fmt.Fprintf(&b, "  %s\n", strings.ReplaceAll(text, "\n", "\n    "))
	}
	_, err := q.out.Write(b.Bytes())
	return err
}
