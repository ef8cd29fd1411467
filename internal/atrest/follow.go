package atrest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-io/keelson/jsondoc"
)

// This file follows the watch of a resource.

// maxEvents is the number of events in a transaction, if so many are there already.
const maxEvents = 1000

// Times between the beginnings of watches of a resource.
const (
	firstRetry = 500 * time.Millisecond
	maxRetry   = 30 * time.Second
)

// Follower follows the resources of a server.
type Follower struct {
	Server   *Server
	Database *Database
	Source   string // the server's identity

	Refused func(error) // is called with the error of each object that is not written
	Note    func(error) // is called when the server does not answer; it is asked again

	// now and sleep are the clock; nil is that of package time.
	now   func() time.Time
	sleep func(ctx context.Context, d time.Duration)
}

// Follow writes what happens to the objects of a resource, from the resource version on to which its
// table corresponds. It lists the resource again if that has expired. It returns nil when ctx has
// ended, or the server no longer has the resource, whose rows are removed then. An error is one of
// the database.
func (f *Follower) Follow(ctx context.Context, r Resource, t *Table) error {
	now, sleep := f.now, f.sleep
	if now == nil {
		now, sleep = time.Now, sleepUntilDone
	}
	wait := firstRetry
	for ctx.Err() == nil {
		before, start := t.ResourceVersion, now()
		err := f.watch(ctx, r, t)
		var broken *databaseError
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.As(err, &broken):
			return err
		case isStatus(err, http.StatusNotFound):
			_, err := f.Database.Clear(ctx, t)
			return err
		case isStatus(err, http.StatusGone):
			t, err = f.again(ctx, r, t)
			if errors.As(err, &broken) {
				return err
			}
		}
		if err != nil {
			f.Note(fmt.Errorf("%s: %w; trying again", r.Kind, err))
		}
		// Watches end after some minutes. A server that ends them at once is asked as rarely as one that does not answer.
		took := now().Sub(start)
		if t.ResourceVersion != before || took > wait {
			wait = firstRetry
		}
		if took < wait {
			sleep(ctx, wait-took)
			wait = min(2*wait, maxRetry)
		}
	}
	return nil
}

// sleepUntilDone waits for some time, or until ctx ends.
func sleepUntilDone(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// again lists a resource again.
func (f *Follower) again(ctx context.Context, r Resource, t *Table) (*Table, error) {
	listed, _, err := f.Server.Export(ctx, f.Database, r, f.Source, f.Refused, func(int) {})
	if err != nil {
		return t, err
	}
	return listed, nil
}

// watchEvent is an event of a watch.
type watchEvent struct {
	Type   string
	Object json.RawMessage
}

// watch writes the events of one watch, until it ends.
func (f *Follower) watch(ctx context.Context, r Resource, t *Table) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	body, err := f.Server.get(ctx, r.path, "application/json", url.Values{
		"watch": {"true"}, "allowWatchBookmarks": {"true"}, "resourceVersion": {t.ResourceVersion}})
	if err != nil {
		return err
	}
	defer body.Close()
	events := make(chan watchEvent, maxEvents)
	var failure error // of the goroutine, before it closes events
	go func() {
		defer close(events)
		for decoder := json.NewDecoder(body); ; {
			var e watchEvent
			switch err := decoder.Decode(&e); {
			case errors.Is(err, io.EOF):
				return // the server ended the watch
			case err != nil:
				failure = fmt.Errorf("an event of the watch: %w", err)
				return
			}
			select {
			case events <- e:
			case <-ctx.Done():
				return
			}
		}
	}()
	doc := jsondoc.Get()
	defer doc.Release()
	for first := range events {
		batch := []watchEvent{first}
		for len(batch) < maxEvents && len(events) > 0 {
			batch = append(batch, <-events)
		}
		if err := f.apply(ctx, doc, r, t, batch); err != nil {
			return err
		}
	}
	return failure
}

// errNoVersion is the error of an event after which a watch could not continue.
var errNoVersion = errors.New("got an event without a resource version")

// apply writes events in a transaction.
func (f *Follower) apply(ctx context.Context, doc *jsondoc.Doc, r Resource, t *Table, events []watchEvent) error {
	var changes []Change
	version := t.ResourceVersion
	var end error
	for _, e := range events {
		if e.Type == "ERROR" {
			var s metav1.Status
			if end = json.Unmarshal(e.Object, &s); end == nil {
				end = &statusError{int(s.Code), s.Message}
			}
			break
		}
		if e.Type == "BOOKMARK" {
			var object metav1.PartialObjectMetadata
			if err := json.Unmarshal(e.Object, &object); err != nil {
				return err
			}
			if object.ResourceVersion == "" {
				return errNoVersion
			}
			version = object.ResourceVersion
			continue
		}
		if !slices.Contains([]string{"ADDED", "MODIFIED", "DELETED"}, e.Type) {
			return fmt.Errorf("got an event of the type %.20q, want ADDED, MODIFIED, DELETED, BOOKMARK or ERROR", e.Type)
		}
		o, err := Parse(doc, Text{JSON: e.Object, APIVersion: r.apiVersion(), Kind: r.Kind.Kind})
		gone := e.Type == "DELETED"
		var refusal *Refusal
		if errors.As(err, &refusal) {
			gone = true // no row at all is better than an old one
			f.Refused(refusal)
		} else if err != nil {
			return err
		}
		if o.ResourceVersion == "" {
			return errNoVersion
		}
		changes = append(changes, Change{o, gone})
		version = o.ResourceVersion
	}
	if version == t.ResourceVersion && len(changes) == 0 {
		return end
	}
	refused, err := f.Database.Apply(ctx, t, changes, version)
	if err != nil {
		return err
	}
	for _, r := range refused {
		f.Refused(r)
	}
	return end
}
