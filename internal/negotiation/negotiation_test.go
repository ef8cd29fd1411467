package negotiation

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http/httptest"
	"testing"
)

func TestMatches(t *testing.T) {
	for header, want := range map[string]string{
		"application/json;q=0.1, application/yaml;q=0.9": YAML,
		"*/*;q=0.1, application/vnd.kubernetes.protobuf": Protobuf,
		"application/*":        JSON,
		"*":                    JSON,
		"application/json;q=0": JSON, // the last choice, but one
		"application/json;q=0, application/yaml;q=0.1": YAML,
		"APPLICATION/JSON":                                   "",
		"text/html, application":                             "",
		"application/json;stream=watch":                      JSON,
		"application/json;stream=x, application/yaml;stream": YAML,
		"application/yaml;stream=watch":                      "",
		"application/json;sv=v1":                             JSON,
		"application/json;sv=v2":                             "",
	} {
		got := ""
		for _, c := range Clauses(header) {
			if got = c.Matches("v1"); got != "" {
				break
			}
		}
		if got != want {
			t.Errorf("%q: got %q, want %q", header, got, want)
		}
	}
	c := Clauses("application/json;as=Table;g=meta.k8s.io;v=v1")[0]
	if kind, group, version := c.Transform(); kind != "Table" || group != "meta.k8s.io" || version != "v1" {
		t.Errorf("got %s.%s of %s", kind, version, group)
	}
}

func TestWantsPretty(t *testing.T) {
	for _, test := range []struct {
		query, agent string
		want         bool
	}{
		{"", "x", false}, {"", "curl/8", true}, {"", "Wget/1", true}, {"", "Mozilla/5.0 x", true}, {"", "Mozilla/4.0", false},
		{"?pretty=1", "x", true}, {"?pretty=T", "x", true}, {"?pretty", "x", false}, {"?pretty", "curl/8", true},
		{"?pretty=false", "curl/8", false}, {"?pretty=yes", "curl/8", false}, {"?a=pretty", "x", false},
	} {
		r := httptest.NewRequest("GET", "/"+test.query, nil)
		r.Header.Set("User-Agent", test.agent)
		if got := WantsPretty(r); got != test.want {
			t.Errorf("%q for %q: got %t", test.query, test.agent, got)
		}
	}
}

func TestAcceptsGzip(t *testing.T) {
	for header, want := range map[string]bool{
		"": false, "gzip": true, "deflate, gzip , br": true, "gzip;q=0": false, "gzip;q=0.5": false, "x-gzip": false, "GZIP": false, "*": false, "identity": false,
	} {
		r := httptest.NewRequest("GET", "/", nil)
		r.Header.Set("Accept-Encoding", header)
		if got := AcceptsGzip(r); got != want {
			t.Errorf("%q: got %t", header, got)
		}
	}
	for range 2 { // the second time with the same writer
		var out bytes.Buffer
		Gzip(&out, func(w io.Writer) { io.WriteString(w, "text") })
		z, err := gzip.NewReader(&out)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(z); err != nil || string(got) != "text" {
			t.Errorf("got %q, %v", got, err)
		}
	}
}

func FuzzClauses(f *testing.F) {
	for _, a := range []string{"application/json", "application/yaml;q=0.5, */*", "a/b;c=d;q=x,,;", `application/json;as=Table;v="v1";g=meta.k8s.io`} {
		f.Add(a)
	}
	f.Fuzz(func(t *testing.T, header string) {
		for _, c := range Clauses(header) {
			if media := c.Matches("v1"); media != "" && media != JSON && media != YAML && media != Protobuf {
				t.Errorf("%q: clause %+v is answered with %q", header, c, media)
			}
		}
	})
}
