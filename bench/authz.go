// This file is the command "bench authz": what authorization costs a request, and single decisions beside upstream's.

package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"k8s.io/klog/v2"

	"github.com/keelson-io/keelson/internal/authz/config"
	"github.com/keelson-io/keelson/internal/store/mem"
	"github.com/keelson-io/keelson/server"
)

// What is wanted: a share of a request's time, and microseconds.
const (
	wantedShare    = 0.02
	wantedHooks    = 100.0
	wantedDecision = 10.0
	wantedMatch    = 1.0
)

// manyBindings is how many bindings there are besides the one that decides.
const manyBindings = 10_000

func runAuthz(ctx context.Context, args []string) error {
	fs := flag.NewFlagSet("bench authz", flag.ExitOnError)
	rounds := fs.Int("rounds", 15, "rounds; each measures every row on all sides, turn by turn")
	turns := fs.Int("turns", 500, "requests of a round, on each side")
	files := fs.String("o", "", "write the tables as Markdown between the markers of these files, separated by commas")
	if err := fs.Parse(args); err != nil {
		return err
	}
	klog.SetOutput(io.Discard)
	klog.LogToStderr(false)
	dir, err := os.MkdirTemp("", "keelson-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	requests, err := measureRequests(ctx, dir, *rounds, *turns)
	if err != nil {
		return err
	}
	say("authz: decisions")
	decisions, err := measureDecisions(ctx, *rounds)
	if err != nil {
		return err
	}
	text := fmt.Sprintf("%s, %s, %d processors, %s, %s. Medians of %d rounds.\n\n", time.Now().UTC().Format("2006-01-02"), cpuModel(), runtime.NumCPU(),
		runtime.Version(), versions(), *rounds) + requests + "\n" + decisions
	fmt.Println(text)
	for file := range strings.SplitSeq(*files, ",") {
		if file == "" {
			continue
		}
		if err := replaceBetween(file, "<!-- authz:begin -->", "<!-- authz:end -->", text); err != nil {
			return err
		}
	}
	return nil
}

// guarded is a server with a chain of authorizers, and two ways to ask it.
type guarded struct {
	*server.Server
	client *http.Client
	done   chan error
	stop   context.CancelFunc
}

// tokenFile lists ann, whom the measured requests are from, and an administrator.
const tokenFile = "ann,ann,,\"dev,ops\"\nroot,root,,system:masters\n"

// startGuarded starts a server in this process, with its data in memory and everything that ann may do said by one of many bindings.
func startGuarded(ctx context.Context, dir string, flags config.Flags) (*guarded, error) {
	tokens := filepath.Join(dir, "tokens.csv")
	if err := os.WriteFile(tokens, []byte(tokenFile), 0o600); err != nil {
		return nil, err
	}
	s, err := server.New(ctx, server.Config{Store: mem.New(mem.Options{}), SecurePort: -1, TokenAuthFile: tokens, Authorization: flags,
		Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(ctx)
	g := &guarded{Server: s, done: make(chan error, 1), stop: stop, client: &http.Client{Transport: &http.Transport{
		ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}}
	go func() { g.done <- s.Run(ctx) }()
	const rbac = "/apis/rbac.authorization.k8s.io/v1/"
	err = g.create(rbac+"clusterroles", `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","metadata":{"name":"read"},"rules":[{"verbs":["get"],"apiGroups":[""],"resources":["namespaces"]}]}`)
	for i := 0; i <= manyBindings && err == nil; i++ {
		group := fmt.Sprint("g", i)
		if i == manyBindings/2 {
			group = "dev"
		}
		err = g.create(rbac+"clusterrolebindings", fmt.Sprintf(`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRoleBinding","metadata":{"name":"b%d"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"read"},"subjects":[{"kind":"Group","apiGroup":"rbac.authorization.k8s.io","name":%q}]}`, i, group))
	}
	for end := time.Now().Add(10 * time.Second); err == nil && time.Now().Before(end); time.Sleep(time.Millisecond) {
		if g.direct() == nil {
			return g, nil
		}
	}
	g.end()
	return nil, errors.Join(err, errors.New("ann may not do what is measured"))
}

func (g *guarded) end() {
	g.client.CloseIdleConnections()
	g.stop()
	<-g.done
}

func (g *guarded) create(path, body string) error {
	r := httptest.NewRequest("POST", path, strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer root")
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	if g.Handler().ServeHTTP(w, r); w.Code != http.StatusCreated {
		return fmt.Errorf("POST %s: %d %s", path, w.Code, w.Body)
	}
	return nil
}

// measured is the request: one of the cheapest there are, so that what authorization costs is the largest share.
const measured = "/api/v1/namespaces/default"

// over sends the request as a client does.
func (g *guarded) over() error {
	r, err := http.NewRequest("GET", "https://"+g.Addr()+measured, nil)
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", "Bearer ann")
	resp, err := g.client.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != http.StatusOK {
		return fmt.Errorf("GET %s: %d, %v", measured, resp.StatusCode, err)
	}
	return nil
}

// direct hands the request to the handler, without a connection.
func (g *guarded) direct() error {
	r := httptest.NewRequest("GET", measured, nil)
	r.Header.Set("Authorization", "Bearer ann")
	w := httptest.NewRecorder()
	w.Body = new(bytes.Buffer)
	if g.Handler().ServeHTTP(w, r); w.Code != http.StatusOK {
		return fmt.Errorf("GET %s: %d", measured, w.Code)
	}
	return nil
}

// hookConfig is a configuration of so many webhooks that are not for the measured request, and RBAC after them.
func hookConfig(dir string, n int) (string, error) {
	kubeconfig := filepath.Join(dir, "hook.kubeconfig")
	const hook = "{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c, user: u}}], clusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}], users: [{name: u, user: {}}]}"
	if err := os.WriteFile(kubeconfig, []byte(hook), 0o600); err != nil {
		return "", err
	}
	text := "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthorizationConfiguration\nauthorizers:\n"
	for i := range n {
		text += fmt.Sprintf("- {type: Webhook, name: w%d, webhook: {timeout: 3s, failurePolicy: Deny, subjectAccessReviewVersion: v1, matchConditionSubjectAccessReviewVersion: v1, connectionInfo: {type: KubeConfigFile, kubeConfigFile: %q}, matchConditions: [{expression: \"has(request.resourceAttributes) && request.resourceAttributes.namespace == 'kube-system'\"}]}}\n", i, kubeconfig)
	}
	path := filepath.Join(dir, "authz.yaml")
	return path, os.WriteFile(path, []byte(text+"- {type: RBAC, name: rbac}\n"), 0o600)
}

// measureRequests measures one request with everything allowed, by roles, and behind webhooks.
func measureRequests(ctx context.Context, dir string, rounds, turns int) (string, error) {
	file, err := hookConfig(dir, 100)
	if err != nil {
		return "", err
	}
	var all []*guarded
	for _, flags := range []config.Flags{{Modes: []string{config.AlwaysAllow}}, {Modes: []string{config.RBAC}}, {File: file}} {
		say("authz: server %d", len(all)+1)
		g, err := startGuarded(ctx, dir, flags)
		if err != nil {
			return "", err
		}
		defer g.end()
		all = append(all, g)
	}
	var over, direct [][]float64 // by round, then by server: the median in microseconds
	for i := range rounds {
		say("authz: round %d", i+1)
		a, err := alternate(turns, []func() error{all[0].over, all[1].over, all[2].over})
		if err != nil {
			return "", err
		}
		b, err := alternate(4*turns, []func() error{all[0].direct, all[1].direct, all[2].direct})
		if err != nil {
			return "", err
		}
		over, direct = append(over, a), append(direct, b)
	}
	var b strings.Builder
	b.WriteString("| a request | everything allowed | RBAC, 10,000 bindings | costs | 100 webhooks that do not match, then RBAC | they cost | as wanted |\n| --- |" + strings.Repeat(" ---: |", 5) + " --- |\n")
	for _, r := range []struct {
		name string
		rows [][]float64
	}{{"of a client, over TLS", over}, {"in the handler alone", direct}} {
		column := func(i int) float64 { return median(each(r.rows, func(m []float64) float64 { return m[i] })) }
		share := median(each(r.rows, func(m []float64) float64 { return m[1]/m[0] - 1 }))
		hooks := median(each(r.rows, func(m []float64) float64 { return m[2] - m[1] }))
		fmt.Fprintf(&b, "| %s | %.1f µs | %.1f µs | **%.1f %%** | %.1f µs | **%.1f µs** | %s, %s |\n",
			r.name, column(0), column(1), 100*share, column(2), hooks, yes(share < wantedShare), yes(hooks < wantedHooks))
	}
	return b.String(), nil
}

func yes(is bool) string {
	if is {
		return "yes"
	}
	return "**no**"
}

func each(rows [][]float64, of func([]float64) float64) []float64 {
	out := make([]float64, 0, len(rows))
	for _, r := range rows {
		out = append(out, of(r))
	}
	return out
}

// alternate runs the functions in turn, so often, and returns the median time of each in microseconds. They take turns in going first.
func alternate(turns int, fns []func() error) ([]float64, error) {
	times := make([][]float64, len(fns))
	for i := range turns {
		for k := range fns {
			n := (i + k) % len(fns)
			began := time.Now()
			if err := fns[n](); err != nil {
				return nil, err
			}
			times[n] = append(times[n], float64(time.Since(began).Nanoseconds())/1e3)
		}
	}
	out := make([]float64, len(fns))
	for n := range times {
		slices.Sort(times[n])
		out[n] = times[n][len(times[n])/2]
	}
	return out, nil
}
