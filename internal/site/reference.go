package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/keelson-io/keelson/internal/cli"
	"github.com/keelson-io/keelson/server"
	"github.com/keelson-io/keelson/server/etcd"
)

// This file writes the reference from the code: the pages of the commands, and the metrics.

// page is a generated page.
type page struct{ path, title, text string }

// commandPages returns a page for each command, with the text of "keelson help".
func commandPages() ([]page, error) {
	var pages []page
	var failed error
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		if c.Name() == "completion" || c.Name() == "help" || c.Hidden {
			return
		}
		words := strings.Fields(c.CommandPath())
		var out, errs bytes.Buffer
		if code := cli.Main(append([]string{"keelson", "help"}, words[1:]...), strings.NewReader(""), &out, &errs); code != 0 && failed == nil {
			failed = fmt.Errorf("keelson help %s: %s", strings.Join(words[1:], " "), errs.String())
		}
		pages = append(pages, page{"commands/" + strings.Join(words, "-"), c.CommandPath(), manual(c.CommandPath(), out.String())})
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(cli.Command())
	return pages, failed
}

// manual returns the page of a command in Markdown: a heading for each section of the manual page,
// with its text as it is on a terminal.
func manual(command, text string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n", command)
	open := false
	for line := range strings.Lines(text) {
		if line[0] >= 'A' && line[0] <= 'Z' {
			if open {
				b.WriteString("```\n")
			}
			title := strings.ToLower(strings.TrimSpace(line))
			fmt.Fprintf(&b, "\n## %s%s\n\n```text\n", strings.ToUpper(title[:1]), title[1:])
			open = true
			continue
		}
		b.WriteString(strings.TrimPrefix(line, "    "))
	}
	return strings.ReplaceAll(b.String()+"```\n", "\n\n```\n", "\n```\n")
}

// gather returns the metrics that a server has after some requests, and what all of its metrics are.
func gather() ([]*dto.MetricFamily, map[string]metric, error) {
	dir, err := os.MkdirTemp("", "keelson-site")
	if err != nil {
		return nil, nil, err
	}
	defer os.RemoveAll(dir)
	registry := prometheus.NewRegistry()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	s, err := server.New(ctx, server.Config{DataDir: filepath.Join(dir, "data"), Database: etcd.Database{}, SecurePort: -1, MemoryLimit: 4 << 30, Metrics: registry, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, nil, err
	}
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	if err := someRequests(s.KubeconfigPath()); err != nil {
		return nil, nil, err
	}
	families, err := registry.Gather()
	if err != nil {
		return nil, nil, err
	}
	described, err := describe(registry)
	if err != nil {
		return nil, nil, err
	}
	cancel()
	return families, described, <-done
}

// metricsPage returns the page of the metrics.
func metricsPage() (string, error) {
	families, described, err := gather()
	if err != nil {
		return "", err
	}
	for _, f := range families {
		m := described[f.GetName()]
		m.kind = strings.ToLower(f.GetType().String())
		described[f.GetName()] = m
	}
	var b strings.Builder
	b.WriteString("# Metrics\n\nWhat `/metrics` of a server has. A metric without a type here appears when there is something to count, such as calls of webhooks.\n" +
		"Names and labels are Kubernetes' where Kubernetes has the metric. Reading needs the permission to get the path.\n\n| Metric | Type | Labels | Meaning |\n| --- | --- | --- | --- |\n")
	for _, name := range slices.Sorted(maps.Keys(described)) {
		m := described[name]
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", name, m.kind, m.labels, strings.NewReplacer("|", "\\|", "<", "&lt;", "\n", " ").Replace(m.help))
	}
	return b.String(), nil
}

// metric is a row of the page. kind is "" if the server has no value yet.
type metric struct{ kind, labels, help string }

// description matches the text of a description of a metric: its name, what it means, and the names of its labels.
var description = regexp.MustCompile(`^Desc{fqName: ("(?:[^"\\]|\\.)*"), help: ("(?:[^"\\]|\\.)*")(?:, unit: "[^"]*")?, constLabels: {[^}]*}, variableLabels: {([^}]*)}`)

// describe returns the metrics of a registry, also those without a value, by name.
func describe(r *prometheus.Registry) (map[string]metric, error) {
	descriptions := make(chan *prometheus.Desc)
	go func() {
		r.Describe(descriptions)
		close(descriptions)
	}()
	all := map[string]metric{}
	var failed error
	for d := range descriptions {
		found := description.FindStringSubmatch(d.String())
		if found == nil {
			failed = fmt.Errorf("got the description %s", d)
			continue
		}
		name, err := strconv.Unquote(found[1])
		help, err2 := strconv.Unquote(found[2])
		failed = errors.Join(failed, err, err2)
		var labels []string
		for l := range strings.SplitSeq(found[3], ",") {
			if l != "" {
				labels = append(labels, "`"+l+"`")
			}
		}
		slices.Sort(labels)
		all[name] = metric{"", strings.Join(labels, " "), help}
	}
	return all, failed
}

// someRequests reads, writes and is refused once, as the administrator of a server.
func someRequests(kubeconfig string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return err
	}
	for _, p := range []string{"/api/v1/namespaces", "/readyz", "/api/v1/namespaces/default/configmaps/none", "/openapi/v3",
		"/api/v1/namespaces?watch=true&timeoutSeconds=1"} {
		answer, err := client.Get(config.Host + p)
		if err != nil {
			return err
		}
		io.Copy(io.Discard, answer.Body) // the connection is used again; the answer does not matter
		answer.Body.Close()
	}
	body := `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}`
	answer, err := client.Post(config.Host+"/api/v1/namespaces/default/configmaps", "application/json", strings.NewReader(body))
	if err != nil {
		return err
	}
	return answer.Body.Close()
}
