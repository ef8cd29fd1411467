package http

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"sigs.k8s.io/yaml"

	"github.com/keelson-io/keelson/internal/testpeers"
)

// This file says when two answers are the same.

// answer is what a server says.
type answer struct {
	code   int
	header http.Header
	body   []byte
	err    error
	spoken string // what is unusual in how it came

	beats bool // bookmarks may come between its events whenever a server likes
}

// protobufs reads what servers print as protobuf.
var protobufs = func() runtime.Serializer {
	known := runtime.NewScheme()
	utilruntime.Must(apiextv1.AddToScheme(known))
	utilruntime.Must(metav1.AddMetaToScheme(known))
	return protobuf.NewSerializer(known, known)
}()

// unpack makes a body in protobuf one in JSON that says the same, and a compressed one plain.
func (a *answer) unpack() {
	if a == nil {
		return
	}
	if a.header.Get("Content-Encoding") == "gzip" && bytes.HasPrefix(a.body, []byte("\x1f\x8b")) {
		if z, err := gzip.NewReader(bytes.NewReader(a.body)); err == nil {
			a.body, _ = io.ReadAll(z) // a watch that is left may end anywhere
		}
	}
	if strings.HasPrefix(a.header.Get("Content-Type"), "application/vnd.kubernetes.protobuf;stream=watch") {
		a.body = spelledOutFrames(a.body)
		return
	}
	if !bytes.HasPrefix(a.body, []byte("k8s\x00")) {
		return
	}
	obj, _, err := protobufs.Decode(a.body, nil, nil)
	if err != nil {
		return // it is compared as it is
	}
	if text, err := json.Marshal(obj); err == nil {
		a.body = append(text, '\n')
	}
}

// unpackYAML does the same to YAML.
func (a *answer) unpackYAML() {
	if a.header.Get("Content-Type") != "application/yaml" {
		return
	}
	if text, err := yaml.YAMLToJSON(a.body); err == nil {
		a.body = append(text, '\n')
	}
}

// sameness holds what was found to correspond between both servers so far: the
// uid and each resource version of an object has one counterpart. An object that
// one server wrote again and the other did not is found by that.
type sameness struct {
	testpeers.Pairs // uids and resource versions

	again map[string]bool // upstream's versions of what it wrote again as it was

	anyOrder bool // errors may come in any order, since upstream's below a map are in the order of a Go map
}

// headers are the headers that are compared.
var headers = []string{
	"Content-Type", "Warning", "Retry-After", "Cache-Control", "Vary", "Content-Encoding", "X-Content-Type-Options", "Allow",
	"Location", "Www-Authenticate", "Expires", "Etag", "Last-Modified", "Audit-Id", "Accept-Ranges", "Sec-Websocket-Protocol",
}

// both prints two answers to the same request so that they can be compared.
// If sorted, the order of members does not count. Of definitions managedFields
// are left out: upstream's have an entry of its own controllers, and none of the
// fields that an empty Go struct has.
func (s *sameness) both(theirs, ours *answer, sorted, definitions bool) (a, b string) {
	theirs.unpack()
	ours.unpack()
	if s.anyOrder {
		theirs.unpackYAML()
		ours.unpackYAML()
	}
	// Pairs of ids are found by their place in the body, so both bodies are walked before either is printed.
	theirs.body, ours.body = spelledOut(theirs.body), spelledOut(ours.body)
	x, errX := parseOrdered(theirs.body)
	y, errY := parseOrdered(ours.body)
	if theirs.beats {
		x, y = withoutBeats(x), withoutBeats(y)
	}
	x = s.withoutAgain(x)
	for _, values := range [][]ordered{x, y} {
		for i := range values {
			values[i].sortManagers("")
		}
	}
	if s.anyOrder {
		for _, values := range [][]ordered{x, y} {
			for i := range values {
				values[i].sortErrors("")
			}
		}
	}
	if sorted {
		for _, values := range [][]ordered{x, y} {
			for i := range values {
				values[i].sort()
				if definitions {
					values[i].dropManagedFields()
				}
			}
		}
	}
	if errX == nil && errY == nil && len(x) == len(y) {
		for i := range x {
			s.pair(&x[i], &y[i], "")
		}
	}
	return s.print(0, theirs, x, errX), s.print(1, ours, y, errY)
}

func (s *sameness) print(side int, a *answer, values []ordered, notJSON error) string {
	if a.err != nil {
		return "error: " + a.err.Error()
	}
	var b strings.Builder
	fmt.Fprintln(&b, a.code)
	for _, name := range headers {
		for _, v := range a.header.Values(name) {
			switch name {
			case "Etag", "Last-Modified", "Expires":
				v = "…"
			case "Audit-Id": // that a client gives is said back
				v = uids.ReplaceAllString(v, "…")
			}
			fmt.Fprintf(&b, "%s: %s\n", name, s.text(side, v))
		}
	}
	b.WriteByte('\n')
	if notJSON != nil || len(values) == 0 && (len(a.body) == 0 || !a.beats) { // what has nothing but beats is empty
		b.WriteString(s.text(side, string(a.body)))
		b.WriteString(a.spoken)
		return b.String()
	}
	for i := range values {
		values[i].print(&b, s, side, "", "")
		b.WriteByte('\n')
	}
	if !bytes.HasSuffix(a.body, []byte("\n")) {
		b.WriteString("(no newline at the end)")
	}
	if bytes.Contains(bytes.TrimSpace(a.body), []byte("\n  ")) {
		b.WriteString("(pretty)")
	}
	b.WriteString(a.spoken)
	return b.String()
}

// pair makes the ids at the same places counterparts of each other. The first
// pair stands; later ones that do not agree are printed as they are.
func (s *sameness) pair(x, y *ordered, key string) {
	switch {
	case x.text != "" && y.text != "":
		if key == "uid" || key == "resourceVersion" && x.objectVersion && y.objectVersion {
			s.Bind(x.text, y.text)
		}
	case len(x.values) == len(y.values) && len(x.keys) == len(y.keys):
		for i := range x.values {
			k := key
			if len(x.keys) > 0 {
				if k = x.keys[i]; y.keys[i] != k {
					return
				}
			}
			s.pair(&x.values[i], &y.values[i], k)
		}
	}
}

// rewritten makes versions of objects that upstream wrote again as they were counterparts of those that Keelson left alone.
func (s *sameness) rewritten(theirs, ours *answer) {
	x, errX := parseOrdered(theirs.body)
	y, errY := parseOrdered(ours.body)
	if errX != nil || errY != nil || len(x) != len(y) {
		return
	}
	for i := range x {
		s.rebind(&x[i], &y[i])
	}
}

func (s *sameness) rebind(x, y *ordered) {
	for i, key := range x.keys {
		at := slices.Index(y.keys, key)
		if at < 0 {
			continue
		}
		a, b := &x.values[i], &y.values[at]
		if key == "resourceVersion" && a.objectVersion && b.objectVersion && s.Also(a.text, b.text) {
			s.again[a.text] = true
		}
		s.rebind(a, b)
	}
}

// withoutAgain leaves out the events that tell of what upstream wrote again as it was.
func (s *sameness) withoutAgain(events []ordered) []ordered {
	return slices.DeleteFunc(events, func(e ordered) bool {
		at := slices.Index(e.keys, "type")
		return at >= 0 && e.values[at].text == "MODIFIED" && e.is(s.again)
	})
}

// is reports whether a member is one of some resource versions.
func (v *ordered) is(versions map[string]bool) bool {
	for i, key := range v.keys {
		if key == "resourceVersion" && versions[v.values[i].text] {
			return true
		}
	}
	return slices.ContainsFunc(v.values, func(m ordered) bool { return m.is(versions) })
}

var (
	times    = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`)
	uids     = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	versions = regexp.MustCompile(`(resourceVersion: "|resourceVersion\\*":\\*"|Too large resource version: \d+, current: |too old resource version: \d+ \(|ResourceVersion in object meta: |[Rr]esourceVersion in (?:the )?(?:precondition|record) \()\d+`)
	ages     = regexp.MustCompile(`^((\d+[smh])+|<invalid>)$`)
	cells    = regexp.MustCompile(`(?m)^(\s*- )((\d+[smh])+|<invalid>)$`) // ages in a table that is YAML
	tokens   = regexp.MustCompile(`eyJ2IjoibWV0YS5rOHMuaW8vdjEi[\w-]+`)
	names    = regexp.MustCompile(`\b(?i:(gen[_-][a-z.-]*))[bcdfghjklmnpqrstvwxz2456789]{5}\b`)
	addrs    = regexp.MustCompile(`127\.0\.0\.1:\d+`)
)

// text takes out of a text what differs.
func (s *sameness) text(side int, v string) string {
	v = times.ReplaceAllString(v, "TIME")
	v = uids.ReplaceAllStringFunc(v, func(id string) string {
		if name, ok := s.Name(side, id); ok {
			return name
		}
		return "UID"
	})
	v = versions.ReplaceAllString(v, "${1}RV")
	v = cells.ReplaceAllString(v, "${1}AGE")
	v = tokens.ReplaceAllString(v, "CONTINUE")
	v = addrs.ReplaceAllString(v, "HOST")
	return names.ReplaceAllString(v, "${1}RANDOM")
}

// ordered is a JSON value that remembers the order of its members.
type ordered struct {
	keys   []string
	values []ordered
	text   string // of a string
	raw    string // of everything else that is no object or array
	open   byte   // '{', '[' or 0

	objectVersion bool // the resource version of an object, not of a list
}

// parseOrdered parses JSON values one after another.
func parseOrdered(src []byte) ([]ordered, error) {
	d := json.NewDecoder(bytes.NewReader(src))
	d.UseNumber()
	var out []ordered
	for {
		v, err := parseValue(d)
		if err == io.EOF {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
}

// withoutBeats leaves out bookmarks that only say how far the watch is. When they come is upstream's clock's affair; the bookmark that
// ends the initial events is none of them.
func withoutBeats(events []ordered) []ordered {
	var out []ordered
	for _, e := range events {
		at := slices.Index(e.keys, "type")
		if at < 0 || e.values[at].text != "BOOKMARK" || e.mentions("k8s.io/initial-events-end") {
			out = append(out, e)
		} else if last := len(out) - 1; last >= 0 && out[last].open == 0 {
			out = out[:last] // what the message of a WebSocket is
		}
	}
	return out
}

// mentions reports whether a member has that name.
func (v *ordered) mentions(key string) bool {
	return slices.Contains(v.keys, key) || slices.ContainsFunc(v.values, func(m ordered) bool { return m.mentions(key) })
}

func parseValue(d *json.Decoder) (ordered, error) {
	tok, err := d.Token()
	if err != nil {
		return ordered{}, err
	}
	switch tok := tok.(type) {
	case string:
		return ordered{text: tok, raw: strconv.Quote(tok)}, nil
	case json.Delim:
		v := ordered{open: byte(tok)}
		named := false
		for d.More() {
			if tok == '{' {
				key, err := d.Token()
				if err != nil {
					return v, err
				}
				v.keys = append(v.keys, key.(string))
				named = named || key == "uid" || key == "name"
			}
			one, err := parseValue(d)
			if err != nil {
				return v, err
			}
			v.values = append(v.values, one)
		}
		for i, k := range v.keys {
			v.values[i].objectVersion = k == "resourceVersion" && named
		}
		_, err := d.Token()
		return v, err
	case nil:
		return ordered{raw: "null"}, nil
	default:
		return ordered{raw: fmt.Sprint(tok)}, nil
	}
}

func (v *ordered) sort() {
	for i := range v.values {
		v.values[i].sort()
	}
	sort.Sort(byKey{v})
}

func (v *ordered) dropManagedFields() {
	for i := 0; i < len(v.keys); i++ {
		if v.keys[i] == "managedFields" {
			v.keys = append(v.keys[:i], v.keys[i+1:]...)
			v.values = append(v.values[:i], v.values[i+1:]...)
			i--
		}
	}
	for i := range v.values {
		v.values[i].dropManagedFields()
	}
}

// sortManagers sorts entries of managedFields by whose they are. Servers sort
// them by time first, in whole seconds, so that their order depends on when a
// second ends.
func (v *ordered) sortManagers(key string) {
	if key == "managedFields" && v.open == '[' {
		slices.SortStableFunc(v.values, func(a, b ordered) int { return strings.Compare(a.manager(), b.manager()) })
		return
	}
	for i := range v.values {
		k := ""
		if v.open == '{' {
			k = v.keys[i]
		}
		v.values[i].sortManagers(k)
	}
}

// manager says whose an entry of managedFields is.
func (v *ordered) manager() string {
	parts := make([]string, 4)
	for i, key := range v.keys {
		if at := slices.Index([]string{"manager", "operation", "subresource", "apiVersion"}, key); at >= 0 {
			parts[at] = v.values[i].text
		}
	}
	return strings.Join(parts, "|")
}

// byKey sorts the members of an object.
type byKey struct{ *ordered }

func (b byKey) Len() int           { return len(b.keys) }
func (b byKey) Less(i, j int) bool { return b.keys[i] < b.keys[j] }
func (b byKey) Swap(i, j int) {
	b.keys[i], b.keys[j] = b.keys[j], b.keys[i]
	b.values[i], b.values[j] = b.values[j], b.values[i]
}

func (v *ordered) print(b *strings.Builder, s *sameness, side int, indent, key string) {
	switch {
	case v.open != 0:
		b.WriteByte(v.open)
		for i := range v.values {
			b.WriteString("\n" + indent + "  ")
			k := key
			if v.open == '{' {
				k = v.keys[i]
				b.WriteString(s.text(side, k) + ": ")
			}
			v.values[i].print(b, s, side, indent+"  ", k)
		}
		b.WriteByte(v.open + 2) // the closing one
	case v.text == "":
		b.WriteString(v.raw)
	case key == "resourceVersion" && !v.objectVersion:
		b.WriteString("RV")
	case key == "uid" || key == "resourceVersion":
		name, ok := s.Name(side, v.text)
		if !ok {
			name = v.text
		}
		b.WriteString(name)
	case key == "cells" && ages.MatchString(v.text):
		b.WriteString("AGE")
	default:
		fmt.Fprintf(b, "%q", s.text(side, v.text))
	}
}
