//go:build ignore

// Program print prints the definitions that its sibling has generated.
//
// It writes one file for each package of types: the definitions by name, in the form of OpenAPI 3,
// one property a line, without descriptions. If it is given a second folder, it writes the
// descriptions there, by definition and property; the description of the definition itself has
// the name "".
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/kube-openapi/pkg/builder3/util"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/keelson-io/keelson/conformance/definitions/generated"
)

// v2Form is the extension with the schema that replaces a schema in OpenAPI 2.
const v2Form = "x-kubernetes-v2-schema"

func main() {
	if err := printAll(os.Args[1], os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func printAll(into string, docsInto []string) error {
	files := map[string]map[string]*spec.Schema{}
	docs := map[string]map[string]string{}
	refer := func(name string) spec.Ref { return spec.MustCreateRef("#/components/schemas/" + name) }
	for name, d := range generated.GetOpenAPIDefinitions(refer) {
		s := util.WrapRefs(&d.Schema)
		docs[name] = takeDescriptions(s)
		pkg, base := name[:strings.LastIndexByte(name, '.')], name[strings.LastIndexByte(name, '.')+1:]
		if files[pkg] == nil {
			files[pkg] = map[string]*spec.Schema{}
		}
		files[pkg][base] = s
	}
	for pkg, all := range files {
		text, err := format(all)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(into, pkg+".json"), text, 0o644); err != nil {
			return err
		}
	}
	for _, dir := range docsInto {
		text, err := json.Marshal(docs)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, "docs.json"), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// takeDescriptions removes the descriptions from a definition and returns them by property.
func takeDescriptions(s *spec.Schema) map[string]string {
	docs := map[string]string{"": s.Description}
	s.Description = ""
	if form, ok := s.Extensions[v2Form].(spec.Schema); ok {
		form.Description = ""
		s.Extensions[v2Form] = form
	}
	for field, p := range s.Properties {
		docs[field] = p.Description
		p.Description = ""
		if len(p.AllOf) == 1 && p.Default == nil && len(p.Extensions) == 0 && !p.Nullable {
			p = p.AllOf[0]
		}
		s.Properties[field] = p
	}
	maps.DeleteFunc(docs, func(_, text string) bool { return text == "" })
	return docs
}

// format prints definitions in the order of their names, each property on a line of its own.
func format(all map[string]*spec.Schema) ([]byte, error) {
	var b bytes.Buffer
	sep := "{\n"
	for _, name := range slices.Sorted(maps.Keys(all)) {
		s := *all[name]
		properties := s.Properties
		s.Properties = nil
		text, err := json.Marshal(s)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&b, "%s%q:", sep, name)
		sep = ",\n"
		if len(properties) == 0 {
			b.Write(text)
			continue
		}
		b.Write(bytes.TrimSuffix(text, []byte("}")))
		inner := `,"properties":{` + "\n"
		for _, field := range slices.Sorted(maps.Keys(properties)) {
			text, err := json.Marshal(properties[field])
			if err != nil {
				return nil, err
			}
			fmt.Fprintf(&b, "%s %q:%s", inner, field, text)
			inner = ",\n"
		}
		b.WriteString("\n}}")
	}
	b.WriteString("\n}\n")
	return b.Bytes(), nil
}
