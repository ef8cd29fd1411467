// This file is the load: what is sent for each row of the table.

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/keelson-io/keelson/internal/testcrds"
	"sigs.k8s.io/yaml"
)

const (
	crdName = "httproutes.gateway.networking.k8s.io"
	crdPath = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	group   = "/apis/gateway.networking.k8s.io/v1"
)

// httpRouteCRD is the Gateway API's definition of HTTPRoute, in JSON.
func httpRouteCRD() ([]byte, error) {
	for _, f := range testcrds.Families() {
		if f.Name == "gateway-standard" {
			b, err := testcrds.CRD(f, crdName)
			if err != nil {
				return nil, err
			}
			return yaml.YAMLToJSON(b)
		}
	}
	return nil, errors.New("no family gateway-standard")
}

// route is a usual HTTPRoute, in just under 1,000 bytes.
func route(name string) []byte {
	return fmt.Appendf(nil, `{"apiVersion":"gateway.networking.k8s.io/v1","kind":"HTTPRoute",`+
		`"metadata":{"name":%q,"labels":{"app.kubernetes.io/name":"shop","app.kubernetes.io/part-of":"storefront"}},`+
		`"spec":{"parentRefs":[{"name":"public","sectionName":"https"}],"hostnames":["shop.example.com","www.shop.example.com"],`+
		`"rules":[{"matches":[{"path":{"type":"PathPrefix","value":"/cart"},"headers":[{"type":"Exact","name":"x-env","value":"canary"}],"method":"GET"}],`+
		`"filters":[{"type":"RequestHeaderModifier","requestHeaderModifier":{"add":[{"name":"x-from","value":"edge"}]}}],`+
		`"backendRefs":[{"name":"cart-v1","port":8080,"weight":90},{"name":"cart-v2","port":8080,"weight":10}],"timeouts":{"request":"10s"}},`+
		`{"matches":[{"path":{"type":"PathPrefix","value":"/"}}],"backendRefs":[{"name":"shop","port":8080}]},`+
		`{"matches":[{"path":{"type":"Exact","value":"/old"}}],"filters":[{"type":"RequestRedirect","requestRedirect":{"path":{"type":"ReplaceFullPath","replaceFullPath":"/new"},"statusCode":301}}]}]}}`, name)
}

// install creates the definition and returns how long it took until its objects were served.
func install(ctx context.Context, p *pool, crd []byte) (time.Duration, error) {
	_, served, err := installAt(ctx, p, crd, group+"/httproutes")
	return served, err
}

// installAt is install for a definition whose objects are at list; answered is when its creation was.
func installAt(ctx context.Context, p *pool, crd []byte, list string) (answered, served time.Duration, err error) {
	c := p.conns[0]
	began := time.Now()
	if _, err := c.do(request{"POST", crdPath, "application/json", crd}); err != nil {
		return 0, 0, err
	}
	answered = time.Since(began)
	for {
		_, err := c.do(request{"GET", list, "", nil})
		if err == nil {
			return answered, time.Since(began), nil
		}
		if ctx.Err() != nil || time.Since(began) > 30*time.Second {
			return 0, 0, errors.Join(ctx.Err(), err)
		}
		time.Sleep(time.Millisecond)
	}
}

// round is one pass of all rows over one server, in a namespace of its own.
type round struct {
	pool      *pool
	o         options
	namespace string
	bodies    [][]byte
	before    spent // when the row began, opening its connections not counted
}

func newRound(p *pool, o options, n int) (*round, error) {
	r := &round{pool: p, o: o, namespace: fmt.Sprintf("round-%d", n)}
	for i := range o.Objects {
		r.bodies = append(r.bodies, route(r.name(i)))
	}
	if p.target.name != "keelson" {
		return r, nil // upstream's server alone knows no namespaces and lets objects into any
	}
	_, err := p.conns[0].do(request{"POST", "/api/v1/namespaces", "application/json",
		fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":%q}}`, r.namespace)})
	return r, err
}

func (r *round) name(i int) string { return fmt.Sprintf("route-%06d", i) }
func (r *round) list() string      { return group + "/namespaces/" + r.namespace + "/httproutes" }
func (r *round) object(i int) string {
	return r.list() + "/" + r.name(i%r.o.Objects)
}

// again is the body of a route that is applied for the i-th time: from the second pass over all routes on it has a label that changes,
// because what changes nothing is not written.
func (r *round) again(i int) []byte {
	body := r.bodies[i%r.o.Objects]
	if pass := i / r.o.Objects; pass > 0 {
		return bytes.Replace(body, []byte(`"labels":{`), fmt.Appendf(nil, `"labels":{"pass":"%d",`, pass), 1)
	}
	return body
}

// etcd is how many puts etcd alone does per second of what is stored for a route: as many of them, as many at a time.
func (r *round) etcd(ctx context.Context, dir string) (a etcdAlone, err error) {
	value, err := r.pool.conns[0].read(request{"GET", r.object(0), "", nil})
	if err != nil {
		return a, err
	}
	if a.bare, err = bareEtcd(ctx, dir, value, r.o.Objects, r.o.Conns); err == nil {
		a.remote, a.share, err = remoteEtcd(ctx, dir, value, r.o.Objects, r.o.Conns)
	}
	return a, err
}

// row is one line of the table: a name, its unit, and what to run for it.
type row struct {
	Name, Unit string
	LessBetter bool
	Write      bool // each request is one write
	run        func(ctx context.Context, r *round) (float64, error)
}

func rows() []row {
	const merge, apply = "application/merge-patch+json", "application/apply-patch+yaml"
	return []row{
		{Name: "create", Unit: "/s", Write: true, run: func(ctx context.Context, r *round) (float64, error) {
			return r.pool.each(ctx, r.o.Objects, func(i int) request {
				return request{"POST", r.list(), "application/json", r.bodies[i]}
			})
		}},
		{Name: "memory after create", Unit: "MB", LessBetter: true, run: func(ctx context.Context, r *round) (float64, error) {
			b, err := r.pool.target.memory()
			return float64(b) / 1e6, err
		}},
		{Name: "merge-patch", Unit: "/s", Write: true, run: func(ctx context.Context, r *round) (float64, error) {
			return r.pool.lasting(ctx, r.o.Objects, func(i int) request {
				return request{"PATCH", r.object(i), merge, fmt.Appendf(nil, `{"metadata":{"annotations":{"bench":"%d"}}}`, i)}
			})
		}},
		{Name: "apply", Unit: "/s", Write: true, run: func(ctx context.Context, r *round) (float64, error) {
			return r.pool.lasting(ctx, r.o.Objects, func(i int) request {
				return request{"PATCH", r.object(i) + "?fieldManager=bench&force=true", apply, r.again(i)}
			})
		}},
		{Name: "get", Unit: "/s", run: func(ctx context.Context, r *round) (float64, error) {
			return r.pool.lasting(ctx, r.o.Objects*4, func(i int) request { return request{"GET", r.object(i), "", nil} })
		}},
		{Name: "list of all", Unit: "/s", run: func(ctx context.Context, r *round) (float64, error) {
			return r.pool.lasting(ctx, 48, func(i int) request { return request{"GET", r.list() + "?resourceVersion=0", "", nil} })
		}},
		{Name: "watch fan-out", Unit: "events/s", run: fanOut},
	}
}

// fanOut opens the watchers, patches objects for a second without a pause, and waits until every watcher has every change.
func fanOut(ctx context.Context, r *round) (float64, error) {
	open, err := r.watchers()
	if err != nil {
		return 0, err
	}
	defer open.close()
	if r.before, err = r.pool.target.spent(); err != nil {
		return 0, err
	}
	var sent, wanted atomic.Int64
	wanted.Store(math.MaxInt64) // until all but the last patch are made
	patch := func(i int) request {
		return request{"PATCH", r.object(i), "application/merge-patch+json",
			fmt.Appendf(nil, `{"metadata":{"annotations":{"watched":"%d"}}}`, r.before.client.Nanoseconds()+sent.Add(1))}
	}
	began := time.Now()
	errs := make([]error, len(open.all))
	var reading sync.WaitGroup
	for k, w := range open.all {
		reading.Go(func() { errs[k] = w.await(&wanted) })
	}
	_, err = r.pool.lasting(ctx, min(r.o.Objects, 500), patch)
	wanted.Store(sent.Load() + 1)
	if err == nil {
		_, err = r.pool.each(ctx, 1, patch)
	}
	if err != nil {
		open.close() // or they would read on
	}
	reading.Wait()
	if err := errors.Join(append(errs, err)...); err != nil {
		return 0, err
	}
	return float64(sent.Load()) * float64(len(open.all)) / time.Since(began).Seconds(), nil
}

// watchers are open watches of a round's routes.
type watchers struct {
	*pool
	all []*watcher
}

// watchers opens watches of all changes from now on.
func (r *round) watchers() (*watchers, error) {
	b, err := r.pool.conns[0].read(request{"GET", r.list() + "?limit=1", "", nil})
	if err != nil {
		return nil, err
	}
	var list struct {
		Metadata struct{ ResourceVersion string }
	}
	if err := json.Unmarshal(b, &list); err != nil {
		return nil, err
	}
	p, err := newPool(r.pool.target, r.o.Watchers)
	if err != nil {
		return nil, err
	}
	open := &watchers{pool: p}
	for _, c := range p.conns {
		resp, err := c.send(request{"GET", r.list() + "?watch=true&resourceVersion=" + list.Metadata.ResourceVersion, "", nil})
		if err != nil || resp.StatusCode != 200 {
			p.close()
			return nil, errors.Join(fmt.Errorf("watch: got %v", resp), err)
		}
		c.SetReadDeadline(time.Now().Add(2 * time.Minute))
		open.all = append(open.all, &watcher{body: resp.Body, buf: make([]byte, 1<<16)})
	}
	return open, nil
}

// watcher is an open watch.
type watcher struct {
	body io.Reader
	buf  []byte
}

// await reads until there were as many events as are wanted, which may become known while it reads.
func (w *watcher) await(wanted *atomic.Int64) error {
	for seen := int64(0); seen < wanted.Load(); {
		n, err := w.body.Read(w.buf)
		seen += int64(bytes.Count(w.buf[:n], []byte("\n")))
		if err != nil && seen < wanted.Load() {
			return fmt.Errorf("watch ended after %d of %d events: %w", seen, wanted.Load(), err)
		}
	}
	return nil
}
