// This file measures what a client that lists in a loop does to another client: "bench fairness".

package main

import (
	"context"
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/keelson-io/keelson/internal/testports"
)

// The bound on the steady client: its 99th percentile while the other client lists is at most the larger of leastBound and
// boundFactor times its value without that client.
const (
	leastBound  = 20 * time.Millisecond
	boundFactor = 2
)

// fairnessOptions are the flags of "bench fairness".
type fairnessOptions struct {
	Rounds, Objects, Rate, Listers int
	Phase                          time.Duration
	Markdown                       string
}

// runFairness starts the server on processor 0 and two clients on processor 1: a steady one, which sends requests at a fixed rate, and,
// in every other phase, one that lists all objects in a loop. A latency counts from the moment at which the request was due, so that a
// server that is slow to answer one request does not spare itself the next ones.
func runFairness(ctx context.Context, args []string) error {
	var o fairnessOptions
	fs := flag.NewFlagSet("bench fairness", flag.ExitOnError)
	fs.IntVar(&o.Rounds, "rounds", 3, "rounds, each with a phase without and a phase with the lists")
	fs.IntVar(&o.Objects, "n", 2000, "objects that each list returns")
	fs.IntVar(&o.Rate, "rate", 200, "requests per second of the steady client: four reads, then a merge patch")
	fs.IntVar(&o.Listers, "c", 16, "connections that list")
	fs.DurationVar(&o.Phase, "phase", 15*time.Second, "length of a phase")
	fs.StringVar(&o.Markdown, "o", "", "write the table as Markdown between the markers of these files, separated by commas")
	if err := fs.Parse(args); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "keelson-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	t, err := startPinned(ctx, dir)
	if err != nil {
		return err
	}
	defer t.stop()
	if err := fillForFairness(ctx, t, o.Objects); err != nil {
		return err
	}
	table, err := measureFairness(ctx, o, t)
	fmt.Println(table)
	err = errors.Join(err, writeTable(o.Markdown, "fairness", table))
	return err
}

// startPinned starts the server on processor 0, and moves this process to processor 1, ahead of what else runs there.
func startPinned(ctx context.Context, dir string) (*target, error) {
	bin, err := buildKeelson(ctx, dir)
	if err != nil {
		return nil, err
	}
	tokens := filepath.Join(dir, "tokens.csv")
	if err := os.WriteFile(tokens, []byte("steady-token,steady,1,\"fair\"\nlister-token,lister,2,\"fair\"\n"), 0o600); err != nil {
		return nil, err
	}
	ports, err := testports.Free(1)
	if err != nil {
		return nil, err
	}
	data := filepath.Join(dir, "data")
	t := &target{name: "keelson", addr: fmt.Sprintf("127.0.0.1:%d", ports[0]), wait: "/readyz"}
	if err := t.spawn(ctx, dir, "server", "taskset", "-c", "0", bin, "serve", "--data-dir", data, "--secure-port", fmt.Sprint(ports[0]),
		"--token-auth-file", tokens); err != nil {
		return nil, err
	}
	if t.tls, err = t.kubeconfigTLS(ctx, filepath.Join(data, "admin.kubeconfig")); err == nil {
		err = t.waitReady(ctx)
	}
	if err == nil {
		err = exec.CommandContext(ctx, "taskset", "-a", "-p", "-c", "1", strconv.Itoa(os.Getpid())).Run()
	}
	if err == nil {
		err = syscall.Setpriority(syscall.PRIO_PROCESS, 0, -10)
	}
	if err != nil {
		t.stop()
		return nil, err
	}
	return t, nil
}

// fillForFairness creates the definition, the objects, and the rights of both clients.
func fillForFairness(ctx context.Context, t *target, objects int) error {
	p, err := newPool(t, 4)
	if err != nil {
		return err
	}
	defer p.close()
	crd, err := httpRouteCRD()
	if err != nil {
		return err
	}
	if _, err := install(ctx, p, crd); err != nil {
		return err
	}
	const roles = "/apis/rbac.authorization.k8s.io/v1/clusterrole"
	for path, body := range map[string]string{
		roles + "s": `{"metadata":{"name":"fair"},"rules":[{"apiGroups":["*"],"resources":["*"],"verbs":["*"]}]}`,
		roles + "bindings": `{"metadata":{"name":"fair"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"fair"},` +
			`"subjects":[{"apiGroup":"rbac.authorization.k8s.io","kind":"Group","name":"fair"}]}`,
	} {
		if _, err := p.conns[0].do(request{"POST", path, "application/json", []byte(body)}); err != nil {
			return err
		}
	}
	_, err = p.each(ctx, objects, func(i int) request {
		return request{"POST", group + "/namespaces/default/httproutes", "application/json", route(fmt.Sprintf("route-%06d", i))}
	})
	return err
}

// measureFairness runs the rounds and returns the table; the error says that the bound was broken. A round has a phase in which the
// steady client is alone, one beside lists, and one beside lists that are compressed.
func measureFairness(ctx context.Context, o fairnessOptions, t *target) (string, error) {
	const alone = "alone"
	phases := []struct{ name, encoding string }{{name: alone}, {"beside lists", "identity"}, {"beside compressed lists", "gzip"}}
	latencies, lists := make([][]time.Duration, len(phases)), make([]int, len(phases))
	for range o.Rounds {
		for i, p := range phases {
			stop := func() (int, error) { return 0, nil }
			var err error
			if p.name != alone {
				if stop, err = startLister(ctx, o, t, p.encoding); err != nil {
					return "", err
				}
			}
			measured, err := steadyPhase(ctx, o, t)
			n, stopErr := stop()
			if err = errors.Join(err, stopErr); err != nil {
				return "", err
			}
			latencies[i], lists[i] = append(latencies[i], measured...), lists[i]+n
		}
	}
	var table strings.Builder
	fmt.Fprintf(&table, "| %d requests per second of one client | median | 99th percentile | longest | lists of %d per second |\n| --- | ---: | ---: | ---: | ---: |\n", o.Rate, o.Objects)
	bound := max(leastBound, boundFactor*percentile(latencies[0], 0.99))
	var broken error
	for i, p := range phases {
		tail := percentile(latencies[i], 0.99)
		fmt.Fprintf(&table, "| %s | %v | %v | %v | %.0f |\n", p.name, percentile(latencies[i], 0.5), tail, percentile(latencies[i], 1),
			float64(lists[i])/(float64(o.Rounds)*o.Phase.Seconds()))
		if tail > bound {
			broken = errors.Join(broken, fmt.Errorf("99th percentile %s: got %v, want at most %v", p.name, tail, bound))
		}
	}
	return table.String(), broken
}

// percentile returns the p-th part of the sorted latencies, to a hundredth of a millisecond.
func percentile(all []time.Duration, p float64) time.Duration {
	slices.Sort(all)
	at := int(math.Ceil(p*float64(len(all)))) - 1
	return all[max(at, 0)].Round(10 * time.Microsecond)
}

// steadyPhase sends requests at the fixed rate for one phase and returns their latencies. A request that fails is an error.
func steadyPhase(ctx context.Context, o fairnessOptions, t *target) ([]time.Duration, error) {
	client := tokenClient(t)
	defer client.CloseIdleConnections()
	total := int(o.Phase.Seconds() * float64(o.Rate))
	latencies, failed := make([]time.Duration, total), make([]error, total)
	var sending sync.WaitGroup
	began := time.Now()
	for i := range total {
		due := began.Add(time.Duration(i) * time.Second / time.Duration(o.Rate))
		time.Sleep(time.Until(due))
		sending.Go(func() {
			failed[i] = steadyRequest(ctx, client, t, o, i)
			latencies[i] = time.Since(due)
		})
	}
	sending.Wait()
	return latencies, errors.Join(failed...)
}

func tokenClient(t *target) *http.Client {
	return &http.Client{
		Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: t.tls.RootCAs, ServerName: t.tls.ServerName}, MaxIdleConnsPerHost: 100},
		Timeout:   time.Minute,
	}
}

// steadyRequest sends the i-th request: every fifth is a merge patch, the others read one object.
func steadyRequest(ctx context.Context, client *http.Client, t *target, o fairnessOptions, i int) error {
	method, body := "GET", io.Reader(http.NoBody)
	if i%5 == 4 {
		method, body = "PATCH", strings.NewReader(fmt.Sprintf(`{"metadata":{"annotations":{"steady":"%d"}}}`, i))
	}
	url := fmt.Sprintf("https://%s%s/namespaces/default/httproutes/route-%06d", t.addr, group, i%o.Objects)
	req, err := http.NewRequestWithContext(ctx, method, url, body)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer steady-token")
	req.Header.Set("Content-Type", "application/merge-patch+json")
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s %s: %s", method, url, resp.Status)
	}
	return nil
}

// startLister starts a process that lists in a loop, on the processor of this one and behind it. stop ends it and returns how many
// lists were answered.
func startLister(ctx context.Context, o fairnessOptions, t *target, encoding string) (stop func() (int, error), err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, "nice", "-n", "20", self, "lists", t.addr, strconv.Itoa(o.Listers), encoding)
	cmd.Stderr = os.Stderr
	out := &strings.Builder{}
	cmd.Stdout = out
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return func() (int, error) {
		in.Close()
		if err := cmd.Wait(); err != nil {
			return 0, err
		}
		return strconv.Atoi(strings.TrimSpace(out.String()))
	}, nil
}

// runLists is the child process "bench lists ADDRESS CONNECTIONS ENCODING": it lists until its input is closed, and prints how many lists were
// answered. A list that is refused with 429 is sent again after a moment, and not counted.
func runLists(args []string) error {
	if len(args) != 3 {
		return errors.New("lists: got other arguments than an address, a number of connections and an encoding")
	}
	conns, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	done := make(chan struct{})
	counts := make([]int, conns)
	var listing sync.WaitGroup
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, MaxIdleConnsPerHost: conns, DisableCompression: true}}
	for i := range conns {
		listing.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				if listOnce(client, args[0], args[2]) {
					counts[i]++
				} else {
					time.Sleep(10 * time.Millisecond)
				}
			}
		})
	}
	io.Copy(io.Discard, os.Stdin)
	close(done)
	listing.Wait()
	sum := 0
	for _, n := range counts {
		sum += n
	}
	fmt.Println(sum)
	return nil
}

// listOnce lists all objects and reports whether the answer was complete.
func listOnce(client *http.Client, addr, encoding string) bool {
	req, err := http.NewRequest("GET", "https://"+addr+group+"/namespaces/default/httproutes", nil)
	if err != nil {
		return false
	}
	req.Header.Set("Authorization", "Bearer lister-token")
	req.Header.Set("Accept-Encoding", encoding)
	resp, err := client.Do(req)
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return err == nil && resp.StatusCode == http.StatusOK
}
