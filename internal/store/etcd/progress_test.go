package etcd

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"
)

// This file tests that progress is true of the watch that it is told to.

// TestProgressIsOfItsWatch opens watches of old revisions beside a current one, under permanent
// progress requests. Each delivers all changes in order before it reports progress.
func TestProgressIsOfItsWatch(t *testing.T) {
	const changes, rounds, beside = 60, 25, 4
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	e := openTest(t, Config{Fast: true})
	first, err := e.Revision(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for i := range changes {
		if _, err := e.Create(ctx, fmt.Sprintf("g/p/%d", i), nil); err != nil {
			t.Fatal(err)
		}
	}
	s := openTest(t, Config{Endpoints: []string{listen(t, e, nil)}, Logger: slog.New(slog.DiscardHandler)})
	current, err := s.Watch(ctx, "", first)
	if err != nil {
		t.Fatal(err)
	}
	defer current.Close()
	var asking sync.WaitGroup
	asked, over := context.WithCancel(ctx)
	asking.Go(func() {
		for asked.Err() == nil {
			_, _ = current.Next(asked)
		}
	})
	for range beside {
		asking.Go(func() {
			for asked.Err() == nil {
				_ = s.RequestProgress(asked)
				time.Sleep(50 * time.Microsecond)
			}
		})
	}
	var watching sync.WaitGroup
	for range beside {
		watching.Go(func() {
			for range rounds {
				w, err := s.Watch(ctx, "g/p", first)
				if err != nil {
					t.Error(err)
					return
				}
				for at := first; at < first+changes; {
					b, err := w.Next(ctx)
					if err != nil {
						t.Error(err)
						break
					}
					at += int64(len(b.Events))
					if b.Rev > at {
						t.Errorf("told of revision %d after %d of %d changes", b.Rev, at-first, changes)
						break
					}
				}
				w.Close()
			}
		})
	}
	watching.Wait()
	over()
	asking.Wait()
}
