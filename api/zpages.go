package api

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

// This file answers /statusz, /flagz and /debug/pprof, which show the inside of a server. They are
// authorized like every path. By default only administrators and system:monitoring may read them.

// component is the server's name on these pages, which is upstream's.
const component = "apiserver"

// typeText is the media type of the pages for people.
const typeText = "text/plain"

// zpageGroup is the group of the structured forms of the pages.
const zpageGroup = "config.k8s.io"

// zpage is a page that has a form for people, and structured ones.
type zpage struct {
	kind string
	// text appends the form for people. write adds a line of it.
	text func(line func(name, value string))
	// fields are the members besides kind, apiVersion and metadata, encoded as JSON.
	fields any
}

// servePage answers with the form that the client asked for.
func (q *request) servePage(p *zpage) error {
	if strings.TrimSpace(q.r.Header.Get("Accept")) == "" {
		return q.sendPage(p)
	}
	for _, c := range negotiation.Clauses(q.r.Header.Get("Accept")) {
		as, group, version := c.Transform()
		if as == "" && group == "" && version == "" {
			if mediaAccepts(c.Media, typeText) {
				return q.sendPage(p)
			}
			continue
		}
		media := ""
		for _, each := range []string{typeJSON, typeYAML} {
			if media == "" && mediaAccepts(c.Media, each) {
				media = each
			}
		}
		if media == "" || as != p.kind || group != zpageGroup || version != "v1alpha1" && version != "v1beta1" {
			continue
		}
		if version == "v1alpha1" {
			q.w.Header().Set("Warning", fmt.Sprintf(`299 - "This version of the %s endpoint is deprecated. Please use a newer version."`, strings.ToLower(p.kind)))
		}
		q.accept = accept{yaml: media == typeYAML, pretty: c.Params["pretty"] == "1" || negotiation.WantsPretty(q.r)}
		return q.sendStructured(p, version)
	}
	return notAcceptable(typeJSON, typeYAML, typeText)
}

// mediaAccepts reports whether a clause of an Accept header, such as text/*, is for a media type.
func mediaAccepts(clause, media string) bool {
	kind, _, _ := strings.Cut(media, "/")
	return clause == media || clause == "*/*" || clause == kind+"/*"
}

// sendPage answers with the form for people.
func (q *request) sendPage(p *zpage) error {
	var b strings.Builder
	fmt.Fprintf(&b, "\n%s %s\n"+
		"Warning: This endpoint is not meant to be machine parseable, has no formatting compatibility guarantees and is for debugging purposes only.\n", component, strings.ToLower(p.kind))
	p.text(func(name, value string) { fmt.Fprintf(&b, "%s: %s\n", name, value) })
	q.plain(http.StatusOK, b.String())
	return nil
}

// sendStructured answers with the object of a version.
func (q *request) sendStructured(p *zpage, version string) error {
	head, err := json.Marshal(map[string]any{"apiVersion": zpageGroup + "/" + version, "kind": p.kind, "metadata": map[string]string{"name": component}})
	if err != nil {
		return err
	}
	fields, err := json.Marshal(p.fields)
	if err != nil {
		return err
	}
	body := head
	if len(fields) > len("{}") {
		body = append(append(head[:len(head)-1], ','), fields[1:]...)
	}
	q.send(http.StatusOK, body)
	return nil
}

// statusPage is /statusz.
func (q *request) statusPage() *zpage {
	type statusz struct {
		StartTime        metav1.Time `json:"startTime"`
		UptimeSeconds    int64       `json:"uptimeSeconds"`
		GoVersion        string      `json:"goVersion"`
		BinaryVersion    string      `json:"binaryVersion"`
		EmulationVersion string      `json:"emulationVersion,omitempty"`
		Paths            []string    `json:"paths"`
	}
	up := time.Since(q.h.started)
	f := &statusz{
		StartTime: metav1.NewTime(q.h.started), UptimeSeconds: int64(up.Seconds()), GoVersion: runtime.Version(),
		BinaryVersion: kubernetesMajor + "." + kubernetesMinor, EmulationVersion: kubernetesMajor + "." + kubernetesMinor, Paths: q.debugPaths(),
	}
	return &zpage{kind: "Statusz", fields: f, text: func(line func(name, value string)) {
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
func (q *request) debugPaths() []string {
	seen := map[string]bool{}
	for _, p := range q.indexPaths() {
		first, _, _ := strings.Cut(strings.TrimPrefix(p, "/"), "/")
		switch first {
		case "api", "apis", "openapi", "openid", ".well-known", strings.TrimPrefix(snapshotPath, "/"):
		default:
			seen["/"+first] = true
		}
	}
	return slices.Sorted(maps.Keys(seen))
}

// flagPage is /flagz.
func (q *request) flagPage() *zpage {
	type flagz struct {
		Flags map[string]string `json:"flags,omitempty"`
	}
	flags := q.h.Flags
	return &zpage{kind: "Flagz", fields: &flagz{flags}, text: func(line func(name, value string)) {
		for _, name := range slices.Sorted(maps.Keys(flags)) {
			line(name, flags[name])
		}
	}}
}

// profile serves a path below /debug/pprof, and reports false if there is none.
func (q *request) profile(rest string) bool {
	var h http.HandlerFunc
	switch name, under := strings.CutPrefix(rest, "pprof"); {
	case !under:
		return false
	case name == "" && !strings.HasSuffix(q.path, "/"):
		h = func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, profilesPath, http.StatusFound) }
	case name == "/profile":
		h = pprof.Profile
	case name == "/symbol":
		h = pprof.Symbol
	case name == "/trace":
		h = pprof.Trace
	case name == "", strings.HasPrefix(name, "/"):
		h = pprof.Index
	default:
		return false
	}
	q.forward(h)
	return true
}

// profilesPath is the path below which profiles are.
const profilesPath = "/debug/pprof/"
