package lint

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/keelson-io/keelson/crd"
	"github.com/keelson-io/keelson/internal/source"
	"github.com/keelson-io/keelson/internal/yamljson"
	"github.com/keelson-io/keelson/kubernetes"
)

// This file decodes definitions.

// Source is the text of a definition or policy.
type Source struct {
	Name string // in messages: usually the file
	Line int    // of the text's first line in that file; 0 means 1
	Text []byte // YAML or JSON, one document
	// Duplicates lists the keys that the text repeats, if the caller knows.
	Duplicates []Duplicate
}

// Duplicate is a key that a mapping of a text repeats.
type Duplicate struct {
	Key, Path    string
	Line, Column int // of the repetition, in the file
	First        int // line of the first one, in the file
}

// Definition is a CustomResourceDefinition and its position.
type Definition struct {
	Source Source
	JSON   []byte
	// CRD is the definition with defaults, as far as it can be decoded.
	CRD *apiextv1.CustomResourceDefinition

	text     *text
	mistyped []Finding // values of a wrong type, which JSON and CRD do not have
}

// Load decodes a definition. It fails only if the text is not a definition; mistakes in a
// definition are findings.
func Load(src Source) (*Definition, error) {
	if src.Line == 0 {
		src.Line = 1
	}
	body, _, err := yamljson.JSON(context.Background(), src.Text, false)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", src.Name, err)
	}
	var head struct{ APIVersion, Kind string }
	if err := json.Unmarshal(body, &head); err != nil || head.Kind != "CustomResourceDefinition" {
		return nil, fmt.Errorf("%s:%d: kind: got %q, want CustomResourceDefinition", src.Name, src.Line, head.Kind)
	}
	d := &Definition{Source: src, JSON: body, text: readText(src)}
	if d.CRD, err = crd.Read(body); err != nil {
		d.JSON, d.mistyped = mistyped(body)
		if d.CRD, err = crd.Read(d.JSON); err != nil {
			more, rest := mistypes(d.version(kubernetes.Newest()), d.JSON, d.text)
			d.JSON, d.mistyped = rest, append(d.mistyped, more...)
			d.CRD, err = crd.Read(d.JSON)
		}
	}
	if err != nil {
		d.CRD = new(apiextv1.CustomResourceDefinition) // the server's verdict covers the error
		crd.Default(d.CRD)
	}
	return d, nil
}

// Mistyped returns the findings about values of the wrong type in the schemas. JSON and CRD do not
// have these values.
func (d *Definition) Mistyped() []Finding {
	var out []Finding
	for _, f := range d.mistyped {
		out = append(out, identify(d.place(f)))
	}
	return out
}

// name returns the definition's name, if it has one.
func (d *Definition) name() string {
	var head struct{ Metadata struct{ Name string } }
	if json.Unmarshal(d.JSON, &head) != nil || head.Metadata.Name == "" {
		return "CustomResourceDefinition without a name"
	}
	return head.Metadata.Name
}

// place sets the position of a finding.
func (d *Definition) place(f Finding) Finding {
	f.Where = d.short(f.Path, f.Message)
	return d.text.place(f)
}

// short returns a path with the name of a version in place of its index, and schema paths in the
// form of objects. It removes an ending with which the message begins.
func (d *Definition) short(path, message string) string {
	versions := d.CRD.Spec.Versions
	for i := range versions {
		rest, ok := strings.CutPrefix(path, schemaPath(i))
		if !ok {
			continue
		}
		names := versions[i].Name
		for j := i + 1; j < len(versions); j++ {
			if equality.Semantic.DeepEqual(versions[i].Schema, versions[j].Schema) {
				names += ", " + versions[j].Name
			}
		}
		// The keyword at the end is not part of the path in objects.
		steps, keyword := source.Split(rest), ""
		for j := 0; j < len(steps); j++ {
			if steps[j] == "properties" && j+1 < len(steps) {
				j++
			} else if steps[j] != "items" && steps[j] != "additionalProperties" {
				at := strings.LastIndex(rest, "."+steps[j])
				rest, keyword = rest[:at], rest[at+1:]
				break
			}
		}
		if strings.HasPrefix(message, keyword) {
			keyword = ""
		}
		return strings.TrimSuffix(fmt.Sprintf("%s %s %s", names, inObjects(schemaPath(i)+rest), keyword), " ")
	}
	return path
}

// schemaPath returns the path of a version's schema as written.
func schemaPath(version int) string {
	return fmt.Sprintf("spec.versions[%d].schema.openAPIV3Schema", version)
}

// inObjects returns the path in objects for a schema path: spec.rules[*].matches.
func inObjects(path string) string {
	_, path, _ = strings.Cut(path, ".openAPIV3Schema")
	var b strings.Builder
	steps := source.Split(path)
	for i := 0; i < len(steps); i++ {
		switch s := steps[i]; {
		case s == "properties" && i+1 < len(steps):
			i++
			if b.Len() > 0 {
				b.WriteByte('.')
			}
			b.WriteString(steps[i])
		case s == "items" || s == "additionalProperties":
			b.WriteString("[*]")
		case s == "x-kubernetes-validations":
			i = len(steps)
		}
	}
	if b.Len() == 0 {
		return "(the object)"
	}
	return b.String()
}
