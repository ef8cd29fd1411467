package encrypt

import (
	"slices"
	"testing"
)

func TestPrefixes(t *testing.T) {
	for prefix, want := range map[string][]string{
		"k8s:enc:aesgcm:v1:key1:":    {"k8s:enc:aesgcm:v1:", "key1:"},
		"k8s:enc:secretbox:v1:a:b:":  {"k8s:enc:secretbox:v1:", "a:b:"},
		"k8s:enc:kms:v2:plugin:":     {"k8s:enc:kms:v2:plugin:"},
		"k8s:enc:kms:v2:plugin:key:": {"k8s:enc:kms:v2:plugin:"},
		"unknown":                    {"unknown"},
		"":                           {""},
	} {
		if got := prefixes(prefix); !slices.Equal(got, want) {
			t.Errorf("%q: got %q, want %q", prefix, got, want)
		}
	}
}
