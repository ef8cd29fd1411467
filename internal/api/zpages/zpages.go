// Package zpages makes the pages /statusz, /flagz and /debug/pprof, which show the inside of a server. They are authorized like
// every path. By default only administrators and system:monitoring may read them.
package zpages

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/pprof"
	"runtime"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-io/keelson/internal/negotiation"
)

// component is the server's name on these pages, which is upstream's.
const component = "apiserver"

// Text is the media type of the pages for people.
const Text = "text/plain"

// group is the group of the structured forms of the pages.
const group = "config.k8s.io"

// Page is a page that has a form for people, and structured ones.
type Page struct {
	kind string
	// text appends the form for people. line adds a line of it.
	text func(line func(name, value string))
	// fields are the members besides kind, apiVersion and metadata, encoded as JSON.
	fields any
}

// Answer is a page in the form that a client asked for.
type Answer struct {
	Text   string // the form for people, "" if an object was asked for
	Object []byte // in JSON, without a newline at its end

	// How the object is sent.
	YAML    bool
	Pretty  bool   // the clause of the Accept header has pretty=1
	Warning string // the header Warning, "" for none
}

// Answer returns the form that an Accept header asks for, nil if the page has none such.
func (p *Page) Answer(accept string) (*Answer, error) {
	if strings.TrimSpace(accept) == "" {
		return p.forPeople(), nil
	}
	for _, c := range negotiation.Clauses(accept) {
		as, of, version := c.Transform()
		if as == "" && of == "" && version == "" {
			if accepts(c.Media, Text) {
				return p.forPeople(), nil
			}
			continue
		}
		media := ""
		for _, each := range []string{negotiation.JSON, negotiation.YAML} {
			if media == "" && accepts(c.Media, each) {
				media = each
			}
		}
		if media == "" || as != p.kind || of != group || version != "v1alpha1" && version != "v1beta1" {
			continue
		}
		object, err := p.object(version)
		a := &Answer{Object: object, YAML: media == negotiation.YAML, Pretty: c.Params["pretty"] == "1"}
		if version == "v1alpha1" {
			a.Warning = fmt.Sprintf(`299 - "This version of the %s endpoint is deprecated. Please use a newer version."`, strings.ToLower(p.kind))
		}
		return a, err
	}
	return nil, nil
}

// accepts reports whether a clause of an Accept header, such as text/*, is for a media type.
func accepts(clause, media string) bool {
	kind, _, _ := strings.Cut(media, "/")
	return clause == media || clause == "*/*" || clause == kind+"/*"
}

// forPeople returns the form for people.
func (p *Page) forPeople() *Answer {
	var b strings.Builder
	fmt.Fprintf(&b, "\n%s %s\n"+
		"Warning: This endpoint is not meant to be machine parseable, has no formatting compatibility guarantees and is for debugging purposes only.\n", component, strings.ToLower(p.kind))
	p.text(func(name, value string) { fmt.Fprintf(&b, "%s: %s\n", name, value) })
	return &Answer{Text: b.String()}
}

// object returns the object of a version.
func (p *Page) object(version string) ([]byte, error) {
	head, err := json.Marshal(map[string]any{"apiVersion": group + "/" + version, "kind": p.kind, "metadata": map[string]string{"name": component}})
	if err != nil {
		return nil, err
	}
	fields, err := json.Marshal(p.fields)
	if err != nil {
		return nil, err
	}
	if len(fields) > len("{}") {
		return append(append(head[:len(head)-1], ','), fields[1:]...), nil
	}
	return head, nil
}

// Status returns /statusz of a server that started at a time and serves a version of Kubernetes. index has all its paths.
func Status(started time.Time, kubernetes string, index []string) *Page {
	type statusz struct {
		StartTime        metav1.Time `json:"startTime"`
		UptimeSeconds    int64       `json:"uptimeSeconds"`
		GoVersion        string      `json:"goVersion"`
		BinaryVersion    string      `json:"binaryVersion"`
		EmulationVersion string      `json:"emulationVersion,omitempty"`
		Paths            []string    `json:"paths"`
	}
	up := time.Since(started)
	f := &statusz{
		StartTime: metav1.NewTime(started), UptimeSeconds: int64(up.Seconds()), GoVersion: runtime.Version(),
		BinaryVersion: kubernetes, EmulationVersion: kubernetes, Paths: debugPaths(index),
	}
	return &Page{kind: "Statusz", fields: f, text: func(line func(name, value string)) {
		s := f.UptimeSeconds
		line("\nStarted", f.StartTime.Format(time.UnixDate))
		line("Up", fmt.Sprintf("%d hr %02d min %02d sec", s/3600, s/60%60, s%60))
		line("Go version", f.GoVersion)
		line("Binary version", f.BinaryVersion)
		line("Emulation version", f.EmulationVersion)
		line("Paths", strings.Join(f.Paths, " "))
	}}
}

// debugPaths returns the first elements of the paths of the index that say how the server is. API paths
// and the snapshot, which is a copy of the store, do not.
func debugPaths(index []string) []string {
	seen := map[string]bool{}
	for _, p := range index {
		first, _, _ := strings.Cut(strings.TrimPrefix(p, "/"), "/")
		switch first {
		case "api", "apis", "openapi", "openid", ".well-known", "snapshot":
		default:
			seen["/"+first] = true
		}
	}
	return slices.Sorted(maps.Keys(seen))
}

// Flags returns /flagz with the flags of the command line and their values.
func Flags(flags map[string]string) *Page {
	type flagz struct {
		Flags map[string]string `json:"flags,omitempty"`
	}
	return &Page{kind: "Flagz", fields: &flagz{flags}, text: func(line func(name, value string)) {
		for _, name := range slices.Sorted(maps.Keys(flags)) {
			line(name, flags[name])
		}
	}}
}

// Profiles is the path below which profiles are.
const Profiles = "/debug/pprof/"

// Profile returns the handler of a path below /debug, given without slashes at its ends. It is nil if there is none.
func Profile(path string) http.Handler {
	switch name, under := strings.CutPrefix(path, "pprof"); {
	case !under:
		return nil
	case name == "/profile":
		return http.HandlerFunc(pprof.Profile)
	case name == "/symbol":
		return http.HandlerFunc(pprof.Symbol)
	case name == "/trace":
		return http.HandlerFunc(pprof.Trace)
	case name == "":
		return http.HandlerFunc(index)
	case strings.HasPrefix(name, "/"):
		return http.HandlerFunc(pprof.Index)
	}
	return nil
}

// index answers with the list of profiles, at the one path whose links work.
func index(w http.ResponseWriter, r *http.Request) {
	if !strings.HasSuffix(r.URL.Path, "/") {
		http.Redirect(w, r, Profiles, http.StatusFound)
		return
	}
	pprof.Index(w, r)
}
