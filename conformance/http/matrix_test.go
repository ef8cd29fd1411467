package http

import (
	"fmt"
	"math/rand/v2"
	"net/url"
	"testing"
)

// This file generates requests: parameters, media types and bodies in all
// combinations, of which the short test takes a sample.

// sample is how many of the combinations the short test sends.
const sample = 150

// matrix sends the combinations.
func (r *run) matrix() {
	all := append(reads(), writes()...)
	if testing.Short() {
		random := rand.New(rand.NewPCG(1, 2))
		random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		all = all[:sample]
	}
	for i := range all {
		all[i].script, all[i].line = "matrix", i
		r.step(&all[i])
	}
}

// reads are lists in every form with every pair of parameters that may
// contradict each other.
func reads() []request {
	accepts := []string{"application/json", "application/yaml", "$TABLE", "$PARTIALLIST", "text/html"}
	selectors := []url.Values{
		{}, {"labelSelector": {"a in (b)"}}, {"fieldSelector": {"spec.color=green"}}, {"fieldSelector": {"spec.bogus=1"}},
		{"labelSelector": {"!!"}}, {"fieldSelector": {"metadata.name=a"}, "labelSelector": {"!a"}},
	}
	windows := []url.Values{
		{}, {"limit": {"1"}}, {"resourceVersion": {"0"}}, {"resourceVersion": {"0"}, "limit": {"1"}}, {"resourceVersion": {"x"}},
		{"resourceVersionMatch": {"Exact"}}, {"resourceVersion": {"0"}, "resourceVersionMatch": {"NotOlderThan"}},
		{"continue": {"x"}}, {"continue": {"x"}, "resourceVersionMatch": {"Exact"}}, {"limit": {"x"}},
	}
	paths := []string{
		"/apis/demo.io/v1/namespaces/default/widgets", "/apis/demo.io/v1/widgets", "/apis/demo.io/v1beta1/namespaces/default/widgets",
		"/apis/demo.io/v1/gadgets", "/apis/demo.io/v1/namespaces/empty/widgets",
	}
	var out []request
	for _, path := range paths {
		for _, accept := range accepts {
			for _, s := range selectors {
				for _, w := range windows {
					query := url.Values{}
					for _, part := range []url.Values{s, w} {
						for k, v := range part {
							query[k] = v
						}
					}
					out = append(out, request{method: "GET", path: path + "?" + query.Encode(), header: [][2]string{{"Accept", macros.Replace(accept)}}})
				}
			}
		}
	}
	return out
}

// writes are dry runs of creations and patches, so that they do not depend on
// each other.
func writes() []request {
	specs := []string{
		`{}`, `{"color":"pink"}`, `{"bogus":1}`, `{"color":"red","color":"blue"}`, `{"replicas":"1"}`, `{"replicas":101}`, `null`, `[]`,
		`{"tags":["a","a"]}`, `{"ports":[{"name":"a"},{"name":"a"}],"serial":"A"}`, `{"quantity":[]}`, `{"template":{"kind":1}}`,
	}
	metas := []string{
		`{"name":"m"}`, `{"name":"a"}`, `{"name":"M"}`, `{"name":"m","labels":{"a":"-"}}`, `{"name":"m","labels":1}`, `{"name":"m","namespace":"x"}`, `{}`,
	}
	var out []request
	for _, validation := range []string{"Ignore", "Warn", "Strict"} {
		for _, meta := range metas {
			for _, spec := range specs {
				body := fmt.Sprintf(`{%s,"metadata":%s,"spec":%s}`, macros.Replace("$WHEAD"), meta, spec)
				query := "?dryRun=All&fieldValidation=" + validation
				out = append(out, request{method: "POST", path: widgets + query, body: body})
				if meta == metas[1] {
					out = append(out, request{method: "PATCH", path: widgets + "/a" + query, body: fmt.Sprintf(`{"spec":%s}`, spec),
						header: [][2]string{{"Content-Type", "application/merge-patch+json"}}})
				}
			}
		}
	}
	return out
}
