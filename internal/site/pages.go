package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
)

// This file turns the pages of docs/ into pages of the site.

// source is where files that are not pages of the site can be read.
const source = "https://github.com/keelson-io/keelson/blob/main/"

// group is a part of the menu.
type group struct {
	Title string  `json:"title"`
	Pages []entry `json:"pages"`
}

// entry is a page in the menu. Path is that of its file, without .md, below docs/ or among the
// generated ones.
type entry struct {
	Path  string `json:"path"`
	Title string `json:"title"`
}

// menu returns the pages of docs/ in the order of the menu. Pages that are generated are added by
// build.
func menu() []group {
	return []group{
		{"Start", []entry{{"start/install", "Install"}, {"start/control-plane", "A control plane"}, {"start/operator-tests", "Operator tests"},
			{"start/manifests", "Manifests in CI"}, {"start/first-rule", "Your first CEL rule"}, {"start/authorization", "Reviewing authorization"},
			{"start/embed", "In a Go program"}, {"tour", "A longer tour"}}},
		{"Guides", []entry{{"operations", "Running Keelson"}, {"ci", "Manifests in CI: all settings"}, {"lint", "Checking definitions (lint)"}, {"cel", "CEL and its costs"}, {"testing", "Testing definitions (test)"},
			{"releases", "Which clusters take my CRD"}, {"witness", "What rules accept"}, {"explain", "Explain a refusal"}, {"sql", "CEL as SQL"},
			{"conversion", "Conversion"},
			{"gotests", "A server in Go tests"}, {"examples", "Examples"}, {"packages", "Release packages"}}},
		{"Understand", []entry{{"concepts", "Concepts and terms"}, {"comparison", "How it compares"}, {"found", "What it found"}, {"api", "Stability and versions"},
			{"benchmarks", "Measurements"}, {"charts", "Charts"}}},
		{"Reference", []entry{{"compat", "Differences from Kubernetes"}, {"limits", "Limits"}, {"security", "Security"}, {"metrics", "Metrics"}, {"configuration", "Configuration files"}, {"functions", "CEL functions"},
			{"exit-codes", "Exit codes"}, {"json", "JSON documents"}, {"findings", "IDs of findings"}}},
		{"For maintainers", []entry{{"architecture", "Architecture"}, {"extending", "Where new things go"}, {"glossary", "Glossary"}, {"conformance", "Conformance"}, {"fastpaths", "Fast paths"}, {"longruns", "Long runs"}}},
	}
}

// unlisted are pages of docs/ that are not in the menu.
var unlisted = map[string]bool{"README": true}

// build writes what Hugo reads: the pages below content, the menu below data, pictures below static,
// and the layouts of site/.
func build(root, out string) error {
	if err := os.RemoveAll(out); err != nil {
		return err
	}
	if err := os.CopyFS(out, os.DirFS(filepath.Join(root, "site"))); err != nil {
		return err
	}
	groups := menu()
	written, err := generate(root, out, groups)
	if err != nil {
		return err
	}
	home, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		return err
	}
	known, err := docs(root)
	if err != nil {
		return err
	}
	for p := range written {
		known[p] = true
	}
	examples, err := filepath.Glob(filepath.Join(root, "examples", "*", "*", "README.md"))
	if err != nil {
		return err
	}
	for i, e := range examples {
		if examples[i], err = filepath.Rel(root, filepath.Dir(e)); err != nil {
			return err
		}
		known[filepath.ToSlash(examples[i])] = true
	}
	for _, e := range examples {
		text, err := os.ReadFile(filepath.Join(root, e, "README.md"))
		if err != nil {
			return err
		}
		p := filepath.ToSlash(e)
		if err := writePage(out, p, convert(string(text), p, known)); err != nil {
			return err
		}
		written[p] = true
	}
	if err := writePage(out, "_index", convert(string(home), ".", known)); err != nil {
		return err
	}
	for p := range known {
		if written[p] {
			continue
		}
		text, err := os.ReadFile(filepath.Join(root, "docs", p+".md"))
		if err != nil {
			return err
		}
		if err := writePage(out, p, convert(string(text), path.Dir("docs/"+p), known)); err != nil {
			return err
		}
	}
	return copyPictures(filepath.Join(root, "docs"), filepath.Join(out, "static"))
}

// generate writes the pages that come from the code, adds them to the menu, and returns their paths.
func generate(root, out string, groups []group) (map[string]bool, error) {
	written := map[string]bool{}
	commands, err := commandPages()
	if err != nil {
		return nil, err
	}
	for _, c := range commands {
		written[c.path] = true
		groups[3].Pages = append(groups[3].Pages, entry{c.path, c.title})
		if err := writePage(out, c.path, c.text); err != nil {
			return nil, err
		}
	}
	for p, make := range map[string]func() (string, error){
		"metrics": metricsPage, "exit-codes": exitCodesPage, "functions": functionsPage,
		"charts":        func() (string, error) { return chartsPage(root, filepath.Join(out, "static")) },
		"json":          func() (string, error) { return formsPage(root) },
		"configuration": func() (string, error) { return configurationPage(root) },
		"findings":      func() (string, error) { return findingsPage(root) },
	} {
		text, err := make()
		if err != nil {
			return nil, err
		}
		written[p] = true
		if err := writePage(out, p, text); err != nil {
			return nil, err
		}
	}
	text, err := json.MarshalIndent(groups, "", "  ")
	if err != nil {
		return nil, err
	}
	return written, writeFile(filepath.Join(out, "data", "menu.json"), text)
}

// docs returns the paths of the pages below docs/.
func docs(root string) (map[string]bool, error) {
	known := map[string]bool{}
	base := os.DirFS(filepath.Join(root, "docs"))
	err := fs.WalkDir(base, ".", func(p string, e fs.DirEntry, err error) error {
		if name, ok := strings.CutSuffix(p, ".md"); ok && err == nil && !e.IsDir() {
			known[name] = true
		}
		return err
	})
	return known, err
}

// copyPictures copies the SVG files of a folder.
func copyPictures(from, to string) error {
	files, err := filepath.Glob(filepath.Join(from, "*.svg"))
	if err != nil {
		return err
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			return err
		}
		if err := writeFile(filepath.Join(to, filepath.Base(f)), text); err != nil {
			return err
		}
	}
	return nil
}

// writePage writes a page with its title, which is its first heading.
func writePage(out, p, text string) error {
	first, _, _ := strings.Cut(text, "\n")
	title, err := json.Marshal(strings.NewReplacer("`", "", "# ", "").Replace(first))
	if err != nil {
		return err
	}
	if path.Base(p) == "README" {
		p = path.Join(path.Dir(p), "all")
	}
	return writeFile(filepath.Join(out, "content", p+".md"), fmt.Appendf(nil, "---\ntitle: %s\n---\n%s", title, text))
}

func writeFile(name string, text []byte) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	return os.WriteFile(name, text, 0o644)
}

// destinations finds the destinations of links and pictures. named finds links whose text is the name of a file.
var (
	destinations = regexp.MustCompile(`\]\(([^()\s]+)\)`)
	named        = regexp.MustCompile("\\[`?(?:docs/)?([a-z-]+)\\.md`?\\]")
)

// titles returns the titles of the pages in the menu, by the names of their files.
func titles() map[string]string {
	all := map[string]string{}
	for _, g := range menu() {
		for _, e := range g.Pages {
			all[path.Base(e.Path)] = e.Title
		}
	}
	return all
}

// convert returns a page with the links of the site. dir is the page's folder in the repository.
func convert(text, dir string, known map[string]bool) string {
	var out bytes.Buffer
	shown := titles()
	fenced := false
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "```") {
			fenced = !fenced
		}
		if !fenced && !strings.HasPrefix(line, "    ") {
			line = named.ReplaceAllStringFunc(line, func(m string) string {
				if title := shown[named.FindStringSubmatch(m)[1]]; title != "" {
					return "[" + title + "]"
				}
				return m
			})
			line = destinations.ReplaceAllStringFunc(line, func(m string) string { return "](" + destination(m[2:len(m)-1], dir, known) + ")" })
		}
		out.WriteString(line)
	}
	return out.String()
}

// destination returns where a link of the repository points to in the site.
func destination(link, dir string, known map[string]bool) string {
	if strings.Contains(link, "://") || strings.HasPrefix(link, "#") || strings.HasPrefix(link, "mailto:") {
		return link
	}
	file, anchor, _ := strings.Cut(link, "#")
	file = path.Join(dir, file)
	if anchor != "" {
		anchor = "#" + anchor
	}
	page, inDocs := strings.CutPrefix(strings.TrimSuffix(file, ".md"), "docs/")
	example := strings.TrimSuffix(file, "/README.md")
	switch {
	case strings.HasPrefix(example, "examples/") && known[example]:
		return "/" + example + "/" + anchor
	case inDocs && known[page] && path.Base(page) == "README":
		return "/" + path.Join(path.Dir(page), "all") + "/" + anchor
	case inDocs && known[page]:
		return "/" + page + "/" + anchor
	case inDocs && path.Ext(file) == ".svg":
		return "/" + page
	case file == "README.md":
		return "/" + anchor
	}
	return source + file + anchor
}
