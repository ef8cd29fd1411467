package atrest

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	discovery "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-io/keelson/jsondoc"
)

// This file reads the objects of a server.

// Server is a server of the Kubernetes API.
type Server struct {
	Client *http.Client
	Base   *url.URL
}

// Resource is a kind that a server lists.
type Resource struct {
	Kind
	Version string // in which objects are read
	Watched bool   // the server has watches of it
	path    string
}

// pageSize is the number of objects that one request for a list asks for. They are one transaction.
const pageSize = 1000

// statusError is an answer of a server that is not a success.
type statusError struct {
	code int
	text string
}

// Error implements error.
func (e *statusError) Error() string { return e.text }

// isStatus reports whether an error is an answer with one of some codes.
func isStatus(err error, codes ...int) bool {
	var e *statusError
	return errors.As(err, &e) && slices.Contains(codes, e.code)
}

// get sends a request. The caller closes the body.
func (s *Server) get(ctx context.Context, path, accept string, query url.Values) (io.ReadCloser, error) {
	u := s.Base.JoinPath(path)
	u.RawQuery = query.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", accept)
	resp, err := s.Client.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode == http.StatusOK {
		return resp.Body, nil
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	var refusal metav1.Status
	if json.Unmarshal(text, &refusal) != nil || refusal.Message == "" {
		refusal.Message = "the server answers " + resp.Status
	}
	return nil, &statusError{resp.StatusCode, path + ": " + refusal.Message}
}

// decode sends a request and decodes the answer.
func (s *Server) decode(ctx context.Context, path, accept string, query url.Values, out any) error {
	body, err := s.get(ctx, path, accept, query)
	if err != nil {
		return err
	}
	defer body.Close()
	if err := json.NewDecoder(body).Decode(out); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// Identity returns a text that differs between servers, also between those that had one address one
// after the other: resource versions of one mean nothing at another.
func (s *Server) Identity(ctx context.Context) string {
	var namespace metav1.PartialObjectMetadata
	// Without permission to read it, the address has to do.
	_ = s.decode(ctx, "api/v1/namespaces/kube-system", "application/json", nil, &namespace)
	return s.Base.Redacted() + " " + string(namespace.UID)
}

// Resources returns the kinds that the server lists, each in the preferred version of its group. stale
// are the paths of versions whose kinds it does not know, because the server behind them does not
// answer.
func (s *Server) Resources(ctx context.Context) (all []Resource, stale []string, err error) {
	const accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
	for _, root := range []string{"api", "apis"} {
		var list discovery.APIGroupDiscoveryList
		if err := s.decode(ctx, root, accept, nil, &list); err != nil {
			return nil, nil, err
		}
		for _, g := range list.Items {
			for _, v := range g.Versions {
				path := root + "/" + v.Version
				if g.Name != "" {
					path = root + "/" + g.Name + "/" + v.Version
				}
				if v.Freshness == discovery.DiscoveryFreshnessStale {
					stale = append(stale, path)
				}
				for _, r := range v.Resources {
					if r.ResponseKind == nil || !slices.Contains(r.Verbs, "list") {
						continue
					}
					k := Kind{Group: g.Name, Kind: r.ResponseKind.Kind}
					if !slices.ContainsFunc(all, func(r Resource) bool { return r.Kind == k }) {
						all = append(all, Resource{k, v.Version, slices.Contains(r.Verbs, "watch"), path + "/" + r.Resource})
					}
				}
			}
		}
	}
	return all, stale, nil
}

// apiVersion returns the apiVersion of the objects.
func (r *Resource) apiVersion() string {
	if r.Group == "" {
		return r.Version
	}
	return r.Group + "/" + r.Version
}

// page is a part of a list.
type page struct {
	Metadata metav1.ListMeta
	Items    []json.RawMessage
}

// Export makes the table of a resource have the objects that a server lists, and no others. It
// continues a list that was interrupted. source is the server's identity. refused and step are those
// of [Database.Mirror].
func (s *Server) Export(ctx context.Context, d *Database, r Resource, source string, refused func(error), step func(n int)) (*Table, Written, error) {
	var n Written
	l, err := d.List(ctx, r.Kind, source)
	if err != nil {
		return nil, n, err
	}
	doc := jsondoc.Get()
	defer doc.Release()
	for token := l.Token; ; {
		var p page
		err := s.decode(ctx, r.path, "application/json", url.Values{"limit": {strconv.Itoa(pageSize)}, "continue": {token}}, &p)
		if token != "" && isStatus(err, http.StatusGone, http.StatusBadRequest) {
			token = ""
			if err := l.Restart(ctx); err != nil {
				return nil, n, err
			}
			continue
		}
		if err != nil {
			return nil, n, err
		}
		var objects []*Object
		for _, item := range p.Items {
			o, err := Parse(doc, Text{JSON: item, APIVersion: r.apiVersion(), Kind: r.Kind.Kind})
			if err != nil {
				refused(err)
				continue
			}
			objects = append(objects, o)
		}
		refusals, err := l.Write(ctx, objects, p.Metadata.ResourceVersion, p.Metadata.Continue)
		if err != nil {
			return nil, n, err
		}
		for _, r := range refusals {
			refused(r)
		}
		n.Objects += len(objects) - len(refusals)
		step(len(p.Items))
		if token = p.Metadata.Continue; token == "" {
			break
		}
	}
	n.Removed, err = l.Finish(ctx)
	return l.Table(), n, err
}

// Followable returns the table of a resource if it corresponds to a resource version of the server,
// from which it can be followed without a list; nil if it does not.
func (s *Server) Followable(ctx context.Context, d *Database, r Resource, source string) (*Table, error) {
	tables, err := d.Tables(ctx)
	if err != nil {
		return nil, err
	}
	for _, t := range tables {
		if t.Kind == r.Kind && t.Complete && t.source == source && cmp.Or(t.ResourceVersion, "0") != "0" {
			return t, d.claim(ctx, t)
		}
	}
	return nil, nil
}
