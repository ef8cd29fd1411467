package e2e

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// This file holds how much work one request can cause: requests whose cost once was quadratic, or
// went on after the client had gone.

const (
	// workTicks is the processor time in hundredths of a second that a request may take, unless its
	// row says less.
	workTicks = 400

	// workBound is the time within which each must be answered, also on a busy machine.
	workBound = 30 * time.Second

	// quietWithin is the time within which the server has nothing more to do when all have hung up.
	quietWithin = 15 * time.Second
)

// boundedWork is a request that used to cause much work.
type boundedWork struct {
	name, method, path, media, body string
	code, ticks                     int    // ticks 0: workTicks
	want                            string // part of the answer
}

// workGadget returns a gadget in YAML with the text below spec.
func workGadget(name, spec string) string {
	return "apiVersion: demo.example.org/v1\nkind: Gadget\nmetadata: {name: " + name + "}\nspec:\n  color: red\n" + spec
}

// envPatch is a strategic merge patch with n variables of a container, from the last to the first.
func envPatch(n int) string {
	var env []string
	for i := range n {
		env = append(env, fmt.Sprintf(`{"name":"n%d","value":"x"}`, n-i))
	}
	return `{"spec":{"template":{"spec":{"containers":[{"name":"c","image":"x","env":[` + strings.Join(env, ",") + `]}]}}}}`
}

// listPatch is a JSON patch that makes a list of a million items and inserts 9,990 more at its
// front.
func listPatch() string {
	ops := []string{`{"op":"add","path":"/spec/x","value":[` + strings.Repeat("1,", 1_000_000) + `1]}`}
	for range 9_990 {
		ops = append(ops, `{"op":"add","path":"/spec/x/0","value":2}`)
	}
	ops = append(ops, `{"op":"remove","path":"/spec/x"}`)
	return "[" + strings.Join(ops, ",") + "]"
}

// manyRequirements is a label selector of n requirements, each of which all objects meet.
func manyRequirements(n int) string {
	var terms []string
	for i := range n {
		terms = append(terms, fmt.Sprintf("!a%x", i))
	}
	return strings.Join(terms, ",")
}

func boundedWorks(gadgets, deployments string) []boundedWork {
	const yamlType, jsonPatch, strategic = "application/yaml", "application/json-patch+json", "application/strategic-merge-patch+json"
	in := make([]string, 100_000)
	for i := range in {
		in[i] = fmt.Sprintf("v%d", i)
	}
	query := func(name, value string) string {
		return gadgets + "?" + name + "=" + strings.ReplaceAll(value, " ", "+")
	}
	fields := strings.TrimSuffix(strings.Repeat("metadata.name!=x,", 55_000), ",")
	return []boundedWork{
		{"YAML of many mappings", "POST", gadgets + "?dryRun=All&fieldValidation=Ignore", yamlType, workGadget("yy", "  x: ["+strings.Repeat("? a,", 390_000)+"]"), 201, 0, `"red"`},
		{"YAML of too many mappings", "POST", gadgets + "?dryRun=All&fieldValidation=Ignore", yamlType,
			workGadget("yy", "  x: ["+strings.Repeat("? a,", 650_000)+"]"), 413, 0, "at most 800000 indicators"},
		{"YAML of many aliases of a long text", "POST", gadgets + "?dryRun=All", yamlType,
			workGadget("yy", "  x: &a "+strings.Repeat("x", 300_000)+"\n  y: ["+strings.Repeat("*a,", 3000)+"]"), 413, 0, "the aliases of the YAML text"},
		{"YAML of many values with merge keys", "POST", gadgets + "?dryRun=All", yamlType,
			workGadget("yy", "  x: {<<: {a: 1}}\n  y: ["+strings.Repeat("? a,", 300_000)+"]"), 413, 0, "at most 500000 values"},
		{"apply of YAML of many mappings", "PATCH", gadgets + "/one?dryRun=All&fieldManager=x&fieldValidation=Ignore", "application/apply-patch+yaml",
			workGadget("one", "  x: ["+strings.Repeat("? a,", 390_000)+"]"), 200, 0, ``},
		{"strategic merge patch of a long list", "PATCH", deployments + "/d?dryRun=All", strategic, envPatch(20_000), 413, 0, "more than 64000000 comparisons"},
		{"strategic merge patch of a list", "PATCH", deployments + "/d?dryRun=All", strategic, envPatch(500), 200, 0, `"n500"`},
		{"JSON patch at the front of a long list", "PATCH", gadgets + "/one?dryRun=All", jsonPatch, listPatch(), 200, 0, `"red"`},
		{"label selector of 107,000 requirements", "GET", query("labelSelector", manyRequirements(107_000)), "", "", 200, 200, `"items":[{`},
		{"label selector of 100,000 values", "GET", query("labelSelector", "a notin ("+strings.Join(in, ",")+")"), "", "", 200, 80, `"items":[{`},
		{"field selector of 55,000 requirements", "GET", query("fieldSelector", fields), "", "", 200, 120, `"items":[{`},
	}
}

// startWorkServer starts a server with gadgets and a deployment.
func startWorkServer(t *testing.T, objects int) (s *server, gadgets, deployments string) {
	t.Helper()
	s = startServer(t)
	const required = "            required: [color]\n"
	open := strings.Replace(gadgetCRD, required, required+"            x-kubernetes-preserve-unknown-fields: true\n", 1)
	s.do(t, 201, "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", toJSON(t, open))
	gadgets, deployments = "/apis/demo.example.org/v1/namespaces/default/gadgets", "/apis/apps/v1/namespaces/default/deployments"
	eventually(t, "gadgets served", func() bool {
		code, _, err := s.try("GET", gadgets, nil)
		return err == nil && code == 200
	})
	s.do(t, 201, "POST", gadgets, toJSON(t, gadget("one", "red")))
	var env []string
	for i := range 500 {
		env = append(env, fmt.Sprintf(`{"name":"n%d","value":"x"}`, i))
	}
	s.do(t, 201, "POST", deployments, []byte(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"d"},"spec":{"selector":{"matchLabels":{"a":"b"}},
		"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"x","env":[`+strings.Join(env, ",")+`]}]}}}}`))
	var writers sync.WaitGroup
	for w := range 8 {
		writers.Go(func() {
			for i := w; i < objects; i += 8 {
				body := fmt.Appendf(nil, `{"apiVersion":"demo.example.org/v1","kind":"Gadget","metadata":{"name":"g%d","labels":{"a":"1","b":"2"}},"spec":{"color":"red"}}`, i)
				if code, b, err := s.try("POST", gadgets, body); err != nil || code != 201 {
					t.Errorf("gadget %d: %d, %v: %s", i, code, err, tail(string(b), 300))
					return
				}
			}
		})
	}
	writers.Wait()
	return s, gadgets, deployments
}

// TestBoundedWork sends requests whose cost was quadratic, and hangs up on them.
func TestBoundedWork(t *testing.T) {
	t.Parallel()
	s, gadgets, deployments := startWorkServer(t, 5000)
	works := boundedWorks(gadgets, deployments)
	for _, c := range works {
		t.Run(c.name, func(t *testing.T) {
			began, ticks := time.Now(), s.cpuTicks(t)
			var header []string
			if c.media != "" {
				header = []string{"Content-Type", c.media}
			}
			ctx, cancel := context.WithTimeout(context.Background(), workBound)
			defer cancel()
			code, b, err := s.send(ctx, c.method, c.path, []byte(c.body), header...)
			if err != nil {
				t.Fatalf("after %v: %v", time.Since(began), err)
			}
			if code != c.code || !strings.Contains(string(b), c.want) {
				t.Errorf("got %d %s, want %d and in it %q", code, tail(string(b), 500), c.code, c.want)
			}
			spent := s.cpuTicks(t) - ticks
			limit := c.ticks
			if limit == 0 {
				limit = workTicks
			}
			if spent > limit {
				t.Errorf("%d ms of processor time, want at most %d", 10*spent, 10*limit)
			}
			t.Logf("%d in %v, %d ms of processor time, %d MiB", code, time.Since(began).Round(time.Millisecond), 10*spent, s.peakMemory(t)>>20)
		})
	}
	t.Run("hanging up", func(t *testing.T) {
		for _, c := range works {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			s.send(ctx, c.method, c.path, []byte(c.body), "Content-Type", c.media) // many give up
			cancel()
		}
		deadline := time.Now().Add(quietWithin)
		for busy := true; busy; {
			before := s.cpuTicks(t)
			time.Sleep(time.Second) // so that work shows on a busy machine, too
			busy = s.cpuTicks(t)-before >= 8
			if busy && time.Now().After(deadline) {
				t.Fatal("the server works on for clients that have gone")
			}
		}
		s.do(t, 200, "GET", "/readyz", nil)
	})
}

// TestWatchOfManyRequirements: what a watch costs for an event does not grow with its selector.
func TestWatchOfManyRequirements(t *testing.T) {
	s, gadgets, _ := startWorkServer(t, 0)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	path := gadgets + "?watch=1&labelSelector=" + manyRequirements(100_000)
	var watches sync.WaitGroup
	defer watches.Wait()
	defer cancel()
	const watchers = 5
	opened := make(chan error, watchers)
	for range watchers {
		watches.Go(func() {
			req, err := http.NewRequestWithContext(ctx, "GET", s.url(path), nil)
			if err != nil {
				opened <- err
				return
			}
			resp, err := s.http.Do(req)
			if err == nil {
				defer resp.Body.Close()
				one := make([]byte, 1)
				_, err = resp.Body.Read(one)
			}
			opened <- err
			if err == nil {
				<-ctx.Done()
			}
		})
	}
	for range watchers {
		if err := <-opened; err != nil {
			t.Fatal(err)
		}
	}
	before := s.cpuTicks(t)
	for i := range 400 {
		s.do(t, 201, "POST", gadgets, toJSON(t, gadget(fmt.Sprintf("w%d", i), "red")))
	}
	eventually(t, "the server has nothing to do", func() bool {
		before := s.cpuTicks(t)
		time.Sleep(200 * time.Millisecond)
		return s.cpuTicks(t)-before < 5
	})
	// 400 events for 5 watchers of 100,000 requirements: 200,000,000 looks, if each is looked at.
	if ticks := s.cpuTicks(t) - before; ticks > 160 {
		t.Errorf("%d ms of processor time, want at most 1600", 10*ticks)
	} else {
		t.Logf("%d ms of processor time", 10*ticks)
	}
}
