package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// This file tests the site without Hugo.

// TestMenu holds that each page of docs/ is in the menu once, and that the menu has no other pages but generated ones.
func TestMenu(t *testing.T) {
	known, err := docs("../..")
	if err != nil {
		t.Fatal(err)
	}
	generated := map[string]bool{"metrics": true, "charts": true, "exit-codes": true, "json": true, "findings": true, "configuration": true, "functions": true}
	seen := map[string]int{}
	for _, g := range menu() {
		for _, e := range g.Pages {
			seen[e.Path]++
			if !known[e.Path] && !generated[e.Path] {
				t.Errorf("the menu has %s, which is not a page", e.Path)
			}
		}
	}
	for p := range known {
		if want := 1; seen[p] != want && !unlisted[p] {
			t.Errorf("docs/%s.md is %d times in the menu, want %d", p, seen[p], want)
		}
	}
}

// TestPicturesAreCurrent holds that the pictures in docs/ show what the pages show; -pictures writes them anew.
func TestPicturesAreCurrent(t *testing.T) {
	for name, picture := range picturesOfDocs() {
		want, err := picture("../..")
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(filepath.Join("../../docs", name))
		if err != nil || string(got) != string(want) {
			t.Errorf("docs/%s is not what go run ./internal/site -pictures writes (%v)", name, err)
		}
	}
}

// TestDestinations holds where links of the repository point to in the site.
func TestDestinations(t *testing.T) {
	known := map[string]bool{"limits": true, "start/install": true, "README": true, "examples/rules/quota": true}
	for _, row := range []struct{ link, dir, want string }{
		{"limits.md", "docs", "/limits/"},
		{"limits.md#bodies", "docs", "/limits/#bodies"},
		{"../limits.md", "docs/start", "/limits/"},
		{"install.md", "docs/start", "/start/install/"},
		{"docs/README.md", ".", "/all/"},
		{"../examples/rules/quota/README.md", "docs", "/examples/rules/quota/"},
		{"../quota", "examples/rules/crontab", "/examples/rules/quota/"},
		{"crd.yaml", "examples/rules/quota", source + "examples/rules/quota/crd.yaml"},
		{"docs/terminal.svg", ".", "/terminal.svg"},
		{"../LICENSE", "docs", source + "LICENSE"},
		{"../api/route.go", "docs", source + "api/route.go"},
		{"#here", "docs", "#here"},
		{"https://example.com/a.md", "docs", "https://example.com/a.md"},
	} {
		if got := destination(row.link, row.dir, known); got != row.want {
			t.Errorf("%s in %s: got %s, want %s", row.link, row.dir, got, row.want)
		}
	}
	text := "[a](limits.md)\n```\n[a](limits.md)\n```\n    [a](limits.md)\n"
	if got, want := convert(text, "docs", known), "[a](/limits/)\n```\n[a](limits.md)\n```\n    [a](limits.md)\n"; got != want {
		t.Errorf("got %q, want %q: code stays as it is", got, want)
	}
}

// TestConvert holds that a link whose text is the name of a file has the title of its page, and that code stays as it is.
func TestConvert(t *testing.T) {
	text := "See [limits.md](limits.md) and [the costs](cel.md).\n\n```sh\n[limits.md](limits.md)\n```\n"
	want := "See [Limits](/limits/) and [the costs](/cel/).\n\n```sh\n[limits.md](limits.md)\n```\n"
	if got := convert(text, "docs", map[string]bool{"limits": true, "cel": true}); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestCheck holds that the check of a finished site finds each kind of mistake.
func TestCheck(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"index.html":   `<link rel="stylesheet" href="./s.css"><a href="a/#x">a</a><a href="./">b</a><a href="gone/">c</a><a href="https://example.com">d</a>`,
		"a/index.html": `<h2 id="x">x</h2><a href="../#none">a</a><a href="#x">b</a><script>1</script><img src="../none.svg">`,
		"b/index.html": `<img src="../large.svg"><p onclick="x()">`,
		"s.css":        "a{}",
		"large.svg":    strings.Repeat("x", maxWeight),
	} {
		if err := writeFile(filepath.Join(dir, name), []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	s, err := readSite(dir)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"a/index.html: has a script besides the search",
		"a/index.html: loads ../none.svg, which is not a file of the site",
		"a/index.html: the link ../#none points to no place in its page",
		"b/index.html: got 300041 bytes with what it loads, want at most 300000",
		"b/index.html: has a script in the attribute onclick",
		"index.html: the link gone/ points to no file",
	}
	if got := lines(s.check()); got != lines(want) {
		t.Errorf("got\n%s\nwant\n%s", got, lines(want))
	}
	if _, err := readSite(t.TempDir()); err == nil {
		t.Error("an empty folder: got no error")
	}
}

// TestReference holds that each command has a page with its options and exit codes, and that the metrics have the most important one.
func TestReference(t *testing.T) {
	pages, err := commandPages()
	if err != nil {
		t.Fatal(err)
	}
	titles := map[string]string{}
	for _, p := range pages {
		titles[p.title] = p.text
		if !strings.Contains(p.text, "\n## Exit status\n") || strings.Count(p.text, "```")%2 != 0 {
			t.Errorf("%s: got a page without exit codes, or an open block:\n%s", p.title, p.text)
		}
	}
	for _, want := range []string{"keelson serve", "keelson validate", "keelson snapshot save", "keelson authz can"} {
		if !strings.Contains(titles[want], "--") {
			t.Errorf("no page with options for %s", want)
		}
	}
	text, err := metricsPage()
	if err != nil || !strings.Contains(text, "| `apiserver_request_total` | counter |") || !strings.Contains(text, "| `keelson_memory_tight` |") {
		t.Errorf("metrics (%v): got\n%s\nwant apiserver_request_total", err, text)
	}
}

// TestFormsPages holds that the pages of exit codes, JSON documents and IDs have what the code has.
func TestFormsPages(t *testing.T) {
	codes, err := exitCodesPage()
	if err != nil {
		t.Fatal(err)
	}
	forms, err := formsPage("../..")
	if err != nil {
		t.Fatal(err)
	}
	findings, err := findingsPage("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct{ page, want string }{
		{codes, "| [keelson test](/commands/keelson-test/) | every case passed; "},
		{forms, "| `notObjects` | integer | texts that are not objects |"},
		{forms, "| `explanations` | list of Reason, can be absent |"},
		{findings, "| `RemovedAPI` | Kubernetes does not serve this version of the kind any more |"},
		{findings, "- `server/duplicate-key`\n"},
	} {
		if !strings.Contains(row.page, row.want) {
			t.Errorf("no %q in:\n%s", row.want, row.page)
		}
	}
}

// TestFunctionsPage holds that the page has each function and macro once, and that all examples are true.
func TestFunctionsPage(t *testing.T) {
	all, err := languages()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := functionsPage(); err != nil {
		t.Fatal(err)
	}
	shown := map[string]int{}
	for _, g := range functionGroups {
		for _, e := range g.examples {
			shown[e.name]++
		}
	}
	newest := all[oldest+len(all)-1]
	for _, name := range append(newest.Functions(), newest.Macros()...) {
		if want := 1; shown[name] != want && (newest.Overloads(name) != nil || slices.Contains(newest.Macros(), name)) {
			t.Errorf("%s has %d examples, want %d", name, shown[name], want)
		}
	}
}

// TestConfigurationPage holds that each field of a configuration has a meaning, and that no kind of a file is missing.
func TestConfigurationPage(t *testing.T) {
	text, err := configurationPage("../..")
	if err != nil {
		t.Fatal(err)
	}
	for row := range strings.Lines(text) {
		if strings.HasPrefix(row, "| `") && strings.HasSuffix(row, "|  |\n") {
			t.Errorf("a field without a meaning: %s", row)
		}
	}
	for _, want := range []string{"| `matchConditions` | list of WebhookMatchCondition | the webhook is asked only if all are true |", "## EncryptionConfiguration"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in:\n%s", want, text)
		}
	}
}

// TestSections holds what the search finds: each heading with the text below it, and the address of both.
func TestSections(t *testing.T) {
	page := `<body><nav><h2>Menu</h2></nav><main><h1 id="limits">Limits</h1><p>What is
<b>bounded</b>.</p><h2 id="bodies"><code>Bodies</code> of requests</h2><table><tr><td>3 MiB</td></tr></table></main></body>`
	got, err := sections("/limits/", page)
	want := []section{{"/limits/", "Limits", "Limits", "What is bounded ."}, {"/limits/#bodies", "Limits", "Bodies of requests", "3 MiB"}}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("got %+v (%v), want %+v", got, err, want)
	}
}

// TestRatiosOfTheReadme holds that README.md has the ratios of the table of measurements.
func TestRatiosOfTheReadme(t *testing.T) {
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	found, err := ratios("../..")
	if err != nil {
		t.Fatal(err)
	}
	shown := map[string]string{"create": "**%g x** the creates a second", "get": "**%g x** the gets", "memory after the first creates": "**%g x** less memory"}
	for _, r := range found {
		if form, ok := shown[r.work]; ok {
			delete(shown, r.work)
			if want := fmt.Sprintf(form, r.times); !strings.Contains(strings.ReplaceAll(string(text), "\n", " "), want) {
				t.Errorf("README.md does not say %q", want)
			}
		}
	}
	if len(shown) > 0 {
		t.Errorf("the table has no rows %v", shown)
	}
}
