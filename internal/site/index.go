package main

import (
	"encoding/json"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/net/html"
)

// This file writes the index of the search: the sections of all pages.

// section is a heading of a page with what follows it. site/static/search.js reads these fields.
type section struct {
	URL     string `json:"url"` // from the root of the site, with the heading's anchor
	Page    string `json:"page"`
	Heading string `json:"heading"`
	Text    string `json:"text"`
}

// writeIndex writes search.json into a finished site.
func writeIndex(dir string) error {
	var all []section
	err := fs.WalkDir(os.DirFS(dir), ".", func(p string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || path.Ext(p) != ".html" {
			return err
		}
		text, err := os.ReadFile(filepath.Join(dir, p))
		if err != nil {
			return err
		}
		found, err := sections(strings.TrimSuffix("/"+p, "index.html"), string(text))
		all = append(all, found...)
		return err
	})
	if err != nil {
		return err
	}
	text, err := json.Marshal(all)
	if err != nil {
		return err
	}
	return writeFile(filepath.Join(dir, "search.json"), text)
}

// sections returns the sections of a page. url is the page's.
func sections(url, text string) ([]section, error) {
	root, err := html.Parse(strings.NewReader(text))
	if err != nil {
		return nil, err
	}
	var out []section
	var walk func(n *html.Node)
	walk = func(n *html.Node) {
		switch {
		case n.Type == html.TextNode && len(out) > 0:
			out[len(out)-1].Text += n.Data + " "
			return
		case n.Type == html.ElementNode && slices.Contains([]string{"h1", "h2", "h3"}, n.Data):
			s := section{URL: url, Heading: words(content(n))}
			if id := attribute(n, "id"); len(out) > 0 && id != "" {
				s.URL += "#" + id
			}
			out = append(out, s)
			return
		}
		for c := range n.ChildNodes() {
			walk(c)
		}
	}
	for n := range root.Descendants() {
		if n.Type == html.ElementNode && n.Data == "main" {
			walk(n)
		}
	}
	for i := range out {
		out[i].Page, out[i].Text = out[0].Heading, words(out[i].Text)
	}
	return out, nil
}

// content returns the text of an element.
func content(n *html.Node) string {
	var b strings.Builder
	for d := range n.Descendants() {
		if d.Type == html.TextNode {
			b.WriteString(d.Data)
		}
	}
	return b.String()
}

// words returns a text with single spaces.
func words(s string) string { return strings.Join(strings.Fields(s), " ") }
