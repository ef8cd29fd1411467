//go:build ignore

// Program print packs the definitions that its sibling has generated.
//
// The archive has two files for each package of types: its definitions by name,
// in the form of OpenAPI 3 and without descriptions, and their descriptions by
// name and property, "" being the definition itself. Who only wants to decode
// and validate does not read the second.
package main

import (
	"archive/zip"
	"compress/flate"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"k8s.io/kube-openapi/pkg/builder3/util"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/keelson-io/keelson/conformance/definitions/generated"
)

func main() {
	if err := pack(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func pack(path string) error {
	files := map[string]map[string]any{}
	add := func(file, name string, v any) {
		if files[file] == nil {
			files[file] = map[string]any{}
		}
		files[file][name] = v
	}
	refer := func(name string) spec.Ref { return spec.MustCreateRef("#/components/schemas/" + name) }
	for name, d := range generated.GetOpenAPIDefinitions(refer) {
		at := strings.LastIndexByte(name, '.')
		s := util.WrapRefs(&d.Schema)
		docs := map[string]string{"": s.Description}
		s.Description = ""
		for field, p := range s.Properties {
			docs[field] = p.Description
			p.Description = ""
			if len(p.AllOf) == 1 && p.Default == nil && len(p.Extensions) == 0 && !p.Nullable {
				p = p.AllOf[0]
			}
			s.Properties[field] = p
		}
		maps.DeleteFunc(docs, func(_, text string) bool { return text == "" })
		add(name[:at]+".json", name[at+1:], s)
		if len(docs) > 0 {
			add(name[:at]+".docs.json", name[at+1:], docs)
		}
	}
	out, err := os.Create(path)
	if err != nil {
		return err
	}
	z := zip.NewWriter(out)
	z.RegisterCompressor(zip.Deflate, func(w io.Writer) (io.WriteCloser, error) { return flate.NewWriter(w, flate.BestCompression) })
	for _, name := range slices.Sorted(maps.Keys(files)) {
		text, err := json.Marshal(files[name])
		if err != nil {
			return err
		}
		w, err := z.CreateHeader(&zip.FileHeader{Name: name, Method: zip.Deflate})
		if err != nil {
			return err
		}
		if _, err := w.Write(text); err != nil {
			return err
		}
	}
	if err := z.Close(); err != nil {
		return err
	}
	return out.Close()
}
