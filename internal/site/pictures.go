package main

import (
	"fmt"
	"html"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// This file draws the pictures: a terminal, and charts of the measurements.

// picturesOfDocs returns the functions that draw the pictures that are kept in docs/, by file name.
func picturesOfDocs() map[string]func(root string) ([]byte, error) {
	return map[string]func(string) ([]byte, error){
		"terminal.svg": terminal, "write.svg": write, "read.svg": read, "decision.svg": decision, "fields.svg": fields, "cost.svg": cost,
	}
}

// style has the colours of the pictures. They follow the reader's light or dark setting.
const style = `<style>.b{fill:#f6f8fa}.l{fill:#d0d7de}.t{fill:#1f2328}.m{fill:#59636e}.a{fill:#0b6b74}.r{fill:#b42318}.s{stroke:#59636e;fill:none}
@media (prefers-color-scheme:dark){.b{fill:#151b23}.l{fill:#3d444d}.t{fill:#e6edf3}.m{fill:#9198a1}.a{fill:#4cc2cc}.r{fill:#ff8a80}.s{stroke:#9198a1}}
text{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;white-space:pre}</style>`

// terminal draws what three commands of the quick starts print, as the pages show it.
func terminal(root string) ([]byte, error) {
	var shown []string
	for _, wanted := range []struct{ page, command string }{
		{"first-rule", "keelson lint widgets.yaml"}, {"manifests", "keelson validate ."}, {"control-plane", "kubectl patch widget first --type=merge"},
	} {
		text, err := os.ReadFile(filepath.Join(root, "docs", "start", wanted.page+".md"))
		if err != nil {
			return nil, err
		}
		_, after, ok := strings.Cut(string(text), "\n$ "+wanted.command)
		if !ok {
			return nil, fmt.Errorf("docs/start/%s.md: got no command %q", wanted.page, wanted.command)
		}
		block, _, _ := strings.Cut(after, "\n```")
		block, _, _ = strings.Cut(block, "\n$ ")
		shown = append(shown, "$ "+wanted.command+block, "")
	}
	text := strings.Split(strings.TrimSpace(strings.Join(shown, "\n")), "\n")
	const height, width = 20, 8.45
	longest := 0
	for _, l := range text {
		longest = max(longest, len([]rune(l)))
	}
	var b strings.Builder
	w, h := int(float64(longest)*width)+40, len(text)*height+60
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" role="img" aria-label="A terminal">%s`, w, h, style)
	fmt.Fprintf(&b, `<rect class="b" width="%d" height="%d" rx="8"/><circle class="l" cx="20" cy="18" r="6"/><circle class="l" cx="40" cy="18" r="6"/><circle class="l" cx="60" cy="18" r="6"/>`, w, h)
	for i, l := range text {
		class := "m"
		switch {
		case strings.HasPrefix(l, "$ "):
			class = "t"
		case strings.Contains(l, "invalid") || strings.Contains(l, "error"):
			class = "r"
		}
		fmt.Fprintf(&b, "\n"+`<text class="%s" x="20" y="%d">%s</text>`, class, 52+i*height, html.EscapeString(l))
	}
	return []byte(b.String() + "\n</svg>\n"), nil
}

// ratio is a row of the table of measurements.
type ratio struct {
	work, upstream, keelson string
	times                   float64
}

// rows finds the rows of the table beside upstream's server.
var rows = regexp.MustCompile(`(?m)^\| ([^|]+) \| ([^|]+) \| ([^|]+) \| \*\*([0-9.]+) x\*\* \|`)

// ratios reads the first table of docs/benchmarks.md.
func ratios(root string) ([]ratio, error) {
	text, err := os.ReadFile(filepath.Join(root, "docs", "benchmarks.md"))
	if err != nil {
		return nil, err
	}
	_, table, ok := strings.Cut(string(text), "<!-- table:begin -->")
	table, _, ended := strings.Cut(table, "<!-- table:end -->")
	if !ok || !ended {
		return nil, fmt.Errorf("docs/benchmarks.md: got no table between its marks")
	}
	var out []ratio
	for _, m := range rows.FindAllStringSubmatch(table, -1) {
		times, err := strconv.ParseFloat(m[4], 64)
		if err != nil {
			return nil, err
		}
		out = append(out, ratio{m[1], m[2], m[3], times})
	}
	if len(out) < 5 {
		return nil, fmt.Errorf("docs/benchmarks.md: got %d rows with a ratio, want at least 5", len(out))
	}
	return out, nil
}

// chartsPage writes the chart of the measurements, and returns the page that shows it.
func chartsPage(root, static string) (string, error) {
	found, err := ratios(root)
	if err != nil {
		return "", err
	}
	most := 0.0
	for _, r := range found {
		most = max(most, r.times)
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 860 %d" role="img" aria-label="How many times faster or smaller than upstream">%s`, len(found)*34+10, style)
	for i, r := range found {
		y := 6 + i*34
		w := int(r.times / most * 300)
		fmt.Fprintf(&b, "\n"+`<text class="t" x="260" y="%d" text-anchor="end">%s</text><rect class="a" x="270" y="%d" width="%d" height="22" rx="3"/><text class="t" x="%d" y="%d">%g x</text><text class="m" x="%d" y="%d">%s, %s</text>`,
			y+16, html.EscapeString(r.work), y, w, 278+w, y+16, r.times, 340+w, y+16, html.EscapeString(r.upstream), html.EscapeString(r.keelson))
	}
	if err := writeFile(filepath.Join(static, "ratios.svg"), []byte(b.String()+"\n</svg>\n")); err != nil {
		return "", err
	}
	return "# Charts\n\nDrawn from the table in [Measurements](/benchmarks/), which says what the rows mean, on which machine and when they were measured, and how to\n" +
		"repeat them. A bar shows how many times faster, or smaller, Keelson is than upstream's API server; behind it are the figures of upstream and of Keelson.\n\n" +
		"![Bars for each row of the table](/ratios.svg)\n", nil
}
