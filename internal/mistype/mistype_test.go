package mistype_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/keelson-io/keelson/internal/builtin"
	"github.com/keelson-io/keelson/internal/mistype"
	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/kind"
)

// TestWhatIsListedIsAll holds that an object decodes when the values are left out that are listed, and that it decodes as it is if none is.
func TestWhatIsListedIsAll(t *testing.T) {
	kinds := kind.NewRegistry(builtin.All(nil)...).Load()
	values := []string{`1`, `1.5`, `3000000000`, `99999999999999999999`, `"a"`, `"1"`, `"true"`, `"2006-01-02T15:04:05Z"`, `"2006-01-02T15:04:05.000000Z"`, `"YQ=="`, `"1Gi"`, `true`, `[]`, `[1]`, `{}`, `{"a":1}`, `null`}
	for _, place := range []struct{ resource, group, text string }{
		{"pods", "", `{"metadata":{"creationTimestamp":%s}}`},
		{"pods", "", `{"metadata":{"labels":{"a":%s}}}`},
		{"pods", "", `{"metadata":{"ownerReferences":[{"controller":%s}]}}`},
		{"pods", "", `{"spec":{"priority":%s}}`},
		{"pods", "", `{"spec":{"terminationGracePeriodSeconds":%s}}`},
		{"pods", "", `{"spec":{"hostNetwork":%s}}`},
		{"pods", "", `{"spec":{"nodeSelector":%s}}`},
		{"pods", "", `{"spec":{"containers":[{"args":%s}]}}`},
		{"pods", "", `{"spec":{"containers":[{"resources":{"limits":{"cpu":%s}}}]}}`},
		{"pods", "", `{"spec":{"containers":[{"livenessProbe":{"httpGet":{"port":%s}}}]}}`},
		{"pods", "", `{"status":{"startTime":%s}}`},
		{"secrets", "", `{"data":{"a":%s}}`},
		{"horizontalpodautoscalers", "autoscaling", `{"spec":{"metrics":[{"resource":{"target":{"averageValue":%s}}}]}}`},
		{"validatingwebhookconfigurations", "admissionregistration.k8s.io", `{"webhooks":[{"clientConfig":{"caBundle":%s}}]}`},
		{"events", "", `{"eventTime":%s}`},
		{"leases", "coordination.k8s.io", `{"spec":{"renewTime":%s}}`},
	} {
		v := kinds.Lookup(place.group, place.resource).Storage
		for _, value := range values {
			text := fmt.Appendf(nil, place.text, value)
			text = fmt.Appendf(nil, `{"apiVersion":%q,"kind":%q,%s`, v.APIVersion(), v.Kind.Name, text[1:])
			found, rest := mistype.Of(v, text, func(string) string { return "" })
			err := decode(v, text)
			switch {
			case err == nil && len(found) > 0:
				t.Errorf("%s: decodes, and %v is listed", text, found)
			case err != nil && len(found) == 0:
				t.Errorf("%s: nothing is listed: %v", text, err)
			case err != nil && decode(v, rest) != nil:
				t.Errorf("%s: without what is listed: %v", text, decode(v, rest))
			}
			for _, m := range found {
				if strings.Contains(m.Message, "%!") || m.Path == "" {
					t.Errorf("%s: %+v", text, m)
				}
			}
		}
	}
}

func decode(v *kind.Version, text []byte) error {
	_, err := v.Decode(new(jsondoc.Doc), text)
	return err
}
