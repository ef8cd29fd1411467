package metrics

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"math"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// This file reads upstream's metrics out of its source: not all of them show before something happens that they count.

// metric is what is registered under a name.
type metric struct {
	kind    string // "counter", "gauge", "histogram", "summary"
	help    string // with the prefix that says how stable it is
	labels  []string
	buckets []float64 // of a histogram; nil if the source does not say it in a way that is understood here
}

// dirOf is where a module's source is. One with a version need not be among those that this module is built of.
func dirOf(t *testing.T, module string) string {
	t.Helper()
	args := []string{"list", "-m", "-json", module}
	if strings.Contains(module, "@") {
		args = []string{"mod", "download", "-json", module}
	}
	out, err := exec.Command("go", args...).Output()
	if err != nil {
		t.Fatalf("go %s: %v %s", strings.Join(args, " "), err, out)
	}
	var m struct{ Dir string }
	if err := json.Unmarshal(out, &m); err != nil {
		t.Fatal(err)
	}
	return m.Dir
}

// source is upstream's source: constants by package and name.
type source struct {
	consts map[string]map[string]ast.Expr
	found  map[string]metric
}

// readUpstream reads the metrics of modules, "<module>[@<version>]", or with " <folder>" only what is in it.
func readUpstream(t *testing.T, modules ...string) map[string]metric {
	t.Helper()
	s := &source{consts: map[string]map[string]ast.Expr{}, found: map[string]metric{}}
	files := map[string][]*ast.File{}
	for _, m := range modules {
		module, below, _ := strings.Cut(m, " ")
		root := dirOf(t, module)
		err := filepath.WalkDir(filepath.Join(root, below), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			rel, err := filepath.Rel(root, filepath.Dir(path))
			name, _, _ := strings.Cut(module, "@")
			pkg := name + "/" + filepath.ToSlash(rel)
			files[pkg] = append(files[pkg], f)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for pkg, all := range files {
		s.consts[pkg] = map[string]ast.Expr{}
		for _, f := range all {
			s.note(pkg, f)
		}
	}
	for pkg, all := range files {
		for _, f := range all {
			at := &place{s, pkg, importsOf(f)}
			ast.Inspect(f, func(n ast.Node) bool {
				if call, ok := n.(*ast.CallExpr); ok {
					at.call(call)
				}
				return true
			})
		}
	}
	return s.found
}

// note notes the constants and variables of a file.
func (s *source) note(pkg string, f *ast.File) {
	for _, d := range f.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.CONST && g.Tok != token.VAR {
			continue
		}
		for _, spec := range g.Specs {
			v := spec.(*ast.ValueSpec)
			for i, name := range v.Names {
				if i < len(v.Values) {
					s.consts[pkg][name.Name] = v.Values[i]
				}
			}
		}
	}
}

// importsOf are the packages that a file imports, by their names there.
func importsOf(f *ast.File) map[string]string {
	by := map[string]string{}
	for _, i := range f.Imports {
		path, _ := strconv.Unquote(i.Path.Value)
		name := path[strings.LastIndex(path, "/")+1:]
		if i.Name != nil {
			name = i.Name.Name
		}
		by[name] = path
	}
	return by
}

// place is where an expression stands.
type place struct {
	*source
	pkg     string
	imports map[string]string
}

var constructors = map[string]string{
	"NewCounter": "counter", "NewCounterVec": "counter", "NewGauge": "gauge", "NewGaugeVec": "gauge",
	"NewHistogram": "histogram", "NewHistogramVec": "histogram", "NewSummary": "summary", "NewSummaryVec": "summary",
	"NewTimingRatioHistogramVec": "histogram", // of flow control: labels are arguments
}

// call notes the metric that a call makes.
func (p *place) call(call *ast.CallExpr) {
	name := ""
	switch f := call.Fun.(type) {
	case *ast.SelectorExpr:
		name = f.Sel.Name
	case *ast.Ident:
		name = f.Name
	}
	if name == "NewDesc" && len(call.Args) == 6 {
		p.desc(call.Args)
		return
	}
	kind := constructors[name]
	if kind == "" || len(call.Args) == 0 {
		return
	}
	ptr, ok := call.Args[0].(*ast.UnaryExpr)
	if !ok {
		return
	}
	opts, ok := ptr.X.(*ast.CompositeLit)
	if !ok {
		return
	}
	m := metric{kind: kind, buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}}
	fields := map[string]string{"StabilityLevel": "ALPHA"}
	for _, e := range opts.Elts {
		kv, ok := e.(*ast.KeyValueExpr)
		if !ok {
			return
		}
		switch key := kv.Key.(*ast.Ident).Name; key {
		case "StabilityLevel":
			fields[key] = kv.Value.(*ast.SelectorExpr).Sel.Name
		case "Buckets":
			m.buckets = p.floats(kv.Value)
		default:
			if fields[key], ok = p.text(kv.Value); !ok && key == "Help" {
				return
			}
		}
	}
	if fields["Name"] == "" {
		return
	}
	if len(call.Args) > 1 {
		m.labels = p.texts(call.Args[1])
	}
	if name == "NewTimingRatioHistogramVec" {
		m.labels = nil
		for _, a := range call.Args[1:] {
			label, _ := p.text(a)
			m.labels = append(m.labels, label)
		}
	}
	m.help = "[" + fields["StabilityLevel"] + "] " + fields["Help"]
	full := fields["Name"]
	for _, part := range []string{fields["Subsystem"], fields["Namespace"]} {
		if part != "" {
			full = part + "_" + full
		}
	}
	p.found[full] = m
}

// desc notes a metric that is described: name, help, labels, constant labels, stability, version of its deprecation.
func (p *place) desc(args []ast.Expr) {
	m := metric{}
	stability, ok := args[4].(*ast.SelectorExpr)
	if !ok {
		return
	}
	name, ok := p.text(args[0])
	if build, is := args[0].(*ast.CallExpr); is && len(build.Args) == 3 {
		var parts []string
		for _, a := range build.Args {
			part, _ := p.text(a)
			parts = append(parts, part)
		}
		name, ok = strings.Join(parts, "_"), true
	}
	help, known := p.text(args[1])
	if !ok || !known {
		return
	}
	m.help, m.labels = "["+stability.Sel.Name+"] "+help, p.texts(args[2])
	p.found[name] = m
}

// text is what a string expression says.
func (p *place) text(e ast.Expr) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		s, err := strconv.Unquote(e.Value)
		return s, err == nil
	case *ast.Ident:
		if v := p.consts[p.pkg][e.Name]; v != nil {
			return p.text(v)
		}
	case *ast.SelectorExpr:
		if x, ok := e.X.(*ast.Ident); ok {
			if v := p.consts[p.imports[x.Name]][e.Sel.Name]; v != nil {
				return (&place{p.source, p.imports[x.Name], nil}).text(v)
			}
		}
	case *ast.BinaryExpr:
		a, ok := p.text(e.X)
		b, also := p.text(e.Y)
		return a + b, ok && also
	case *ast.ParenExpr:
		return p.text(e.X)
	}
	return "", false
}

// texts are the strings of a slice.
func (p *place) texts(e ast.Expr) []string {
	c, ok := e.(*ast.CompositeLit)
	if !ok {
		return nil
	}
	var list []string
	for _, item := range c.Elts {
		s, _ := p.text(item)
		list = append(list, s)
	}
	return list
}

// number is a constant number.
func number(e ast.Expr) float64 {
	if l, ok := e.(*ast.BasicLit); ok {
		if n, err := strconv.ParseFloat(l.Value, 64); err == nil {
			return n
		}
	}
	return math.NaN()
}

// floats are the numbers of a slice, or of one that is computed in a usual way; nil if there is anything else.
func (p *place) floats(e ast.Expr) []float64 {
	var list []float64
	switch e := e.(type) {
	case *ast.Ident:
		if v := p.consts[p.pkg][e.Name]; v != nil {
			return p.floats(v)
		}
	case *ast.CompositeLit:
		for _, item := range e.Elts {
			list = append(list, number(item))
		}
	case *ast.CallExpr:
		f, ok := e.Fun.(*ast.SelectorExpr)
		if !ok || len(e.Args) != 3 {
			return nil
		}
		start, by, n := number(e.Args[0]), number(e.Args[1]), int(number(e.Args[2]))
		for i := range max(n, 0) {
			switch f.Sel.Name {
			case "ExponentialBuckets":
				list = append(list, start*math.Pow(by, float64(i)))
			case "LinearBuckets":
				list = append(list, start+by*float64(i))
			}
		}
	case *ast.SelectorExpr:
		if e.Sel.Name == "DefBuckets" {
			return []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}
		}
	}
	for _, n := range list {
		if math.IsNaN(n) {
			return nil
		}
	}
	return list
}
