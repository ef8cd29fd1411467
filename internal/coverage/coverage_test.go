package coverage_test

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"github.com/keelson-io/keelson/internal/coverage"
	"github.com/keelson-io/keelson/suite"
)

// hostile is a definition whose texts are markup.
const hostile = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: widgets, singular: widget, kind: Widget, listKind: WidgetList}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:
              "</pre><script>alert(1)</script>": {type: string, enum: ["]]>", "\"><img src=x onerror=alert(1)>"]}
              size: {type: integer, minimum: 1, default: 3}
            x-kubernetes-validations:
            - message: too large
              rule: |
                self.size != 7 &&
                  self.size < 9  // </span><script>alert(2)</script>
  - name: v2
    served: true
    storage: false
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`

// report runs cases and returns what they reach.
func report(t *testing.T, cases string) *coverage.Report {
	t.Helper()
	recorder := coverage.New()
	// Two suites of one definition count together.
	for _, one := range strings.Split(cases, "---\n") {
		s, err := suite.Parse("suite.yaml", []byte("crd: crd\ncases:\n"+one), func(string) ([]byte, error) { return []byte(hostile), nil })
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range s.RunWith(t.Context(), suite.RunOptions{Coverage: recorder}) {
			if !r.Passed {
				t.Fatal(r.Failures)
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return recorder.Report()
}

const cases = `- {name: a, object: {apiVersion: example.com/v1, kind: Widget, metadata: {name: a}, spec: {}}, warnings: []}
- {name: b, object: {apiVersion: example.com/v1, kind: Widget, metadata: {name: a}, spec: {size: 7}}, error: too large}
---
- {name: c, object: {apiVersion: example.com/v1, kind: Widget, metadata: {name: a}, spec: {size: 1}}, warnings: []}
- {name: d, deleted: {apiVersion: example.com/v1, kind: Widget, metadata: {name: a}, spec: {size: 1}}, warnings: []}
- {name: e, object: {apiVersion: v1, kind: ConfigMap, metadata: {name: a}}, warnings: []}
`

func TestReport(t *testing.T) {
	r := report(t, cases)
	var b bytes.Buffer
	if err := r.Write(&b, "summary"); err != nil {
		t.Fatal(err)
	}
	const want = `coverage: 58.8 % (10 of 17 goals)

widgets.example.com v1 (crd): 58.8 %, 3 objects
  rules accept and refuse      100.0 %  2 of 2
  parts of rules                66.7 %  4 of 6
  bounds                        50.0 %  1 of 2
  enum values                    0.0 %  0 of 3
  defaults                     100.0 %  1 of 1
  fields                        66.7 %  2 of 3
  not reached:
    crd:19:15  spec.</pre><script>alert(1)</script> is set
    crd:19:65  spec.</pre><script>alert(1)</script> is another value
    crd:19:72  spec.</pre><script>alert(1)</script> is "]]>"
    crd:19:79  spec.</pre><script>alert(1)</script> is "\"><img src=x onerror=alert(1)>"
    crd:20:37  spec.size is less than 1
    crd:25:19  in the rule on spec, a part is false: self.size < 9
    crd:25:19  in the rule on spec, a part decides about the result: self.size < 9

widgets.example.com v2 (crd): no case uses this version, which does not count
`
	if b.String() != want {
		t.Errorf("got %s\nwant %s", b.String(), want)
	}
}

// TestMarkup parses the page and the XML: texts of the definition must be texts there.
func TestMarkup(t *testing.T) {
	r := report(t, cases)
	var b bytes.Buffer
	if err := r.Write(&b, "html"); err != nil {
		t.Fatal(err)
	}
	root, err := html.Parse(&b)
	if err != nil {
		t.Fatal(err)
	}
	known := []string{"b", "body", "details", "em", "h1", "h2", "head", "html", "i", "meta", "p", "pre", "span", "style", "summary", "table", "tbody", "td", "title", "tr"}
	texts := ""
	for n := range root.Descendants() {
		if n.Type == html.ElementNode && !slices.Contains(known, n.Data) {
			t.Errorf("element %s", n.Data)
		}
		for _, a := range n.Attr {
			if strings.HasPrefix(a.Key, "on") || a.Key == "src" || a.Key == "href" {
				t.Errorf("attribute %s", a.Key)
			}
		}
		if n.Type == html.TextNode {
			texts += n.Data
		}
	}
	for _, want := range []string{"</span><script>alert(2)</script>", "a part is false: self.size < 9", `"</pre><script>alert(1)</script>": {`} {
		if !strings.Contains(texts, want) {
			t.Errorf("the page does not show %s", want)
		}
	}
}

// TestCobertura checks the XML by the document type coverage-04: the children and the attributes of
// each element.
func TestCobertura(t *testing.T) {
	r := report(t, cases)
	var b bytes.Buffer
	if err := r.Write(&b, "cobertura"); err != nil {
		t.Fatal(err)
	}
	children := map[string]string{"": "coverage", "coverage": "sources packages", "sources": "source", "source": "", "packages": "package", "package": "classes",
		"classes": "class", "class": "methods lines", "methods": "method", "lines": "line", "line": ""}
	rates := []string{"line-rate", "branch-rate", "complexity"}
	attributes := map[string][]string{"coverage": append(slices.Clone(rates), "lines-covered", "lines-valid", "branches-covered", "branches-valid", "version", "timestamp"),
		"package": append(slices.Clone(rates), "name"), "class": append(slices.Clone(rates), "name", "filename"), "line": {"number", "hits"}}
	optional := map[string][]string{"line": {"branch", "condition-coverage"}}
	d := xml.NewDecoder(&b)
	open := []string{""}
	seen := map[string]int{}
	for {
		token, err := d.Token()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		switch e := token.(type) {
		case xml.StartElement:
			name, above := e.Name.Local, open[len(open)-1]
			if !slices.Contains(strings.Fields(children[above]), name) {
				t.Errorf("%s in %s", name, above)
			}
			has := map[string]bool{}
			for _, a := range e.Attr {
				has[a.Name.Local] = true
				if !slices.Contains(attributes[name], a.Name.Local) && !slices.Contains(optional[name], a.Name.Local) {
					t.Errorf("%s has %s", name, a.Name.Local)
				}
			}
			for _, a := range attributes[name] {
				if !has[a] {
					t.Errorf("%s has no %s", name, a)
				}
			}
			seen[name]++
			open = append(open, name)
		case xml.EndElement:
			open = open[:len(open)-1]
		}
	}
	want := map[string]int{"coverage": 1, "sources": 1, "source": 1, "packages": 1, "package": 1, "classes": 1, "class": 1, "methods": 1, "lines": 1, "line": 6}
	if !maps.Equal(seen, want) {
		t.Errorf("got %v, want %v", seen, want)
	}
}

func TestLCOV(t *testing.T) {
	r := report(t, cases)
	var b bytes.Buffer
	if err := r.Write(&b, "lcov"); err != nil {
		t.Fatal(err)
	}
	branches, taken, lines := 0, 0, 0
	var number, block, branch, hits, found, hit int
	for _, l := range strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n") {
		switch {
		case strings.HasPrefix(l, "BRDA:"):
			if _, err := fmt.Sscanf(l, "BRDA:%d,%d,%d,%d", &number, &block, &branch, &hits); err != nil {
				t.Error(l, err)
			}
			branches, taken = branches+1, taken+hits
		case strings.HasPrefix(l, "DA:"):
			lines++
		case strings.HasPrefix(l, "BRF:"):
			_, _ = fmt.Sscanf(l, "BRF:%d", &found)
		case strings.HasPrefix(l, "BRH:"):
			_, _ = fmt.Sscanf(l, "BRH:%d", &hit)
		}
	}
	if branches != 17 || taken != 10 || found != branches || hit != taken || lines != 6 {
		t.Errorf("got %d branches, %d taken, BRF %d, BRH %d, %d lines:\n%s", branches, taken, found, hit, lines, b.String())
	}
}

func TestListing(t *testing.T) {
	r := report(t, cases)
	var b bytes.Buffer
	if err := r.Write(&b, "listing"); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"   20     3/4 |               size: {type: integer, minimum: 1, default: 3}\n              |   ! spec.size is less than 1\n", "   25     1/3 |                   self.size < 9"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in %s", want, b.String())
		}
	}
	if err := r.Write(io.Discard, "pdf"); err == nil {
		t.Error("an unknown format: got no error")
	}
}
