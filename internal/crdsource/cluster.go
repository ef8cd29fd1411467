package crdsource

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/keelson-io/keelson/internal/keysize"
	"github.com/keelson-io/keelson/internal/manifest"
)

// This file lists the definitions of a cluster.

// pageSize is the number of definitions in one answer. Large ones take a megabyte.
const pageSize = 50

// Cluster returns the definitions of the cluster that a kubeconfig and a context in it name. An
// empty kubeconfig is that of kubectl: KUBECONFIG, or ~/.kube/config. An empty name of the context
// is the current one.
func Cluster(ctx context.Context, kubeconfig, name string) ([]manifest.Document, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = kubeconfig
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: name})
	config, err := loader.ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("%w; name a kubeconfig with --kubeconfig, and one of its contexts with --context (kubectl config get-contexts lists them)", err)
	}
	config.UserAgent = "keelson"
	if err := keysize.CheckCredentials([]string{config.CAFile, config.CertFile, config.KeyFile}, config.CAData, config.CertData, config.KeyData); err != nil {
		return nil, fmt.Errorf("the kubeconfig: %w", err)
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	base, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, MaxTime)
	defer cancel()
	var out []manifest.Document
	left, next := int64(MaxBytes), ""
	for {
		page, err := definitionsPage(ctx, client, base, next, &left)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", base.Redacted(), err)
		}
		for i := range page.Items {
			// The place of a definition is the cluster.
			for _, d := range manifest.Split(base.Redacted(), withoutStatus(page.Items[i])) {
				d.Alone = true
				out = append(out, d)
			}
		}
		if next = page.Metadata.Continue; next == "" {
			return out, nil
		}
	}
}

// definitionList is a page of definitions.
type definitionList struct {
	Metadata metav1.ListMeta
	Items    []json.RawMessage
}

// definitionsPage returns a page of definitions. left is the number of bytes that may be read.
func definitionsPage(ctx context.Context, client *http.Client, base *url.URL, next string, left *int64) (*definitionList, error) {
	u := *base
	u.Path = strings.TrimSuffix(u.Path, "/") + "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	u.RawQuery = url.Values{"limit": {fmt.Sprint(pageSize)}, "continue": {next}}.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		if ctx.Err() == context.DeadlineExceeded {
			return nil, fmt.Errorf("no answer within %v", MaxTime)
		}
		return nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, *left+1))
	if err != nil {
		return nil, err
	}
	if *left -= int64(len(text)); *left < 0 {
		return nil, fmt.Errorf("the definitions have more than %d bytes", MaxBytes)
	}
	if resp.StatusCode != http.StatusOK {
		var refusal metav1.Status
		if json.Unmarshal(text, &refusal) == nil && refusal.Message != "" {
			return nil, errors.New(refusal.Message)
		}
		return nil, fmt.Errorf("got status %s, want 200", resp.Status)
	}
	var list definitionList
	if err := json.Unmarshal(text, &list); err != nil {
		return nil, fmt.Errorf("not a list of definitions: %w", err)
	}
	return &list, nil
}

// withoutStatus returns a definition with its kind, which items of a list may lack, and without its
// status and managed fields.
func withoutStatus(text []byte) []byte {
	var object map[string]json.RawMessage
	if json.Unmarshal(text, &object) != nil {
		return text
	}
	delete(object, "status")
	var metadata map[string]json.RawMessage
	if json.Unmarshal(object["metadata"], &metadata) == nil {
		for _, key := range []string{"managedFields", "resourceVersion", "uid", "creationTimestamp", "generation"} {
			delete(metadata, key)
		}
		if m, err := json.Marshal(metadata); err == nil {
			object["metadata"] = m
		}
	}
	object["apiVersion"], object["kind"] = json.RawMessage(`"apiextensions.k8s.io/v1"`), json.RawMessage(`"CustomResourceDefinition"`)
	out, err := json.Marshal(object)
	if err != nil {
		return text
	}
	return out
}
