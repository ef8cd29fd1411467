package e2e

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// This file tests priority and fairness from outside.

// as asks for a path as the user of a token, by a client.
func (s *besieged) as(client *http.Client, token, path string) (code int, header http.Header, err error) {
	req, err := http.NewRequest("GET", s.url(path), nil)
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := client.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, resp.Header, err
}

// connection returns a client that shares its connections with nobody.
func connection(t *testing.T) *http.Client {
	c := &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	t.Cleanup(c.CloseIdleConnections)
	return c
}

// TestFairness lets one user list in a loop from many connections. Another user's requests are served
// meanwhile, none of them is refused.
func TestFairness(t *testing.T) {
	s := besiege(t, 0, "--max-requests-inflight", "12", "--max-mutating-requests-inflight", "6")
	k := newKubectl(t, s.server)
	k.in(t, `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRoleBinding","metadata":{"name":"readers"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"view"},
		"subjects":[{"apiGroup":"rbac.authorization.k8s.io","kind":"User","name":"mallory"},{"apiGroup":"rbac.authorization.k8s.io","kind":"User","name":"jane"}]}`, args("create -f -"))
	for i := range 20 {
		body := fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"large-%d"},"data":{"text":%q}}`, i, strings.Repeat("x", 100_000))
		s.do(t, 201, "POST", "/api/v1/namespaces/default/configmaps", []byte(body))
	}
	ctx, stop := context.WithCancel(context.Background())
	var lists, refused atomic.Int64
	var wg sync.WaitGroup
	for range 60 {
		wg.Go(func() {
			client := connection(t)
			for ctx.Err() == nil {
				switch code, _, err := s.as(client, malloryToken, "/api/v1/namespaces/default/configmaps"); {
				case err != nil:
					t.Error(err)
					return
				case code == 200:
					lists.Add(1)
				case code == 429:
					refused.Add(1)
				}
			}
		})
	}
	eventually(t, "lists", func() bool { return lists.Load() > 60 })
	client := connection(t)
	for range 50 {
		if code, _, err := s.as(client, janeToken, "/api/v1/namespaces/default/configmaps/large-1"); err != nil || code != 200 {
			t.Errorf("jane: got %d, %v", code, err)
		}
	}
	s.othersAreServed()
	stop()
	wg.Wait()
	t.Logf("mallory's lists: %d served, %d refused", lists.Load(), refused.Load())
	out := k.ok(t, args("get --raw /metrics"), `apiserver_flowcontrol_dispatched_requests_total{flow_schema="global-default",priority_level="global-default"}`)
	if strings.Contains(out, `apiserver_flowcontrol_current_executing_requests{flow_schema="global-default",priority_level="global-default"} -`) {
		t.Error("a negative number of requests is executing")
	}
}

// TestFlowSchemas shows the configuration that every server has, and changes it.
func TestFlowSchemas(t *testing.T) {
	s := besiege(t, 0)
	k := newKubectl(t, s.server)
	eventually(t, "bootstrap objects", func() bool {
		out, _ := k.run(t, "", "get", "flowschemas,prioritylevelconfigurations")
		return strings.Count(out, "\n") == 1+11+1+1+8 && strings.Count(out, "False") == 11
	})
	k.ok(t, args("get flowschemas"), "NAME", "PRIORITYLEVEL", "MATCHINGPRECEDENCE", "DISTINGUISHERMETHOD", "AGE", "MISSINGPL", "system-leader-election", "leader-election", "100", "ByUser", "False")
	k.ok(t, args("get prioritylevelconfigurations"), "NAME", "TYPE", "NOMINALCONCURRENCYSHARES", "QUEUES", "HANDSIZE", "QUEUELENGTHLIMIT", "AGE", "workload-low", "Limited", "100", "128")
	uid := func(resource, name string) string {
		t.Helper()
		var o struct{ Metadata struct{ UID string } }
		if err := json.Unmarshal(s.do(t, 200, "GET", "/apis/flowcontrol.apiserver.k8s.io/v1/"+resource+"/"+name, nil), &o); err != nil {
			t.Fatal(err)
		}
		return o.Metadata.UID
	}
	client := connection(t)
	classified := func(schema, level string) {
		t.Helper()
		eventually(t, "requests by "+schema, func() bool {
			_, header, err := s.as(client, janeToken, "/version")
			if err != nil {
				t.Fatal(err)
			}
			return header.Get("X-Kubernetes-PF-FlowSchema-UID") == uid("flowschemas", schema) && header.Get("X-Kubernetes-PF-PriorityLevel-UID") == uid("prioritylevelconfigurations", level)
		})
	}
	classified("global-default", "global-default")
	k.in(t, `{"apiVersion":"flowcontrol.apiserver.k8s.io/v1","kind":"PriorityLevelConfiguration","metadata":{"name":"janes"},"spec":{"type":"Limited","limited":{"limitResponse":{"type":"Queue","queuing":{}}}}}
		{"apiVersion":"flowcontrol.apiserver.k8s.io/v1","kind":"FlowSchema","metadata":{"name":"jane"},"spec":{"matchingPrecedence":300,"priorityLevelConfiguration":{"name":"janes"},
		"rules":[{"subjects":[{"kind":"User","user":{"name":"jane"}}],"nonResourceRules":[{"verbs":["*"],"nonResourceURLs":["*"]}]}]}}`, args("create -f -"))
	classified("jane", "janes")
	k.ok(t, args("get --raw /debug/api_priority_and_fairness/dump_priority_levels"), "PriorityLevelName,", "IsQuiescing,", "\njanes, ")
	k.ok(t, args("get --raw /debug/api_priority_and_fairness/dump_queues"), "\njanes,", " 63, ")
	k.ok(t, args("delete prioritylevelconfiguration janes"))
	eventually(t, "the schema's status", func() bool {
		out, _ := k.run(t, "", "get", "flowschema", "jane")
		return strings.Contains(out, "True")
	})
	eventually(t, "the end of the level", func() bool {
		out, _ := k.run(t, "", "get", "--raw", "/debug/api_priority_and_fairness/dump_priority_levels")
		return !strings.Contains(out, "\njanes,")
	})
	_, header, err := s.as(client, janeToken, "/version")
	if got, want := header.Get("X-Kubernetes-PF-FlowSchema-UID"), uid("flowschemas", "global-default"); err != nil || got != want {
		t.Errorf("after the level ended: got schema %s, want %s, %v", got, want, err)
	}
}

// TestWithoutFairness holds that requests are not classified if the feature is off.
func TestWithoutFairness(t *testing.T) {
	s := besiege(t, 0, "--enable-priority-and-fairness=false")
	code, header, err := s.as(connection(t), janeToken, "/version")
	if err != nil || code != 200 || header.Get("X-Kubernetes-PF-FlowSchema-UID") != "" {
		t.Errorf("got %d, headers %v, %v", code, header, err)
	}
	if code, _, _ := s.as(connection(t), rootToken, "/debug/api_priority_and_fairness/dump_queues"); code != 404 {
		t.Errorf("a dump: got %d, want 404", code)
	}
	s.othersAreServed()
}
