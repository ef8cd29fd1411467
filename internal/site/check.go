package main

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/net/html"
)

// This file checks a finished site.

// maxWeight is how many bytes a page may have, with all that it loads.
const maxWeight = 300_000

// site is what Hugo wrote.
type site struct {
	sizes map[string]int64   // of all files, by path
	pages map[string]*parsed // of the HTML files
}

// parsed is what matters of an HTML file.
type parsed struct {
	ids   map[string]bool
	links []string // of everything that one can go to
	loads []string // of everything that a browser loads with it
	bad   []string // what must not be there
}

func readSite(dir string) (*site, error) {
	s := &site{map[string]int64{}, map[string]*parsed{}}
	root := os.DirFS(dir)
	err := fs.WalkDir(root, ".", func(p string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		text, err := fs.ReadFile(root, p)
		if err != nil {
			return err
		}
		s.sizes[p] = int64(len(text))
		if path.Ext(p) == ".html" {
			s.pages[p], err = parse(string(text))
		}
		return err
	})
	if err == nil && len(s.pages) == 0 {
		err = fmt.Errorf("%s: got no page, want a site that Hugo wrote", dir)
	}
	return s, err
}

// parse reads an HTML file.
func parse(text string) (*parsed, error) {
	root, err := html.Parse(strings.NewReader(text))
	if err != nil {
		return nil, err
	}
	p := &parsed{ids: map[string]bool{}}
	for n := range root.Descendants() {
		if n.Type != html.ElementNode {
			continue
		}
		if n.Data == "script" && path.Base(attribute(n, "src")) != "search.js" {
			p.bad = append(p.bad, "has a script besides the search")
		}
		for _, a := range n.Attr {
			switch {
			case a.Key == "id":
				p.ids[a.Val] = true
			case strings.HasPrefix(a.Key, "on"):
				p.bad = append(p.bad, "has a script in the attribute "+a.Key)
			case a.Key == "href" && n.Data == "a":
				p.links = append(p.links, a.Val)
			case a.Key == "href" && n.Data == "link", a.Key == "src":
				p.loads = append(p.loads, a.Val)
			}
		}
	}
	return p, nil
}

// attribute returns the value of an attribute, "" if there is none.
func attribute(n *html.Node, key string) string {
	for _, a := range n.Attr {
		if a.Key == key {
			return a.Val
		}
	}
	return ""
}

// check returns what is wrong with the site.
func (s *site) check() []string {
	var out []string
	for name, p := range s.pages {
		for _, b := range p.bad {
			out = append(out, name+": "+b)
		}
		for _, l := range p.links {
			if why := s.dead(name, l); why != "" {
				out = append(out, fmt.Sprintf("%s: the link %s %s", name, l, why))
			}
		}
		if w := s.weight(name); w > maxWeight {
			out = append(out, fmt.Sprintf("%s: got %d bytes with what it loads, want at most %d", name, w, maxWeight))
		}
		for _, l := range p.loads {
			if file, _ := s.resolve(name, l); s.sizes[file] == 0 {
				out = append(out, fmt.Sprintf("%s: loads %s, which is not a file of the site", name, l))
			}
		}
	}
	slices.Sort(out)
	return out
}

// dead returns why a link points nowhere, or nothing.
func (s *site) dead(from, link string) string {
	if strings.HasPrefix(link, "https://") || strings.HasPrefix(link, "mailto:") {
		return ""
	}
	file, anchor := s.resolve(from, link)
	p := s.pages[file]
	switch {
	case s.sizes[file] == 0:
		return "points to no file"
	case anchor != "" && (p == nil || !p.ids[anchor]):
		return "points to no place in its page"
	}
	return ""
}

// resolve returns the file and the anchor that a relative link points to.
func (s *site) resolve(from, link string) (file, anchor string) {
	link, anchor, _ = strings.Cut(link, "#")
	if link == "" {
		return from, anchor
	}
	file = path.Join(path.Dir(from), link)
	if e := path.Ext(file); e == "" || file == "." {
		file = path.Join(file, "index.html")
	}
	return file, anchor
}

// weight returns the bytes of a page with all that it loads.
func (s *site) weight(name string) int64 {
	w := s.sizes[name]
	for _, l := range s.pages[name].loads {
		file, _ := s.resolve(name, l)
		w += s.sizes[file]
	}
	return w
}

// summary returns the number of pages and the largest one.
func (s *site) summary() string {
	largest := ""
	for name := range s.pages {
		if largest == "" || s.weight(name) > s.weight(largest) {
			largest = name
		}
	}
	return fmt.Sprintf("%d pages, no dead link, the largest is %s with %d KB", len(s.pages), largest, s.weight(largest)/1000)
}

// lines returns the complaints, one on each line.
func lines(complaints []string) string { return "  " + strings.Join(complaints, "\n  ") }
