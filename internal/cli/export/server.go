// This file exports the objects of a server, and follows them.

package export

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/keelson-io/keelson/internal/atrest"
	"github.com/keelson-io/keelson/internal/cli/command"
	"github.com/keelson-io/keelson/internal/keysize"
)

// discoveryInterval is the time between two looks for new kinds.
const discoveryInterval = 10 * time.Second

// serverExport is the export of a server.
type serverExport struct {
	server    *atrest.Server
	identity  string
	resources []atrest.Resource
	stale     []string                      // paths of versions whose kinds are not known now
	tables    map[atrest.Kind]*atrest.Table // of resources that can be followed
}

// openServer finds the server and its kinds.
func (e *export) openServer() (func() error, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = e.kubeconfig
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: e.context}).ClientConfig()
	if clientcmd.IsEmptyConfig(err) {
		return nil, command.UsageError(errors.New("export: no source is named: give OBJECT, --snapshot, or the kubeconfig of a server with --kubeconfig or KUBECONFIG"))
	}
	if err != nil {
		return nil, fmt.Errorf("finding the server: %w", err)
	}
	if err := keysize.CheckCredentials([]string{config.CAFile, config.CertFile, config.KeyFile}, config.CAData, config.CertData, config.KeyData); err != nil {
		return nil, fmt.Errorf("the kubeconfig: %w", err)
	}
	config.UserAgent = "keelson"
	s := &serverExport{server: &atrest.Server{}, tables: map[atrest.Kind]*atrest.Table{}}
	if s.server.Client, err = rest.HTTPClientFor(config); err != nil {
		return nil, err
	}
	if s.server.Base, _, err = rest.DefaultServerUrlFor(config); err != nil {
		return nil, err
	}
	if s.resources, s.stale, err = s.server.Resources(e.ctx); err != nil {
		return nil, err
	}
	s.identity = s.server.Identity(e.ctx)
	e.from = s
	return e.exportServer, nil
}

// exportServer exports the objects of all kinds. With --follow, it leaves out those whose table can
// be followed from where it is.
func (e *export) exportServer() error {
	for _, path := range e.from.stale {
		e.fail(fmt.Errorf("%s: the server cannot say which kinds it has; those of an earlier export stay", path))
	}
	for _, r := range e.from.resources {
		if !e.isWanted(r.Kind) {
			continue
		}
		e.exported = append(e.exported, r.Kind)
		if e.follow {
			t, err := e.from.server.Followable(e.ctx, e.to, r, e.from.identity)
			if err != nil {
				return err
			}
			if t != nil {
				e.from.tables[r.Kind] = t
				continue
			}
		}
		t, n, err := e.from.server.Export(e.ctx, e.to, r, e.from.identity, e.refuse, e.count.Add)
		e.objects += n.Objects
		e.removed += n.Removed
		switch {
		case err == nil:
			e.from.tables[r.Kind] = t
		case atrest.IsDatabaseError(err) || e.ctx.Err() != nil:
			return err
		default:
			e.fail(fmt.Errorf("%s: %w", r.Kind, err))
		}
	}
	return nil
}

// fail reports a kind that is not exported.
func (e *export) fail(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.count.Done()
	e.failed++
	fmt.Fprintf(e.notes, "keelson: %v\n", err)
}

// note reports that a server does not answer.
func (e *export) note(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	fmt.Fprintf(e.notes, "keelson: %v\n", err)
}

// followServer follows all kinds until a signal, or an error of the database.
func (e *export) followServer() error {
	ctx, stop := context.WithCancelCause(e.ctx)
	defer stop(nil)
	f := &atrest.Follower{Server: e.from.server, Database: e.to, Source: e.from.identity, Refused: e.refuse, Note: e.note}
	var mu sync.Mutex
	running := map[atrest.Kind]bool{}
	var all sync.WaitGroup
	start := func(r atrest.Resource, t *atrest.Table) {
		mu.Lock()
		running[r.Kind] = true
		mu.Unlock()
		all.Go(func() {
			if err := f.Follow(ctx, r, t); err != nil && ctx.Err() == nil {
				stop(err)
			}
			mu.Lock()
			delete(running, r.Kind)
			mu.Unlock()
		})
	}
	for _, r := range e.from.resources {
		if t := e.from.tables[r.Kind]; t != nil && r.Watched {
			start(r, t)
		}
	}
	for ticks := time.NewTicker(discoveryInterval); ctx.Err() == nil; {
		select {
		case <-ctx.Done():
		case <-ticks.C:
		}
		resources, _, err := e.from.server.Resources(ctx)
		if err != nil {
			continue // the watches report that the server does not answer
		}
		for _, r := range resources {
			mu.Lock()
			known := running[r.Kind]
			mu.Unlock()
			if known || !r.Watched || !e.isWanted(r.Kind) {
				continue
			}
			t, _, err := e.from.server.Export(ctx, e.to, r, e.from.identity, e.refuse, func(int) {})
			switch {
			case err == nil:
				start(r, t)
			case atrest.IsDatabaseError(err) && ctx.Err() == nil:
				stop(err)
			}
		}
	}
	all.Wait()
	if e.ctx.Err() != nil {
		return nil
	}
	return context.Cause(ctx)
}
