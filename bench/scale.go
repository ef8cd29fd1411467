// This file measures one server that holds very many objects, and very many clients that watch them.

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// scaleOptions says how much of everything there is.
type scaleOptions struct {
	options
	Watchers, Changes int
}

// runScale is the command "bench scale".
func runScale(ctx context.Context, args []string) error {
	var o scaleOptions
	fs := flag.NewFlagSet("bench scale", flag.ExitOnError)
	fs.IntVar(&o.Objects, "n", 100_000, "objects, in a hundred namespaces")
	fs.IntVar(&o.Watchers, "watchers", 10_000, "watchers of all objects")
	fs.IntVar(&o.Changes, "changes", 20, "changes that every watcher is told of")
	fs.IntVar(&o.Conns, "c", 16, "connections of the client, watchers not counted")
	fs.StringVar(&o.Dir, "dir", "", "folder for the data directory, on a real disk (default: the system's temporary folder)")
	fs.StringVar(&o.Keelson, "keelson", "", "binary to measure (default: built from the module beside this one)")
	fs.StringVar(&o.Markdown, "o", "", "write the table as Markdown between the markers of these files, separated by commas")
	if err := fs.Parse(args); err != nil {
		return err
	}
	o.Only = "keelson"
	dir, err := os.MkdirTemp(o.Dir, "keelson-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	sides, err := bothSides(ctx, o.options, dir)
	if err != nil {
		return err
	}
	own := filepath.Join(dir, "scale")
	if err := os.Mkdir(own, 0o700); err != nil {
		return err
	}
	t, err := sides[0].start(ctx, own)
	if err != nil {
		return err
	}
	defer t.stop()
	table, err := measureScale(ctx, o, t)
	if err != nil {
		return err
	}
	fmt.Println(table)
	err = errors.Join(err, writeTable(o.Markdown, "scale", table))
	return err
}

// scaleRun is one measurement.
type scaleRun struct {
	scaleOptions
	target *target
	pool   *pool
	table  strings.Builder
}

func (s *scaleRun) row(what, format string, args ...any) {
	fmt.Fprintf(&s.table, "| %s | %s |\n", what, fmt.Sprintf(format, args...))
}

// namespaces is how many the objects are spread over.
const namespaces = 100

func (s *scaleRun) path(i int) string {
	return fmt.Sprintf("%s/namespaces/scale-%02d/httproutes", group, i%namespaces)
}

func measureScale(ctx context.Context, o scaleOptions, t *target) (string, error) {
	p, err := newPool(t, o.Conns)
	if err != nil {
		return "", err
	}
	defer p.close()
	s := &scaleRun{scaleOptions: o, target: t, pool: p}
	fmt.Fprintf(&s.table, "%s, %s, %s. %s objects of %d bytes.\n\n| what | measured |\n| --- | ---: |\n", time.Now().UTC().Format("2006-01-02"), cpuModel(), versions(),
		figure(float64(o.Objects)), len(route("route-000000")))
	for _, step := range []func(context.Context) error{s.fill, s.reads, s.watch} {
		if err := step(ctx); err != nil {
			return "", err
		}
	}
	return s.table.String(), nil
}

// fill creates the objects: the rate of the last tenth beside that of the first.
func (s *scaleRun) fill(ctx context.Context) error {
	crd, err := httpRouteCRD()
	if err != nil {
		return err
	}
	if _, err := install(ctx, s.pool, crd); err != nil {
		return err
	}
	if _, err := s.pool.each(ctx, namespaces, func(i int) request {
		return request{"POST", "/api/v1/namespaces", "application/json",
			fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"scale-%02d"}}`, i)}
	}); err != nil {
		return err
	}
	empty, err := s.target.memory()
	if err != nil {
		return err
	}
	var rates []float64
	for part := range 10 {
		say("scale: creating objects, part %d of 10", part+1)
		rate, err := s.pool.each(ctx, s.Objects/10, func(i int) request {
			i += part * (s.Objects / 10)
			return request{"POST", s.path(i), "application/json", route(fmt.Sprintf("route-%06d", i))}
		})
		if err != nil {
			return err
		}
		rates = append(rates, rate)
	}
	full, err := s.target.memory()
	if err != nil {
		return err
	}
	s.row("creates, first tenth", "%s /s", figure(rates[0]))
	s.row("creates, last tenth", "%s /s", figure(rates[9]))
	s.row("resident memory, etcd included", "%s MB", figure(float64(full)/1e6))
	s.row("of it for each object", "%s KB", figure(float64(full-empty)/1e3/float64(s.Objects)))
	return nil
}

// readFor is how long one kind of list is repeated: longer than a collection of garbage takes, or that would decide the median.
const readFor = 2 * time.Second

// reads measures how long single reads of the full server take.
func (s *scaleRun) reads(ctx context.Context) error {
	rate, err := s.pool.each(ctx, 20_000, func(i int) request {
		i = i * 7919 % s.Objects
		return request{"GET", fmt.Sprintf("%s/route-%06d", s.path(i), i), "", nil}
	})
	if err != nil {
		return err
	}
	s.row("gets", "%s /s", figure(rate))
	for _, list := range []struct{ what, path string }{
		{"page of 500 of all", group + "/httproutes?limit=500"},
		{"list of one namespace, a hundredth of all", s.path(0)},
		{"list of all", group + "/httproutes?resourceVersion=0"},
		{"list of all by a label that none has", group + "/httproutes?resourceVersion=0&labelSelector=none"},
	} {
		var took []float64
		for first := time.Now(); len(took) < 5 || time.Since(first) < readFor; {
			began := time.Now()
			if _, err := s.pool.conns[0].do(request{"GET", list.path, "", nil}); err != nil {
				return err
			}
			took = append(took, float64(time.Since(began).Microseconds())/1e3)
		}
		s.row(list.what, "%s ms", figure(median(took)))
	}
	return nil
}

// streams is how many watches share a connection, as those of a program do.
const streams = 100

// watch opens the watchers and measures how long it takes until all of them have been told of a change.
func (s *scaleRun) watch(ctx context.Context) error {
	say("scale: opening %d watchers", s.Watchers)
	b, err := s.pool.conns[0].read(request{"GET", group + "/httproutes?limit=1", "", nil})
	if err != nil {
		return err
	}
	var list struct {
		Metadata struct{ ResourceVersion string }
	}
	if err := json.Unmarshal(b, &list); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	f := &followers{told: make(chan struct{}, 1)}
	began := time.Now()
	if err := f.open(ctx, s.target, s.Watchers, group+"/httproutes?watch=true&resourceVersion="+list.Metadata.ResourceVersion); err != nil {
		return err
	}
	s.row(figure(float64(s.Watchers))+" watchers, opened in", "%s s", figure(time.Since(began).Seconds()))
	after, err := s.target.memory()
	if err != nil {
		return err
	}
	s.row("resident memory with them", "%s MB", figure(float64(after)/1e6))
	var took []float64
	for i := range s.Changes {
		began := time.Now()
		_, err := s.pool.conns[0].do(request{"PATCH", fmt.Sprintf("%s/route-%06d", s.path(i), i), "application/merge-patch+json",
			fmt.Appendf(nil, `{"metadata":{"annotations":{"watched":"%d"}}}`, began.UnixNano())})
		if err != nil {
			return err
		}
		if err := f.wait(ctx, int64(s.Watchers)*int64(i+1)); err != nil {
			return err
		}
		took = append(took, float64(time.Since(began).Microseconds())/1e3)
	}
	s.row("from a change until the last watcher is told, the client's work included", "%s ms", figure(median(took)))
	s.row("events that reach watchers", "%s /s", figure(float64(s.Watchers)/median(took)*1e3))
	rate, err := s.pool.each(ctx, 5_000, func(i int) request {
		return request{"GET", fmt.Sprintf("%s/route-%06d", s.path(i), i), "", nil}
	})
	if err != nil {
		return err
	}
	s.row("gets, while they watch", "%s /s", figure(rate))
	return nil
}

// followers are clients that watch and count events.
type followers struct {
	seen atomic.Int64
	told chan struct{}

	mu  sync.Mutex
	err error
}

// open opens n watches of a path, many on each connection.
func (f *followers) open(ctx context.Context, t *target, n int, path string) error {
	var client *http.Client
	var opening sync.WaitGroup
	slots := make(chan struct{}, 64)
	for i := range n {
		if i%streams == 0 {
			tlsConfig := t.tls.Clone()
			tlsConfig.NextProtos = []string{"h2"}
			client = &http.Client{Transport: &http.Transport{TLSClientConfig: tlsConfig, ForceAttemptHTTP2: true}}
		}
		slots <- struct{}{}
		opening.Add(1)
		go func(client *http.Client) {
			resp, err := f.get(ctx, client, "https://"+t.addr+path)
			<-slots
			opening.Done()
			if err == nil {
				err = f.follow(resp.Body)
			}
			if ctx.Err() == nil {
				f.fail(err)
			}
		}(client)
	}
	opening.Wait()
	return f.failure()
}

func (f *followers) get(ctx context.Context, client *http.Client, url string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := client.Do(req)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("watch: %s", resp.Status)
	}
	return resp, err
}

func (f *followers) follow(body io.Reader) error {
	buf := make([]byte, 4<<10)
	for {
		n, err := body.Read(buf)
		if lines := bytes.Count(buf[:n], []byte("\n")); lines > 0 {
			f.seen.Add(int64(lines))
			select {
			case f.told <- struct{}{}:
			default:
			}
		}
		if err != nil {
			return fmt.Errorf("a watch ended: %w", err)
		}
	}
}

func (f *followers) fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = errors.Join(f.err, err)
}

func (f *followers) failure() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}

// wait waits until so many events have come.
func (f *followers) wait(ctx context.Context, events int64) error {
	limit := time.After(time.Minute)
	for f.seen.Load() < events {
		select {
		case <-f.told:
		case <-limit:
			return errors.Join(fmt.Errorf("%d of %d events after a minute", f.seen.Load(), events), f.failure())
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return f.failure()
}
