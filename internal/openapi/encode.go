package openapi

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"net/http"
	"reflect"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kube-openapi/pkg/spec3"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// This file encodes paths in both versions of OpenAPI.

// documented is a Go type with descriptions of its fields.
type documented interface{ SwaggerDoc() map[string]string }

// Types of options whose fields are query parameters.
var (
	getOptions    documented = metav1.GetOptions{}
	listOptions   documented = metav1.ListOptions{}
	createOptions documented = metav1.CreateOptions{}
	updateOptions documented = metav1.UpdateOptions{}
	patchOptions  documented = metav1.PatchOptions{}
	deleteOptions documented = metav1.DeleteOptions{}
)

// parameter is a query or path parameter.
type parameter struct{ name, in, kind, description string }

// byName orders parameters by name.
func byName(a, b parameter) int { return strings.Compare(a.name, b.name) }

// queryParameters returns the query parameters for the fields of options.
func queryParameters(options documented) []parameter {
	if options == nil {
		return nil
	}
	var out []parameter
	docs := options.SwaggerDoc()
	r := reflect.TypeOf(options)
	for i := range r.NumField() {
		f := r.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		t := f.Type
		if t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
			t = t.Elem()
		}
		kind := ""
		switch t.Kind() {
		case reflect.Bool:
			kind = "boolean"
		case reflect.Int64:
			kind = "integer"
		case reflect.String:
			kind = "string"
		}
		if name != "" && name != "-" && kind != "" {
			out = append(out, parameter{name, "query", kind, docs[name]})
		}
	}
	return out
}

// common returns the parameters of a path: those in its text, those that all its operations share,
// and pretty, except for discovery documents.
func (s *site) common() []parameter {
	if s.operations[0].of == nil {
		return nil
	}
	var out []parameter
	if strings.Contains(s.path, "{name}") {
		out = append(out, parameter{"name", "path", "string", "name of the " + s.named})
	}
	if strings.Contains(s.path, "{namespace}") {
		out = append(out, parameter{"namespace", "path", "string", "object name and auth scope, such as for teams and projects"})
	}
	for _, p := range s.operations[0].parameters {
		if s.all(p) {
			out = append(out, p)
		}
	}
	out = append(out, parameter{"pretty", "query", "string", "If 'true', then the output is pretty printed. Defaults to 'false' unless the user-agent indicates a browser or command-line HTTP tool (curl and wget)."})
	slices.SortFunc(out, byName)
	return out
}

// all reports whether all operations of a path have a parameter.
func (s *site) all(p parameter) bool {
	return !slices.ContainsFunc(s.operations, func(op operation) bool { return !slices.Contains(op.parameters, p) })
}

// own returns the parameters of an operation that are not common to its path.
func (s *site) own(op *operation) []parameter {
	out := slices.DeleteFunc(slices.Clone(op.parameters), s.all)
	slices.SortFunc(out, byName)
	return out
}

// extensions returns the extensions with the action and the kind of an operation.
func (op *operation) extensions() spec.VendorExtensible {
	if op.of == nil {
		return spec.VendorExtensible{}
	}
	return spec.VendorExtensible{Extensions: spec.Extensions{extAction: op.action, extGVK: *op.of}}
}

// add adds paths to a part.
func (p *part) add(v2 bool, sites ...site) error {
	for i := range sites {
		s := &sites[i]
		var path any
		if v2 {
			path = p.pathV2(s)
		} else {
			path = pathV3(s)
		}
		text, err := json.Marshal(path)
		if err != nil {
			return fmt.Errorf("path %s: %w", s.path, err)
		}
		p.paths[s.path] = text
	}
	return nil
}

// place converts the operations of a site and stores them under their HTTP methods.
func place[O any](s *site, made func(*operation) *O, at map[string]**O) {
	for i := range s.operations {
		op := &s.operations[i]
		*at[op.method] = made(op)
	}
}

// pathV3 returns a path in version 3.
func pathV3(s *site) *spec3.Path {
	p := &spec3.Path{}
	for _, param := range s.common() {
		p.Parameters = append(p.Parameters, param.v3())
	}
	place(s, func(op *operation) *spec3.Operation { return operationV3(s, op) }, map[string]**spec3.Operation{
		http.MethodGet: &p.Get, http.MethodPost: &p.Post, http.MethodPut: &p.Put, http.MethodPatch: &p.Patch, http.MethodDelete: &p.Delete,
	})
	return p
}

func (p parameter) v3() *spec3.Parameter {
	s := new(spec.Schema).Typed(p.kind, "").UniqueValues()
	return &spec3.Parameter{ParameterProps: spec3.ParameterProps{
		Name: p.name, In: p.in, Description: p.description, Required: p.in == "path", Schema: s,
	}}
}

func operationV3(site *site, op *operation) *spec3.Operation {
	out := &spec3.Operation{VendorExtensible: op.extensions()}
	out.Tags = []string{op.tag}
	out.Description, out.OperationId = op.description, op.id
	for _, param := range site.own(op) {
		out.Parameters = append(out.Parameters, param.v3())
	}
	content := func(name string, types []string) map[string]*spec3.MediaType {
		m := make(map[string]*spec3.MediaType, len(types))
		for _, t := range types {
			s := ref(name, false)
			m[t] = &spec3.MediaType{MediaTypeProps: spec3.MediaTypeProps{Schema: &s}}
		}
		return m
	}
	if op.body != "" {
		out.RequestBody = &spec3.RequestBody{RequestBodyProps: spec3.RequestBodyProps{
			Content: content(op.body, op.consumes), Required: op.method != http.MethodDelete,
		}}
	}
	responses := map[int]*spec3.Response{401: {ResponseProps: spec3.ResponseProps{Description: "Unauthorized"}}}
	for _, code := range op.codes {
		responses[code] = &spec3.Response{ResponseProps: spec3.ResponseProps{
			Description: http.StatusText(code), Content: content(op.answer, op.produces),
		}}
	}
	out.Responses = &spec3.Responses{ResponsesProps: spec3.ResponsesProps{StatusCodeResponses: responses}}
	return out
}

// pathV2 returns a path in version 2, and adds its parameters to those that the document shares.
func (p *part) pathV2(s *site) *spec.PathItem {
	out := &spec.PathItem{}
	for _, param := range s.common() {
		out.Parameters = append(out.Parameters, p.shared(param.v2()))
	}
	place(s, func(op *operation) *spec.Operation { return p.operationV2(s, op) }, map[string]**spec.Operation{
		http.MethodGet: &out.Get, http.MethodPost: &out.Post, http.MethodPut: &out.Put, http.MethodPatch: &out.Patch, http.MethodDelete: &out.Delete,
	})
	return out
}

func (p parameter) v2() spec.Parameter {
	out := spec.Parameter{}
	out.Name, out.In, out.Description, out.Required = p.name, p.in, p.description, p.in == "path"
	out.Type, out.UniqueItems = p.kind, true
	return out
}

// shared returns a reference to a parameter that paths share. Its name contains a hash, as
// kube-openapi builds it. Parameters with a text about one kind are not shared, nor are those that
// old clients look for in operations.
func (p *part) shared(param spec.Parameter) spec.Parameter {
	switch {
	case param.Name == "name", param.Name == "fieldValidation", param.Name == "dryRun",
		param.Schema != nil && !strings.HasPrefix(param.Schema.Ref.String(), refsV2+"io.k8s.apimachinery"):
		return param
	}
	text, err := json.Marshal(param)
	if err != nil {
		panic("BUG: a parameter does not encode: " + err.Error())
	}
	hash := fnv.New64()
	hash.Write(text)
	name := param.Name + "-" + base64.URLEncoding.EncodeToString(hash.Sum(nil)[:6])
	p.parameters[name] = text
	return spec.Parameter{Refable: spec.Refable{Ref: spec.MustCreateRef("#/parameters/" + name)}}
}

func (p *part) operationV2(site *site, op *operation) *spec.Operation {
	out := &spec.Operation{VendorExtensible: op.extensions()}
	out.Tags = []string{op.tag}
	out.Description, out.ID = op.description, op.id
	out.Consumes, out.Produces, out.Schemes = op.consumes, op.produces, []string{"https"}
	if op.body != "" {
		body := spec.Parameter{}
		s := ref(op.body, true)
		body.Name, body.In, body.Required, body.Schema = "body", "body", op.method != http.MethodDelete, &s
		out.Parameters = append(out.Parameters, p.shared(body))
	}
	for _, param := range site.own(op) {
		out.Parameters = append(out.Parameters, p.shared(param.v2()))
	}
	responses := map[int]spec.Response{401: {ResponseProps: spec.ResponseProps{Description: "Unauthorized"}}}
	for _, code := range op.codes {
		s := spec.StringProperty()
		if op.answer != "" {
			*s = ref(op.answer, true)
		}
		responses[code] = spec.Response{ResponseProps: spec.ResponseProps{Description: http.StatusText(code), Schema: s}}
	}
	out.Responses = &spec.Responses{ResponsesProps: spec.ResponsesProps{StatusCodeResponses: responses}}
	return out
}
