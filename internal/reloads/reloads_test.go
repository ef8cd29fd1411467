package reloads

import (
	"fmt"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// This file counts reloads.

func TestMetrics(t *testing.T) {
	reg := prometheus.NewRegistry()
	m := New(reg, "authorization", "x")
	m.InForce([]byte("first"))
	m.Failed()
	m.Succeeded([]byte("second"))
	const want = `
# HELP apiserver_authorization_config_controller_automatic_reloads_total [BETA] Total number of automatic reloads of authorization configuration split by status and apiserver identity.
# TYPE apiserver_authorization_config_controller_automatic_reloads_total counter
apiserver_authorization_config_controller_automatic_reloads_total{apiserver_id_hash="sha256:2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881",status="failure"} 1
apiserver_authorization_config_controller_automatic_reloads_total{apiserver_id_hash="sha256:2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881",status="success"} 1
# HELP apiserver_authorization_config_controller_last_config_info [ALPHA] Information about the last applied authorization configuration with hash as label, split by apiserver identity.
# TYPE apiserver_authorization_config_controller_last_config_info gauge
apiserver_authorization_config_controller_last_config_info{apiserver_id_hash="sha256:2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881",hash="sha256:16367aacb67a4a017c8da8ab95682ccb390863780f7114dda0a0e0c55644c7c4"} 1
`
	const prefix = "apiserver_authorization_config_controller_"
	if err := testutil.GatherAndCompare(reg, strings.NewReader(want), prefix+"automatic_reloads_total", prefix+"last_config_info"); err != nil {
		t.Error(err)
	}
	if n, err := testutil.GatherAndCount(reg, prefix+"automatic_reload_last_timestamp_seconds"); n != 2 || err != nil {
		t.Errorf("timestamps: got %d, %v", n, err)
	}
	var none *Metrics
	none.Succeeded(nil)
	none.Failed()
}

// TestTogether holds that a scrape sees all of a reload or nothing of it.
func TestTogether(t *testing.T) {
	reg := prometheus.NewRegistry()
	m := New(reg, "authorization", "x")
	done := make(chan bool)
	go func() {
		defer close(done)
		for i := range 2000 {
			m.Succeeded(fmt.Append(nil, i+1))
		}
	}()
	for running := true; running; {
		select {
		case <-done:
			running = false
		default:
		}
		families, err := reg.Gather()
		if err != nil {
			t.Fatal(err)
		}
		count, hash := 0, ""
		for _, f := range families {
			switch sample := f.GetMetric()[0]; {
			case strings.HasSuffix(f.GetName(), "_total"):
				count = int(sample.GetCounter().GetValue())
			case strings.HasSuffix(f.GetName(), "_info"):
				for _, l := range sample.GetLabel() {
					if l.GetName() == "hash" {
						hash = l.GetValue()
					}
				}
			}
		}
		if count > 0 && hash != Hash(fmt.Sprint(count)) || count == 0 && hash != "" {
			t.Fatalf("%d reloads, but the configuration in force is another one", count)
		}
	}
}

func TestServerID(t *testing.T) {
	if got, want := ServerID("localhost"), "apiserver-"; !strings.HasPrefix(got, want) || len(got) != len(want)+26 || got != strings.ToLower(got) || got == ServerID("elsewhere") {
		t.Errorf("got %s", got)
	}
}
