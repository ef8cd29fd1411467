package builtin

import (
	"strings"
	"testing"

	"github.com/keelson-io/keelson/internal/builtin/autoscaling"
	"github.com/keelson-io/keelson/kind"
)

// This file tests how autoscalers are converted.

func autoscalers(t *testing.T) (first, second *kind.Version) {
	t.Helper()
	for _, v := range own() {
		if v.Kind.Name == "HorizontalPodAutoscaler" {
			if v.Name == "v1" {
				first = v
			} else {
				second = v
			}
		}
	}
	return first, second
}

func converted(t *testing.T, text string, to *kind.Version) string {
	t.Helper()
	out, err := autoscaling.ConvertAutoscaler([]byte(text), to)
	if err != nil {
		t.Fatal(err)
	}
	return string(marshal(typed(t, to, out)))
}

// TestAutoscalersComeBack: what goes through v1 and back is what it was.
func TestAutoscalersComeBack(t *testing.T) {
	first, second := autoscalers(t)
	const head = `{"kind":"HorizontalPodAutoscaler","apiVersion":"autoscaling/v2","metadata":{"name":"a","annotations":{"own":"x"}},"spec":{"scaleTargetRef":{"kind":"D","name":"d"},"minReplicas":1,"maxReplicas":3`
	for _, text := range []string{
		head + `,"metrics":[{"type":"Resource","resource":{"name":"cpu","target":{"type":"Utilization","averageUtilization":70}}}]},"status":{"desiredReplicas":0,"currentMetrics":null}}`,
		head + `,"metrics":[{"type":"Resource","resource":{"name":"memory","target":{"type":"AverageValue","averageValue":"1Gi"}}},` +
			`{"type":"Pods","pods":{"metric":{"name":"m","selector":{"matchLabels":{"a":"b"}}},"target":{"type":"AverageValue","averageValue":"5"}}},` +
			`{"type":"Object","object":{"describedObject":{"kind":"I","name":"i","apiVersion":"x/v1"},"target":{"type":"Value","value":"2k"},"metric":{"name":"m"}}},` +
			`{"type":"Object","object":{"describedObject":{"kind":"I","name":"i"},"target":{"type":"AverageValue","averageValue":"3"},"metric":{"name":"m"}}},` +
			`{"type":"ContainerResource","containerResource":{"name":"cpu","target":{"type":"Utilization","averageUtilization":5},"container":"c"}},` +
			`{"type":"External","external":{"metric":{"name":"e"},"target":{"type":"Value","value":"7"}}},` +
			`{"type":"External","external":{"metric":{"name":"e"},"target":{"type":"AverageValue","averageValue":"7"}}},` +
			`{"type":"Resource","resource":{"name":"cpu","target":{"type":"Utilization","averageUtilization":50}}}],` +
			`"behavior":{"scaleUp":{"stabilizationWindowSeconds":5,"selectPolicy":"Max","policies":[{"type":"Pods","value":4,"periodSeconds":15}]},` +
			`"scaleDown":{"selectPolicy":"Disabled","tolerance":"50m"}}},` +
			`"status":{"observedGeneration":2,"currentReplicas":1,"desiredReplicas":2,"currentMetrics":[{"type":"Resource","resource":{"name":"cpu","current":{"averageValue":"1","averageUtilization":30}}},` +
			`{"type":"Pods","pods":{"metric":{"name":"m"},"current":{"averageValue":"2"}}},{"type":"External","external":{"metric":{"name":"e"},"current":{"value":"3"}}},` +
			`{"type":"Object","object":{"metric":{"name":"m"},"current":{"value":"3"},"describedObject":{"kind":"I","name":"i"}}},` +
			`{"type":"ContainerResource","containerResource":{"name":"cpu","current":{"averageValue":"1","averageUtilization":30},"container":"c"}}],` +
			`"conditions":[{"type":"AbleToScale","status":"True","lastTransitionTime":"2020-01-01T00:00:00Z","reason":"r","message":"m"}]}}`,
	} {
		want := string(marshal(typed(t, second, []byte(text))))
		through := converted(t, text, first)
		if !strings.Contains(through, `"targetCPUUtilizationPercentage":`) {
			t.Errorf("v1: %s", through)
		}
		if got := converted(t, through, second); got != want {
			t.Errorf("got\n%s\nwant\n%s\nby way of\n%s", got, want, through)
		}
	}
}

// TestFirstAutoscalers: v1 has its own default, and annotations that nobody can read are dropped.
func TestFirstAutoscalers(t *testing.T) {
	_, second := autoscalers(t)
	got := converted(t, `{"kind":"HorizontalPodAutoscaler","apiVersion":"autoscaling/v1","metadata":{"name":"a","annotations":{"autoscaling.alpha.kubernetes.io/metrics":"x"}},`+
		`"spec":{"scaleTargetRef":{"kind":"D","name":"d"},"maxReplicas":3}}`, second)
	if !strings.Contains(got, `"metrics":[{"type":"Resource","resource":{"name":"cpu","target":{"type":"Utilization","averageUtilization":80}}}]`) || strings.Contains(got, "annotations") {
		t.Errorf("got %s", got)
	}
}
