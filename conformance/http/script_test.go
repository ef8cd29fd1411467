package http

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
)

// This file reads scripts.
//
//	# a comment, up to the next request
//	@save a                  keep uid, resourceVersion, name and continue of the answer: ${a.uid}, ${a.rv}, ${a.name}, ${a.continue}
//	POST $W?dryRun=All       $W and others: see macros
//	Accept: application/yaml
//	{"the body": "up to the empty line"}
//
// The content type is that of the body's first character unless it is given.
// Further directives: "@quoted" says that the body is a Go string literal;
// "@deep N form" makes a body of N levels; "@large N" one of N bytes;
// "@repeat N text" puts N texts, separated by commas and numbered where they say %d, where the body says $REPEAT;
// "@until text" repeats a GET until the answer holds the text;
// "@unless text" repeats it until the answer does not; "@watch name" leaves the
// answer open, and a request "CLOSE name" ends and compares it;
// "@random" compares the code only, because upstream's answer differs from run
// to run. A request "SLEEP d" waits; "COMPACT" makes both stores forget all but their present states.

// request is one request of a script.
type request struct {
	script string
	line   int

	method, path string
	header       [][2]string
	body         string

	save, watch, until, unless string
	random                     bool

	verb string // of what is generated
	cell *cell  // that it is made for
}

func (q *request) String() string { return fmt.Sprintf("%s:%d", q.script, q.line) }

// has reports whether a header is sent.
func (q *request) has(name string) bool {
	return slices.ContainsFunc(q.header, func(h [2]string) bool { return h[0] == name })
}

// typed reports whether upstream prints the answer from Go structs, in an order
// that only its source knows: definitions, and metadata cut out of objects.
func (q *request) typed() bool {
	for _, h := range q.header {
		if h[0] == "Accept" && strings.Contains(h[1], "as=") {
			return true
		}
	}
	return strings.HasPrefix(q.path, crds)
}

const (
	widgets = "/apis/demo.io/v1/namespaces/default/widgets"
	gadgets = "/apis/demo.io/v1/gadgets"
	crds    = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
)

// macros are what paths and bodies may say instead.
var macros = strings.NewReplacer(
	"$WHEAD", `"apiVersion":"demo.io/v1","kind":"Widget"`,
	"$GHEAD", `"apiVersion":"demo.io/v1","kind":"Gadget"`,
	"$CRDHEAD", `"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition"`,
	"$PHEAD", `"apiVersion":"post.io/v1","kind":"Parcel"`,
	"$P2HEAD", `"apiVersion":"post.io/v2","kind":"Parcel"`,
	"$P1", "/apis/post.io/v1/namespaces/default/parcels", "$P2", "/apis/post.io/v2/namespaces/default/parcels",
	"$XHEAD", `"apiVersion":"post.io/v1","kind":"Box"`,
	"$X2HEAD", `"apiVersion":"post.io/v2","kind":"Box"`,
	"$X1", "/apis/post.io/v1/namespaces/default/boxes", "$X2", "/apis/post.io/v2/namespaces/default/boxes",
	"$W", widgets, "$G", gadgets, "$CRD", crds,
	"$JSONPATCH", "application/json-patch+json", "$MERGE", "application/merge-patch+json",
	"$APPLY", "application/apply-patch+yaml", "$STRATEGIC", "application/strategic-merge-patch+json",
	"$TABLE", "application/json;as=Table;v=v1;g=meta.k8s.io",
	"$PARTIALLIST", "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
	"$PARTIAL", "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
)

// readScript reads a script from a file.
func readScript(path string) ([]request, error) {
	src, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return parseScript(path[strings.LastIndexByte(path, '/')+1:], string(src))
}

func parseScript(name, src string) ([]request, error) {
	var out []request
	line := 1
	for block := range strings.SplitSeq(src, "\n\n") {
		q := request{script: name, line: line}
		line += strings.Count(block, "\n") + 2
		if err := q.parse(block); err != nil {
			return nil, fmt.Errorf("%s: %w", &q, err)
		}
		if q.method != "" {
			out = append(out, q)
		}
	}
	return out, nil
}

// parse reads one request.
func (q *request) parse(block string) error {
	quoted, repeat := false, ""
	lines := strings.Split(block, "\n")
	for i, l := range lines {
		directive, rest, _ := strings.Cut(l, " ")
		switch {
		case q.method == "" && (l == "" || strings.HasPrefix(l, "#")):
		case directive == "@save":
			q.save = rest
		case directive == "@watch":
			q.watch = rest
		case directive == "@until":
			q.until = rest
		case directive == "@unless":
			q.unless = rest
		case directive == "@random":
			q.random = true
		case directive == "@quoted":
			quoted = true
		case directive == "@deep":
			n, form, _ := strings.Cut(rest, " ")
			levels, err := strconv.Atoi(n)
			if err != nil {
				return err
			}
			q.body = deep(levels, form)
		case directive == "@large":
			n, err := strconv.Atoi(rest)
			if err != nil {
				return err
			}
			q.body = `{` + macros.Replace("$WHEAD") + `,"metadata":{"name":"large"},"spec":{"note":"` + strings.Repeat("x", n) + `"}}`
		case directive == "@repeat":
			n, text, _ := strings.Cut(rest, " ")
			times, err := strconv.Atoi(n)
			if err != nil {
				return err
			}
			repeat = strings.ReplaceAll(strings.TrimSuffix(strings.Repeat(text+",", times), ","), "%d", "\x00")
			for i := range strings.Count(repeat, "\x00") {
				repeat = strings.Replace(repeat, "\x00", strconv.Itoa(i), 1)
			}
		case strings.HasPrefix(l, "@"):
			return fmt.Errorf("%q is no directive", l)
		case q.method == "":
			q.method, q.path = directive, macros.Replace(rest)
		case isHeader(l):
			k, v, _ := strings.Cut(l, ": ")
			q.header = append(q.header, [2]string{k, macros.Replace(v)})
		default:
			body := strings.TrimSuffix(strings.Join(lines[i:], "\n"), "\n")
			if quoted {
				var err error
				if body, err = strconv.Unquote(body); err != nil {
					return err
				}
			}
			q.body = strings.Replace(macros.Replace(body), "$REPEAT", repeat, 1)
			return nil
		}
	}
	return nil
}

// isHeader reports whether a line is one of those headers that scripts send.
func isHeader(l string) bool {
	k, _, ok := strings.Cut(l, ": ")
	if !ok {
		return false
	}
	switch k {
	case "Accept", "Content-Type", "Accept-Encoding", "Authorization", "User-Agent", "If-None-Match", "Audit-Id", "Origin", "Impersonate-User", "Impersonate-Group",
		"Impersonate-Uid", "Impersonate-Extra-Scopes", "Expect",
		"Range", "X-Http-Method-Override", "Upgrade", "Connection", "Sec-Websocket-Protocol":
		return true
	}
	return false
}

// deep is a widget with a value of n levels.
func deep(n int, form string) string {
	value := map[string]string{
		"array":  strings.Repeat("[", n) + strings.Repeat("]", n),
		"object": strings.Repeat(`{"a":`, n) + "1" + strings.Repeat("}", n),
	}[form]
	return `{` + macros.Replace("$WHEAD") + `,"metadata":{"name":"deep"},"spec":{"any":` + value + `}}`
}
