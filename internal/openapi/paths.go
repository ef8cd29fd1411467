package openapi

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"unicode"

	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/keelson-io/keelson/kind"
)

// This file builds the paths of kinds.

// operation is one HTTP method of a path.
type operation struct {
	method, action     string
	id, tag            string
	description        string
	of                 *gvk        // the kind of the objects; nil for discovery
	parameters         []parameter // query parameters
	body               string      // name of the schema of what is sent; "" for nothing
	consumes, produces []string
	answer             string // name of the schema of what comes back; "" for a text
	codes              []int
}

// site is a path with its operations.
type site struct {
	path       string
	named      string // the kind whose name is in the path
	operations []operation
}

// makePart builds the part of a version.
func makePart(v *kind.Version, v2 bool) (*part, error) {
	c := converter{v2}
	schemas, err := c.schemas(v)
	if err != nil {
		return nil, err
	}
	for i := range v.Kind.Behavior.Subresources {
		if sub := &v.Kind.Behavior.Subresources[i]; sub.HasOwnKind() {
			more, err := c.published(sub.Version)
			if err != nil {
				return nil, err
			}
			maps.Copy(schemas, more)
		}
	}
	p := &part{schemas: schemas, paths: make(map[string]json.RawMessage), parameters: make(map[string]json.RawMessage)}
	return p, p.add(v2, sitesOf(v)...)
}

// schemas returns the schemas of a version's objects and lists.
func (c converter) schemas(v *kind.Version) (map[string]json.RawMessage, error) {
	if v.Published != nil {
		return c.published(v)
	}
	return encodeAll(map[string]*spec.Schema{nameOf(v): c.object(v), listNameOf(v): c.list(v)})
}

// sitesOf returns the paths of a version.
func sitesOf(v *kind.Version) []site {
	k := v.Kind
	base := "/" + keyOf(v) + "/"
	root, scope := base+k.Plural, ""
	if k.Namespaced {
		root, scope = base+"namespaces/{namespace}/"+k.Plural, "Namespaced"
	}
	self, list := nameOf(v), listNameOf(v)
	b := &k.Behavior
	n := namer{v, scope, b.GoType != nil}
	objects, object := site{path: root}, site{path: root + "/{name}", named: k.Name}
	if !b.Virtual {
		objects.add(n.operation(http.MethodGet, "list", "list", "", listOptions, "", list))
		object.add(n.operation(http.MethodGet, "get", "read", "", n.getOptions(), "", self))
	}
	if b.Listed == nil {
		objects.add(n.operation(http.MethodPost, "post", "create", "", createOptions, self, self))
	}
	switch {
	case b.Virtual:
		return []site{objects}
	case b.Listed != nil:
		return []site{objects, object}
	case !b.OneByOne:
		objects.add(n.deletion())
	}
	left := metaPrefix + "Status"
	if b.DeleteReturnsObject {
		left = self
	}
	object.add(n.operation(http.MethodPut, "put", "replace", "", updateOptions, self, self),
		n.operation(http.MethodDelete, "delete", "delete", "", deleteOptions, metaPrefix+"DeleteOptions", left),
		n.operation(http.MethodPatch, "patch", "patch", "", patchOptions, metaPrefix+"Patch", self))
	sites := []site{objects, object}
	if k.Namespaced {
		all := n.operation(http.MethodGet, "list", "list", "", listOptions, "", list)
		all.id = n.id("list", k.Name+"ForAllNamespaces")
		sites = append(sites, site{base + k.Plural, "", []operation{all}})
	}
	if v.Status {
		sites = append(sites, n.subresource(root, "status", self))
	}
	if v.Scale != nil {
		sites = append(sites, n.scale(root))
	}
	if n.typed {
		for i := range b.Subresources {
			sites = append(sites, n.builtin(root, &b.Subresources[i], self))
		}
		sites = append(sites, n.watches(base, root)...)
	}
	return sites
}

func (s *site) add(operations ...operation) { s.operations = append(s.operations, operations...) }

// namer builds the names and texts of a version's operations.
type namer struct {
	v     *kind.Version
	scope string // "Namespaced" or ""
	typed bool   // the kind has a Go type in upstream's server
}

// getOptions returns the options of a GET of one object.
func (n namer) getOptions() documented {
	if n.typed {
		return nil
	}
	return getOptions
}

// deletion returns the operation deletecollection.
func (n namer) deletion() operation {
	op := n.operation(http.MethodDelete, "deletecollection", "deletecollection", "", listOptions, "", metaPrefix+"Status")
	if n.typed {
		op.body, op.consumes = metaPrefix+"DeleteOptions", anyType
		op.parameters = slices.DeleteFunc(op.parameters, func(p parameter) bool { return p.name == "watch" || p.name == "allowWatchBookmarks" })
		op.parameters = append(op.parameters, queryParameters(deleteOptions)...)
	}
	return op
}

// builtin returns the site of a subresource that only a built-in kind has.
func (n namer) builtin(root string, sub *kind.Subresource, self string) site {
	if sub.HasOwnKind() {
		own, k := sub.Version.Definition, sub.Version.Kind
		op := n.operation(http.MethodPost, "post", "create", sub.Name, createOptions, own, own)
		op.of = &gvk{k.Group, k.Name, sub.Version.Name}
		return site{root + "/{name}/" + sub.Name, k.Name, []operation{op}}
	}
	s := n.subresource(root, sub.Name, self)
	s.operations = slices.DeleteFunc(s.operations, func(op operation) bool {
		return op.method == http.MethodGet && !slices.Contains(sub.Verbs, "get") ||
			op.method == http.MethodPatch && !slices.Contains(sub.Verbs, "patch")
	})
	return s
}

func (n namer) subresource(root, sub, answer string) site {
	return site{root + "/{name}/" + sub, n.v.Kind.Name, []operation{
		n.operation(http.MethodGet, "get", "read", sub, n.getOptions(), "", answer),
		n.operation(http.MethodPut, "put", "replace", sub, updateOptions, answer, answer),
		n.operation(http.MethodPatch, "patch", "patch", sub, patchOptions, metaPrefix+"Patch", answer),
	}}
}

// scale returns the site of the subresource scale. Its operations name the kind Scale if the
// object's kind is built in.
func (n namer) scale(root string) site {
	s := n.subresource(root, "scale", scalePrefix+"Scale")
	if n.typed {
		s.named = "Scale"
		for i := range s.operations {
			s.operations[i].of = &gvk{"autoscaling", "Scale", "v1"}
		}
	}
	return s
}

// watches returns the deprecated sites below /watch/.
func (n namer) watches(base, root string) []site {
	k := n.v.Kind
	watch := func(path, action, rest, description string) site {
		op := n.operation(http.MethodGet, "list", "list", "", listOptions, "", metaPrefix+"WatchEvent")
		op.action, op.id, op.description = action, n.id("watch", rest), description
		return site{base + "watch/" + strings.TrimPrefix(path, base), k.Name, []operation{op}}
	}
	const all = "watch individual changes to a list of %s. deprecated: use the 'watch' parameter with a list operation instead."
	const one = "watch changes to an object of kind %s. deprecated: use the 'watch' parameter with a list operation instead, " +
		"filtered to a single item with the 'fieldSelector' parameter."
	sites := []site{
		watch(root, "watchlist", n.scope+k.Name+"List", fmt.Sprintf(all, k.Name)),
		watch(root+"/{name}", "watch", n.scope+k.Name, fmt.Sprintf(one, k.Name)),
	}
	if k.Namespaced {
		sites = append(sites, watch(base+k.Plural, "watchlist", k.Name+"ListForAllNamespaces", fmt.Sprintf(all, k.Name)))
	}
	return sites
}

// Media types.
var (
	anyType  = []string{"*/*"}
	texts    = []string{"application/json", "application/yaml"}
	encoded  = []string{"application/json", "application/yaml", "application/vnd.kubernetes.protobuf"}
	streamed = append(slices.Clone(encoded), "application/json;stream=watch", "application/vnd.kubernetes.protobuf;stream=watch")
	patches  = []string{"application/json-patch+json", "application/merge-patch+json", "application/strategic-merge-patch+json", "application/apply-patch+yaml"}
)

func (n namer) operation(method, action, verb, sub string, options documented, body, answer string) operation {
	k := n.v.Kind
	op := operation{
		method: method, action: action, parameters: queryParameters(options), body: body, answer: answer,
		id: n.id(verb, n.scope+k.Name+capital(sub)), tag: n.tag(),
		description: n.describe(verb, sub), of: &gvk{k.Group, k.Name, n.v.Name},
		consumes: texts, produces: texts, codes: []int{http.StatusOK},
	}
	if n.typed {
		op.consumes, op.produces = anyType, encoded
	}
	switch action {
	case "list":
		if n.typed {
			op.produces = streamed
		}
	case "post":
		op.codes = append(op.codes, http.StatusCreated, http.StatusAccepted)
	case "put":
		op.codes = append(op.codes, http.StatusCreated)
	case "delete":
		op.codes = append(op.codes, http.StatusAccepted)
	case "patch":
		op.consumes = patches
		if n.typed {
			op.codes = append(op.codes, http.StatusCreated)
		} else {
			op.consumes = slices.DeleteFunc(slices.Clone(patches), func(t string) bool { return strings.Contains(t, "strategic") })
		}
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
		if n.typed && n.v.Kind.Behavior.Listed == nil {
			return "list or watch objects of kind " + name
		}
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
	return verb + of + article + name
}

// id returns the identifier of an operation: verb, group, version and rest.
func (n namer) id(verb, rest string) string {
	if verb == "deletecollection" {
		verb, rest = "delete", "Collection"+rest
	}
	return verb + identifier(n.group(), true) + identifier(n.v.Name, true) + rest
}

func (n namer) group() string { return shortGroup(n.v.Kind.Group) }

// shortGroup returns a group as identifiers contain it.
func shortGroup(group string) string {
	if group == "" {
		return "core"
	}
	return strings.TrimSuffix(group, ".k8s.io")
}

// tag returns the tag of a version's operations.
func (n namer) tag() string { return identifier(n.group(), false) + "_" + identifier(n.v.Name, false) }

// identifier removes all characters but letters and digits, and capitalizes the letter after each
// removed one. With first, it capitalizes the first letter, too.
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
