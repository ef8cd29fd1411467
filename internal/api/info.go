package api

import (
	"net/http"
	"net/url"
	"strings"

	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
)

// This file reads what a request asks for off its method and URL.

// info is what a request asks for.
type info struct {
	verb string // its name, or proxy; for paths that are no resources the method in lower case
	row  *verb  // nil if the method means no verb, and for other paths
	path string

	resource    bool // the request is for a resource, not for another path
	group       string
	version     string
	namespace   string
	plural      string
	subresource string
	name        string
	rest        bool // there are more path segments than a resource has
	selected    bool // name comes from a field selector, not from the path
	selecting   bool // the selectors in the query decide which objects the request is about
	snapshot    bool // the path is /snapshot, however many slashes are around it

	query url.Values // of the URL
	long  bool       // the request has no deadline
}

// parseInfo reads method, path and query of a request:
//
//	/api/{version}/…, /apis/{group}/{version}/…
//	… [watch/][namespaces/{namespace}/]{plural}[/{name}[/{subresource}]]
func parseInfo(r *http.Request) info {
	in := info{verb: strings.ToLower(r.Method), path: r.URL.Path}
	if r.URL.RawQuery != "" {
		in.query = r.URL.Query()
	}
	var seg [9]string
	n := split(r.URL.Path, &seg)
	switch {
	case n == 1 && seg[0] == "snapshot":
		in.snapshot = true
	case n >= 3 && seg[0] == "api":
		in.version = seg[1]
		in.parseResource(r.Method, seg[2:n])
	case n >= 4 && seg[0] == "apis":
		in.group, in.version = seg[1], seg[2]
		in.parseResource(r.Method, seg[3:n])
	}
	in.long = in.longRunning()
	return in
}

// split cuts a path into its non-empty segments; what does not fit stays in the last one.
func split(path string, seg *[9]string) int {
	n := 0
	for path != "" {
		if path[0] == '/' {
			path = path[1:]
			continue
		}
		if n == len(seg) {
			return n
		}
		seg[n], path, _ = strings.Cut(path, "/")
		n++
	}
	return n
}

// parseResource reads the path after the version.
func (in *info) parseResource(method string, seg []string) {
	in.resource = true
	// In paths of older clients the verb comes before the resource.
	prefixed := len(seg) > 1 && (seg[0] == "watch" || seg[0] == "proxy")
	first := seg[0]
	if prefixed {
		seg = seg[1:]
	}
	if seg[0] == "namespaces" && len(seg) > 1 {
		in.namespace = seg[1]
		// A namespace's own subresources are not resources inside it.
		if len(seg) > 2 && seg[2] != "status" && seg[2] != "finalize" {
			seg = seg[2:]
		}
	}
	in.plural = seg[0]
	if len(seg) > 1 {
		in.name = seg[1]
	}
	proxied := prefixed && first == "proxy"
	if len(seg) > 2 && !proxied {
		in.subresource = seg[2]
	}
	in.rest = len(seg) > 3
	switch {
	case proxied:
		in.verb = first
		return
	case prefixed: // whatever the method is
		in.row = verbOf(http.MethodGet, onChanges)
	case in.name != "":
		in.row = verbOf(method, onObject)
	default:
		on := onCollection
		if in.query.Has("watch") && isTrue(in.query.Get("watch")) && verbOf(method, onChanges) != nil {
			on = onChanges
		}
		in.row = verbOf(method, on)
		in.selecting = in.row != nil && in.row.on != onPath
	}
	in.verb = ""
	if in.row != nil {
		in.verb = in.row.name
	}
	if in.selecting && in.row.method == http.MethodGet {
		in.selectName(in.query)
	}
}

// isTrue reports whether a query parameter means true. As in upstream, that is every text but 0 and
// false, even "".
func isTrue(v string) bool { return v != "0" && !strings.EqualFold(v, "false") }

// selectName takes the name from a field selector on metadata.name, so that authorization can
// depend on it. Invalid options give no name: they are refused where they are parsed.
func (in *info) selectName(query url.Values) {
	text := query.Get("fieldSelector")
	if !strings.Contains(text, "metadata.name") {
		return
	}
	var o metav1.ListOptions
	if metav1.Convert_url_Values_To_v1_ListOptions(&query, &o, nil) != nil {
		return
	}
	if _, err := labels.Parse(o.LabelSelector); err != nil {
		return
	}
	s, err := fields.ParseSelector(text)
	if err != nil {
		return
	}
	if name, ok := s.RequiresExactMatch("metadata.name"); ok && name != "" && len(content.IsPathSegmentName(name)) == 0 {
		in.name, in.selected = name, true
	}
}
