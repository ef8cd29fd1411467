package openapi

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"unicode"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kube-openapi/pkg/spec3"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/keelson-io/keelson/kind"
)

// This file makes the paths of kinds.

// operation is what can be done with a path.
type operation struct {
	method, action string
	id             string
	description    string
	options        documented // whose fields are query parameters
	body           string     // name of the schema of what is sent; "" for nothing
	answer         string     // name of the schema of what comes back
	codes          []int
}

// site is a path and what can be done with it.
type site struct {
	path       string
	operations []operation
}

// makePart makes the part of a version.
func makePart(v *kind.Version, v2 bool) (*part, error) {
	c := converter{v2}
	schemas, err := c.schemas(v)
	if err != nil {
		return nil, err
	}
	if b := v.Kind.Builtin; b != nil {
		for i := range b.Subresources {
			if sub := &b.Subresources[i]; sub.Foreign() {
				more, err := c.published(sub.Version)
				if err != nil {
					return nil, err
				}
				maps.Copy(schemas, more)
			}
		}
	}
	p := &part{schemas: schemas, paths: make(map[string]json.RawMessage), scale: v.Scale != nil}
	for _, s := range sitesOf(v) {
		var text []byte
		if v2 {
			text, err = json.Marshal(c.pathV2(v, s))
		} else {
			text, err = json.Marshal(c.pathV3(v, s))
		}
		if err != nil {
			return nil, fmt.Errorf("path %s: %w", s.path, err)
		}
		p.paths[s.path] = text
	}
	return p, nil
}

// schemas are the schemas of a version's objects and lists.
func (c converter) schemas(v *kind.Version) (map[string]json.RawMessage, error) {
	if v.Published != nil {
		return c.published(v)
	}
	return encodeAll(map[string]*spec.Schema{nameOf(v): c.object(v), listNameOf(v): c.list(v)})
}

// sitesOf are the paths of a version.
func sitesOf(v *kind.Version) []site {
	k := v.Kind
	base := "/" + keyOf(v) + "/"
	scope := ""
	root := base + k.Plural
	if k.Namespaced {
		scope, root = "Namespaced", base+"namespaces/{namespace}/"+k.Plural
	}
	self := nameOf(v)
	list := listNameOf(v)
	n := namer{v, scope}
	if b := k.Builtin; b != nil && b.Virtual {
		return []site{{root, []operation{n.operation(http.MethodPost, "post", "create", "", createOptions, self, self)}}}
	}
	if b := k.Builtin; b != nil && b.Listed != nil {
		return []site{
			{root, []operation{n.operation(http.MethodGet, "list", "list", "", listOptions, "", list)}},
			{root + "/{name}", []operation{n.operation(http.MethodGet, "get", "read", "", getOptions, "", self)}},
		}
	}
	sites := []site{
		{root, []operation{
			n.operation(http.MethodGet, "list", "list", "", listOptions, "", list),
			n.operation(http.MethodPost, "post", "create", "", createOptions, self, self),
		}},
		{root + "/{name}", []operation{
			n.operation(http.MethodGet, "get", "read", "", getOptions, "", self),
			n.operation(http.MethodPut, "put", "replace", "", updateOptions, self, self),
			n.operation(http.MethodDelete, "delete", "delete", "", deleteOptions, metaPrefix+"DeleteOptions", metaPrefix+"Status"),
			n.operation(http.MethodPatch, "patch", "patch", "", patchOptions, metaPrefix+"Patch", self),
		}},
	}
	if k.Builtin == nil || !k.Builtin.OneByOne {
		sites[0].operations = append(sites[0].operations, n.operation(http.MethodDelete, "deletecollection", "deletecollection", "", listOptions, "", metaPrefix+"Status"))
	}
	if k.Namespaced {
		all := n.operation(http.MethodGet, "list", "list", "", listOptions, "", list)
		all.id = n.id("list", k.Name+"ForAllNamespaces")
		sites = append(sites, site{base + k.Plural, []operation{all}})
	}
	if v.Status {
		sites = append(sites, n.subresource(root, "status", self))
	}
	if v.Scale != nil {
		sites = append(sites, n.subresource(root, "scale", scalePrefix+"Scale"))
	}
	if k.Builtin != nil {
		for i := range k.Builtin.Subresources {
			sites = append(sites, n.builtin(root, &k.Builtin.Subresources[i], self))
		}
	}
	return sites
}

// namer names the operations of a version.
type namer struct {
	v     *kind.Version
	scope string // "Namespaced" or ""
}

// builtin is the site of a subresource that only a built-in kind has.
func (n namer) builtin(root string, sub *kind.Subresource, self string) site {
	if sub.Foreign() {
		own := sub.Version.Definition
		return site{root + "/{name}/" + sub.Name, []operation{
			n.operation(http.MethodPost, "post", "create", sub.Name, createOptions, own, own)}}
	}
	s := n.subresource(root, sub.Name, self)
	s.operations = slices.DeleteFunc(s.operations, func(op operation) bool {
		return op.method == http.MethodGet && !slices.Contains(sub.Verbs, "get") ||
			op.method == http.MethodPatch && !slices.Contains(sub.Verbs, "patch")
	})
	return s
}

func (n namer) subresource(root, sub, answer string) site {
	return site{root + "/{name}/" + sub, []operation{
		n.operation(http.MethodGet, "get", "read", sub, getOptions, "", answer),
		n.operation(http.MethodPut, "put", "replace", sub, updateOptions, answer, answer),
		n.operation(http.MethodPatch, "patch", "patch", sub, patchOptions, metaPrefix+"Patch", answer),
	}}
}

func (n namer) operation(method, action, verb, sub string, options documented, body, answer string) operation {
	op := operation{
		method: method, action: action, options: options, body: body, answer: answer,
		id:          n.id(verb, n.scope+n.v.Kind.Name+capital(sub)),
		description: n.describe(verb, sub),
		codes:       []int{http.StatusOK},
	}
	switch action {
	case "post":
		op.codes = append(op.codes, http.StatusCreated, http.StatusAccepted)
	case "put":
		op.codes = append(op.codes, http.StatusCreated)
	case "delete":
		op.codes = append(op.codes, http.StatusAccepted)
	}
	return op
}

func (n namer) describe(verb, sub string) string {
	name := n.v.Kind.Name
	of := ""
	if sub != "" {
		of = " " + sub + " of"
	}
	switch verb {
	case "list":
		return "list objects of kind " + name
	case "patch":
		return "partially update" + of + " the specified " + name
	case "read", "replace":
		return verb + of + " the specified " + name
	case "deletecollection":
		return "delete collection of " + name
	}
	article := " a "
	if strings.HasSuffix(name, "s") && !strings.HasSuffix(name, "ss") {
		article = " " // it reads as a plural
	} else if strings.ContainsRune("AEIOU", rune(name[0])) {
		article = " an "
	}
	return verb + article + name
}

// id is an operation's identifier: verb, group, version, rest.
func (n namer) id(verb, rest string) string {
	if verb == "deletecollection" {
		verb, rest = "delete", "Collection"+rest
	}
	return verb + identifier(n.group(), true) + identifier(n.v.Name, true) + rest
}

func (n namer) group() string {
	if n.v.Kind.Group == "" {
		return "core"
	}
	return strings.TrimSuffix(n.v.Kind.Group, ".k8s.io")
}

// tag is what the operations of a version are filed under.
func (n namer) tag() string { return identifier(n.group(), false) + "_" + identifier(n.v.Name, false) }

// identifier drops what is no letter or digit and makes the letter after it,
// and the first one if asked, a capital.
func identifier(s string, first bool) string {
	var b strings.Builder
	up := first
	for _, r := range s {
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			up = true
			continue
		}
		if up {
			r = unicode.ToUpper(r)
		}
		b.WriteRune(r)
		up = false
	}
	return b.String()
}

func capital(s string) string { return identifier(s, true) }

// The options whose fields are query parameters.
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

// queryParameters are the parameters that options have fields for.
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

// pathParameters are the parameters of a path itself.
func pathParameters(path, kindName string) []parameter {
	var out []parameter
	if strings.Contains(path, "{name}") {
		out = append(out, parameter{"name", "path", "string", "name of the " + kindName})
	}
	if strings.Contains(path, "{namespace}") {
		out = append(out, parameter{"namespace", "path", "string", "object name and auth scope, such as for teams and projects"})
	}
	return append(out, parameter{"pretty", "query", "string", "If 'true', then the output is pretty printed. Defaults to 'false' unless the user-agent indicates a browser or command-line HTTP tool (curl and wget)."})
}

// consumes are the media types of bodies.
func (op *operation) consumes() []string {
	if op.action == "patch" {
		return []string{"application/json-patch+json", "application/merge-patch+json", "application/apply-patch+yaml"}
	}
	return produces
}

var produces = []string{"application/json", "application/yaml"}

// extensions say what an operation does and with what.
func (op *operation) extensions(v *kind.Version) spec.VendorExtensible {
	return spec.VendorExtensible{Extensions: spec.Extensions{
		extAction: op.action,
		extGVK:    gvk{v.Kind.Group, v.Kind.Name, v.Name},
	}}
}

// place puts a site's operations where a path has those of their methods.
func place[O any](s site, made func(*operation) *O, at map[string]**O) {
	for i := range s.operations {
		op := &s.operations[i]
		*at[op.method] = made(op)
	}
}

// pathV3 is a path in version 3.
func (c converter) pathV3(v *kind.Version, s site) *spec3.Path {
	p := &spec3.Path{}
	for _, param := range pathParameters(s.path, v.Kind.Name) {
		p.Parameters = append(p.Parameters, param.v3())
	}
	place(s, func(op *operation) *spec3.Operation { return c.operationV3(v, op) }, map[string]**spec3.Operation{
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

func (c converter) operationV3(v *kind.Version, op *operation) *spec3.Operation {
	out := &spec3.Operation{VendorExtensible: op.extensions(v)}
	out.Tags = []string{namer{v: v}.tag()}
	out.Description, out.OperationId = op.description, op.id
	for _, param := range queryParameters(op.options) {
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
			Content: content(op.body, op.consumes()), Required: op.action != "delete",
		}}
	}
	responses := map[int]*spec3.Response{401: {ResponseProps: spec3.ResponseProps{Description: "Unauthorized"}}}
	for _, code := range op.codes {
		responses[code] = &spec3.Response{ResponseProps: spec3.ResponseProps{
			Description: http.StatusText(code), Content: content(op.answer, produces),
		}}
	}
	out.Responses = &spec3.Responses{ResponsesProps: spec3.ResponsesProps{StatusCodeResponses: responses}}
	return out
}

// pathV2 is a path in version 2.
func (c converter) pathV2(v *kind.Version, s site) *spec.PathItem {
	p := &spec.PathItem{}
	for _, param := range pathParameters(s.path, v.Kind.Name) {
		p.Parameters = append(p.Parameters, param.v2())
	}
	place(s, func(op *operation) *spec.Operation { return c.operationV2(v, op) }, map[string]**spec.Operation{
		http.MethodGet: &p.Get, http.MethodPost: &p.Post, http.MethodPut: &p.Put, http.MethodPatch: &p.Patch, http.MethodDelete: &p.Delete,
	})
	return p
}

func (p parameter) v2() spec.Parameter {
	out := spec.Parameter{}
	out.Name, out.In, out.Description, out.Required = p.name, p.in, p.description, p.in == "path"
	out.Type, out.UniqueItems = p.kind, true
	return out
}

func (c converter) operationV2(v *kind.Version, op *operation) *spec.Operation {
	out := &spec.Operation{VendorExtensible: op.extensions(v)}
	out.Tags = []string{namer{v: v}.tag()}
	out.Description, out.ID = op.description, op.id
	out.Consumes, out.Produces, out.Schemes = op.consumes(), produces, []string{"https"}
	if op.body != "" {
		body := spec.Parameter{}
		s := ref(op.body, true)
		body.Name, body.In, body.Required, body.Schema = "body", "body", op.action != "delete", &s
		out.Parameters = append(out.Parameters, body)
	}
	for _, param := range queryParameters(op.options) {
		out.Parameters = append(out.Parameters, param.v2())
	}
	responses := map[int]spec.Response{401: {ResponseProps: spec.ResponseProps{Description: "Unauthorized"}}}
	for _, code := range op.codes {
		s := ref(op.answer, true)
		responses[code] = spec.Response{ResponseProps: spec.ResponseProps{Description: http.StatusText(code), Schema: &s}}
	}
	out.Responses = &spec.Responses{ResponsesProps: spec.ResponsesProps{StatusCodeResponses: responses}}
	return out
}
