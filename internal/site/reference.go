package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
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

// gather returns the metrics that a server has after some requests.
func gather() ([]*dto.MetricFamily, error) {
	dir, err := os.MkdirTemp("", "keelson-site")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	registry := prometheus.NewRegistry()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	s, err := server.New(ctx, server.Config{DataDir: filepath.Join(dir, "data"), Database: etcd.Database{}, SecurePort: -1, Metrics: registry, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, err
	}
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	if err := someRequests(s.KubeconfigPath()); err != nil {
		return nil, err
	}
	families, err := registry.Gather()
	if err != nil {
		return nil, err
	}
	cancel()
	return families, <-done
}

// metricsPage returns the page of the metrics.
func metricsPage() (string, error) {
	families, err := gather()
	if err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString("# Metrics\n\nWhat `/metrics` of a server shows after a few requests. Metrics of webhooks, policies, tokens and the audit log appear when there is\n" +
		"something to count. Names and labels are Kubernetes' where Kubernetes has the metric. Reading needs the permission to get the path.\n\n| Metric | Type | Labels | Meaning |\n| --- | --- | --- | --- |\n")
	for _, f := range families {
		labels := map[string]bool{}
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				labels["`"+l.GetName()+"`"] = true
			}
		}
		names := make([]string, 0, len(labels))
		for l := range labels {
			names = append(names, l)
		}
		slices.Sort(names)
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", f.GetName(), strings.ToLower(f.GetType().String()), strings.Join(names, " "),
			strings.NewReplacer("|", "\\|", "<", "&lt;", "\n", " ").Replace(f.GetHelp()))
	}
	return b.String(), nil
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
