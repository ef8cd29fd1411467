package e2e

import (
	"encoding/json"
	"strings"
	"testing"
)

// This file checks that OpenAPI documents describe built-in kinds.

// TestDescriptionsOfBuiltinKinds reads one description from each source: SwaggerDoc of a type, of
// one that it has inline, the list of possible values, the definitions that
// apiextensions-apiserver publishes, and Keelson's own words.
func TestDescriptionsOfBuiltinKinds(t *testing.T) {
	s := startServer(t)
	for _, c := range []struct{ path, definition, property, want string }{
		{"api/v1", "io.k8s.api.core.v1.Pod", "", "Pod is a collection of containers"},
		{"api/v1", "io.k8s.api.core.v1.Pod", "kind", "Kind is a string value"},
		{"api/v1", "io.k8s.api.core.v1.PodList", "items", "List of pods."},
		{"api/v1", "io.k8s.api.core.v1.Container", "imagePullPolicy", "Image pull policy."},
		{"api/v1", "io.k8s.api.core.v1.Container", "imagePullPolicy", "\n\nPossible enum values:\n - `\"Always\"`\n - `\"IfNotPresent\"`\n - `\"Never\"`"},
		{"api/v1", "io.k8s.apimachinery.pkg.apis.meta.v1.Time", "", "Time is a wrapper"},
		{"api/v1", "io.k8s.apimachinery.pkg.util.intstr.IntOrString", "", "32-bit integer or a string"},
		{"apis/apiextensions.k8s.io/v1", "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinitionSpec", "scope", "scope indicates whether"},
	} {
		var doc struct {
			Components struct {
				Schemas map[string]struct {
					Description string
					Properties  map[string]struct{ Description string }
				}
			}
		}
		if err := json.Unmarshal(s.do(t, 200, "GET", "/openapi/v3/"+c.path, nil), &doc); err != nil {
			t.Fatal(err)
		}
		d := doc.Components.Schemas[c.definition]
		got := d.Description
		if c.property != "" {
			got = d.Properties[c.property].Description
		}
		if !strings.Contains(got, c.want) {
			t.Errorf("%s %s: got %q, want %q in it", c.definition, c.property, got, c.want)
		}
	}
}
