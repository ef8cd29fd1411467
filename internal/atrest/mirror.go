package atrest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"

	"github.com/keelson-io/keelson/jsondoc"
)

// This file writes objects of which all are at hand: those of files and of snapshots.

// batchSize is the number of objects in a transaction. Twice as many are not faster in SQLite.
const batchSize = 4000

// Written counts objects.
type Written struct {
	Objects int   // that are in the table now
	Removed int64 // rows of objects that are gone
}

// Mirror makes the table of a kind have the objects of texts, and no others. refused is called with
// the error of each object that is not written, with its place or kind and name. step is called
// after each transaction, with the number of objects that it had.
func (d *Database) Mirror(ctx context.Context, k Kind, texts iter.Seq[Text], refused func(error), step func(n int)) (Written, error) {
	var n Written
	l, err := d.List(ctx, k, "")
	if err != nil {
		return n, err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	batches := make(chan batch, 2)
	var reading sync.WaitGroup
	reading.Go(func() {
		defer close(batches)
		parse(ctx, k, texts, batches)
	})
	defer reading.Wait()
	defer stop()
	for b := range batches {
		for _, err := range b.errs {
			refused(err)
		}
		refusals, err := l.Write(ctx, b.objects, "", "")
		if err != nil {
			return n, err
		}
		for _, r := range refusals {
			refused(r)
		}
		n.Objects += len(b.objects) - len(refusals)
		step(len(b.objects) + len(b.errs))
	}
	if err := ctx.Err(); err != nil {
		return n, err
	}
	n.Removed, err = l.Finish(ctx)
	return n, err
}

// batch has the objects of a transaction, and the errors of others.
type batch struct {
	objects []*Object
	errs    []error
}

// parse sends the objects of texts in batches, until ctx ends.
func parse(ctx context.Context, k Kind, texts iter.Seq[Text], out chan<- batch) {
	var b batch
	seen := map[[2]string]bool{}
	doc := jsondoc.Get()
	defer doc.Release()
	for t := range texts {
		o, err := Parse(doc, t)
		var r *Refusal
		switch {
		case errors.As(err, &r):
		case err != nil:
			err = fmt.Errorf("%s: %w", t.Place, err)
		case o.Kind != k:
			err = fmt.Errorf("%s: got a %s, want a %s", t.Place, o.Kind, k)
		case seen[[2]string{o.Namespace, o.Name}]:
			err = fmt.Errorf("%s: %w", t.Place, o.refuse("it is there twice"))
		default:
			seen[[2]string{o.Namespace, o.Name}] = true
			b.objects = append(b.objects, o)
		}
		if err != nil {
			b.errs = append(b.errs, err)
		}
		if len(b.objects)+len(b.errs) < batchSize {
			continue
		}
		select {
		case out <- b:
		case <-ctx.Done():
			return
		}
		b = batch{objects: make([]*Object, 0, batchSize)}
	}
	select {
	case out <- b:
	case <-ctx.Done():
	}
}
